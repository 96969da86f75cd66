"""Equivalents of the functions of ``heapq``: the same heaps by the same comparisons."""

# mypy: ignore-errors

from __future__ import annotations

import heapq
import random

import pytest

from capture.polyfills import heaps

NAMES = ["heappush", "heappop", "heapreplace", "heappushpop", "heapify"]


class Noted:
    """A number that notes what it is compared with."""

    def __init__(self, number, log):
        self.number = number
        self.log = log

    def __lt__(self, other):
        self.log.append((self.number, other.number))
        return self.number < other.number


def outcome(fn, numbers, item):
    log = []
    heap = [Noted(n, log) for n in numbers]
    args = (heap,) if item is None else (heap, Noted(item, log))
    try:
        result = fn(*args)
    except IndexError as error:
        return str(error)
    return [h.number for h in heap], log, None if result is None else result.number


@pytest.mark.parametrize("name", NAMES)
def test_same_heap_and_comparisons(name):
    draw = random.Random(3)
    original, ours = getattr(heapq, name), getattr(heaps, name)
    for size in range(40):
        numbers = [draw.randrange(20) for _ in range(size)]
        if name != "heapify":
            heapq.heapify(numbers)
        item = None if name in ("heappop", "heapify") else draw.randrange(20)
        assert outcome(ours, numbers, item) == outcome(original, numbers, item)
