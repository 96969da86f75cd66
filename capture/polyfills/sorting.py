"""Holds equivalents of sorted() and list.sort() (Objects/listobject.c, list_sort_impl).

As in C the keys are computed first, only `<` is used, equal items keep their order (in reverse
too), and up to 63 keys the comparisons are those of CPython 3.11. Unlike C, a list whose sort
raises keeps its old order. Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any, cast

from capture.polyfills.arguments import run_length_hint
from capture.polyfills.registry import polyfill_of

_SMALL = 64
_CHUNK = 32


def _truth(value: Any) -> bool:
    return bool(value)


def _integer_truth(value: Any) -> bool:
    return index(value) != 0


def _takes_any_reverse() -> bool:
    # Before 3.12 Argument Clinic wants an integer.
    try:
        sorted((), reverse=cast(bool, None))
    except TypeError:
        return False
    return True


_as_reverse = _truth if _takes_any_reverse() else _integer_truth


@polyfill_of(sorted)
def sorted_(
    iterable: Iterable[Any], /, *, key: Callable[[Any], Any] | None = None, reverse: Any = False
) -> list[Any]:
    """sorted()."""
    iterator = iter(iterable)
    run_length_hint(iterable)
    items = []
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            break
        items.append(item)
    return _sorted_items(items, key, _as_reverse(reverse))


@polyfill_of(list.sort)
def list_sort(
    self: list[Any], /, *, key: Callable[[Any], Any] | None = None, reverse: Any = False
) -> None:
    """list.sort()."""
    descending = _as_reverse(reverse)
    items = list.copy(self)
    list.clear(self)  # as long as it is sorted, what looks at it finds it empty
    moves = moves_of(self)
    try:
        items = _sorted_items(items, key, descending)
    finally:
        changed = list.__len__(self) or moves_of(self) != moves
        list.__setitem__(self, slice(None), items)
    if changed:
        raise ValueError("list modified during sort")


def moves_of(items: list[Any]) -> int:
    """How often items came or went; the interpreter counts, plain Python cannot tell."""
    return 0


def _sorted_items(items: list[Any], key: Callable[[Any], Any] | None, reverse: bool) -> list[Any]:
    keys = items
    if key is not None:
        keys = []
        for item in items:
            keys.append(key(item))
    result = []
    for position in stable_order((*keys,), reverse):
        result.append(items[position])
    return result


def stable_order(keys: tuple[Any, ...], reverse: bool) -> tuple[int, ...]:
    """Return the positions of `keys` in sorted order.

    Where all keys are constants of builtin types, `native_order` gives the same at once.
    """
    count = len(keys)
    order = []
    position = 0
    while position < count:
        order.append(count - 1 - position if reverse else position)
        position += 1
    if count < _SMALL:
        _insertion_sort(keys, order)
    else:
        order = _merge_sort(keys, order)
    if reverse:
        order = order[::-1]
    return (*order,)


def native_order(keys: tuple[Any, ...], reverse: bool) -> tuple[int, ...]:
    """Do what `stable_order` does by the C sort; for folding on constants."""
    return tuple(sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse))


def _leading_run(keys: tuple[Any, ...], order: list[int]) -> int:
    """Make the longest ordered beginning ascending, and return its length."""
    count = len(order)
    if count < 2:
        return count
    end = 2
    if keys[order[1]] < keys[order[0]]:
        while end < count and keys[order[end]] < keys[order[end - 1]]:
            end += 1
        order[:end] = order[:end][::-1]
        return end
    while end < count:
        if keys[order[end]] < keys[order[end - 1]]:
            break
        end += 1
    return end


def _insertion_sort(keys: tuple[Any, ...], order: list[int]) -> None:
    start = _leading_run(keys, order)
    while start < len(order):
        pivot = order[start]
        pivot_key = keys[pivot]
        left = 0
        right = start
        while left < right:
            middle = left + ((right - left) >> 1)
            if pivot_key < keys[order[middle]]:
                right = middle
            else:
                left = middle + 1
        if left < start:
            order.pop(start)
            order.insert(left, pivot)
        start += 1


def _merge_sort(keys: tuple[Any, ...], order: list[int]) -> list[int]:
    count = len(order)
    begin = 0
    while begin < count:
        chunk = order[begin : begin + _CHUNK]
        _insertion_sort(keys, chunk)
        order[begin : begin + _CHUNK] = chunk
        begin += _CHUNK
    width = _CHUNK
    while width < count:
        begin = 0
        merged: list[int] = []
        while begin < count:
            middle = begin + width
            _merge(keys, order[begin:middle], order[middle : middle + width], merged)
            begin = middle + width
        order = merged
        width *= 2
    return order


def _merge(keys: tuple[Any, ...], left: list[int], right: list[int], merged: list[int]) -> None:
    taken_left = 0
    taken_right = 0
    while taken_left < len(left) and taken_right < len(right):
        # Only a right key that is truly less may pass a left one: that keeps the sort stable.
        if keys[right[taken_right]] < keys[left[taken_left]]:
            merged.append(right[taken_right])
            taken_right += 1
        else:
            merged.append(left[taken_left])
            taken_left += 1
    while taken_left < len(left):
        merged.append(left[taken_left])
        taken_left += 1
    while taken_right < len(right):
        merged.append(right[taken_right])
        taken_right += 1
