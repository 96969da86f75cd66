"""Holds what keeps operators that only serve to refuse data; must not know how a graph is traced.

``x[i]`` raises where ``i`` is out of range, also where nobody needs the result. A trace of pure
operators has no place for that: whoever reads it takes such a node out as dead. So its result is
returned, and dropped behind the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from capture.backends.registry import CompiledFn

__all__ = ["keeping_refusals"]


def keeping_refusals(
    gm: fx.GraphModule, compile_graph: Callable[[fx.GraphModule], CompiledFn]
) -> CompiledFn:
    """Have a graph compiled that returns all that may fail because of data."""
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    results = output.args[0]
    dead = _dead(gm.graph, output)
    if not dead or not isinstance(results, Sequence):
        return compile_graph(gm)
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        if node is output:
            kept = [graph.call_method("detach", (copies[each],)) for each in dead]
            graph.output((*fx.node.map_arg(results, copies.__getitem__), *kept))
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    made = fx.GraphModule(gm, graph)
    made.meta.update(gm.meta)
    compiled, count = compile_graph(made), len(results)

    def run(arguments: list[Any]) -> Any:
        return tuple(compiled(arguments)[:count])

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _dead(graph: fx.Graph, output: fx.Node) -> list[fx.Node]:
    """Return the new tensors that may fail to be made, and that nothing is done with."""
    found = []
    live: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        fresh = "capture_meta" in node.meta
        if node is not output and fresh and node not in live:
            if not node.meta.get("capture_may_raise"):
                continue  # what it is made of is not needed either
            found.append(node)
        live.update(node.all_input_nodes)
    return found[::-1]
