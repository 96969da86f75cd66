"""Holds the capture of functions that a call takes and runs itself (``checkpoint``, ``vmap``).

Their code is executed symbolically into a graph of its own. That tells what they read, which is
guarded, and that they change nothing that is older than the call. Must not know the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from capture import break_reasons as reasons
from capture.graph.state import TorchState
from capture.graph.subgraph import SubGraph
from capture.graph.tensor_meta import CannotPropagate
from capture.graph.values import TensorValue
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.tensor import TensorVariable

__all__ = ["execute", "finish", "rebuild", "refuse_pending_effects"]

Template = Any
"""The structure of a result: a position among the tensors, a constant, a container of them."""


def refuse_pending_effects(tracer: Tracer, what: str) -> None:
    """Break before a node that runs the program's own code: it must see what was written so far.

    Writes are replayed behind the graph.
    """
    if tracer.effects.pending:
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
) -> tuple[fx.GraphModule, list[Variable], Template]:
    """The module of a function's graph, what it takes from around it, and its result's form."""
    tensors: list[TensorValue] = []
    template = _template(tracer, result, tensors)
    try:
        module = graph.finish(tensors)
    except CannotPropagate as error:
        unsupported(reasons.OPERATOR_METADATA, str(error))
    return module, [tracer.wrap_result(value) for value in graph.lifted], template


def _template(tracer: Tracer, v: Variable, tensors: list[TensorValue]) -> Template:
    v = v.realize(tracer)
    if isinstance(v, TensorVariable):
        if v.value in tensors:
            unsupported(reasons.UNKNOWN_OPERATION, "one tensor twice in a function's result")
        tensors.append(v.value)
        return _Place(len(tensors) - 1)
    if isinstance(v, ConstantVariable):
        return v.value
    if isinstance(v, (TupleVariable, ListVariable)) and v.cls in (tuple, list):
        return v.cls([_template(tracer, item, tensors) for item in v.items(tracer)])
    if isinstance(v, DictVariable) and v.cls is dict:
        made = {}
        for key, item in v.load(tracer).values():
            if not isinstance(key, ConstantVariable):
                unsupported(reasons.UNKNOWN_OPERATION, f"{key.describe()} as a key of a result")
            made[key.value] = _template(tracer, item, tensors)
        return made
    unsupported(reasons.UNKNOWN_OPERATION, f"{v.describe()} as a function's result")


class _Place(int):
    """A tensor's place among the outputs."""


def rebuild(template: Template, tensors: Any) -> Any:
    """The result of this form with these tensors in it."""
    kind = type(template)
    if kind is _Place:
        return tensors[template]
    if kind is tuple or kind is list:
        return kind(rebuild(item, tensors) for item in template)
    if kind is dict:
        return {key: rebuild(item, tensors) for key, item in template.items()}
    return template
