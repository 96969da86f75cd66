"""Compares graphs up to the order of independent nodes, names, dead code and what does nothing."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx

_NO_OPS = frozenset(("aten::detach", "aten::alias", "aten::lift_fresh"))


def canonical(gm: fx.GraphModule) -> tuple[Any, list[Any]]:
    """Return the outputs as numbers of nodes, and the nodes: each but once, and its metadata.

    Two graphs compute the same by the same operators if and only if this is equal. Nodes that are
    twice in a graph are counted; random operators keep their order.
    """
    numbers: dict[Any, int] = {}  # what a node is -> its number
    counts: dict[int, int] = {}
    of_node: dict[fx.Node, Any] = {}
    live = _live(gm.graph)
    randoms = 0

    def argument(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return ("node", of_node[value])
        if isinstance(value, list | tuple):
            return (type(value).__name__, *[argument(each) for each in value])
        if isinstance(value, dict):
            return ("dict", *[(k, argument(v)) for k, v in sorted(value.items())])
        return type(value).__name__, repr(value)

    outputs: Any = None
    for node in gm.graph.nodes:
        if node not in live:
            continue
        if node.op == "output":
            outputs = argument(node.args[0])
            continue
        if node.op == "call_function" and _name(node) in _NO_OPS:
            of_node[node] = of_node[node.args[0]]
            continue
        if node.op == "placeholder":
            kind: Any = ("placeholder", node.name)
        elif node.op == "get_attr":
            kind = ("constant", repr(_attribute(gm, str(node.target))))
        else:
            kind = (_name(node) or node.target, str(node.target), argument(node.args))
            kind = (*kind, argument(node.kwargs), _metadata(node.meta.get("val")))
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                randoms += 1
                kind = (*kind, randoms)
        number = numbers.setdefault(kind, len(numbers))
        # By content, as the order in which numbers are given depends on the order of the nodes.
        of_node[node] = hash(kind)
        counts[number] = counts.get(number, 0) + 1
    content = sorted((repr(kind), counts[number]) for kind, number in numbers.items())
    return outputs, content


def _live(graph: fx.Graph) -> set[fx.Node]:
    live: set[fx.Node] = set()
    waiting = [node for node in graph.nodes if node.op in ("output", "placeholder")]
    waiting += [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and node.is_impure()
        and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())
    ]
    while waiting:
        node = waiting.pop()
        if node not in live:
            live.add(node)
            waiting += node.all_input_nodes
    return live


def _name(node: fx.Node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return getattr(getattr(node.target, "_schema", None), "name", "")


def _attribute(gm: fx.GraphModule, path: str) -> Any:
    value: Any = gm
    for part in path.split("."):
        value = getattr(value, part)
    return value.tolist() if isinstance(value, Tensor) else value


def _metadata(value: Any) -> Any:
    """Return metadata but the offset: torch's memory of fake results forgets it for some."""
    if isinstance(value, Tensor):
        return (
            tuple(value.shape), value.stride(), value.dtype, str(value.device), value.is_conj(),
            value.is_neg(),
        )  # fmt: skip
    if isinstance(value, list | tuple):
        return tuple(_metadata(each) for each in value)
    return repr(value)
