"""Holds iterators that are older than the piece: loops that go on behind a graph break.

Where an iterator of a range stands can be read without advancing it. It gives numbers of the graph,
and is advanced behind the graph, as a side effect. Must not know the interpreter.
"""

from __future__ import annotations

import operator
from typing import Any

from capture.sources import RangeIteratorSource, Source
from capture.variables.base import Tracer, Variable
from capture.variables.constant import ConstantVariable, ScalarVariable, guard_expression
from capture.variables.functions import IteratorVariable
from capture.variables.operators.numbers import scalar_binary

__all__ = ["range_iterator"]

_FEW = 1000
"""Rounds in which start and length stay numbers; a longer loop is taken as it is, once and for all,
as each further round would add a guard and a node."""


def range_iterator(value: Any, source: Source) -> IteratorVariable:
    """The variable of an iterator of a range; its type is guarded."""
    made = IteratorVariable(type(value), "outer_range", _next, value.__reduce__())
    made.source = source
    return made


def _next(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    assert it.source is not None
    _, (numbers,), position = it.target
    rest = numbers[position or 0 :]
    goes_on = len(rest) > it.position
    if it.position <= _FEW:
        left = tracer.wrap(len(rest), RangeIteratorSource(it.source, "left"))
        if isinstance(left, ScalarVariable):
            if it.position == _FEW:
                left.specialize(tracer)
            else:
                comparison = ">" if goes_on else "<="
                guard_expression(tracer, f"({left.text}) {comparison} {it.position}", left.sources)
    if not goes_on:
        return None
    tracer.effects.advanced(it)
    it.position += 1
    if it.position > _FEW + 1:
        return ConstantVariable(rest[it.position - 1])
    return _item(tracer, it.source, rest, it.position - 1)


def _item(tracer: Tracer, source: Source, rest: range, position: int) -> Variable:
    first = tracer.wrap(rest.start, RangeIteratorSource(source, "next"))
    step = tracer.wrap(rest.step, RangeIteratorSource(source, "step"))
    if isinstance(step, ScalarVariable):
        step.specialize(tracer)
    if not position:
        return first
    if isinstance(first, ScalarVariable):
        if position < _FEW:
            item = scalar_binary(
                tracer, "+", operator.add, first, ConstantVariable(position * rest.step)
            )
            if item is not None:
                return item
        first.specialize(tracer)
    return ConstantVariable(rest[position])
