"""Holds equivalents of the functions of ``heapq`` that are written in C.

They compare the same items in the same order (Modules/_heapqmodule.c). What is not exactly a list
is left to the originals, which look behind the methods of a subclass. Must not know the
interpreter, variables or torch.
"""

from __future__ import annotations

import heapq
from typing import Any

from capture.polyfills.arguments import error_text
from capture.polyfills.registry import polyfill_of

_EMPTY = error_text(heapq.heappop, [])
_CHANGED = "list changed size during iteration"


def _rise(heap: list[Any], top: int, place: int) -> None:
    """Move an item up to below the first that is not greater."""
    size = len(heap)
    item = heap[place]
    while place > top:
        above = (place - 1) // 2
        other = heap[above]
        less = item < other
        if len(heap) != size:
            raise RuntimeError(_CHANGED)
        if not less:
            return
        heap[above] = item
        heap[place] = other
        place = above


def _sink(heap: list[Any], place: int) -> None:
    """Move an item down to a leaf, past the lesser children, and then up to where it belongs."""
    size = len(heap)
    top = place
    while place < size // 2:
        child = 2 * place + 1
        if child + 1 < size:
            less = heap[child] < heap[child + 1]
            if len(heap) != size:
                raise RuntimeError(_CHANGED)
            if not less:
                child += 1
        item = heap[child]
        heap[child] = heap[place]
        heap[place] = item
        place = child
    _rise(heap, top, place)


@polyfill_of(heapq.heappush)
def heappush(heap: list[Any], item: Any, /) -> None:
    """heapq.heappush()."""
    if type(heap) is not list:
        heapq.heappush(heap, item)
        return
    heap.append(item)
    _rise(heap, 0, len(heap) - 1)


@polyfill_of(heapq.heappop)
def heappop(heap: list[Any], /) -> Any:
    """heapq.heappop()."""
    if type(heap) is not list:
        return heapq.heappop(heap)
    if not heap:
        raise IndexError(_EMPTY)
    last = heap.pop()
    if not heap:
        return last
    least = heap[0]
    heap[0] = last
    _sink(heap, 0)
    return least


@polyfill_of(heapq.heapreplace)
def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """heapq.heapreplace(): the least goes, then the item comes."""
    if type(heap) is not list:
        return heapq.heapreplace(heap, item)
    if not heap:
        raise IndexError(_EMPTY)
    least = heap[0]
    heap[0] = item
    _sink(heap, 0)
    return least


@polyfill_of(heapq.heappushpop)
def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """heapq.heappushpop(): the item comes, then the least goes."""
    if type(heap) is not list:
        return heapq.heappushpop(heap, item)
    if not heap:
        return item
    least = heap[0]
    if not least < item:
        return item
    if not heap:
        raise IndexError(_EMPTY)
    least = heap[0]
    heap[0] = item
    _sink(heap, 0)
    return least


@polyfill_of(heapq.heapify)
def heapify(heap: list[Any], /) -> None:
    """heapq.heapify()."""
    if type(heap) is not list:
        heapq.heapify(heap)
        return
    place = len(heap) // 2
    while place > 0:
        place -= 1
        _sink(heap, place)
