"""Holds what takes Python numbers out of tensors: they are numbers that only the graph knows.

Where the program goes on computing with such a number, stores or returns it, it stays in the graph
and is handed over when the graph has run; where the program has to know it, the graph breaks.
"""

from __future__ import annotations

import operator

import torch

from capture import break_reasons as reasons
from capture.config import settings as config
from capture.errors import GraphBreak
from capture.polyfills.optimizers import OPTIMIZERS
from capture.variables.base import Tracer, Variable, stamp
from capture.variables.constant import FALSE, ConstantVariable, ScalarVariable
from capture.variables.containers import ListVariable
from capture.variables.tensor import TensorVariable

__all__ = ["as_bool", "captures_numbers", "read_number", "takes_numbers"]

_MOST_ITEMS = 64


def takes_numbers(tracer: Tracer) -> bool:
    """True where every number in a tensor may become a number of the graph."""
    return config.capture_scalar_outputs and tracer.graph.takes_data


def captures_numbers(tracer: Tracer) -> bool:
    """True where a number in a tensor becomes a number of the graph.

    Torch's optimizers take a step's count out of a tensor, to go on in Python's arithmetic.
    """
    if takes_numbers(tracer):
        return True
    return tracer.calling_code().co_filename.startswith(OPTIMIZERS)


def read_number(
    tracer: Tracer, name: str, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """Carry out what takes numbers out of tensors; None if the graph has to break there."""
    if not args or not captures_numbers(tracer):
        return None
    tensor = args[0].realize(tracer)
    if not isinstance(tensor, TensorVariable):
        return None
    if name == "item" and len(args) == 1 and not kwargs:
        return tracer.scalar_item(tensor)
    if not takes_numbers(tracer):
        return None
    if name == "tolist" and len(args) == 1 and not kwargs:
        return _to_list(tracer, tensor)
    if name in ("is_nonzero", "__bool__") and len(args) == 1 and not kwargs:
        return as_bool(tracer, tensor)
    if name in ("equal", "allclose") and len(args) > 1:
        other = args[1].realize(tracer)
        if isinstance(other, TensorVariable):
            return _compare(tracer, name, tensor, other, args[2:], kwargs)
    return None


def as_bool(tracer: Tracer, v: TensorVariable | ScalarVariable) -> Variable:
    """``bool(v)`` of what only the graph knows."""
    number: Variable = v
    if isinstance(v, TensorVariable):
        number = tracer.scalar_item(v)
    if number.python_type() is bool:
        return number
    return tracer.scalar_call(operator.ne, [number, ConstantVariable(0)], None, ())


def _to_list(tracer: Tracer, tensor: TensorVariable) -> Variable | None:
    shape = tensor.meta.shape
    if not shape:
        return tracer.scalar_item(tensor)
    if len(shape) > 1 or type(shape[0]) is not int or shape[0] > _MOST_ITEMS:
        return None
    return stamp(tracer, ListVariable(tracer.scalar_items(tensor)))


def _compare(
    tracer: Tracer,
    name: str,
    left: TensorVariable,
    right: TensorVariable,
    rest: list[Variable],
    kwargs: dict[str, Variable],
) -> Variable | None:
    """Whether all elements are equal, or close: a bool that only the graph knows."""
    mine, theirs = left.meta, right.meta
    if (mine.dtype, mine.device) != (theirs.dtype, theirs.device):
        return None
    if name == "allclose":
        close = tracer.graph_call("call_function", torch.isclose, [left, right, *rest], kwargs)
        everywhere = tracer.graph_call("call_method", "all", [close], {})
        assert isinstance(everywhere, TensorVariable)
        return tracer.scalar_item(everywhere)
    if rest or kwargs or mine.is_symbolic or theirs.is_symbolic:
        return None
    if mine.shape != theirs.shape:
        return FALSE
    try:
        return tracer.scalar_function(torch.equal, [left, right], bool)
    except GraphBreak as signal:
        if signal.reason is reasons.DATA_DEPENDENT:
            return None
        raise
