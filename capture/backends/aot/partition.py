"""Holds the partitioners by name, and two of our own that know where the backward begins.

A joint graph that was traced here is in order: forward, then backward. What is saved are the
values that cross the border; the ``fast`` partitioner computes cheap ones again instead. Graphs
with more in them than tensors and pure operators are left to torch's partitioners.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx

from capture.backends.aot import adapter, recorder_adapter
from capture.errors import UserError

__all__ = [
    "PARTITIONERS",
    "PartitionFn",
    "default_partition",
    "fast_partition",
    "min_cut_partition",
    "partitioner",
]

PartitionFn: TypeAlias = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]


def default_partition(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Split as eager would: what the backward reads is saved, nothing is computed twice."""
    if not _is_plain(joint.graph):
        return adapter.torch_default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)
    return _split(joint, num_fwd_outputs, cheap=False)


def fast_partition(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Split likewise; the backward computes again what is cheap and needs nothing else saved."""
    if not _is_plain(joint.graph):
        return adapter.torch_default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)
    return _split(joint, num_fwd_outputs, cheap=True)


def min_cut_partition(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Split where the least is saved: the backward computes cheap values again."""
    return adapter.torch_min_cut_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)


#: What ``aot_autograd`` takes by name.
PARTITIONERS: dict[str, PartitionFn] = {
    "default": default_partition,
    "fast": fast_partition,
    "min_cut": min_cut_partition,
}


def partitioner(choice: str | PartitionFn | None) -> PartitionFn:
    """Return a partitioner by its name, or the one that was given; None is ``default``.

    Raises:
        UserError: there is none of this name.
    """
    if choice is None:
        return default_partition
    if callable(choice):
        return choice
    found = PARTITIONERS.get(choice)
    if found is None:
        raise UserError(f"no partitioner {choice!r}; there are: {', '.join(PARTITIONERS)}")
    return found


def _is_plain(graph: fx.Graph) -> bool:
    """Tell whether there is nothing but tensors and pure operators, each marked as one side's."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function":
            if "partitioner_tag" not in node.meta or "recompute" in node.meta:
                return False
            if node.target is not operator.getitem and (
                not recorder_adapter.is_operator(node.target)
                or (node.is_impure() and not _is_random(node))
            ):
                return False
            if isinstance(value, list | tuple):
                if not all(each is None or _is_static(each) for each in value):
                    return False
                continue
        elif node.op == "get_attr" and value is None:
            continue
        elif node.op == "output":
            continue
        if not _is_static(value):
            return False
    return True


def _is_static(value: object) -> bool:
    return isinstance(value, Tensor) and not adapter.is_symbolic(value)


def _is_random(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _is_backward(node: fx.Node) -> bool:
    if node.op == "placeholder":
        return node.name.startswith("tangents_")
    return bool(node.meta.get("partitioner_tag") == "is_backward")


def _split(
    joint: fx.GraphModule, outputs: int, cheap: bool
) -> tuple[fx.GraphModule, fx.GraphModule]:
    nodes = list(joint.graph.nodes)
    results = nodes[-1].args[0]
    primals = [n for n in nodes if n.op == "placeholder" and not _is_backward(n)]
    tangents = [n for n in nodes if n.op == "placeholder" and _is_backward(n)]
    first, rest = results[:outputs], results[outputs:]
    late = {n for n in nodes if _is_backward(n)}
    # An output may be made behind the border (a copy of a value): then it is the forward's.
    needed = _behind(_nodes_in(first), frozenset())
    late -= needed
    ours = _behind([n for n in _nodes_in(rest) if n in late], frozenset(), late)
    demanded = {i for n in ours for i in n.all_input_nodes if i not in late}
    demanded |= {n for n in _nodes_in(rest) if n not in late}
    again = _recomputed(nodes, demanded) if cheap else set()
    again |= {n for n in demanded if n.op == "get_attr"}
    saved = [n for n in nodes if n in demanded and n not in again]

    before = _Copier(joint, primals)
    before.add(nodes, _behind([*_nodes_in(first), *saved], frozenset()))
    after = _Copier(joint, [*saved, *tangents])
    after.add(nodes, again | ours)
    return before.finish([*first, *saved]), after.finish(rest)


def _nodes_in(values: Sequence[Any]) -> list[fx.Node]:
    return [value for value in values if isinstance(value, fx.Node)]


def _behind(
    wanted: Sequence[fx.Node], known: frozenset[fx.Node], within: set[fx.Node] | None = None
) -> set[fx.Node]:
    """Return the nodes that have to run for the wanted ones."""
    found: set[fx.Node] = set()
    waiting = list(wanted)
    while waiting:
        node = waiting.pop()
        if node in found or node in known or (within is not None and node not in within):
            continue
        found.add(node)
        waiting += node.all_input_nodes
    return found


def _recomputed(nodes: Sequence[fx.Node], demanded: set[fx.Node]) -> set[fx.Node]:
    """Choose what is computed again; adds to ``demanded`` what that needs."""
    again: set[fx.Node] = set()
    for node in reversed(nodes):
        if node not in demanded or node.op != "call_function":
            continue
        view = _is_view(node)
        if not view and not _is_pointwise(node):
            continue
        missing = [n for n in node.all_input_nodes if n.op != "placeholder" and n not in demanded]
        # A view is as large as what it is a view of; else nothing more may be saved for it.
        if any(not isinstance(n.meta.get("val"), Tensor) for n in missing):
            continue
        size = sum(_bytes(n) for n in missing)
        if missing and not (len(missing) == 1 and size <= _bytes(node)):
            continue
        again.add(node)
        demanded.update(node.all_input_nodes)
    return again


def _is_view(node: fx.Node) -> bool:
    return adapter.is_view_op(node.target) and isinstance(node.meta["val"], Tensor)


def _is_pointwise(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return (
        torch.Tag.pointwise in tags or node.target is torch.ops.prims.convert_element_type.default
    ) and torch.Tag.nondeterministic_seeded not in tags


def _bytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return int(value.numel() * value.element_size())


class _Copier:
    """Makes one of the two graphs."""

    def __init__(self, joint: fx.GraphModule, inputs: Sequence[fx.Node]) -> None:
        self.joint = joint
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        for node in inputs:
            self.copies[node] = new = self.graph.placeholder(node.name)
            new.meta = dict(node.meta)

    def add(self, nodes: Sequence[fx.Node], wanted: set[fx.Node]) -> None:
        for node in nodes:
            if node in wanted and node not in self.copies:
                self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)

    def finish(self, results: Sequence[Any]) -> fx.GraphModule:
        copies = self.copies
        self.graph.output(tuple(copies[r] if isinstance(r, fx.Node) else r for r in results))
        return recorder_adapter.graph_module(self.joint, self.graph)
