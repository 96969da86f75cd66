"""Holds hooks on tensors that the graph computes: a node registers them on the real tensor.

A hook that refers to nothing but the gradient is executed symbolically into a graph of its own;
autograd runs that as it runs the program's, in a backward call of the graph or behind it. What
another hook refers to may have changed by then: it is executed by the backward call, if that is in
the same piece. Hooks on tensors from outside stay there: they are left to Python.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from capture import break_reasons as reasons
from capture.graph.output_graph import OutputGraph
from capture.graph.subgraph import SubGraph
from capture.graph.tensor_meta import contiguous_strides
from capture.graph.values import GraphFunction
from capture.instructions.decode import decode
from capture.instructions.ops import Op
from capture.variables.attributes import register_getattr
from capture.variables.base import CallableVariable, Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import NONE
from capture.variables.functions import FunctionVariable
from capture.variables.gradients import is_none
from capture.variables.higher_order.callbacks import execute, finish
from capture.variables.sizes import pin_sizes
from capture.variables.tensor import TensorVariable
from capture.variables.watches import Watch, can_watch, watch

__all__: list[str] = []


class HandleVariable(Variable):
    """What ``register_hook`` returned: the real one exists when the graph runs, or never."""

    __slots__ = ("watch",)

    def __init__(self) -> None:
        super().__init__(None)
        self.watch: Watch | None = None

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return RemovableHandle


class Removal(CallableVariable):
    """``handle.remove``."""

    __slots__ = ("watch",)

    def __init__(self, watch: Watch) -> None:
        super().__init__(None)
        self.watch = watch

    def call(self, tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
        """Forget the hook."""
        self.watch.removed = True
        tracer.mutations += 1
        return NONE


def _attribute(tracer: Tracer, handle: Variable, name: str) -> Variable:
    assert isinstance(handle, HandleVariable)
    if name == "remove" and handle.watch is not None:
        return Removal(handle.watch)
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"RemovableHandle.{name}")


register_getattr(HandleVariable, _attribute)


@rule(torch.Tensor.register_hook)
def _register_hook(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 2 or kwargs or type(tracer.graph) is not OutputGraph:
        return None
    tensor, hook = args[0], args[1]
    if not isinstance(tensor, TensorVariable) or not tensor.meta.has_grad_fn:
        return None
    if tensor.source is not None:
        return None
    if not _refers_to_nothing(hook):
        return _watched(tracer, tensor, hook)
    known = pin_sizes(tracer, tensor.value)
    meta = known._replace(
        stride=contiguous_strides(known.shape), requires_grad=False, is_leaf=True,
        has_grad_fn=False, is_conj=False, is_neg=False, cls=torch.Tensor,
    )  # fmt: skip

    def run() -> Variable:
        graph = tracer.graph
        assert isinstance(graph, SubGraph)
        graph.layout_known = False  # a gradient may have any strides
        return tracer.call(hook, [tracer.wrap_result(graph.add_own_input(meta))], {})

    state = tracer.graph.state._replace(grad_enabled=False)
    result, graph = execute(tracer, "a hook", run, state)
    if graph.writes_own_input() or not (is_none(result) or _fits(result, known)):
        unsupported(reasons.UNKNOWN_CALLABLE, "a hook that does more than compute a gradient")
    module, lifted, _ = finish(tracer, result, graph)
    gives = not is_none(result)

    def call(tensor: Any, *taken: Any) -> None:
        def changed(gradient: Any) -> Any:
            found = module.forward(gradient, *taken)
            return found[0] if gives else None

        tensor.register_hook(changed)

    target = GraphFunction("register_hook", call, traceable=not graph.uses_rng, effect=True)
    tracer.graph_call("call_function", target, [tensor, *lifted], {})
    handle = HandleVariable()
    handle.created_at = tracer.ordinal
    return handle


def _watched(tracer: Tracer, tensor: TensorVariable, hook: Variable) -> Variable | None:
    """Register a hook that a backward call of the same piece is to run."""
    if not can_watch(tracer, tensor):
        return None
    handle = HandleVariable()
    handle.watch = watch(
        tracer, tensor, lambda tracer, g: tracer.call(hook, [g], {}).realize(tracer)
    )
    handle.created_at = tracer.ordinal
    return handle


@rule(torch.Tensor.retain_grad)
def _retain_grad(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    tensor = args[0]
    if not isinstance(tensor, TensorVariable) or not can_watch(tracer, tensor):
        return None

    def run(tracer: Tracer, gradient: TensorVariable) -> Variable:
        assert isinstance(tensor, TensorVariable)
        if tensor.grad is None or is_none(tensor.grad):
            tensor.grad = tracer.graph_call("call_method", "clone", [gradient], {})
        else:
            tensor.grad = tracer.graph_call("call_method", "add", [tensor.grad, gradient], {})
        return NONE

    if tensor.grad is None:
        tensor.grad = NONE
    tensor.retains_grad = True
    watch(tracer, tensor, run)
    return NONE


def _refers_to_nothing(hook: Variable) -> bool:
    """True for a function of the gradient and of torch's functions alone."""
    if type(hook) is not FunctionVariable or hook.closure or hook.defaults or hook.kwdefaults:
        return False
    known = hook.globals.value
    for inst in decode(hook.code).instructions:
        if inst.op in _REFERRING:
            value = known.get(inst.arg) if isinstance(known, dict) else None
            if inst.op is not Op.LOAD_GLOBAL or not isinstance(value, types.ModuleType):
                return False
            if value.__name__.partition(".")[0] != "torch":
                return False
    return True


_REFERRING = frozenset({Op.LOAD_GLOBAL, Op.LOAD_NAME, Op.IMPORT_NAME, Op.MAKE_FUNCTION})


def _fits(result: Variable, meta: Any) -> bool:
    if not isinstance(result, TensorVariable):
        return False
    found = result.meta
    return (found.shape, found.dtype, found.device) == (meta.shape, meta.dtype, meta.device)
