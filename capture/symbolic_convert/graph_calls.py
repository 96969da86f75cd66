"""Holds how the interpreter adds calls to the graph: arguments, failures, results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.graph.foresight import Undecidable
from capture.graph.gradients import gradients, leaf_gradients
from capture.graph.propagate import NumberDecides, OperatorError
from capture.graph.symbols import Inexpressible
from capture.graph.tensor_meta import CannotPropagate, DependsOnData
from capture.graph.values import ScalarValue, TensorValue
from capture.guards.kinds import ExprHolds, StoragesAre
from capture.sources import ExpressionSource, SizeSource, Source, StrideSource
from capture.variables import conversion
from capture.variables.base import Variable, unsupported
from capture.variables.constant import (
    ConstantVariable,
    ScalarVariable,
    guard_evaluates,
    guard_expression,
)
from capture.variables.containers import ListVariable
from capture.variables.conversion import Numbers
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from capture.symbolic_convert.translator import Translator

_LARGEST = (1 << 63) - 1  # less than that: the guard's constants must fit as well


def bounded(tracer: Translator, v: Variable) -> Variable:
    """An argument of an operator: no operator takes an integer of more than 64 bits."""
    v = v.realize(tracer)
    if type(v) is not ScalarVariable or v.python_type() is not int or not v.known:
        return v
    if not -_LARGEST < v.example < _LARGEST:
        return v.specialize(tracer)
    text = f"(({v.text}) > -{_LARGEST}) and (({v.text}) < {_LARGEST})"
    guard_expression(tracer, text, v.sources)
    return v


def graph_call(
    tracer: Translator, kind: str, target: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """Add a call to the graph; its result as a variable."""
    nodes_before = tracer.graph.num_ops
    args = [tracer.bounded(a) for a in args]
    kwargs = {k: tracer.bounded(v) for k, v in kwargs.items()}
    # numbers of the graph stay numbers if they can, else become sizes, else constants
    for numbers in Numbers:
        graph_args = tuple(conversion.graph_argument(tracer, a, numbers) for a in args)
        graph_kwargs = {k: conversion.graph_argument(tracer, v, numbers) for k, v in kwargs.items()}
        try:
            result = tracer.add_to_graph(kind, target, graph_args, graph_kwargs)
            break
        except OperatorError as error:
            if any(map(_is_converted, [*args, *kwargs.values()])):
                unsupported(reasons.UNCAUGHT_EXCEPTION, "An error that tells of another type")
            tracer.raise_real(error.original)
        except CannotPropagate as error:
            last = numbers is Numbers.CONSTANTS
            if last or (numbers is Numbers.KEPT and not isinstance(error, NumberDecides)):
                of_data = isinstance(error, DependsOnData)
                reason = reasons.SIZE_DEPENDS_ON_DATA if of_data else reasons.OPERATOR_METADATA
                unsupported(reason, str(error))
    if tracer.graph.num_ops != nodes_before:
        tracer.mutations += 1
    return tracer.wrap_result(result)


def _is_converted(v: Variable) -> bool:
    """True for what stands in the graph as an instance of its base class."""
    return isinstance(v, ListVariable) and v.cls is not list


def decide(tracer: Translator, v: TensorVariable | ScalarVariable, what: str) -> bool:
    """The truth of a value of the graph, where it can be told beforehand; else break."""
    node = v.value.node if isinstance(v, TensorVariable) else v.scalar.node
    if isinstance(v, ScalarVariable):
        known = tracer.graph.known_truth(v.scalar)
        if known is not None:
            return known
    try:
        return tracer.foresight.outcome(node)
    except Undecidable:
        unsupported(reasons.DATA_DEPENDENT, what)


def guard_decisions(tracer: Translator) -> None:
    """Guard that what was decided on values of the graph would be decided so again."""
    found = tracer.foresight.check()
    if found is None:
        return
    check, sources, examples = found
    names = ", ".join(source.name for source in sources)
    tracer.guard(ExprHolds(tuple(sources), check, f"decisions on {names}"))
    tensors = [(s, e) for s, e in zip(sources, examples, strict=True) if s in tracer.real_tensors]
    if len(tensors) > 1:
        kept = tuple(source for source, _ in tensors)
        tracer.guard(StoragesAre.of(kept, [tensor for _, tensor in tensors]))


def scalar_item(tracer: Translator, tensor: TensorVariable) -> Variable:
    """``tensor.item()`` as a number that only the graph knows."""
    try:
        result = tracer.graph.item(tensor.value, tracer.stack_summary())
    except CannotPropagate as error:
        unsupported(reasons.DATA_DEPENDENT, str(error))
    tracer.mutations += 1
    return tracer.wrap_result(result)


def scalar_items(tracer: Translator, tensor: TensorVariable) -> list[Variable]:
    """The items of ``tensor.tolist()``, for a tensor of one dimension."""
    try:
        items = tracer.graph.items(tensor.value, tracer.stack_summary())
    except CannotPropagate as error:
        unsupported(reasons.DATA_DEPENDENT, str(error))
    tracer.mutations += 1
    return [tracer.wrap_result(item) for item in items]


def scalar_function(
    tracer: Translator, fn: Any, tensors: list[TensorVariable], pytype: type
) -> Variable:
    """A number that a function of tensors gives when the graph runs."""
    try:
        result = tracer.graph.number_of(
            fn, [tensor.value for tensor in tensors], pytype, tracer.stack_summary()
        )
    except CannotPropagate as error:
        unsupported(reasons.DATA_DEPENDENT, str(error))
    tracer.mutations += 1
    return tracer.wrap_result(result)


def assume(tracer: Translator, condition: Variable) -> None:
    """Take a condition for granted that only the graph knows; else the piece starts again."""
    if not isinstance(condition, ScalarVariable) or condition.known:
        unsupported(reasons.DATA_DEPENDENT, "A condition that is known beforehand")
    try:
        tracer.noting(assume, lambda: tracer.graph.assume_number(condition.scalar))
    except (CannotPropagate, Inexpressible):
        unsupported(reasons.DATA_DEPENDENT, "A condition on numbers that only the graph knows")
    tracer.mutations += 1


def scalar_call(
    tracer: Translator,
    fn: Any,
    args: list[Variable],
    text: str | None,
    sources: tuple[Source, ...],
    *,
    sure: bool = False,
) -> Variable:
    """Arithmetic on Python numbers in the graph; ``sure``: it cannot raise."""
    if text is not None:
        derived = _derived(tracer, fn, args, text, sources, sure=sure)
        if derived is not None:
            return derived
    graph_args = tuple(tracer.graph_argument(a) for a in args)
    try:
        result = tracer.add_to_graph("call_function", fn, graph_args, {}, sure=sure)
    except CannotPropagate as error:
        unsupported(reasons.OPERATOR_METADATA, str(error))
    tracer.mutations += 1
    if isinstance(result, ScalarValue):
        if sure:
            tracer.graph.spare(result)
        return ScalarVariable(result, text, sources, None)
    return tracer.wrap_result(result)


def _derived(
    tracer: Translator,
    fn: Any,
    args: list[Variable],
    text: str,
    sources: tuple[Source, ...],
    *,
    sure: bool,
) -> Variable | None:
    """A number that follows from sizes, computed before the graph; None for others."""
    if not any(isinstance(source, SizeSource | StrideSource) for source in sources):
        return None
    numbers = [
        v.value if isinstance(v, ConstantVariable) else v.example
        for v in args
        if isinstance(v, ConstantVariable | ScalarVariable)
    ]
    if len(numbers) != len(args) or any(type(n) not in (int, float, bool) for n in numbers):
        return None
    example = fn(*numbers)
    if type(example) not in (int, float, bool):
        return None
    if not sure and not all(isinstance(s, SizeSource | StrideSource) for s in sources):
        guard_evaluates(tracer, text, sources)
    key = ExpressionSource(text, sources)
    value = tracer.graph.derived_number("number", example, key)
    return ScalarVariable(value, text, sources, None)


def noting(tracer: Translator, target: Any, add: Callable[[], Any], *, sure: bool = False) -> Any:
    """Have a node added, and see what becomes of the piece if it raises on data."""
    graph = tracer.graph
    changed = graph.mutates_inputs or graph.uses_rng
    nodes_before = graph.num_ops
    raised_before, graph.may_raise = graph.may_raise, False
    assumed_before, graph.assumes = graph.assumes, False
    try:
        result = add()
        graph.may_raise = graph.may_raise and not sure
    finally:
        may_raise, graph.may_raise = graph.may_raise, graph.may_raise or raised_before
        assumes, graph.assumes = graph.assumes, graph.assumes or assumed_before
        if graph.shapes is not None:
            graph.shapes.note_place(tracer.place)
    if graph.num_ops != nodes_before or assumes:
        tracer.failure.note(tracer, target, changed, may_raise, assumes)
    return result


def add_leaf_gradients(
    tracer: Translator,
    outputs: list[TensorVariable],
    grad_outputs: list[TensorVariable | None],
    leaves: list[TensorVariable],
    layouts: list[torch.layout],
    fresh: list[bool],
    retain_graph: bool,
    watched: list[TensorVariable],
) -> list[TensorVariable]:
    """Add a backward call to the graph; the gradients of ``leaves``, and of what is watched."""
    found: list[TensorValue] = tracer.noting(
        leaf_gradients,
        lambda: tracer.graph.add_leaf_gradients(
            [v.value for v in outputs],
            [None if v is None else v.value for v in grad_outputs],
            [v.value for v in leaves],
            layouts,
            fresh,
            retain_graph,
            [v.value for v in watched],
            tracer.stack_summary(),
        ),
    )
    tracer.mutations += 1
    wrapped = []
    for value in found:
        gradient = tracer.wrap_result(value)
        assert isinstance(gradient, TensorVariable)
        wrapped.append(gradient)
    return wrapped


def add_gradients(
    tracer: Translator,
    outputs: list[TensorVariable],
    grad_outputs: list[TensorVariable | None],
    inputs: list[TensorVariable],
    options: dict[str, bool],
) -> list[Variable]:
    """Add a call of ``torch.autograd.grad`` to the graph; the gradients, or None."""
    found: list[TensorValue | None] = tracer.noting(
        gradients,
        lambda: tracer.graph.add_gradients(
            [v.value for v in outputs],
            [None if v is None else v.value for v in grad_outputs],
            [v.value for v in inputs],
            options,
            tracer.stack_summary(),
        ),
    )
    tracer.mutations += 1
    return [tracer.wrap_result(value) for value in found]
