"""Holds numbers among a graph's inputs as tensors, so that one compile serves all their values.

The number becomes a tensor without dimensions, and the graph reads it out of that: in the trace it
is a symbol without a value. Must not know how a graph is traced or compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, fx

__all__ = ["can_hold", "hold", "with_held_numbers"]

# Each keeps every value of the type; a bool would decide branches, not values.
_DTYPES = {float: torch.float64, int: torch.int64}
_INT64 = range(-(2**63), 2**63)


def can_hold(value: object) -> bool:
    """Tell whether a number can be held in a tensor."""
    return type(value) is float or (type(value) is int and value in _INT64)


def hold(value: float) -> Tensor:
    """Return a number as a tensor that ``item`` gives it back from, to the last bit."""
    return torch.scalar_tensor(value, dtype=_DTYPES[type(value)], device="cpu")


def with_held_numbers(gm: fx.GraphModule, places: Sequence[int]) -> fx.GraphModule:
    """Return the graph with the inputs at some positions read out of tensors."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    held = {inputs[i] for i in places}
    for node in inputs:
        copies[node] = graph.node_copy(node)
    for node in inputs:
        if node in held:
            copies[node] = graph.call_method("item", (copies[node],))
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return fx.GraphModule(gm, graph)
