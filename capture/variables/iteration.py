"""Holds iteration: ``iter``, ``next`` and draining an iterable; must not know the interpreter."""

from __future__ import annotations

import collections
import enum
import types
import weakref
from collections.abc import Iterator
from typing import Any, TypeGuard

from capture import break_reasons as reasons
from capture.polyfills.arguments import type_name
from capture.variables.attributes import (
    InstanceDictVariable,
    load_attr,
    load_special,
    type_source_of,
)
from capture.variables.base import MISSING, ObservedException, Tracer, Variable, stamp, unsupported
from capture.variables.constant import NONE, ConstantVariable, ScalarVariable
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    RangeVariable,
    SequenceVariable,
    SetVariable,
    TupleVariable,
    key_of,
)
from capture.variables.functions import GeneratorVariable, IteratorVariable
from capture.variables.length_hints import ask_length
from capture.variables.mixed_enums import plain_value
from capture.variables.objects import (
    ClassVariable,
    ObjectVariable,
    lookup_mro,
    type_attribute,
)
from capture.variables.tensor import TensorVariable

LIST_ITERATOR: type = type(iter([]))
TUPLE_ITERATOR: type = type(iter(()))
DEQUE_ITERATOR: type = type(iter(collections.deque()))
_ORDERED_ITERATOR: type = type(iter(collections.OrderedDict()))
_DICT_ITERATORS: dict[str, type] = {
    "keys": type(iter({})),
    "values": type(iter({}.values())),
    "items": type(iter({}.items())),
}


def get_iter(tracer: Tracer, obj: Variable) -> Variable:
    """``iter(obj)``."""
    obj = plain_value(obj.realize(tracer), "__iter__")
    if isinstance(obj, (IteratorVariable, GeneratorVariable)):
        return obj
    if isinstance(obj, ScalarVariable):
        obj = obj.specialize(tracer)
    cls = obj.python_type()
    raw, where = type_attribute(tracer, cls, type_source_of(tracer, obj), "__iter__")
    if isinstance(raw, types.FunctionType):
        made = tracer.call(tracer.wrap_static(raw, where), [obj], {}).realize(tracer)
        if lookup_mro(made.python_type(), "__next__")[0] is MISSING:
            name = type_name(made.python_type())
            tracer.raise_error(TypeError, f"iter() returned non-iterator of type {name!r}")
        return made
    if raw is None:
        tracer.raise_error(TypeError, f"{type_name(cls)!r} object is not iterable")
    if isinstance(obj, ListVariable) and obj.is_deque:
        made = IteratorVariable(DEQUE_ITERATOR, "deque", next_of_deque, (obj, obj.moves))
        return stamp(tracer, made)
    if isinstance(obj, SequenceVariable):
        kind = LIST_ITERATOR if isinstance(obj, ListVariable) else TUPLE_ITERATOR
        return IteratorVariable(kind, "sequence", _next_of_sequence, obj)
    if isinstance(obj, RangeVariable):
        kind = type(iter(obj.value))  # another one for numbers that are no C longs
        return IteratorVariable(kind, "range", _next_of_range, obj)
    if isinstance(obj, ConstantVariable):
        if isinstance(obj.value, (str, bytes)):
            items = [ConstantVariable(c) for c in obj.value]
            return IteratorVariable(type(iter(obj.value)), "sequence", _next_of_items, (obj, items))
        if cls is not type(None) and isinstance(obj.value, tuple):
            return get_iter(tracer, TupleVariable([tracer.wrap_result(v) for v in obj.value]))
        tracer.raise_error(TypeError, f"{type_name(cls)!r} object is not iterable")
    if isinstance(obj, DictVariable):
        return _dict_iterator(tracer, obj, "keys")
    if isinstance(obj, DictViewVariable):
        return _dict_iterator(tracer, obj.target, obj.kind)
    if isinstance(obj, SetVariable):
        order = set_order(tracer, obj)
        return stamp(tracer, IteratorVariable(type(iter(set())), "set", _next_of_set, (obj, order)))
    if isinstance(obj, TensorVariable):
        if not obj.meta.shape:
            tracer.raise_error(TypeError, "iteration over a 0-d tensor")
        rows = tracer.graph_call("call_method", "unbind", [obj, ConstantVariable(0)], {})
        return get_iter(tracer, rows)
    if isinstance(obj, ClassVariable):
        if isinstance(obj.value, enum.EnumMeta):
            real: Any = obj.value
            members = [tracer.wrap_static(m, None) for m in real]
            return get_iter(tracer, ListVariable(members))
        fn = lookup_mro(type(obj.value), "__iter__")[0]
        if isinstance(fn, types.FunctionType):
            return tracer.call(tracer.wrap_static(fn, None), [obj], {}).realize(tracer)
    if isinstance(obj, ObjectVariable):
        if raw is MISSING:
            getitem, _ = type_attribute(tracer, cls, type_source_of(tracer, obj), "__getitem__")
            if isinstance(getitem, types.FunctionType):
                return IteratorVariable(type(iter(_Indexed())), "indexed", _next_of_indexed, obj)
            tracer.raise_error(TypeError, f"{type_name(cls)!r} object is not iterable")
    elif raw is MISSING:
        tracer.raise_error(TypeError, f"{type_name(cls)!r} object is not iterable")
    unsupported(reasons.OPAQUE_ITERATOR, obj.describe())


