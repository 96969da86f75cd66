from __future__ import annotations

import ast
import builtins
import functools
import inspect
import itertools
import textwrap
import types
from typing import Any

import pytest

from capture import polyfills
from capture.polyfills import FOLDS, GENERATOR_ORIGINALS, POLYFILLS, original_of, polyfill_for

# What a polyfill may call although it is a key: the interpreter does the form that is used.
OWN_FORMS = {("iter", 1), ("next", 1), ("frozenset", 1)}


class Hostile:
    def __hash__(self) -> int:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __call__(self) -> None:
        raise AssertionError


class HostileMeta(type):
    def __hash__(cls) -> int:
        raise AssertionError

    def __eq__(cls, other: object) -> bool:
        raise AssertionError


class OfHostileMeta(metaclass=HostileMeta):
    pass


@pytest.mark.parametrize("thing", [Hostile(), OfHostileMeta, Hostile().__call__, [], 5, None])
def test_looking_up_runs_no_user_code(thing: Any) -> None:
    assert polyfill_for(thing) is None


def test_looking_up_takes_bound_class_methods() -> None:
    assert polyfill_for(itertools.chain.from_iterable) is POLYFILLS[itertools.chain.from_iterable]
    assert polyfill_for(dict.fromkeys) is POLYFILLS[dict.fromkeys]
    assert polyfill_for([].sort) is None
    assert polyfill_for(list.sort) is not None
    assert polyfill_for(functools.partial.__call__) is not None
    assert polyfill_for(print) is None


def test_generators_know_what_they_stand_for() -> None:
    cases: list[tuple[Any, Any]] = [
        (map, lambda f: f(abs, [1])),
        (zip, lambda f: f([1])),
        (itertools.chain, lambda f: f([1])),
        (itertools.islice, lambda f: f([1], 1)),
        (itertools.count, lambda f: f()),
        (itertools.repeat, lambda f: f(1)),
    ]
    for original, call in cases:
        generator = call(polyfill_for(original))
        assert isinstance(generator, types.GeneratorType)
        assert original_of(generator.gi_code) is original
        assert type(call(original)) is original
    assert original_of(test_generators_know_what_they_stand_for.__code__) is None


def every_function() -> list[types.FunctionType]:
    modules = [polyfills.builtins, polyfills.collections, polyfills.containers, polyfills.itertools,
               polyfills.sorting, polyfills.functools_polyfills,
               polyfills.operator_polyfills]  # fmt: skip
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__
    ]


def test_every_generator_function_is_registered() -> None:
    for function in every_function():
        if function.__code__.co_flags & 0x20 and "batched" not in function.__name__:
            assert function.__code__ in GENERATOR_ORIGINALS, function


def test_polyfills_do_not_call_each_others_originals() -> None:
    for function in every_function():
        if function in FOLDS.values() or function.__name__ == "_takes_any_reverse":
            continue  # run only by C, or at import
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        tree.decorator_list = []
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            name = call.func.id
            if name in vars(builtins) and polyfill_for(getattr(builtins, name)) is not None:
                assert (name, len(call.args)) in OWN_FORMS, function


def test_folds_agree_with_what_they_fold() -> None:
    for plain, native in FOLDS.items():
        assert plain((3, 1, 2), True) == native((3, 1, 2), True) == (0, 2, 1)
