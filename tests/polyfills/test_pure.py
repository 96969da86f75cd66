from __future__ import annotations

import datetime
import math
import operator
import os
import random
import time
from typing import Any

import pytest

from capture.polyfills.pure import NEVER_FOLD_MODULES, PURE, is_pure, is_pure_method
from tests.polyfills.test_registry import Hostile, OfHostileMeta

PURE_ONES: list[Any] = [
    len, abs, int, str, tuple, frozenset, range, math.sqrt, math.gcd, operator.add, "a".upper,
    str.upper, str.join, "-".join, int.from_bytes, bytes.fromhex, (1).bit_length, True.bit_length,
    (1, 2).index, int.__add__, (1).__add__, float.is_integer, (1.0).hex, slice(1).indices,
    "a".split, b"a".decode, os.fspath, float.fromhex, range(3).index, frozenset([1]).union,
    str.__len__,
]  # fmt: skip

IMPURE_ONES: list[Any] = [
    print, id, open, input, vars, list, dict, set, [].append, {}.get, iter, "a".__iter__,
    str.maketrans, time.time, random.random, random.Random(0).random, os.getcwd, os.getpid,
    datetime.datetime.now, operator.setitem, operator.is_, operator.call, object, type, isinstance,
    map, sorted, int.__new__, bytearray, [1].index, Hostile(), OfHostileMeta, lambda: 1, math,
    (1, 2).__iter__, "a".__reduce_ex__, str.__getattribute__, "a".__sizeof__, 5, None, eval, exec,
    globals, hasattr, getattr, memoryview,
]  # fmt: skip


@pytest.mark.parametrize("function", PURE_ONES, ids=repr)
def test_pure(function: Any) -> None:
    assert is_pure(function)


@pytest.mark.parametrize("function", IMPURE_ONES, ids=lambda f: type(f).__name__)
def test_impure(function: Any) -> None:
    assert not is_pure(function)


def test_methods_by_name() -> None:
    assert is_pure_method(str, "strip")
    assert is_pure_method(bool, "bit_length")
    assert is_pure_method(tuple, "count")
    assert is_pure_method(int, "from_bytes")
    assert not is_pure_method(str, "maketrans")
    assert not is_pure_method(str, "nothing")
    assert not is_pure_method(list, "count")
    assert not is_pure_method(OfHostileMeta, "strip")


def test_nothing_pure_comes_from_an_impure_module() -> None:
    allowed = {os.fspath}
    for function in PURE - allowed:
        assert getattr(function, "__module__", None) not in NEVER_FOLD_MODULES, function


def test_pure_calls_give_constants_or_lists() -> None:
    constant = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, range, slice,
                type(...), type(NotImplemented))  # fmt: skip
    samples: list[Any] = [5, -2, 0.5, "a b", b"a b", (1, 2), frozenset([1]), range(3), True, None]
    for function in PURE:
        for args in [(), *[(a,) for a in samples], *[(a, b) for a in samples for b in samples]]:
            before = repr(args)
            try:
                result = function(*args)  # type: ignore[operator]
            except Exception:
                continue
            assert isinstance(result, (*constant, list)), (function, args)
            assert repr(args) == before
