from __future__ import annotations

import functools
import itertools
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.polyfills import itertools as ours
from capture.polyfills import polyfill_for
from tests.polyfills.comparison import Counted, error_texts, outcome_of, same_steps
from tests.polyfills.test_builtins import ENDS, FAILURE, StopTruth, fail_at_2, stop_at_2

SMALL = st.lists(st.integers(0, 3), max_size=5)


def test_chain_reads_on_demand() -> None:
    for end in ENDS:
        same_steps(itertools.chain, Counted([1, 2]), Counted([3], end=end), Counted([4]))
        same_steps(itertools.chain.from_iterable, Counted([[1], (), "ab"], end=end))
    same_steps(itertools.chain)
    same_steps(itertools.chain, [1], 5, [2])
    same_steps(itertools.chain.from_iterable, [[1], 5, [2]])
    assert same_steps(itertools.chain.from_iterable, 5)[0][0] == "error"


def test_chain_does_not_close_its_sources() -> None:
    def source() -> Any:
        yield 1
        yield 2

    generator = source()
    outer = ours.chain(generator)
    assert next(outer) == 1
    del outer
    assert next(generator) == 2


@given(pools=st.lists(SMALL, max_size=3), repeat=st.integers(0, 2))
def test_product(pools: list[list[int]], repeat: int) -> None:
    same_steps(itertools.product, *[Counted(p) for p in pools], repeat=repeat, take=300)


@pytest.mark.parametrize("repeat", [-1, 1.0, "1", None, True, 10**30])
def test_product_checks_repeat(repeat: Any) -> None:
    same_steps(itertools.product, Counted([1]), repeat=repeat)
    same_steps(itertools.product, 5, repeat=repeat)


@given(pool=SMALL, r=st.one_of(st.integers(-1, 6), st.sampled_from([None, True, 1.0, "1", 10**30])))
def test_combinatorics(pool: list[int], r: Any) -> None:
    same_steps(itertools.permutations, Counted(pool), r, take=150)
    same_steps(itertools.combinations, Counted(pool), r, take=150)
    if not isinstance(r, int) or r < 100 or not pool:
        same_steps(itertools.combinations_with_replacement, Counted(pool), r, take=300)


def test_combinatorics_check_their_arguments_at_the_call() -> None:
    for function in (itertools.permutations, itertools.combinations,
                     itertools.combinations_with_replacement):  # fmt: skip
        for args in [(), (5, 1), ([], -1), ([1], 1, 2), (5, "x")]:
            same_steps(function, *args)
        same_steps(function, iterable=[1, 2], r=1)
        assert error_texts(function, [], -1)[0] == error_texts(function, [], -1)[1]


@pytest.mark.parametrize("function", [None, lambda a, b: (a, b), lambda a, b: stop_at_2(b),
                                      lambda a, b: fail_at_2(b), 5])  # fmt: skip
@pytest.mark.parametrize("initial", [None, 0, "x"])
def test_accumulate(function: Any, initial: Any) -> None:
    for end in ENDS:
        for n in (0, 1, 4):
            same_steps(itertools.accumulate, Counted(range(n), end=end), function, initial=initial)
    same_steps(itertools.accumulate, iterable=[1, 2], func=function, initial=initial)
    same_steps(itertools.accumulate, 5, function)


BOUND = st.one_of(st.none(), st.integers(-2, 7), st.sampled_from([True, 1.0, "1", 10**30]))


@given(n=st.integers(0, 8), args=st.lists(BOUND, max_size=4), end=st.sampled_from(ENDS))
def test_islice(n: int, args: list[Any], end: BaseException | None) -> None:
    same_steps(itertools.islice, Counted(range(n), end=end), *args)


def test_islice_checks_its_bounds_at_the_call() -> None:
    for args in [(-1,), (-5,), ("a",), (0, -1), (-1, 5), (0, 5, 0), (0, 5, "a"), ()]:
        expected, got = error_texts(itertools.islice, [], *args)
        assert expected == got
    same_steps(itertools.islice, 5, 1)
    same_steps(itertools.islice, 5, -1)


