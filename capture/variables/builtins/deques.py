"""Holds the rules of deques that differ from those of lists.

Source: ``Modules/_collectionsmodule.c``.
"""

from __future__ import annotations

import collections

from capture.variables import operators
from capture.variables.base import MISSING, Tracer, Variable, stamp
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.builtins.sequences import bounds, find, list_of
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import ListVariable
from capture.variables.functions import IteratorVariable
from capture.variables.iteration import items_of, iterate, next_of_deque


@rule(collections.deque)
def _deque(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    items = iterate(tracer, args[0]) if args else []
    limit = args[1] if len(args) > 1 else kwargs.get("maxlen", NONE)
    maxlen = tracer.as_python(limit)
    if maxlen is MISSING or not (maxlen is None or (type(maxlen) is int and maxlen >= 0)):
        return None
    if maxlen is not None:
        items = items[len(items) - maxlen :] if len(items) > maxlen else items
    return stamp(tracer, ListVariable(items, collections.deque, maxlen=maxlen))


@rule(collections.deque.__init__)
def _deque_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    if target.source is not None or kwargs.keys() - {"maxlen", "iterable"}:
        return None
    made = _deque(tracer, [*args[1:2], *args[2:3]], kwargs)
    if not isinstance(made, ListVariable):
        return None
    target.change(tracer)[:] = made.items(tracer)
    target.maxlen = made.maxlen
    return NONE


@rule(collections.deque.appendleft)
def _appendleft(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    items = target.change(tracer)
    items.insert(0, args[1])
    if target.maxlen is not None and len(items) > target.maxlen:
        items.pop()
    return NONE


@rule(collections.deque.extendleft)
def _extendleft(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    for item in items_of(tracer, args[1]):
        _appendleft(tracer, [args[0], item], {})
    return NONE


@rule(collections.deque.insert)
def _insert(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    index = operators.index_value(tracer, args[1])
    if index is None:
        return None
    if len(target.items(tracer)) == target.maxlen:
        tracer.raise_error(IndexError, "deque already at its maximum size")
    target.change(tracer).insert(index, args[2])
    return NONE


@rule(collections.deque.pop)
def _deque_pop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not list_of(args).items(tracer):
        tracer.raise_error(IndexError, "pop from an empty deque")
    return list_of(args).change(tracer).pop()


@rule(collections.deque.popleft)
def _popleft(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not list_of(args).items(tracer):
        tracer.raise_error(IndexError, "pop from an empty deque")
    return list_of(args).change(tracer).pop(0)


@rule(collections.deque.rotate)
def _rotate(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    steps = operators.index_value(tracer, args[1]) if len(args) > 1 else 1
    if steps is None:
        return None
    if len(list_of(args).items(tracer)) > 1:
        items = list_of(args).change(tracer)
        split = -steps % len(items)
        items[:] = items[split:] + items[:split]
    return NONE


@rule(collections.deque.copy, collections.deque.__copy__)
def _copy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    if target.cls is not collections.deque:
        return None
    made = ListVariable(list(target.items(tracer)), collections.deque, maxlen=target.maxlen)
    return stamp(tracer, made)


@rule(collections.deque.index)
def _index(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    limits = bounds(tracer, list_of(args), args[2:])
    if limits is None:
        return None
    position = find(tracer, list_of(args), args[1], *limits)
    if position is not None:
        return ConstantVariable(position)
    raise_absent(tracer, args[1], "index")
    return None


@rule(collections.deque.remove)
def _remove(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    position = find(tracer, list_of(args), args[1])
    if position is None:
        raise_absent(tracer, args[1], "remove")
        return None
    del list_of(args).change(tracer)[position]
    return NONE


def raise_absent(tracer: Tracer, item: Variable, method: str) -> None:
    """The ValueError of looking for what is not there, in the words of this version."""
    value = tracer.as_python(item)
    if value is not MISSING:
        try:
            getattr(collections.deque(), method)(value)
        except ValueError as error:
            tracer.raise_real(error)


@rule(collections.deque.__len__)
def _len(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return ConstantVariable(len(list_of(args).items(tracer)))


@rule(collections.deque.__reversed__)
def reverse_iterator(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """``reversed(deque)``."""
    target = list_of(args)
    reverse: type = type(reversed(collections.deque()))
    made = IteratorVariable(reverse, "deque_reversed", next_of_deque, (target, target.moves))
    return stamp(tracer, made)
