"""Holds backward calls: ``Tensor.backward`` and ``torch.autograd.backward`` inside of a graph.

The graph gets one node that takes the differentiated tensors and their leaves and gives gradients;
what eager then does with them (set ``grad``, or add to the one that is there) is done here, as a
side effect and as an operator. Whatever is not sure to go like that is left to Python.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from capture import break_reasons as reasons
from capture.errors import GraphBreak
from capture.graph.tensor_meta import CannotPropagate
from capture.variables import hooked_backward
from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.gradients import is_none, read_grad
from capture.variables.leaf_hooks import LeafHooks, accumulate, arrivals, hooks_of
from capture.variables.sizes import pin_sizes
from capture.variables.tensor import TensorVariable

__all__ = ["function_backward", "function_grad", "tensor_backward"]

_METHOD = "`Tensor.backward()`"
_FUNCTION = "`torch.autograd.backward()`"
_METHOD_NAMES = ("self", "gradient", "retain_graph", "create_graph", "inputs")
_FUNCTION_NAMES = (
    "tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs",
)  # fmt: skip
_GRAD = "`torch.autograd.grad()`"
_GRAD_NAMES = (
    "outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs",
    "allow_unused", "is_grads_batched", "materialize_grads",
)  # fmt: skip


def leave(call: str, why: str) -> NoReturn:
    """Leave an autograd call to Python."""
    raise GraphBreak(reasons.BACKWARD, what=f"{call} ({why})")


def bind(
    call: str, names: tuple[str, ...], args: list[Variable], kwargs: dict[str, Variable]
) -> dict[str, Variable]:
    """The arguments by name; those not given are left out."""
    if len(args) > len(names) or not set(kwargs) <= set(names[len(args) :]):
        leave(call, "it does not take these arguments")
    return {**dict(zip(names, args, strict=False)), **kwargs}


def flag(tracer: Tracer, call: str, v: Variable | None, default: bool) -> bool:
    """A truth value that is known; None stands for the default."""
    if v is None:
        return default
    value = tracer.as_python(v)
    if value is None:
        return default
    if type(value) is not bool:
        leave(call, "a flag is no constant")
    return value


def tensor_backward(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """``tensor.backward(...)``."""
    given = bind(_METHOD, _METHOD_NAMES, args, kwargs)
    tensor = given.get("self", NONE).realize(tracer)
    if not isinstance(tensor, TensorVariable):
        leave(_METHOD, "it is called on no plain tensor")
    gradient = given.get("gradient", NONE).realize(tracer)
    return _backward(tracer, _METHOD, [tensor], [gradient], given)


def function_backward(
    tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """``torch.autograd.backward(...)``."""
    given = bind(_FUNCTION, _FUNCTION_NAMES, args, kwargs)
    if "tensors" not in given or not is_none(given.get("grad_variables", NONE).realize(tracer)):
        leave(_FUNCTION, "it does not take these arguments")
    tensors = tensors_of(tracer, _FUNCTION, given["tensors"])
    gradients = gradients_of(tracer, _FUNCTION, given.get("grad_tensors", NONE), len(tensors))
    return _backward(tracer, _FUNCTION, tensors, gradients, given)


def function_grad(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """``torch.autograd.grad(...)``."""
    given = bind(_GRAD, _GRAD_NAMES, args, kwargs)
    if "outputs" not in given or "inputs" not in given:
        leave(_GRAD, "it does not take these arguments")
    if flag(tracer, _GRAD, given.get("is_grads_batched"), False):
        leave(_GRAD, "with batched gradients")
    if not flag(tracer, _GRAD, given.get("only_inputs"), True):
        leave(_GRAD, "without only_inputs")
    if isinstance(given["inputs"].realize(tracer), DictVariable):
        leave(_GRAD, "with a dict of inputs")
    outputs = tensors_of(tracer, _GRAD, given["outputs"])
    inputs = tensors_of(tracer, _GRAD, given["inputs"])
    gradients = gradients_of(tracer, _GRAD, given.get("grad_outputs", NONE), len(outputs))
    grad_outputs = check_outputs(tracer, _GRAD, outputs, gradients)
    if hooked_backward.reached(tracer, outputs, lambda why: leave(_GRAD, why)):
        leave(_GRAD, "a tensor on the way has hooks")
    create_graph = flag(tracer, _GRAD, given.get("create_graph"), False)
    options = {
        "retain_graph": flag(tracer, _GRAD, given.get("retain_graph"), create_graph),
        "create_graph": create_graph,
        "materialize_grads": flag(tracer, _GRAD, given.get("materialize_grads"), False),
    }
    unused = flag(tracer, _GRAD, given.get("allow_unused"), options["materialize_grads"])
    for tensor in inputs:
        if not tensor.meta.requires_grad:
            leave(_GRAD, "an input does not require grad")
        if _hooks_of(tracer, _GRAD, tensor):
            leave(_GRAD, "a leaf has hooks")
    if options["materialize_grads"] and not unused:
        leave(_GRAD, "these flags exclude each other")
    try:
        found = tracer.add_gradients(outputs, grad_outputs, inputs, options)
    except CannotPropagate as error:
        leave(_GRAD, error.reason)
    if not unused and any(map(is_none, found)):
        leave(_GRAD, "an input is not used")
    return TupleVariable(found)


def tensors_of(tracer: Tracer, call: str, v: Variable) -> list[TensorVariable]:
    """One tensor, or those of a list, tuple or dict."""
    v = v.realize(tracer)
    if isinstance(v, TensorVariable):
        return [v]
    items: list[Variable]
    if isinstance(v, DictVariable) and v.cls is dict:
        items = [value for _, value in v.load(tracer).values()]
    else:
        items = [*tracer.iterate(v)]
    found = [item.realize(tracer) for item in items]
    tensors = [item for item in found if isinstance(item, TensorVariable)]
    if not tensors or len(tensors) != len(found):
        leave(call, "it is given something else than plain tensors")
    return tensors


def gradients_of(tracer: Tracer, call: str, v: Variable, count: int) -> list[Variable]:
    """The gradients of ``count`` outputs; None stands for all of them."""
    v = v.realize(tracer)
    if is_none(v):
        return [NONE] * count
    if isinstance(v, TensorVariable):
        return [v]
    if not isinstance(v, (ListVariable, TupleVariable)):
        leave(call, "the gradients are no tensors")
    return [item.realize(tracer) for item in v.items(tracer)]


def check_outputs(
    tracer: Tracer, call: str, outputs: list[TensorVariable], gradients: list[Variable]
) -> list[TensorVariable | None]:
    """The gradients, all of which fit their outputs; eager's errors are left to Python."""
    if tracer.graph.state.inference_mode:
        leave(call, "inference mode is on")
    if len(outputs) != len(gradients):
        leave(call, "there are more outputs than gradients, or fewer")
    checked: list[TensorVariable | None] = []
    for output, gradient in zip(outputs, gradients, strict=True):
        meta = output.meta
        if not meta.requires_grad or not meta.dtype.is_floating_point:
            leave(call, "a tensor does not require grad, or is complex")
        if isinstance(gradient, TensorVariable):
            given = gradient.meta
            if (given.shape, given.dtype, given.device) != (meta.shape, meta.dtype, meta.device):
                leave(call, "a gradient does not fit")
            if not given.is_plain:
                leave(call, "a gradient is no plain tensor")
            checked.append(gradient)
        elif is_none(gradient) and pin_sizes(tracer, output.value).numel == 1:
            checked.append(None)
        else:
            leave(call, "a tensor of several elements needs a gradient")
    return checked


