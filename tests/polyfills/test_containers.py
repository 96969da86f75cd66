from __future__ import annotations

import collections
import functools
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.polyfills import containers as ours
from capture.polyfills import polyfill_for
from tests.polyfills.comparison import Counted, error_texts, outcome_of, same_result, typed
from tests.polyfills.test_builtins import ENDS

WRONG: list[Any] = [(5,), (None,), ([1], 2, 3), ([[]],)]


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_constructors(kind: Any) -> None:
    for items in [(), "abc", [1, 1, 2], (3,), {1: 2}, range(3), frozenset([4])]:
        same_result(kind, items)
        for end in ENDS:
            same_result(kind, Counted(items, end=end))
    same_result(kind)
    for args in WRONG:
        same_result(kind, *args)


class Sized(Counted):
    def __init__(self, log: list[Any], length: Any, hint: Any = NotImplemented) -> None:
        super().__init__([1, 2])
        self.log = log
        self.length = length
        self.hint = hint

    def __len__(self) -> int:
        self.log.append("len")
        if isinstance(self.length, Exception):
            raise self.length
        return self.length  # type: ignore[no-any-return]

    def __length_hint__(self) -> Any:
        self.log.append("hint")
        if isinstance(self.hint, Exception):
            raise self.hint
        return self.hint


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, sorted])
@pytest.mark.parametrize("length", [2, -1, 1.5, TypeError(), ValueError(), NotImplementedError()])
@pytest.mark.parametrize("hint", [1, -1, 1.5, NotImplemented, TypeError(), KeyError()])
def test_length_hints_are_asked_as_in_c(kind: Any, length: Any, hint: Any) -> None:
    logs: list[list[Any]] = []
    outcomes = []
    functions: list[Any] = [kind, polyfill_for(kind)]
    for function in functions:
        log: list[Any] = []
        call = functools.partial(function, Sized(log, length, hint))
        kind_of_outcome, value = outcome_of(call)
        outcomes.append((kind_of_outcome, typed(value)))
        logs.append(log)
    assert outcomes[0] == outcomes[1]
    assert logs[0] == logs[1]


def test_an_exact_tuple_stays_itself() -> None:
    items = (1, 2)
    assert ours.tuple_from(items) is items
    frozen = frozenset(items)
    assert ours.frozenset_from(frozen) is frozen


class KeysOnly:
    def keys(self) -> Any:
        return iter("ab")

    def __getitem__(self, key: str) -> str:
        return key * 2


class LoudDict(dict[Any, Any]):
    def keys(self) -> Any:
        return ["zz"]

    def items(self) -> Any:
        raise AssertionError

    def __getitem__(self, key: Any) -> Any:
        return "got"


class OwnIterDict(LoudDict):
    def __iter__(self) -> Any:
        return iter(["zz"])


MAPPINGS = [
    {}, {"a": 1, "b": 2}, [("a", 1), ["b", 2], "cd"], KeysOnly(), LoudDict(x=1), OwnIterDict(x=1),
    collections.OrderedDict(b=1, a=2), types.MappingProxyType({"q": 1}), [(1, 2, 3)], [(1,)], [5],
    5, None, [("a", 1), 5], "ab", ["ab"], [([], 1)], (),
]  # fmt: skip


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_dict_and_update(mapping: Any) -> None:
    same_result(dict, mapping)
    same_result(dict, mapping, a=5, z=6)
    same_result(dict.update, {"a": 0, "y": 1}, mapping)
    same_result(dict.update, {"a": 0}, mapping, a=7, self=1)
    if same_result(dict, mapping)[0] == "error":
        expected, got = error_texts(dict, mapping)
        if "iterable" not in expected:
            assert expected == got


def test_dict_corner_cases() -> None:
    wrong: list[Any] = [(), ({}, {}), (1, 2)]
    for args in wrong:
        same_result(dict, *args)
    same_result(dict, mapping=1, self=2)
    same_result(dict.update, {})
    same_result(dict.update, {"a": 1}, b=2)
    own = {"a": 1}
    ours.dict_update(own, own)
    assert own == {"a": 1}
    for end in ENDS:
        same_result(dict, Counted([("a", 1), ("b", 2)], end=end))
        same_result(dict.update, {}, Counted([("a", 1), ("b", 2)], end=end))


def test_fromkeys() -> None:
    cases: list[Any] = [("abca",), ("ab", []), (5,), ([[]],), (), ({1: 2}, 3), ("a", 1, 2)]
    for args in cases:
        same_result(dict.fromkeys, *args)
    assert polyfill_for(collections.OrderedDict.fromkeys) is None


@given(st.lists(st.integers()), st.lists(st.integers()), st.sampled_from(ENDS))
def test_extend_and_set_update(first: list[int], second: list[int], end: Any) -> None:
    for other in (second, tuple(second), set(second), Counted(second, end=end)):
        same_result(list.extend, first, other)
        same_result(set.update, set(first), other)
    same_result(set.update, set(first), second, Counted(first, end=end))


def test_extend_corner_cases() -> None:
    items = [1, 2]
    ours.list_extend(items, items)
    assert items == [1, 2, 1, 2]
    for args in WRONG:
        same_result(list.extend, [], *args)
        same_result(set.update, {1}, *args)
    same_result(set.update, {1})
    same_result(list.extend, [])
    same_result(list.extend, [0], {"a": 1})


@pytest.mark.parametrize(
    "iterable", ["abc", ["a", "b"], (), ["a"], [1], ["a", 1], 5, None, Counted("xy"), Counted([1]),
                 Counted("xy", end=KeyError()), Counted("xy", end=TypeError("mine")), {"k": 1}],
)  # fmt: skip
def test_join(iterable: Any) -> None:
    assert polyfill_for(str.join) is ours.str_join
    same_result(str.join, "-", iterable)
    if same_result(str.join, "-", iterable)[0] == "error":
        expected, got = error_texts(str.join, "-", iterable)
        assert expected == got