def check_iterable(tracer: Tracer, obj: Variable, text: str) -> None:
    """Raise the TypeError about a value whose type has no iteration at all."""
    obj = obj.realize(tracer)
    cls = obj.python_type()
    if all(lookup_mro(cls, name)[0] is MISSING for name in ("__iter__", "__getitem__")):
        source = type_source_of(tracer, obj)
        for name in ("__iter__", "__getitem__"):
            type_attribute(tracer, cls, source, name)
        tracer.raise_error(TypeError, text)


def iterator_or(tracer: Tracer, obj: Variable, refusal: str) -> Variable:
    """As ``get_iter``; ``refusal`` is what a TypeError says instead of its own text."""
    try:
        return get_iter(tracer, obj)
    except ObservedException as signal:
        if not issubclass(signal.exception.python_type(), TypeError):
            raise
    tracer.raise_error(TypeError, refusal)


class _Indexed:
    def __getitem__(self, index: int) -> int:
        raise IndexError


def set_order(tracer: Tracer, obj: SetVariable) -> list[Variable]:
    """The elements in the order in which Python would give them."""
    order = obj.order(tracer)
    if order is None:
        unsupported(reasons.UNKNOWN_OPERATION, "iteration over a set whose order is not known")
    return order


def _next_of_set(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    owner: SetVariable
    items: list[Variable]
    owner, items = it.target
    entries = owner.entries(tracer)
    if it.position >= len(items) and len(entries) == len(items):
        return None
    if len(entries) != len(items):
        tracer.raise_error(RuntimeError, "Set changed size during iteration")
    item = items[it.position]
    if entries.get(key_of(tracer, item)) is not item:
        unsupported(reasons.UNKNOWN_OPERATION, "a set changed while it is iterated")
    it.position += 1
    return item


def _next_of_sequence(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    items = it.target.items(tracer)
    if it.position >= len(items):
        return None
    it.position += 1
    item: Variable = items[it.position - 1]
    return item


def next_of_deque(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    """What an iterator of a deque gives, from either end."""
    owner, moves = it.target
    if owner.moves != moves:
        tracer.raise_error(RuntimeError, "deque mutated during iteration")
    items = owner.items(tracer)
    if it.position >= len(items):
        return None
    it.position += 1
    backwards = it.kind == "deque_reversed"
    item: Variable = items[-it.position if backwards else it.position - 1]
    return item


def _next_of_range(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    value = it.target.value
    if it.position >= len(value):
        return None
    it.position += 1
    return ConstantVariable(value[it.position - 1])


def _next_of_items(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    items = it.target[1]
    if it.position >= len(items):
        return None
    it.position += 1
    item: Variable = items[it.position - 1]
    return item


def _next_of_indexed(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    fn = load_special(tracer, it.target, "__getitem__")
    try:
        item = tracer.call(fn, [ConstantVariable(it.position)], {})
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), (IndexError, StopIteration)):
            return None
        raise
    it.position += 1
    return item


def _dict_iterator(tracer: Tracer, target: DictVariable, kind: str) -> IteratorVariable:
    if not isinstance(target, InstanceDictVariable) and target.cls is not dict:
        fn = lookup_mro(target.cls, "__iter__")[0]
        if isinstance(fn, types.FunctionType):
            unsupported(reasons.UNKNOWN_OPERATION, f"iteration over {target.describe()}")
    entries = target.load(tracer)
    cls = _ORDERED_ITERATOR if _is_ordered(target) else _DICT_ITERATORS[kind]
    made = IteratorVariable(cls, f"dict_{kind}", _next_of_dict, (target, list(entries)))
    stamp(tracer, made)
    target.iterators = [r for r in target.iterators if r() is not None]
    target.iterators.append(weakref.ref(made))
    return made


def _is_ordered(target: DictVariable) -> bool:
    return issubclass(target.python_type(), collections.OrderedDict)


def _next_of_dict(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    target, keys = it.target
    entries = target.load(tracer)
    if _is_ordered(target) and list(entries) != keys:
        if not entries:
            unsupported(reasons.UNKNOWN_OPERATION, "an ordered dict emptied while it is iterated")
        tracer.raise_error(RuntimeError, "OrderedDict mutated during iteration")
    if len(entries) != len(keys):
        tracer.raise_error(RuntimeError, "dictionary changed size during iteration")
    if it.position >= len(keys):
        return None
    key = keys[it.position]
    if key not in entries:
        tracer.raise_error(RuntimeError, "dictionary keys changed during iteration")
    it.position += 1
    key_variable: Variable
    value: Variable
    key_variable, value = entries[key]
    if it.kind == "dict_keys":
        return key_variable
    if it.kind == "dict_values":
        return value
    return TupleVariable([key_variable, value])


def next_item(tracer: Tracer, it: Variable) -> Variable | None:
    """The next item of an iterator, or None at its end."""
    return next_or_result(tracer, it)[0]


def next_or_result(tracer: Tracer, it: Variable) -> tuple[Variable | None, Variable]:
    """The next item of an iterator; at its end None and the value that its StopIteration has."""
    it = it.realize(tracer)
    if isinstance(it, GeneratorVariable):
        item = tracer.run_generator(it, None)
        return item, NONE if item is not None else it.frame.result
    try:
        return _advance(tracer, it), NONE
    except ObservedException as signal:
        exception = signal.exception
        if not issubclass(exception.python_type(), StopIteration):
            raise
        return None, load_attr(tracer, exception, "value")


def _advance(tracer: Tracer, it: Variable) -> Variable | None:
    if isinstance(it, IteratorVariable):
        return it.next(tracer)
    if isinstance(it, ObjectVariable):
        raw, where = type_attribute(tracer, it.cls, type_source_of(tracer, it), "__next__")
        if isinstance(raw, types.FunctionType):
            return tracer.call(tracer.wrap_static(raw, where), [it], {})
        if raw is MISSING:
            tracer.raise_error(TypeError, f"{type_name(it.cls)!r} object is not an iterator")
    unsupported(reasons.OPAQUE_ITERATOR, it.describe())


def iterate(tracer: Tracer, obj: Variable) -> list[Variable]:
    """All items of an iterable, in a new list."""
    obj = obj.realize(tracer)
    if _is_plain_sequence(obj):
        return list(obj.items(tracer))
    return _rest(tracer, get_iter(tracer, obj))


def sequence_of(tracer: Tracer, obj: Variable, refusal: str) -> list[Variable]:
    """What C code that reads a sequence makes of an argument (``PySequence_Fast``).

    ``refusal`` is what a TypeError about the iterator says instead of its own text.
    """
    obj = obj.realize(tracer)
    if isinstance(obj, SequenceVariable) and obj.cls in (list, tuple):
        return list(obj.items(tracer))
    return listed(tracer, iterator_or(tracer, obj, refusal))


def listed(tracer: Tracer, obj: Variable) -> list[Variable]:
    """As ``iterate``, for what makes a list or a tuple: it asks first how many there will be."""
    obj = obj.realize(tracer)
    if _is_plain_sequence(obj):
        ask_length(tracer, obj)
        return list(obj.items(tracer))
    it = get_iter(tracer, obj)
    ask_length(tracer, obj)
    return _rest(tracer, it)


def _is_plain_sequence(obj: Variable) -> TypeGuard[SequenceVariable]:
    return isinstance(obj, SequenceVariable) and not isinstance(
        lookup_mro(obj.cls, "__iter__")[0], types.FunctionType
    )


def _rest(tracer: Tracer, it: Variable) -> list[Variable]:
    items: list[Variable] = []
    while (item := next_item(tracer, it)) is not None:
        items.append(item)
        tracer.count_iteration(len(items))
    return items


def drained(
    tracer: Tracer, args: list[Variable], place: int, refusal: str | None = None
) -> list[Variable]:
    """All items of an argument that may be an iterator.

    The argument is a list of them from now on: a rule that leaves the call to somebody else has
    used the iterator up. With a ``refusal`` it is read as by ``sequence_of``.
    """
    given = args[place].realize(tracer)
    items = iterate(tracer, given) if refusal is None else sequence_of(tracer, given, refusal)
    exact = isinstance(given, SequenceVariable) and given.cls in (list, tuple)
    if not (exact if refusal else isinstance(given, SequenceVariable)):
        args[place] = ListVariable(list(items))
    return items


def items_of(tracer: Tracer, obj: Variable, *, sized: bool = False) -> Iterator[Variable]:
    """The items one by one, so that what is done with one happens before the next is made.

    ``sized``: as for a list that is extended, the object is asked first how many there will be.
    """
    obj = obj.realize(tracer)
    if isinstance(obj, SequenceVariable):
        yield from (listed if sized else iterate)(tracer, obj)
        return
    it = get_iter(tracer, obj)
    if sized:
        ask_length(tracer, obj)
    done = 0
    while (item := next_item(tracer, it)) is not None:
        yield item
        done += 1
        tracer.count_iteration(done)
