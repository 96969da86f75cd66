"""Holds the capture of functions that a call takes and runs itself (``checkpoint``, ``vmap``).

Their code is executed symbolically into a graph of its own. That tells what they read, which is
guarded, and that they change nothing that is older than the call. Must not know the calls.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from torch import fx

from capture import break_reasons as reasons
from capture.graph.state import TorchState
from capture.graph.subgraph import SubGraph
from capture.graph.tensor_meta import CannotPropagate
from capture.graph.values import TensorValue
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.tensor import TensorVariable

__all__ = [
    "Form",
    "Place",
    "execute",
    "finish",
    "flatten",
    "form_of",
    "rebuild",
    "refuse_pending_effects",
    "variables",
]

Form = Any
"""A value with ``Place`` for its tensors: constants and containers are what they are."""


def refuse_pending_effects(tracer: Tracer, what: str, *, reads_grad: bool = True) -> None:
    """Break before a node that runs the program's own code: it must see what was written so far.

    Writes are replayed behind the graph.

    Args:
        what: the call.
        reads_grad: whether the code may read ``grad`` of a tensor.
    """
    effects = tracer.effects
    if effects.pending if reads_grad else effects.pending_beside_grad:
        unsupported(reasons.SIDE_EFFECT, f"{what}, which may see what was written before")


def execute(
    tracer: Tracer,
    name: str,
    run: Callable[[], Variable],
    state: TorchState | None = None,
) -> tuple[Variable, SubGraph]:
    """Run a function of the program into a graph of its own; its result and the graph.

    Raises:
        GraphBreak: if it breaks, or changes what is older than the call.
    """
    outer = tracer.graph
    inner = SubGraph(name, outer, state)
    tracer.graph = inner
    try:
        with tracer.effects.undisturbed(f"{name} changes an object that is older than the call"):
            result = run().realize(tracer)
    finally:
        tracer.graph = outer
    return result, inner


def finish(
    tracer: Tracer, result: Variable, graph: SubGraph
) -> tuple[fx.GraphModule, list[Variable], Form]:
    """The module of a function's graph, what it takes from around it, and its result's form."""
    tensors: list[TensorValue] = []
    form = form_of(tracer, result, tensors)
    try:
        module = graph.finish(tensors)
    except CannotPropagate as error:
        unsupported(reasons.OPERATOR_METADATA, str(error))
    return module, [tracer.wrap_result(value) for value in graph.lifted], form


def form_of(tracer: Tracer, v: Variable, tensors: list[TensorValue]) -> Form:
    """The form of a value, with its tensors added to ``tensors``."""
    v = v.realize(tracer)
    if isinstance(v, TensorVariable):
        tensors.append(v.value)
        return Place(len(tensors) - 1)
    if isinstance(v, ScalarVariable):
        return v.specialize(tracer).value
    if isinstance(v, ConstantVariable):
        return v.value
    if isinstance(v, (TupleVariable, ListVariable)) and v.cls in (tuple, list):
        return v.cls([form_of(tracer, item, tensors) for item in v.items(tracer)])
    if isinstance(v, DictVariable) and v.cls in (dict, collections.OrderedDict):
        made = v.cls()
        for key, item in v.load(tracer).values():
            if not isinstance(key, ConstantVariable):
                unsupported(reasons.UNKNOWN_OPERATION, f"{key.describe()} as a key of a result")
            made[key.value] = form_of(tracer, item, tensors)
        return made
    unsupported(reasons.UNKNOWN_OPERATION, f"{v.describe()} between a function and its caller")


class Place(int):
    """A tensor's place among all tensors of a value."""


def rebuild(form: Form, tensors: Any) -> Any:
    """The value of this form with these tensors in it."""
    if type(form) is Place:
        return tensors[form]
    kind = type(form)
    if kind is tuple or kind is list:
        return kind(rebuild(item, tensors) for item in form)
    if isinstance(form, dict):
        return kind((key, rebuild(item, tensors)) for key, item in form.items())
    return form


def variables(tracer: Tracer, form: Form, tensors: list[Variable]) -> Variable:
    """The variable of a value of this form."""
    if type(form) is Place:
        return tensors[form]
    kind = type(form)
    if kind is tuple:
        return TupleVariable([variables(tracer, item, tensors) for item in form])
    if kind is list:
        return ListVariable([variables(tracer, item, tensors) for item in form])
    if isinstance(form, dict):
        made = DictVariable(kind)
        for key, item in form.items():
            made.entries[key] = (tracer.wrap_result(key), variables(tracer, item, tensors))
        return made
    return tracer.wrap_result(form)


def flatten(form: Form, value: Any, tensors: list[Any]) -> None:
    """Add the tensors of a real value of this form to ``tensors``, in the order of the places."""
    if type(form) is Place:
        tensors.append(value)
    elif isinstance(form, (tuple, list)):
        for part, item in zip(form, value, strict=True):
            flatten(part, item, tensors)
    elif isinstance(form, dict):
        for key, part in form.items():
            flatten(part, value[key], tensors)
