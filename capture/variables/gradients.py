"""Holds the ``.grad`` attribute of tensors: reading it, and writing it as a side effect.

Within a piece the attribute is the variable that was stored last; the journal writes it to the
real tensor in the end. Nothing in a graph depends on the attribute itself: a backward call in the
graph takes and gives gradients as values.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from capture import break_reasons as reasons
from capture.graph.subgraph import SubGraph
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.graph.tensor_meta import TensorMeta

__all__ = ["is_none", "read_grad", "store_grad"]


def is_none(v: Variable | None) -> bool:
    """True for the variable of ``None``."""
    return isinstance(v, ConstantVariable) and v.value is None


def read_grad(tracer: Tracer, obj: TensorVariable) -> Variable:
    """``tensor.grad``; Python reads it of a tensor that is no leaf and has none: that warns."""
    graph = tracer.graph
    while isinstance(graph, SubGraph):
        graph.reads_grad = True
        graph = graph.parent
    if obj.grad is None:
        if obj.meta.has_grad_fn and not _has_real_grad(tracer, obj):
            unsupported(reasons.UNKNOWN_ATTRIBUTE, "Tensor.grad of a tensor that is no leaf")
        obj.grad = NONE if obj.source is None else tracer.tensor_grad(obj).realize(tracer)
        obj.initial_grad = obj.grad
    return obj.grad


def _has_real_grad(tracer: Tracer, obj: TensorVariable) -> bool:
    real = tracer.real_value(obj)
    if real is MISSING:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return real.grad is not None


def store_grad(tracer: Tracer, obj: TensorVariable, value: Variable) -> None:
    """``tensor.grad = value``; what eager refuses is left to Python, which raises."""
    value = value.realize(tracer)
    what = "an assignment to Tensor.grad"
    if obj.meta.has_grad_fn:
        unsupported(reasons.SIDE_EFFECT, f"{what} of a tensor that is no leaf")
    if not is_none(value) and not (
        isinstance(value, TensorVariable) and value is not obj and _fits(obj.meta, value.meta)
    ):
        unsupported(reasons.SIDE_EFFECT, f"{what} of something that does not fit")
    obj.grad = value
    tracer.effects.set_grad(obj, value)


def _fits(leaf: TensorMeta, grad: TensorMeta) -> bool:
    return (
        (grad.is_plain or grad.is_sparse)
        and (leaf.shape, leaf.dtype, leaf.device) == (grad.shape, grad.dtype, grad.device)
        and not leaf.is_inference
        and not grad.is_inference
    )