def test_starmap() -> None:
    for end in ENDS:
        same_steps(itertools.starmap, pow, Counted([(2, 3), [3, 2], range(2, 4)], end=end))
        same_steps(itertools.starmap, lambda x: stop_at_2(x), Counted([(1,), (2,), (3,)], end=end))
    same_steps(itertools.starmap, pow, [(1, 2), 5])
    for function in (itertools.starmap, ours.starmap):
        assert list(function(lambda *a: a, [Counted([1, 2]), ()])) == [(1, 2), ()]
    same_steps(itertools.starmap, pow, 5)


@pytest.mark.parametrize("function", [itertools.takewhile, itertools.dropwhile,
                                      itertools.filterfalse])  # fmt: skip
@pytest.mark.parametrize("predicate", [lambda x: x < 2, lambda x: x % 2, bool, stop_at_2, fail_at_2,
                                       lambda x: StopTruth(), 5, None])  # fmt: skip
def test_predicates(function: Any, predicate: Any) -> None:
    for end in ENDS:
        same_steps(function, predicate, Counted([0, 1, 2, 3, 0, 1], end=end))
        same_steps(function, predicate, Counted([1, 0, 3, 2], end=end))
    assert same_steps(function, predicate, 5)[0][0] == "error"


@given(data=SMALL, selectors=SMALL, ends=st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS)))
def test_compress(data: list[int], selectors: list[int], ends: Any) -> None:
    same_steps(itertools.compress, Counted(data, end=ends[0]), Counted(selectors, end=ends[1]))
    same_steps(itertools.compress, data=data, selectors=selectors)


def test_compress_checks_its_arguments_at_the_call() -> None:
    same_steps(itertools.compress, 5, [])
    same_steps(itertools.compress, [], 5)
    same_steps(itertools.compress, Counted([1, 2]), [1, StopTruth()])


