"""Holds numbers among a graph's inputs as tensors, so that one compile serves all their values.

What a graph computes from numbers alone stays Python: it runs before the graph. A number that
tensors meet becomes a tensor without dimensions, and the graph reads it out of that: in the trace
it is a symbol without a value. Must not know how a graph is traced or compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

__all__ = ["Split", "can_hold", "hold", "split_numbers"]

# Each keeps every value of the type; a bool would decide branches, not values.
_DTYPES = {float: torch.float64, int: torch.int64}
_INT64 = range(-(2**63), 2**63)


def can_hold(value: object) -> bool:
    """Tell whether a number can be held in a tensor."""
    return type(value) is float or (type(value) is int and value in _INT64)


def hold(value: float) -> Tensor:
    """Return a number as a tensor that ``item`` gives it back from, to the last bit."""
    return torch.scalar_tensor(value, dtype=_DTYPES[type(value)], device="cpu")


@dataclasses.dataclass
class Split:
    """A graph in two: what is computed from numbers alone, and the rest.

    Attributes:
        prelude: takes the numbers; returns those that tensors meet, then those that are returned.
        met: how many numbers tensors meet.
        rest: takes the tensors, then the numbers that tensors meet, each held in a tensor; None if
            there are no tensors.
        outputs: for each output, whether the rest returns it, and where among its or the prelude's.
        single: whether the graph returned one value, not a tuple.
    """

    prelude: Callable[..., tuple[Any, ...]]
    met: int
    rest: fx.GraphModule | None
    outputs: list[tuple[bool, int]]
    single: bool


def split_numbers(gm: fx.GraphModule, places: Sequence[int]) -> Split:
    """Take out of a graph what is computed from its number inputs alone.

    Args:
        gm: the graph.
        places: which inputs are numbers.
    """
    nodes = list(gm.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    numbers = [inputs[i] for i in places]
    alone = set(numbers)
    for node in nodes:
        if node.op == "call_function" and node.all_input_nodes:
            if all(each in alone for each in node.all_input_nodes):
                alone.add(node)
    (output,) = (node for node in nodes if node.op == "output")
    results = output.args[0]
    single = not isinstance(results, tuple | list)
    flat = [results] if single else list(results)
    met = [
        node
        for node in nodes
        if node in alone and any(u not in alone and u is not output for u in node.users)
    ]
    returned = [node for node in flat if isinstance(node, fx.Node) and node in alone]
    left = [node for node in flat if not (isinstance(node, fx.Node) and node in alone)]

    prelude = fx.Graph()
    copies = {node: prelude.node_copy(node) for node in numbers}
    for node in nodes:
        if node in alone and node not in copies:
            copies[node] = prelude.node_copy(node, copies.__getitem__)
    prelude.output(tuple(copies[node] for node in (*met, *returned)))

    outputs: list[tuple[bool, int]] = []
    counts = {True: 0, False: len(met)}
    for each in flat:
        rest = not (isinstance(each, fx.Node) and each in alone)
        outputs.append((rest, counts[rest]))
        counts[rest] += 1
    compute = fx.GraphModule(gm, prelude).forward
    rest_gm = _rest(gm, inputs, alone, met, left) if left or len(inputs) > len(places) else None
    return Split(compute, len(met), rest_gm, outputs, single)


def _rest(
    gm: fx.GraphModule,
    inputs: Sequence[fx.Node],
    alone: set[fx.Node],
    met: Sequence[fx.Node],
    left: Sequence[Any],
) -> fx.GraphModule:
    graph = fx.Graph()
    copies = {node: graph.node_copy(node) for node in inputs if node not in alone}
    held = [graph.placeholder(f"held_{i}") for i in range(len(met))]
    for node, tensor in zip(met, held, strict=True):
        copies[node] = graph.call_method("item", (tensor,))
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output") and node not in alone:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[each] if isinstance(each, fx.Node) else each for each in left))
    made = fx.GraphModule(gm, graph)
    made.meta.update(gm.meta)
    return made
