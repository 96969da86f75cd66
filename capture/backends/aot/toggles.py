"""Holds inputs whose ``requires_grad`` a graph switches and puts back: as in steps of two networks.

The trace cannot switch it, as its inputs are no leaves. So where gradients are off for an input,
the graph uses it detached; where they are on though they were off at first, a leaf that shares its
memory. Must not know the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx

__all__ = ["without_toggles"]


def without_toggles(gm: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule | None:
    """Return the graph with its switches of inputs written out; None if it has none.

    None also if some input is left in another state than it came in.
    """
    places = [node for node in gm.graph.nodes if node.op == "placeholder"]
    initial = {
        node: value.requires_grad
        for node, value in zip(places, inputs, strict=True)
        if isinstance(value, Tensor)
    }
    if not any(map(_is_toggle, gm.graph.nodes)):
        return None
    graph = fx.Graph()
    given: dict[fx.Node, fx.Node] = {}
    now: dict[fx.Node, fx.Node] = {}  # what stands for an input, or for another value
    origin: dict[fx.Node, fx.Node] = {node: node for node in initial}  # switches return the input
    state = dict(initial)
    toggled = False

    def copy_of(node: fx.Node) -> fx.Node:
        return now[origin.get(node, node)]

    for node in gm.graph.nodes:
        source = origin.get(node.args[0]) if _is_toggle(node) else None
        if source is None:
            made = graph.node_copy(node, copy_of)
            if node.op == "placeholder":
                given[node] = made
            elif _gives_its_argument(node) and node.args[0] in origin:
                origin[node] = origin[node.args[0]]
                continue
            now[node] = made
            continue
        flag = node.args[1] if len(node.args) > 1 else True
        if type(flag) is not bool:
            return None
        origin[node] = source
        toggled = True
        if flag is not state[source]:
            state[source] = flag
            now[source] = given[source]
            if flag is not initial[source]:
                now[source] = graph.call_method("detach", (given[source],))
                if flag:
                    now[source] = graph.call_method("requires_grad_", (now[source],))
    if not toggled or state != initial:
        return None
    steady = fx.GraphModule(gm, graph)
    steady.meta.update(gm.meta)
    return steady


def _is_toggle(node: fx.Node) -> bool:
    return node.op == "call_method" and node.target == "requires_grad_" and not node.kwargs


def _gives_its_argument(node: fx.Node) -> bool:
    """True for operators that write to their first argument and return it."""
    if not node.args or not isinstance(node.args[0], fx.Node) or "out" in node.kwargs:
        return False
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return str(name).endswith("_") and not str(name).startswith("_")
