"""Holds the rules of lists, tuples and deques."""

from __future__ import annotations

import collections

import torch

from capture import break_reasons as reasons
from capture.polyfills import polyfill_for
from capture.variables import operators
from capture.variables.base import MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import FALSE, NONE, ConstantVariable, is_none
from capture.variables.containers import ListVariable, SequenceVariable, TupleVariable
from capture.variables.iteration import get_iter, items_of, iterate


@rule(list)
def _list(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return stamp(tracer, ListVariable(iterate(tracer, args[0]) if args else []))


@rule(tuple)
def _tuple(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if args and isinstance(args[0], TupleVariable) and args[0].cls is tuple:
        return args[0]
    return TupleVariable(iterate(tracer, args[0]) if args else [])


@rule(torch.Size)
def _size(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return TupleVariable(iterate(tracer, args[0]) if args else [], torch.Size)


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
    items = iterate(tracer, args[1]) if len(args) > 1 else []
    target.change(tracer)[:] = items
    return NONE


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


def _list_of(args: list[Variable]) -> ListVariable:
    target = args[0]
    if not isinstance(target, ListVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a list method on {target.describe()}")
    return target


@rule(list.append, collections.deque.append)
def _append(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _list_of(args).append(tracer, args[1])
    return NONE


@rule(list.extend, collections.deque.extend)
def _extend(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _list_of(args)
    for item in items_of(tracer, args[1]):
        target.append(tracer, item)
    return NONE


@rule(collections.deque.appendleft)
def _appendleft(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _list_of(args)
    items = target.change(tracer)
    items.insert(0, args[1])
    if target.maxlen is not None and len(items) > target.maxlen:
        items.pop()
    return NONE


@rule(list.insert, collections.deque.insert)
def _insert(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    index = operators.index_value(tracer, args[1])
    if index is None or _list_of(args).is_deque:
        return None
    _list_of(args).change(tracer).insert(index, args[2])
    return NONE


@rule(list.pop)
def _pop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    index = operators.index_value(tracer, args[1]) if len(args) > 1 else -1
    items = _list_of(args).items(tracer)
    if index is None:
        return None
    if not items:
        tracer.raise_error(IndexError, "pop from empty list")
    if not -len(items) <= index < len(items):
        tracer.raise_error(IndexError, "pop index out of range")
    return _list_of(args).change(tracer).pop(index)


@rule(collections.deque.pop)
def _deque_pop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not _list_of(args).items(tracer):
        tracer.raise_error(IndexError, "pop from an empty deque")
    return _list_of(args).change(tracer).pop()


@rule(collections.deque.popleft)
def _popleft(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not _list_of(args).items(tracer):
        tracer.raise_error(IndexError, "pop from an empty deque")
    return _list_of(args).change(tracer).pop(0)


@rule(list.clear, collections.deque.clear)
def _list_clear(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _list_of(args).change(tracer).clear()
    return NONE


@rule(list.reverse)
def _reverse(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _list_of(args).change(tracer).reverse()
    return NONE


@rule(list.copy)
def _list_copy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return stamp(tracer, ListVariable(list(_list_of(args).items(tracer))))


@rule(list.remove)
def _remove(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _list_of(args)
    position = _find(tracer, target, args[1])
    if position is None:
        tracer.raise_error(ValueError, "list.remove(x): x not in list")
    del target.change(tracer)[position]
    return NONE


def _find(tracer: Tracer, target: SequenceVariable, item: Variable) -> int | None:
    for i, candidate in enumerate(target.items(tracer)):
        if operators.is_same(tracer, candidate, item) or operators.equal(tracer, candidate, item):
            return i
    return None


@rule(list.index, tuple.index)
def _index(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 2 or not isinstance(args[0], SequenceVariable):
        return None
    position = _find(tracer, args[0], args[1])
    if position is None:
        if isinstance(args[0], TupleVariable):
            tracer.raise_error(ValueError, "tuple.index(x): x not in tuple")
        text = tracer.as_python(args[1])
        tracer.raise_error(
            ValueError, f"{text!r} is not in list" if text is not MISSING else "x is not in list"
        )
    return ConstantVariable(position)


@rule(list.count, tuple.count)
def _count(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not isinstance(args[0], SequenceVariable):
        return None
    total = sum(
        operators.is_same(tracer, i, args[1]) or operators.equal(tracer, i, args[1])
        for i in args[0].items(tracer)
    )
    return ConstantVariable(total)


@rule(list.sort)
def _sort(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _list_of(args)
    known = [tracer.as_python(i) for i in target.items(tracer)]
    reverse = tracer.as_python(kwargs.get("reverse", FALSE))
    if type(reverse) not in (bool, int) or len(args) != 1 or kwargs.keys() - {"key", "reverse"}:
        return None
    mutations = tracer.mutations
    if "key" in kwargs and not is_none(kwargs["key"].realize(tracer)):
        keys = [tracer.call(kwargs["key"], [i], {}).realize(tracer) for i in target.items(tracer)]
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
    return NONE


@rule(sorted)
def _sorted(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    result = ListVariable(iterate(tracer, args[0]))
    result.created_at = tracer.ordinal
    if _sort(tracer, [result], kwargs) is not None:
        return result
    polyfill = polyfill_for(sorted)
    if polyfill is None:
        return None
    return tracer.call(tracer.wrap_static(polyfill, None), [result], kwargs)


@rule(list.__getitem__, tuple.__getitem__)
def _seq_getitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        return operators.sequence_getitem(tracer, args[0], args[1])
    return None


@rule(list.__setitem__)
def _list_setitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    operators.list_setitem(tracer, _list_of(args), args[1], args[2])
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
