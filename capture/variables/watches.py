"""Holds hooks of the program on tensors that the graph computes, until a backward call runs them.

Nothing of them is in the graph: they are executed symbolically behind the node that gives the
gradient. So a piece must not end before its backward call: it is captured again then, with the
registration left to Python. Must not know backward calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from capture import break_reasons as reasons
from capture.graph.output_graph import OutputGraph
from capture.variables.attributes import register_getattr
from capture.variables.base import CallableVariable, Tracer, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import TupleVariable
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from collections.abc import Callable

    from capture.graph.history import History

__all__ = ["NodeVariable", "Watch", "can_watch", "watch"]


class Watch:
    """One hook.

    Attributes:
        tensor: whose gradient it gets.
        history: what autograd knew of the tensor when the hook was registered.
        run: what executes it on a gradient, and gives what it returned, or None.
        ordinal: the instruction that registered it.
    """

    __slots__ = ("history", "ordinal", "removed", "run", "tensor")

    def __init__(
        self,
        tensor: TensorVariable,
        run: Callable[[Tracer, TensorVariable], Variable],
        ordinal: int,
    ) -> None:
        history = tensor.value.history
        assert history is not None
        self.tensor = tensor
        self.history: History = history
        self.run = run
        self.ordinal = ordinal
        self.removed = False

    @property
    def settled(self) -> bool:
        """True if no backward call can run it any more."""
        return self.removed or self.history.freed


def can_watch(tracer: Tracer, tensor: TensorVariable) -> bool:
    """True if a backward call in the piece may run a hook on the tensor."""
    return (
        type(tracer.graph) is OutputGraph
        and tensor.meta.has_grad_fn
        and tensor.source is None
        and tensor.value.history is not None
    )


def watch(
    tracer: Tracer,
    tensor: TensorVariable,
    run: Callable[[Tracer, TensorVariable], Variable],
    ordinal: int | None = None,
) -> Watch:
    """Register a hook."""
    made = Watch(tensor, run, tracer.ordinal if ordinal is None else ordinal)
    tracer.watches.append(made)
    tracer.mutations += 1
    return made


class NodeVariable(Variable):
    """The node of autograd behind a tensor that is nothing but another one: an identity."""

    __slots__ = ("ordinal", "tensor")

    def __init__(self, tensor: TensorVariable, ordinal: int) -> None:
        super().__init__(None)
        self.tensor = tensor
        self.ordinal = ordinal
        self.created_at = ordinal

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return torch.autograd.graph.Node


class _NodeMethod(CallableVariable):
    __slots__ = ("act",)

    def __init__(self, act: Callable[[Tracer, list[Variable]], Variable]) -> None:
        super().__init__(None)
        self.act = act

    def call(self, tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """Call it."""
        return self.act(tracer, args)


def _node_attribute(tracer: Tracer, node: Variable, name: str) -> Variable:
    assert isinstance(node, NodeVariable)
    if name == "name":
        return _NodeMethod(lambda tracer, args: ConstantVariable("BackwardHookFunctionBackward"))
    if name == "register_hook":
        return _NodeMethod(lambda tracer, args: _register(tracer, node, args[0]))
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"Node.{name}")


def _register(tracer: Tracer, node: NodeVariable, hook: Variable) -> Variable:
    """A node's hook gets the gradients that go out of the node, and those that came in."""

    def run(tracer: Tracer, gradient: TensorVariable) -> Variable:
        result = tracer.call(hook, [TupleVariable([gradient]), TupleVariable([gradient])], {})
        found: Any = result.realize(tracer)
        if not isinstance(found, TupleVariable):
            return found  # type: ignore[no-any-return]
        items = found.items(tracer)
        return items[0] if len(items) == 1 else found

    watch(tracer, node.tensor, run, node.ordinal)
    return NONE


register_getattr(NodeVariable, _node_attribute)
