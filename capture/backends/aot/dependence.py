"""Holds which gradients depend on which tangents; must not know how a backward runs.

An output that the program does not use brings no tangent. Where a gradient depends on none that
there is, autograd leaves ``.grad`` None: zeros would be another result, for an optimizer, say.
"""

from __future__ import annotations

from torch import fx

__all__ = ["tangents_behind"]

_PREFIX = "tangents_"


def tangents_behind(backward: fx.GraphModule) -> list[frozenset[int]]:
    """Return for each gradient the tangents it depends on, by position."""
    found: dict[fx.Node, frozenset[int]] = {}
    for node in backward.graph.nodes:
        if node.op == "output":
            nothing: frozenset[int] = frozenset()
            return [found[each] if isinstance(each, fx.Node) else nothing for each in node.args[0]]
        if node.op == "placeholder" and node.name.startswith(_PREFIX):
            found[node] = frozenset((int(node.name.removeprefix(_PREFIX)) - 1,))
        else:
            found[node] = frozenset().union(*(found[each] for each in node.all_input_nodes))
    return []
