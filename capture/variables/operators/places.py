"""Holds subscripts of tensors by integers that change; must not know other containers.

``x[i]`` and ``x[:, i, None]`` are views that ``select`` makes as well, and that takes a number: one
graph serves all places. Which places a tensor has is guarded, so that eager's own error is raised
for others.
"""

from __future__ import annotations

import operator

from capture.variables.base import Tracer, Variable
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import SliceVariable, TupleVariable
from capture.variables.operators.numbers import compare_scalars
from capture.variables.sizes import size_of
from capture.variables.tensor import TensorVariable

__all__ = ["select_places"]

_WHOLE = SliceVariable([ConstantVariable(None)] * 3)


def select_places(tracer: Tracer, obj: TensorVariable, key: Variable) -> Variable | None:
    """``obj[key]`` where the key has integers that change; None for all other keys."""
    parts = _parts(tracer, key)
    if parts is None or not any(isinstance(part, ScalarVariable) for part in parts):
        return None
    indexing = [part for part in parts if not _is(part, None) and not _is(part, ...)]
    hidden = len(obj.meta.shape) - len(indexing)
    if hidden < 0 or sum(_is(part, ...) for part in parts) > 1:
        return None
    places: list[tuple[int, ScalarVariable]] = []
    source = dim = 0  # of the tensor, of what is left of it without the selections
    for part in parts:
        if _is(part, None):
            dim += 1
            continue
        if _is(part, ...):
            dim += hidden
            source += hidden
            continue
        if isinstance(part, ScalarVariable):
            if not _is_within(tracer, obj, source, part):
                return None
            places.append((dim, part))
        if not isinstance(part, ConstantVariable):
            dim += 1
        source += 1
    rest: list[Variable] = [_WHOLE if isinstance(p, ScalarVariable) else p for p in parts]
    result: Variable = obj
    if any(part is not _WHOLE and not _is_whole(tracer, part) for part in rest):
        rest_key = TupleVariable(rest)
        result = tracer.graph_call("call_function", operator.getitem, [obj, rest_key], {})
    for dim, place in reversed(places):
        row = [result, ConstantVariable(dim), place]
        result = tracer.graph_call("call_method", "select", row, {})
    return result


def _parts(tracer: Tracer, key: Variable) -> list[Variable] | None:
    """The parts of a key of integers, slices, ``None`` and ``...``; None for other keys."""
    if not (isinstance(key, TupleVariable) and key.cls is tuple):
        return [key] if isinstance(key, ScalarVariable) and _is_place(key) else None
    parts = [part.realize(tracer) for part in key.items(tracer)]
    for part in parts:
        if isinstance(part, ScalarVariable):
            if not _is_place(part):
                return None
        elif isinstance(part, ConstantVariable):
            if part.value is not None and part.value is not ... and type(part.value) is not int:
                return None
        elif not isinstance(part, SliceVariable):
            return None
    return parts


def _is_place(v: ScalarVariable) -> bool:
    return v.known and v.python_type() is int


def _is(v: Variable, value: object) -> bool:
    return isinstance(v, ConstantVariable) and v.value is value


def _is_whole(tracer: Tracer, part: Variable) -> bool:
    if isinstance(part, SliceVariable):
        return all(_is(p.realize(tracer), None) for p in part.parts)
    return _is(part, ...)


def _is_within(tracer: Tracer, obj: TensorVariable, dim: int, place: ScalarVariable) -> bool:
    """Decide that a place is one of the tensor's, from its start or its end, and guard that."""
    size = size_of(tracer, obj.meta.shape[dim])
    from_start = compare_scalars(tracer, ">=", operator.ge, place, ConstantVariable(0))
    if _is(from_start, True):
        return _is(compare_scalars(tracer, "<", operator.lt, place, size), True)
    if not isinstance(size, ConstantVariable):
        return False
    first = ConstantVariable(-size.value)
    return _is(compare_scalars(tracer, ">=", operator.ge, place, first), True)