def _backward(
    tracer: Tracer,
    call: str,
    outputs: list[TensorVariable],
    gradients: list[Variable],
    given: dict[str, Variable],
) -> Variable:
    create_graph = flag(tracer, call, given.get("create_graph"), False)
    retain_graph = flag(tracer, call, given.get("retain_graph"), create_graph)
    if create_graph:
        leave(call, "with create_graph")
    grad_outputs = check_outputs(tracer, call, outputs, gradients)
    reached = _leaves(tracer, call, outputs, grad_outputs)
    inputs = given.get("inputs", NONE).realize(tracer)
    if not is_none(inputs):
        reached = _chosen(call, reached, tensors_of(tracer, call, inputs))
    if not reached:
        leave(call, "it reaches no leaf")
    leaves, layouts = [leaf for leaf, _ in reached], [layout for _, layout in reached]

    def refuse(why: str) -> NoReturn:
        leave(call, why)

    hooks = [_hooks_of(tracer, call, leaf) for leaf in leaves]
    grads = [read_grad(tracer, leaf) for leaf in leaves]
    _check_grads(call, leaves, layouts, grads)
    fresh = [is_none(grad) or bool(own) for grad, own in zip(grads, hooks, strict=True)]
    watches = hooked_backward.reached(tracer, outputs, refuse)
    if watches:
        hooked = list(zip(leaves, layouts, hooks, fresh, strict=True))
        hooked_backward.run(tracer, outputs, grad_outputs, hooked, watches, retain_graph, refuse)
        return NONE
    order = arrivals(tracer, outputs, grad_outputs, leaves, hooks)
    if order is None:
        leave(call, "several leaves have hooks, whose order cannot be told")
    found = tracer.add_leaf_gradients(outputs, grad_outputs, leaves, layouts, fresh, retain_graph)
    accumulate(tracer, [(leaves[n], found[n], hooks[n]) for n in order], refuse)
    return NONE


