"""Holds graphs that read Python numbers out of tensors (``step.item()`` of an optimizer).

Such a number is a symbol in the trace, and arithmetic with it is recorded operation by operation:
what runs is the arithmetic of Python that eager does. Must not know how a graph is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from capture.backends.aot.targets import with_targets

__all__ = ["for_symbols", "reads_numbers"]


def reads_numbers(gm: fx.GraphModule) -> bool:
    """Tell whether a graph of torch calls reads numbers out of tensors."""
    return any(_reads(node) for node in gm.graph.nodes)


def _reads(node: fx.Node) -> bool:
    return (node.op == "call_method" and node.target in ("item", "tolist")) or (
        node.op == "call_function" and node.target is torch.Tensor.item
    )


def for_symbols(gm: fx.GraphModule) -> fx.GraphModule:
    """Return the graph with functions that take symbols in the place of those that do not."""
    if not reads_numbers(gm):
        return gm
    return with_targets(gm, _FOR_SYMBOLS)


def _pow(base: Any, exponent: Any) -> Any:
    if isinstance(base, torch.SymFloat) or isinstance(exponent, torch.SymFloat):
        return base**exponent
    return math.pow(base, exponent)


def _float(value: Any = 0.0) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return torch.sym_float(value)  # type: ignore[no-untyped-call]
    return float(value)


def _sqrt(value: Any) -> Any:
    return torch.sym_sqrt(value) if isinstance(value, torch.SymFloat) else math.sqrt(value)


_FOR_SYMBOLS: dict[Any, Callable[..., Any]] = {math.pow: _pow, math.sqrt: _sqrt, float: _float}
