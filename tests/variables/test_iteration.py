"""Iterators of ranges, of small and of large numbers, inside a piece and behind it."""

# mypy: ignore-errors

from __future__ import annotations

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
