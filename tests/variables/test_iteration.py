"""Iterators of ranges, of small and of large numbers, inside a piece and behind it."""

# mypy: ignore-errors

from __future__ import annotations

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