@given(
    items=st.lists(st.sampled_from([0, 1, 2, 2.0, float("nan")]), max_size=8),
    script=st.lists(st.integers(-1, 3), max_size=20),
    key=st.sampled_from([None, lambda x: x // 2, stop_at_2]),
)
def test_groupby_in_any_order_of_use(items: list[Any], script: list[int], key: Any) -> None:
    def run(function: Any) -> list[Any]:
        source = Counted(items)
        outer = function(source, key)
        groups: list[Any] = []
        log: list[Any] = []
        for which in script:
            if which < 0 or not groups:
                kind, value = outcome_of(lambda: next(outer))
                if kind == "value":
                    groups.append(value[1])
                    value = value[0]
            else:
                group = groups[which % len(groups)]
                kind, value = outcome_of(functools.partial(next, group))
            log.append((kind, None if kind == "stop" else repr(value), source.asked))
            if kind == "stop" and (key is stop_at_2 or source.asked > len(items)):
                break  # C would ask again
        return log

    assert run(itertools.groupby) == run(ours.groupby)


def test_groupby_checks_its_arguments_at_the_call() -> None:
    same_steps(itertools.groupby, 5)
    same_steps(itertools.groupby, [], None, 1)
    assert [(k, list(g)) for k, g in ours.groupby(iterable="aab", key=str.upper)] == [
        ("A", ["a", "a"]), ("B", ["b"]),
    ]  # fmt: skip


@pytest.mark.parametrize("start", [0, 5, -2, 1.5, 1j, sys.maxsize - 1, 10**30, "a", None])
@pytest.mark.parametrize("step", [1, 2, 0, -1, 0.5, "b", 10**30])
def test_count(start: Any, step: Any) -> None:
    same_steps(itertools.count, start, step)
    same_steps(itertools.count, start=start, step=step)


def test_count_defaults() -> None:
    same_steps(itertools.count)
    same_steps(itertools.count, True)
    same_steps(itertools.count, 1, True)


def test_cycle() -> None:
    for end in ENDS:
        for n in (0, 1, 3):
            same_steps(itertools.cycle, Counted(range(n), end=end))
    same_steps(itertools.cycle, 5)


@pytest.mark.parametrize("times", [0, 3, -1, True, 1.0, None, "1", 10**30])
def test_repeat(times: Any) -> None:
    same_steps(itertools.repeat, "x", times)
    same_steps(itertools.repeat, object="x", times=times)
    same_steps(itertools.repeat, "x")


@given(pools=st.lists(st.tuples(SMALL, st.sampled_from(ENDS)), max_size=4))
def test_zip_longest(pools: list[Any]) -> None:
    sources = [Counted(items, end=end) for items, end in pools]
    failing = sum(1 for _, end in pools if end is FAILURE)
    if failing <= 1:
        same_steps(itertools.zip_longest, *sources)
        same_steps(itertools.zip_longest, *sources, fillvalue="-")


def test_zip_longest_checks_its_arguments_at_the_call() -> None:
    same_steps(itertools.zip_longest, [], 5)
    same_steps(itertools.zip_longest, [], fill=5)


def test_pairwise() -> None:
    for end in ENDS:
        for n in range(5):
            same_steps(itertools.pairwise, Counted(range(n), end=end))
    same_steps(itertools.pairwise, 5)


class CountedTwice(Counted):
    """Its iterator has `__iter__` too."""

    def __iter__(self) -> Any:
        self.opened += 1
        return self

    def __next__(self) -> Any:
        self.asked += 1
        if self.asked > len(self.items):
            raise StopIteration
        return self.items[self.asked - 1]


@given(
    n=st.integers(0, 5),
    copies=st.integers(1, 3),
    script=st.lists(st.integers(0, 2), max_size=20),
)
def test_tee_in_any_order_of_use(n: int, copies: int, script: list[int]) -> None:
    def run(function: Any) -> list[Any]:
        source = CountedTwice(range(n))
        iterators = function(source, copies)
        log: list[Any] = [type(iterators), len(iterators), source.opened]
        done = set()
        for which in script:
            which %= copies
            if which in done:
                continue
            kind, value = outcome_of(functools.partial(next, iterators[which]))
            if kind == "stop":
                done.add(which)
            log.append((kind, value, source.asked))
        return log

    assert run(itertools.tee) == run(ours.tee)


class CopiesItself:
    def __init__(self) -> None:
        self.n = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        self.n += 1
        return self.n

    def __copy__(self) -> Any:
        return iter(["copy"])


def test_tee_corner_cases() -> None:
    functions: list[Any] = [itertools.tee, ours.tee]
    for function in functions:
        assert function([1], 0) == ()
        one, two = function(CopiesItself())
        assert isinstance(one, CopiesItself)
        assert list(two) == ["copy"]
        wrong: list[Any] = [([], -1), (5,), ([], 1.0), (), (Counted([1]),)]
        for args in wrong:
            with pytest.raises((TypeError, ValueError)):
                function(*args)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="new in 3.12")
def test_batched() -> None:
    batched: Any = itertools.batched  # type: ignore[attr-defined]
    options: list[dict[str, Any]] = [{}]
    if sys.version_info >= (3, 13):
        options = [{}, {"strict": True}, {"strict": False}]
    for kwargs in options:
        for end in ENDS:
            for n in range(7):
                for size in (0, -1, 1, 2, 3, 10, 1.0, True):
                    same_steps(batched, Counted(range(n), end=end), size, **kwargs)
        same_steps(batched, 5, 1, **kwargs)
        same_steps(batched, iterable="abcde", n=2, **kwargs)


def test_batched_of_every_version_on_this_one() -> None:
    assert list(ours.batched_312("abcde", 2)) == [("a", "b"), ("c", "d"), ("e",)]
    assert list(ours.batched_313("abcd", 2, strict=True)) == [("a", "b"), ("c", "d")]
    iterator = ours.batched_313("abc", 2, strict=True)
    assert next(iterator) == ("a", "b")
    with pytest.raises(ValueError, match="incomplete batch"):
        next(iterator)
    with pytest.raises(ValueError, match="n must be at least one"):
        ours.batched_312("abc", 0)


def test_every_iterator_function_has_a_polyfill() -> None:
    functions = {f for n, f in vars(itertools).items() if isinstance(f, type) and n[0] != "_"}
    assert [f for f in functions if polyfill_for(f) is None] == []
