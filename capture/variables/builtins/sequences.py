"""Holds the rules of lists, tuples and deques."""

from __future__ import annotations

import collections
import sys

import torch

from capture import break_reasons as reasons
from capture.polyfills import moves_of, polyfill_for
from capture.variables import operators
from capture.variables.base import MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import FALSE, NONE, ConstantVariable, boolean, is_none
from capture.variables.containers import ListVariable, SequenceVariable, TupleVariable
from capture.variables.iteration import get_iter, items_of, iterate, listed
from capture.variables.objects import lookup_mro
from capture.variables.tensor import TensorVariable


@rule(list)
def _list(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return stamp(tracer, ListVariable(_contents(tracer, args[0]) if args else []))


def _contents(tracer: Tracer, v: Variable) -> list[Variable]:
    """What a list is filled with: its own type and tuples are copied, others are asked first."""
    exact = isinstance(v, SequenceVariable) and v.cls in (list, tuple)
    return (iterate if exact else listed)(tracer, v)


@rule(tuple)
def _tuple(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if args and isinstance(args[0], TupleVariable) and args[0].cls is tuple:
        return args[0]
    return TupleVariable(_contents(tracer, args[0]) if args else [])


@rule(torch.Size)
def _size(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    items = [item.realize(tracer) for item in _contents(tracer, args[0])] if args else []
    if any(lookup_mro(item.python_type(), "__index__")[0] is MISSING for item in items) or any(
        isinstance(item, TensorVariable) for item in items
    ):
        unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError: a size is made of integers")
    return TupleVariable(items, torch.Size)


@rule(torch.Size.numel)
def _size_numel(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    total = 1
    assert isinstance(args[0], TupleVariable)
    for item in args[0].items(tracer):
        number = operators.index_value(tracer, item)
        if number is None:
            return None
        total *= number
    return ConstantVariable(total)


@rule(list.__init__)
def _list_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = args[0]
    if not isinstance(target, ListVariable) or kwargs:
        return None
    source = args[1] if len(args) > 1 else ListVariable([])
    if source is target:
        return None
    target.change(tracer)[:] = []  # also if the source turns out to be no iterable
    target.change(tracer)[:] = _contents(tracer, source)
    return NONE


def list_of(args: list[Variable]) -> ListVariable:
    """The receiver of a list or deque method."""
    target = args[0]
    if not isinstance(target, ListVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a list method on {target.describe()}")
    return target


@rule(list.append, collections.deque.append)
def _append(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    list_of(args).append(tracer, args[1])
    return NONE


@rule(list.extend, collections.deque.extend)
def _extend(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    for item in items_of(tracer, args[1], sized=not target.is_deque):
        target.append(tracer, item)
    return NONE


@rule(list.insert)
def _insert(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    index = operators.index_value(tracer, args[1])
    if index is None:
        return None
    list_of(args).change(tracer).insert(index, args[2])
    return NONE


@rule(list.pop)
def _pop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    index = operators.index_value(tracer, args[1]) if len(args) > 1 else -1
    items = list_of(args).items(tracer)
    if index is None:
        return None
    if not items:
        tracer.raise_error(IndexError, "pop from empty list")
    if not -len(items) <= index < len(items):
        tracer.raise_error(IndexError, "pop index out of range")
    return list_of(args).change(tracer).pop(index)


@rule(list.clear, collections.deque.clear)
def _list_clear(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    list_of(args).change(tracer).clear()
    return NONE


@rule(list.reverse, collections.deque.reverse)
def _reverse(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    list_of(args).change(tracer, moves=False).reverse()
    return NONE


@python_rule_for(moves_of)
def _moves_of(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return ConstantVariable(list_of(args).moves)


@rule(list.copy)
def _list_copy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return stamp(tracer, ListVariable(list(list_of(args).items(tracer))))


@rule(list.remove)
def _remove(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    position = find(tracer, target, args[1])
    if position is None:
        tracer.raise_error(ValueError, "list.remove(x): x not in list")
    del target.change(tracer)[position]
    return NONE


def find(
    tracer: Tracer,
    target: SequenceVariable,
    item: Variable,
    start: int = 0,
    stop: int = sys.maxsize,
) -> int | None:
    """The place of the first item that is, or equals, the given one; None if there is none."""
    for i, candidate in enumerate(target.items(tracer)[start:stop], start):
        if operators.same_or_equal(tracer, candidate, item):
            return i
    return None


def bounds(tracer: Tracer, target: SequenceVariable, given: Args) -> tuple[int, int] | None:
    """``start`` and ``stop`` of an ``index`` method as places of the sequence; None if unknown."""
    length = len(target.items(tracer))
    numbers = []
    for v in given:
        number = operators.index_value(tracer, v)
        if number is None:
            return None
        numbers.append(max(number + length, 0) if number < 0 else number)
    return (numbers[0] if numbers else 0), (numbers[1] if len(numbers) > 1 else sys.maxsize)


@rule(list.index, tuple.index)
def _index(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not isinstance(args[0], SequenceVariable):
        return None
    limits = bounds(tracer, args[0], args[2:])
    if limits is None:
        return None
    position = find(tracer, args[0], args[1], *limits)
    if position is not None:
        return ConstantVariable(position)
    if isinstance(args[0], TupleVariable):
        tracer.raise_error(ValueError, "tuple.index(x): x not in tuple")
    text = tracer.as_python(args[1])
    if text is MISSING:
        return None
    try:
        [].index(text)
    except ValueError as error:  # the text differs between versions
        tracer.raise_real(error)
    return None


@rule(list.count, tuple.count, collections.deque.count)
def _count(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not isinstance(args[0], SequenceVariable):
        return None
    total = sum(operators.same_or_equal(tracer, i, args[1]) for i in args[0].items(tracer))
    return ConstantVariable(total)


@rule(list.sort)
def _sort(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = list_of(args)
    known = [tracer.as_python(i) for i in target.items(tracer)]
    reverse = tracer.as_python(kwargs.get("reverse", FALSE))
    if type(reverse) not in (bool, int) or len(args) != 1 or kwargs.keys() - {"key", "reverse"}:
        return None
    mutations, moves = tracer.mutations, target.moves
    if "key" in kwargs and not is_none(kwargs["key"].realize(tracer)):
        held = target.change(tracer)
        mutations, moves = tracer.mutations, target.moves
        given = held.copy()
        held.clear()  # as long as it is sorted, what looks at it finds it empty
        try:
            keys = [tracer.call(kwargs["key"], [i], {}).realize(tracer) for i in given]
        finally:
            held[:] = given
        known = [tracer.as_python(k) for k in keys]
    if any(k is MISSING for k in known):
        if tracer.mutations != mutations:
            unsupported(reasons.UNKNOWN_OPERATION, "sorting by keys whose function does more")
        return None
    try:
        order = sorted(range(len(known)), key=lambda i: known[i], reverse=bool(reverse))
    except Exception as error:
        tracer.raise_real(error)
    items = target.change(tracer)
    items[:] = [items[i] for i in order]
    if target.moves != moves + 1:  # one is of the line above
        tracer.raise_error(ValueError, "list modified during sort")
    return NONE


@rule(sorted)
def _sorted(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    result = ListVariable(_contents(tracer, args[0]))
    result.created_at = tracer.ordinal
    if _sort(tracer, [result], kwargs) is not None:
        return result
    polyfill = polyfill_for(sorted)
    if polyfill is None:
        return None
    return tracer.call(tracer.wrap_static(polyfill, None), [result], kwargs)


@rule(list.__contains__, tuple.__contains__, collections.deque.__contains__)
def _contains(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        return boolean(find(tracer, args[0], args[1]) is not None)
    return None


@rule(list.__iadd__, collections.deque.__iadd__)
def _iadd(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _extend(tracer, args, kwargs)
    return args[0]


@rule(list.__imul__, collections.deque.__imul__)
def _imul(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if lookup_mro(args[1].python_type(), "__index__")[0] is MISSING:
        return None
    return operators.binary_op(tracer, "*=", list_of(args), args[1])


@rule(list.__delitem__)
def _list_delitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    operators.list_setitem(tracer, list_of(args), args[1], None)
    return NONE


@rule(list.__getitem__, tuple.__getitem__)
def _seq_getitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        return operators.sequence_getitem(tracer, args[0], args[1])
    return None


@rule(list.__setitem__)
def _list_setitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    operators.list_setitem(tracer, list_of(args), args[1], args[2])
    return NONE


@rule(list.__len__, tuple.__len__)
def _seq_len(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        return ConstantVariable(len(args[0].items(tracer)))
    return None


@rule(list.__iter__, tuple.__iter__)
def _seq_iter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        kind = list if isinstance(args[0], ListVariable) else tuple
        proxy = ListVariable if kind is list else TupleVariable
        return get_iter(tracer, proxy(args[0].items(tracer)))
    return None
