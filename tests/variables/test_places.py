"""Subscripts of tensors by integers that change: one graph for all places."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

X = torch.arange(40.0).view(10, 4)
PLACES = [1, 2, 3, 0, 9, 1, -1, -10, 3]
READS = {
    "row": lambda x, i: x[i] * 2,
    "column": lambda x, i: x[:, i % 4] * 2,
    "both": lambda x, i: x[i, i % 4] + 1,
    "twice": lambda x, i: x[i][1],
    "from the end": lambda x, i: x[..., -1 - i % 4, None],
    "with others": lambda x, i: x[None, i, 1:3, ...] + x[2, i % 4],
    "view": lambda x, i: x[i].add_(1),
    "size": lambda x, i: x[x.shape[0] // 2] + x[x.shape[0] - 1, i % 4],
}


def write_number(x, i):
    x[i] = 7.0


def write_column(x, i):
    x[:, i % 4] = x[:, 0] * 2


def write_with_leading_ones(x, i):
    x[i] = torch.ones(1, 1, 4)


def write_part(x, i):
    x[i, 1:3] = x[i, 2:] + 1


def write_in_place(x, i):
    x[i, 0] += 1
    x[i] *= 2


WRITES = [write_number, write_column, write_with_leading_ones, write_part, write_in_place]


@pytest.fixture(params=["eager", "aot_eager"])
def compare(check, request):
    check.inner = request.param
    return check


@pytest.mark.parametrize("name", READS)
def test_reads(compare, name):
    def fn(x, i):
        x = x * 1
        return READS[name](x, i), x

    x = X.clone().requires_grad_()
    report = compare(fn, *[(x, i) for i in PLACES])
    assert not report.breaks
    assert report.graphs <= 3  # the first place, then those from the start and from the end


@pytest.mark.parametrize("write", WRITES)
def test_writes(compare, write):
    def fn(x, w, i):
        y = x + w
        write(y, i)
        write(x, i)
        return y

    w = torch.ones(4, requires_grad=True)
    report = compare(fn, *[(X, w, i) for i in PLACES])
    assert not report.breaks
    assert report.graphs <= 3


@pytest.mark.parametrize("key", [lambda i: i, lambda i: (slice(None), i), lambda i: (i, 0, 0)])
def test_places_that_there_are_not(compare, key):
    def fn(x, i):
        try:
            return x[key(i)] + 1
        except IndexError as error:
            return x - 1, str(error)

    compare(fn, *[(X, i) for i in (1, 2, 3, 10, 4, -11, 11, 2)])
    compare(lambda x, i: x[key(i)] + 1, *[(X, i) for i in (1, 2, 3, 10, 4, -11, 11, 2)])


def test_other_keys_are_left_as_they_are(compare):
    def fn(x, i, flag, where):
        return x[flag], x[where, i], x[[i, 0]], x[i, ..., where]

    calls = [(1, True), (2, True), (3, False), (0, True)]
    compare(fn, *[(X, i, flag, torch.tensor([1, 2])) for i, flag in calls])


def test_places_and_sizes_change(compare):
    def fn(x, i):
        x = x.sin()
        x[i] = x[i - 1] * 2
        return x[i], x[:, i % 2].sum()

    calls = [(5, 1), (7, 2), (8, 3), (6, 5), (9, 1), (4, 3)]
    report = compare(fn, *[(torch.randn(n, 3), i) for n, i in calls])
    assert report.graphs <= 3


def test_a_cache_that_grows_place_by_place(compare):
    def fn(cache, new, place):
        cache[:, place] = new
        return cache[:, : place + 1].sum(1), cache[:, place]

    cache = torch.zeros(2, 16, 3)
    calls = [(cache, torch.full((2, 3), float(place)), place) for place in range(16)]
    report = compare(fn, *calls)
    assert not report.breaks
    assert report.graphs <= 4  # the first place, the second, and what zero and one are to sizes