Leaf = tuple[TensorVariable, torch.layout]
"""A leaf and the layout of the gradient that it gets."""


def _leaves(
    tracer: Tracer,
    call: str,
    outputs: list[TensorVariable],
    grad_outputs: list[TensorVariable | None],
) -> list[Leaf]:
    """The leaves behind the outputs, in the order in which the graph came upon them."""
    given = [None if v is None else v.value for v in grad_outputs]
    try:
        values = tracer.graph.leaves_of([v.value for v in outputs], given)
    except CannotPropagate as error:
        leave(call, error.reason)
    leaves = []
    for value, layout in values:
        leaf = tracer.tensors.get(id(value))
        if not isinstance(leaf, TensorVariable) or not leaf.meta.requires_grad:
            leave(call, "a leaf does not require grad any more")
        leaves.append((leaf, layout))
    return leaves


def _chosen(call: str, leaves: list[Leaf], inputs: list[TensorVariable]) -> list[Leaf]:
    """Those leaves that ``inputs`` names."""
    wanted = {id(v) for v in inputs}
    if not wanted <= {id(leaf) for leaf, _ in leaves}:
        leave(call, "one of the inputs is no leaf behind the tensors")
    return [(leaf, layout) for leaf, layout in leaves if id(leaf) in wanted]


def _hooks_of(tracer: Tracer, call: str, leaf: TensorVariable) -> LeafHooks:
    """The hooks of a leaf; what else may tell of its gradient is left to Python."""
    real = tracer.real_value(leaf)
    if real is MISSING or leaf.source is None:
        return hooks_of(tracer, leaf)
    if real.is_leaf and real.grad_dtype != real.dtype:
        leave(call, "a leaf's gradient has a dtype of its own")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        if _has_accumulator(real):
            leave(call, "a leaf's gradient is of interest to somebody else")
    return hooks_of(tracer, leaf)


def _has_accumulator(leaf: Any) -> bool:
    """True if something keeps the node that accumulates the gradient, maybe for hooks on it."""
    edge: Any = torch.autograd.graph.get_gradient_edge
    edge(leaf).node.metadata["capture"] = True
    return "capture" in edge(leaf).node.metadata


def _check_grads(
    call: str, leaves: list[TensorVariable], layouts: list[torch.layout], grads: list[Variable]
) -> None:
    """What is there already can be added to in any order."""
    groups = set()
    for leaf, layout, grad in zip(leaves, layouts, grads, strict=True):
        if isinstance(grad, ConstantVariable):
            continue
        if layout is not torch.strided:
            leave(call, "a gradient that is not dense is added to the one there")
        if not isinstance(grad, TensorVariable) or not grad.meta.is_plain:
            leave(call, "a grad is no plain tensor")
        if grad.meta.requires_grad or grad.meta.dtype != leaf.meta.dtype:
            leave(call, "a grad requires grad itself, or has another dtype")
        if grad.meta.is_inference or grad.value.alias_group in groups:
            leave(call, "a grad shares memory with another one")
        groups.add(grad.value.alias_group)
