"""Holds the exchange of the functions that a graph calls; must not know which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

__all__ = ["with_targets"]


def with_targets(gm: fx.GraphModule, table: Mapping[Any, Callable[..., Any]]) -> fx.GraphModule:
    """Return the graph with other functions in the place of functions and methods of the table."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        copy = copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op in ("call_function", "call_method") and node.target in table:
            copy.op, copy.target = "call_function", table[node.target]
    made = fx.GraphModule(gm, graph)
    made.meta.update(gm.meta)
    return made
