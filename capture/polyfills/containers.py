"""Holds equivalents of container constructors and methods that take any iterable.

They build through append, add and item assignment. The interpreter does the forms on exact builtin
containers itself: `str.join` on a list or tuple, `frozenset` of a set. Must not know the
interpreter, variables or torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capture.polyfills.arguments import Missing, run_length_hint
from capture.polyfills.registry import polyfill_of


@polyfill_of(list)
def list_from(iterable: Iterable[Any] = (), /) -> list[Any]:
    """list(iterable) (Objects/listobject.c)."""
    result: list[Any] = []
    iterator = iter(iterable)
    run_length_hint(iterable)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return result
        result.append(item)


@polyfill_of(tuple)
def tuple_from(iterable: Iterable[Any] = (), /) -> tuple[Any, ...]:
    """tuple(iterable) (Objects/abstract.c, PySequence_Tuple)."""
    if type(iterable) is tuple:
        return iterable
    return (*list_from(iterable),)


@polyfill_of(set)
def set_from(iterable: Iterable[Any] = (), /) -> set[Any]:
    """set(iterable) (Objects/setobject.c)."""
    result: set[Any] = {*()}
    for item in iterable:
        result.add(item)
    return result


@polyfill_of(frozenset)
def frozenset_from(iterable: Iterable[Any] = (), /) -> frozenset[Any]:
    """frozenset(iterable) (Objects/setobject.c)."""
    if type(iterable) is frozenset:
        return iterable
    return frozenset(set_from(iterable))


@polyfill_of(dict)
def dict_from(mapping: Any = Missing, /, **kwargs: Any) -> dict[Any, Any]:
    """dict(mapping or pairs, **kwargs) (Objects/dictobject.c)."""
    result: dict[Any, Any] = {}
    if mapping is not Missing:
        _merge(result, mapping)
    for key, value in kwargs.items():
        result[key] = value
    return result


@polyfill_of(dict.update)
def dict_update(self: dict[Any, Any], mapping: Any = Missing, /, **kwargs: Any) -> None:
    """dict.update() (Objects/dictobject.c, dict_update_common)."""
    if mapping is not Missing:
        _merge(self, mapping)
    for key, value in kwargs.items():
        dict.__setitem__(self, key, value)


def _merge(target: dict[Any, Any], mapping: Any) -> None:
    if mapping is target:
        return
    if isinstance(mapping, dict) and type(mapping).__iter__ is dict.__iter__:
        # C reads such a dict directly, whatever a subclass makes of keys() and item access.
        for key, value in dict.items(mapping):
            dict.__setitem__(target, key, value)
    elif hasattr(mapping, "keys"):
        for key in mapping.keys():
            dict.__setitem__(target, key, mapping[key])
    else:
        _merge_pairs(target, mapping)


def _merge_pairs(target: dict[Any, Any], pairs: Iterable[Any]) -> None:
    position = 0
    for element in pairs:
        try:
            pair = list_from(iter(element))
        except TypeError:
            pair = None
        if pair is None:
            raise TypeError(
                f"cannot convert dictionary update sequence element #{position} to a sequence"
            )
        if len(pair) != 2:
            raise ValueError(
                f"dictionary update sequence element #{position} has length {len(pair)}; "
                "2 is required"
            )
        dict.__setitem__(target, pair[0], pair[1])
        position += 1


@polyfill_of(dict.fromkeys)
def dict_fromkeys(iterable: Iterable[Any], value: Any = None, /) -> dict[Any, Any]:
    """dict.fromkeys(), of dict itself only."""
    result: dict[Any, Any] = {}
    for key in iterable:
        result[key] = value
    return result


@polyfill_of(list.extend)
def list_extend(self: list[Any], iterable: Iterable[Any], /) -> None:
    """list.extend(): what was appended before an error stays."""
    if iterable is self or type(iterable) is list or type(iterable) is tuple:
        iterable = [*iterable]  # else extending a list by itself would never end
    iterator = iter(iterable)
    run_length_hint(iterable)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        list.append(self, item)


@polyfill_of(set.update)
def set_update(self: set[Any], /, *others: Iterable[Any]) -> None:
    """set.update(): what was added before an error stays."""
    for other in others:
        for item in other:
            set.add(self, item)


@polyfill_of(str.join)
def str_join(self: str, iterable: Iterable[str], /) -> str:
    """str.join() over any iterable (Objects/unicodeobject.c)."""
    try:
        iterator = iter(iterable)
    except TypeError:
        iterator = None
    if iterator is None:
        raise TypeError("can only join an iterable")
    return str.join(self, list_from(iterator))
