"""Iterators of ranges, and what C functions that iterate come down to, in a piece and behind it."""

# mypy: ignore-errors

from __future__ import annotations

import bisect
import functools
import heapq
import itertools
import math
import os

import pytest
import torch


@pytest.mark.parametrize("bounds", [(0, 6, 2), (-(2**65), -(2**65) + 6, 2)])
@pytest.mark.parametrize("taken", [0, 1, 3, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_iterators_of_ranges_of_any_size_leave_the_piece(check, bounds, taken, turned):
    def f(x):
        it = reversed(range(*bounds)) if turned else iter(range(*bounds))
        got = [next(it, None) for _ in range(taken)]
        os.getpid()
        return x + 1, got, type(it), list(it)

    check(f, (torch.ones(2),))

    def moved(x):
        it = reversed(range(*bounds)) if turned else iter(range(*bounds))
        it.__setstate__(1)
        return x + 1, list(it)

    check(moved, (torch.ones(2),))


@pytest.mark.parametrize("end", ["float", "tensor", "int"])
def test_what_adds_or_joins_an_iterator_sees_all_of_it(check, end):
    def f(x):
        last = {"float": 0.5, "tensor": x, "int": 2}[end]
        values = [x * 2, 0.0, last]
        total = sum(v for v in values)
        joined = ",".join(str(v) for v in [1, "a"]), sum((v for v in values), x)
        try:
            bad = "-".join(v for v in ["a", 3])
        except TypeError as error:
            bad = str(error)
        return total, joined, bad, math.prod(v for v in [2, 1.5, 3]), max(v for v in [1, 2.5])

    check(f, (torch.ones(2),))


def test_products_of_iterables_are_captured_whole(check):
    def fn(x):
        for a, b in itertools.product(range(2), [3, 4]):
            x = x + a * b
        pairs = [*itertools.combinations("abc", 2), *itertools.permutations([x, 1], 2)]
        return x, pairs, list(itertools.product("ab", repeat=2))

    report = check(fn, (torch.ones(2),), fullgraph=True)
    assert report.graphs == 1


def test_heaps_and_sorted_insertions_are_captured_whole(check):
    def fn(x, queue):
        heap = [(3, x), (1, x * 2)]
        heapq.heapify(heap)
        heapq.heappush(heap, (2, x * 3))
        least = heapq.heappop(heap)
        replaced = heapq.heapreplace(heap, (0, x))
        kept = heapq.heappushpop(heap, (-1, x))
        heapq.heappush(queue, 2.5)
        order = [1, 5]
        bisect.insort(order, 3)
        bisect.insort_left(order, 0, key=lambda v: -v)
        try:
            heapq.heappop([])
        except IndexError as error:
            return least[1] + replaced[1], kept, heap, queue, order, str(error)

    check(fn, (torch.ones(2), [1.0, 4.0]), (torch.ones(2), [3.0]), fullgraph=True)


def test_objects_that_compare_are_sorted_in_the_graph(check):
    @functools.total_ordering
    class Ranked:
        def __init__(self, rank):
            self.rank = rank

        def __eq__(self, other):
            return self.rank == other.rank

        def __lt__(self, other):
            return self.rank < other.rank

    def fn(x):
        ranked = sorted([Ranked(2), Ranked(1), Ranked(3)], reverse=True)
        return x * ranked[0].rank, [r.rank for r in ranked], Ranked(1) >= Ranked(2)

    check(fn, (torch.ones(2),), fullgraph=True)
