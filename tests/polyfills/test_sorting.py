from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.polyfills import sorting as ours
from tests.polyfills.comparison import Counted, same_result

KEYS = st.sampled_from([None, abs, lambda x: x // 3, lambda x: -x, lambda x: 0])


@given(items=st.lists(st.integers(-9, 9), max_size=200), key=KEYS, reverse=st.booleans())
def test_sorted_and_sort(items: list[int], key: Any, reverse: bool) -> None:
    same_result(sorted, items, key=key, reverse=reverse)
    same_result(sorted, Counted(items), key=key, reverse=reverse)
    same_result(list.sort, items, key=key, reverse=reverse)


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 96, 97, 128, 500, 1000])
@pytest.mark.parametrize("reverse", [False, True])
def test_sorting_is_stable(count: int, reverse: bool) -> None:
    choose = random.Random(count)
    pairs = [(choose.randrange(count // 4 + 1), i) for i in range(count)]
    for items in (pairs, sorted(pairs), sorted(pairs)[::-1]):
        expected = sorted(items, key=lambda p: p[0], reverse=reverse)
        assert ours.sorted_(items, key=lambda p: p[0], reverse=reverse) == expected
        keys = tuple(p[0] for p in items)
        assert ours.stable_order(keys, reverse) == ours.native_order(keys, reverse)


class Logged:
    def __init__(self, value: float, log: list[Any]) -> None:
        self.value = value
        self.log = log

    def __lt__(self, other: Logged) -> bool:
        self.log.append((self.value, other.value))
        return self.value < other.value


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="3.13 finds more runs")
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, float("nan")]), max_size=63), st.booleans())
def test_a_short_sort_makes_the_same_comparisons(items: list[float], reverse: bool) -> None:
    logs: list[list[Any]] = []
    results = []
    for function in (sorted, ours.sorted_):
        logs.append([])
        wrapped = [Logged(item, logs[-1]) for item in items]
        results.append([w.value for w in function(wrapped, reverse=reverse)])
    assert repr(results[0]) == repr(results[1])
    assert repr(logs[0]) == repr(logs[1])


def test_a_long_sort_uses_only_less_than() -> None:
    log: list[Any] = []
    values = list(range(300))
    random.Random(0).shuffle(values)
    result = ours.sorted_([Logged(v, log) for v in values])
    assert [w.value for w in result] == sorted(values)
    assert len(log) < 300 * 10


@pytest.mark.parametrize("args", [(), (5,), ([1, "a"],), ([1], 2), ([1, 1j],)])
def test_sorted_errors(args: tuple[Any, ...]) -> None:
    assert same_result(sorted, *args)[0] == "error"


def test_sort_errors_from_key_leave_the_list_alone() -> None:
    items = [3, 0, 1]
    with pytest.raises(ZeroDivisionError):
        ours.list_sort(items, key=lambda x: 1 // x)
    assert items == [3, 0, 1]
    with pytest.raises(TypeError):
        ours.list_sort(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ours.list_sort(items, abs)  # type: ignore[call-arg]


@pytest.mark.parametrize("reverse", [0, 1, True, None, "x", 1.5, []])
def test_what_reverse_may_be(reverse: Any) -> None:
    same_result(sorted, [1, 3, 2], reverse=reverse)
    same_result(list.sort, [1, 3, 2], reverse=reverse)


class Shouting(list[int]):
    def __iter__(self) -> Any:
        raise AssertionError

    def __setitem__(self, i: Any, v: Any) -> None:
        raise AssertionError


def test_sort_of_a_subclass_uses_the_list_itself() -> None:
    items = Shouting([3, 1, 2])
    ours.list_sort(items)
    assert list.copy(items) == [1, 2, 3]
