"""Holds full backward hooks of modules: torch's own code is executed, on identities in the graph.

``nn.Module`` puts a node of autograd around what goes in and what comes out of a module with such
hooks. Where each of these is one tensor, the node is an identity with a hook of its own.
"""

from __future__ import annotations

from typing import Any

from torch.nn.modules._functions import BackwardHookFunction
from torch.utils import hooks

from capture import break_reasons as reasons
from capture.graph.output_graph import OutputGraph
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.containers import TupleVariable
from capture.variables.tensor import TensorVariable
from capture.variables.watches import NodeVariable, can_watch

__all__ = ["IDENTITY", "identity"]

_SETUP: Any = hooks.BackwardHook


@python_rule_for(_SETUP.setup_input_hook, _SETUP.setup_output_hook)
def _set_up(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """Note who sets up a hook: Python does, if no backward call of the piece runs it."""
    if type(tracer.graph) is not OutputGraph or kwargs or len(args) != 2:
        unsupported(reasons.UNKNOWN_CALLABLE, "BackwardHook in a function that a call takes")
    tracer.sets_up_hooks = tracer.ordinal
    return None


def identity(tracer: Tracer, given: list[Variable]) -> Variable:
    """``BackwardHookFunction.apply(tensor)``."""
    tensor = given[0].realize(tracer) if len(given) == 1 else None
    if not isinstance(tensor, TensorVariable) or not tensor.meta.dtype.is_floating_point:
        unsupported(reasons.UNKNOWN_CALLABLE, "a backward hook of a module of several tensors")
    same = tracer.graph_call("call_method", "view_as", [tensor, tensor], {})
    if not isinstance(same, TensorVariable) or not can_watch(tracer, same):
        unsupported(reasons.UNKNOWN_CALLABLE, "a backward hook of a module, whose tensor is known")
    same.grad_node = NodeVariable(same, tracer.sets_up_hooks)
    return TupleVariable([same])


IDENTITY = BackwardHookFunction
