"""Holds the numbers that a graph returns: they are read when the compiled graph has run.

``loss.item()`` at the end of a step is the usual case. The compiled graph returns what the numbers
are taken from, as tensors of its own; the reading, and Python's arithmetic on what was read, come
behind it, so that they are Python's to the last bit. Must not know how a graph is traced.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

__all__ = ["LateNumbers", "split_late"]

_READERS = ("item", "tolist")
_ARITHMETIC = ("_operator", "builtins", "math")
# what cannot raise, whatever numbers were read
_TOTAL = frozenset((
    "add", "sub", "mul", "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge", "min", "max",
    "float", "bool", "not_", "getitem",
))  # fmt: skip


@dataclasses.dataclass
class LateNumbers:
    """A graph in two: all but the reading of returned numbers, and that.

    Attributes:
        gm: takes the graph's inputs; returns its tensors, then what the numbers are read from.
        held: how many tensors the numbers are read from.
        given: the inputs that are numbers and take part in the arithmetic.
        compute: takes what the numbers are read from, then those inputs; returns the numbers.
        outputs: for each output, whether it is such a number, and where among its kind.
        single: whether the graph returned one value, not a tuple.
    """

    gm: fx.GraphModule
    held: int
    given: list[int]
    compute: Callable[..., tuple[Any, ...]]
    outputs: list[tuple[bool, int]]
    single: bool

    def finish(self, results: Sequence[Any], given: Sequence[Any]) -> Any:
        """Return the whole graph's outputs, from those of ``gm`` and the inputs of ``given``."""
        held = results[len(results) - self.held :]
        numbers = self.compute(*held, *given)
        found = tuple(numbers[i] if late else results[i] for late, i in self.outputs)
        return found[0] if self.single else found


def split_late(gm: fx.GraphModule, numbers: Sequence[int], pure: bool) -> LateNumbers | None:
    """Take the reading of returned numbers out of a graph; None if it returns none.

    Args:
        gm: the graph.
        numbers: which inputs are numbers.
        pure: the graph writes to no input: the whole may fail behind it and be run again.
    """
    nodes = list(gm.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    known = {inputs[i] for i in numbers}
    reading: set[fx.Node] = set()
    for node in nodes:
        if _is_reader(node):
            reading.add(node)
        elif _is_arithmetic(node) and all(n in reading or n in known for n in node.all_input_nodes):
            reading.add(node)
    (output,) = (node for node in nodes if node.op == "output")
    returned = output.args[0]
    single = not isinstance(returned, tuple | list)
    flat = [returned] if single else list(returned)
    late = [node for node in flat if node in reading]
    if not late:
        return None
    needed = _behind(late, reading)
    if not pure and any(not _is_total(node) for node in needed if not _is_reader(node)):
        return None
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    held: list[fx.Node] = []
    roots = [node for node in nodes if node in needed and _is_reader(node)]
    for node in nodes:
        if node.op == "output":
            break
        if node in reading and not _used_early(node, reading):
            if node not in needed:
                continue
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        if node in roots:
            held.append(_hold(graph, node, copies))
    outputs: list[tuple[bool, int]] = []
    tensors: list[Any] = []
    for each in flat:
        if each in reading:
            outputs.append((True, late.index(each)))
        else:
            outputs.append((False, len(tensors)))
            tensors.append(copies[each] if isinstance(each, fx.Node) else each)
    graph.output((*tensors, *held))
    made = fx.GraphModule(gm, graph)
    made.meta.update(gm.meta)
    given = [i for i, n in enumerate(inputs) if n in known and not needed.isdisjoint(n.users)]
    compute = _compute(gm, nodes, needed, roots, [inputs[i] for i in given], late)
    return LateNumbers(made, len(held), given, compute, outputs, single)


def _is_reader(node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target in _READERS or (node.target == "size" and len(node.args) == 2)
    return node.op == "call_function" and node.target is torch.Tensor.item


def _is_arithmetic(node: fx.Node) -> bool:
    return (
        node.op == "call_function"
        and bool(node.all_input_nodes)
        and getattr(node.target, "__module__", None) in _ARITHMETIC
    )


def _is_total(node: fx.Node) -> bool:
    name = getattr(node.target, "__name__", "")
    if name == "truediv":
        divisor = node.args[1]
        return isinstance(divisor, int | float) and divisor != 0
    return name in _TOTAL


def _behind(ends: Sequence[fx.Node], reading: set[fx.Node]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    todo = list(ends)
    while todo:
        node = todo.pop()
        if node in reading and node not in found:
            found.add(node)
            if not _is_reader(node):
                todo.extend(node.all_input_nodes)
    return found


def _used_early(node: fx.Node, reading: set[fx.Node]) -> bool:
    """Tell whether something that stays in the graph needs a number."""
    todo, seen = [node], {node}
    while todo:
        for user in todo.pop().users:
            if user.op == "output" or user in seen:
                continue
            if user not in reading:
                return True
            seen.add(user)
            todo.append(user)
    return False


def _hold(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    """Add a tensor of the graph's own that a number can be read from later."""
    first: Any = node.args[0]
    if node.target == "size":
        size = copies.get(node) or graph.call_method("size", (copies[first], node.args[1]))
        return graph.call_function(torch.scalar_tensor, (size,), {"dtype": torch.int64})
    return graph.call_method("clone", (graph.call_method("detach", (copies[first],)),))


def _compute(
    gm: fx.GraphModule,
    nodes: Sequence[fx.Node],
    needed: set[fx.Node],
    roots: Sequence[fx.Node],
    given: Sequence[fx.Node],
    late: Sequence[fx.Node],
) -> Callable[..., tuple[Any, ...]]:
    graph = fx.Graph()
    held = [graph.placeholder(f"held_{i}") for i in range(len(roots))]
    copies = {node: graph.placeholder(f"given_{i}") for i, node in enumerate(given)}
    for node, tensor in zip(roots, held, strict=True):
        name = "tolist" if node.target == "tolist" else "item"
        copies[node] = graph.call_method(name, (tensor,))
    for node in nodes:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in late))
    compute: Callable[..., tuple[Any, ...]] = fx.GraphModule(gm, graph).forward
    return compute


assert operator.add.__module__ == "_operator"  # what arithmetic is told by
