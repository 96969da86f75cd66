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


def range_iterator(value: Any, source: Source) -> IteratorVariable:
    """The variable of an iterator of a range; its type is guarded."""
    made = IteratorVariable(type(value), "outer_range", _next, value.__reduce__())
    made.source = source
    return made


def _next(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    assert it.source is not None
    _, (numbers,), position = it.target
    rest = numbers[position or 0 :]
    left = tracer.wrap(len(rest), RangeIteratorSource(it.source, "left"))
    goes_on = len(rest) > it.position
    if isinstance(left, ScalarVariable):
        comparison = ">" if goes_on else "<="
        guard_expression(tracer, f"({left.text}) {comparison} {it.position}", left.sources)
    if not goes_on:
        return None
    first = tracer.wrap(rest.start, RangeIteratorSource(it.source, "next"))
    step = tracer.wrap(rest.step, RangeIteratorSource(it.source, "step"))
    if isinstance(step, ScalarVariable):
        step.specialize(tracer)
    tracer.effects.advanced(it)
    it.position += 1
    skipped = (it.position - 1) * rest.step
    if not skipped:
        return first
    if isinstance(first, ScalarVariable):
        item = scalar_binary(tracer, "+", operator.add, first, ConstantVariable(skipped))
        if item is not None:
            return item
        first.specialize(tracer)
    return ConstantVariable(rest.start + skipped)
