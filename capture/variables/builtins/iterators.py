"""Holds the rules of iterators and generators."""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

from capture import break_reasons as reasons
from capture.polyfills import original_of
from capture.variables import operators
from capture.variables.attributes import load_special
from capture.variables.base import ObservedException, Tracer, Variable, unsupported
from capture.variables.builtins.deques import reverse_iterator
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import FALSE, ConstantVariable, is_none
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    RangeVariable,
    SequenceVariable,
    TupleVariable,
)
from capture.variables.functions import GeneratorVariable, IteratorVariable
from capture.variables.iteration import get_iter, iterate, next_item
from capture.variables.objects import ObjectVariable, lookup_mro


@rule(len)
def _len(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return operators.length(tracer, args[0])


@rule(iter)
def _iter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return get_iter(tracer, args[0]) if len(args) == 1 else None


@rule(next)
def _next(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if isinstance(args[0], (IteratorVariable, GeneratorVariable)):
        item = next_item(tracer, args[0])
        if item is not None:
            return item
        if len(args) > 1:
            return args[1]
        value = getattr(args[0], "frame", None)
        result = value.result if value is not None else None
        tracer.raise_observed(StopIteration, [] if result is None or is_none(result) else [result])
    if isinstance(args[0], ObjectVariable):
        raw = lookup_mro(args[0].cls, "__next__")[0]
        if isinstance(raw, types.FunctionType):
            try:
                return tracer.call(load_special(tracer, args[0], "__next__"), [], {})
            except ObservedException as signal:
                if len(args) > 1 and issubclass(signal.exception.python_type(), StopIteration):
                    return args[1]
                raise
    unsupported(reasons.OPAQUE_ITERATOR, args[0].describe())


@rule(enumerate)
def _enumerate(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantVariable(0))
    first = operators.index_value(tracer, start)
    if first is None:
        return None
    inner = get_iter(tracer, args[0])
    it = IteratorVariable(enumerate, "enumerate", _advance_enumerate, first, [inner])
    return it


def _advance_enumerate(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    item = next_item(tracer, it.parts[0])
    if item is None:
        return None
    number = it.target + it.position
    it.position += 1
    return TupleVariable([ConstantVariable(number), item])


@rule(zip)
def _zip(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    strict = tracer.truth(kwargs.get("strict", FALSE))
    if kwargs.keys() - {"strict"}:
        return None
    parts = [get_iter(tracer, a) for a in args]
    return IteratorVariable(zip, "zip", _advance_zip, strict, parts)


def _advance_zip(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    if not it.parts:
        return None
    items = []
    for place, part in enumerate(it.parts):
        item = next_item(tracer, part)
        if item is None:
            if it.target:
                _check_lengths(tracer, it.parts, place)
            return None
        items.append(item)
    return TupleVariable(items)


def _check_lengths(tracer: Tracer, parts: list[Variable], place: int) -> None:
    """``zip(strict=True)``: the iterator at ``place`` is the first at its end; are all others?

    Source: ``Python/bltinmodule.c`` (``zip_next``).
    """
    word = "shorter"
    if place == 0:
        word = "longer"
        for place in range(1, len(parts)):
            if next_item(tracer, parts[place]) is not None:
                break
        else:
            return
    others = "argument 1" if place == 1 else f"arguments 1-{place}"
    tracer.raise_error(ValueError, f"zip() argument {place + 1} is {word} than {others}")


@rule(map)
def _map(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) < 2:
        return None
    parts = [args[0], *[get_iter(tracer, a) for a in args[1:]]]
    return IteratorVariable(map, "map", _advance_map, None, parts)


def _advance_map(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    items = []
    for part in it.parts[1:]:
        item = next_item(tracer, part)
        if item is None:
            return None
        items.append(item)
    return tracer.call(it.parts[0], items, {})


@rule(reversed)
def _reversed(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    v = args[0]
    if isinstance(v, SequenceVariable) and not isinstance(
        lookup_mro(v.cls, "__reversed__")[0], types.FunctionType
    ):
        if isinstance(v, ListVariable) and v.is_deque:
            return reverse_iterator(tracer, [v], {})
        kind: type = type(reversed([])) if isinstance(v, ListVariable) else reversed
        it = IteratorVariable(kind, "reversed", _advance_reversed, v)
        it.position = len(v.items(tracer)) - 1
        return it
    if isinstance(v, RangeVariable):
        return get_iter(tracer, RangeVariable(v.value[::-1]))
    if isinstance(v, (DictVariable, DictViewVariable)):
        items = iterate(tracer, v)
        return get_iter(tracer, ListVariable(items[::-1]))
    if isinstance(v, ConstantVariable) and isinstance(v.value, str):
        return get_iter(tracer, ConstantVariable(v.value[::-1]))
    if isinstance(v, ObjectVariable) and isinstance(
        lookup_mro(v.cls, "__reversed__")[0], types.FunctionType
    ):
        return tracer.call(load_special(tracer, v, "__reversed__"), [], {})
    return None


def _advance_reversed(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    items = it.target.items(tracer)
    if not 0 <= it.position < len(items):
        return None
    it.position -= 1
    item: Variable = items[it.position + 1]
    return item


def _generator_of(args: list[Variable]) -> GeneratorVariable:
    target = args[0]
    if not isinstance(target, GeneratorVariable):
        unsupported(reasons.OPAQUE_ITERATOR, target.describe())
    return target


@rule(types.GeneratorType.send)
def _send(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    generator = _generator_of(args)
    item = tracer.run_generator(generator, args[1])
    if item is None:
        result = generator.frame.result
        tracer.raise_observed(StopIteration, [] if result is None or is_none(result) else [result])
    return item


@rule(types.GeneratorType.__iter__)
def _generator_iter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return _generator_of(args)


@rule(types.GeneratorType.__next__)
def _generator_next(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return _next(tracer, [_generator_of(args)], {})


@rule(types.GeneratorType.close)
def _close(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return tracer.close_generator(_generator_of(args))


@rule(types.GeneratorType.throw)
def _throw(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return tracer.throw_generator(_generator_of(args), args[1:])


@rule(operator.length_hint)
def _operator_length_hint(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    it = args[0]
    if isinstance(it, GeneratorVariable) and original_of(it.fn.code) is not None:
        unsupported(reasons.OPAQUE_ITERATOR, it.describe())  # the C iterator knows its length
    return None


_SIZED: tuple[Any, ...] = (
    iter([]), iter(()), iter(range(0)), iter(set()), iter({}), iter({}.values()), iter({}.items()),
    iter(collections.deque()), reversed(collections.deque()), reversed([]), reversed(()),
)  # fmt: skip


@rule(*(type(it).__length_hint__ for it in _SIZED))
def _length_hint(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    it = args[0]
    if not isinstance(it, IteratorVariable):
        return None
    if it.done:
        return ConstantVariable(0)
    kind, target = it.kind, it.target
    if kind == "outer_range":
        unsupported(reasons.OPAQUE_ITERATOR, it.describe())
    if kind == "sequence":
        items = target[1] if isinstance(target, tuple) else target.items(tracer)
        return ConstantVariable(max(len(items) - it.position, 0))
    if kind == "range":
        return ConstantVariable(len(target.value) - it.position)
    if kind == "reversed":
        return ConstantVariable(it.position + 1 if it.position < len(target.items(tracer)) else 0)
    if kind in ("deque", "deque_reversed"):
        return ConstantVariable(len(target[0].items(tracer)) - it.position)
    owner, snapshot = target
    entries = owner.entries(tracer) if kind == "set" else owner.load(tracer)
    return ConstantVariable(len(snapshot) - it.position if len(entries) == len(snapshot) else 0)
