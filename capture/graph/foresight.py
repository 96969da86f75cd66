"""Holds the decisions on numbers that only the graph knows, where little work tells them ahead.

A program's state is full of small counters: the step of an optimizer, the number of averaged
models. Where it branches on one, the part of the graph that the number depends on is run ahead of
the graph, on copies of the few numbers that it begins with: now, and before each later call, to see
that the outcomes are the same. Must not know sources or guards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from capture.graph.fx_adapter import make_graph_module, new_graph

if TYPE_CHECKING:
    from capture.graph.output_graph import OutputGraph

__all__ = ["Foresight", "Undecidable"]

# A number written more often than this within one piece is a loop's: it would be unrolled.
_MAX_WRITES = 2
_MAX_NODES = 16_000


class Undecidable(Exception):
    """The number depends on too much to be computed ahead of the graph."""


class Foresight:
    """The decisions of one piece, each a node and what its value comes to as a bool.

    ``accepts`` says of an input's key whether a piece may be tied to the number behind it.
    """

    def __init__(self, graph: OutputGraph, accepts: Callable[[Any], bool]) -> None:
        self.graph = graph
        self.accepts = accepts
        self.made: dict[fx.Node, bool] = {}
        self.relevant: set[fx.Node] = set()  # to all decisions so far

    def outcome(self, node: fx.Node) -> bool:
        """Decide on a node's value, and remember the decision.

        Raises:
            Undecidable: if that takes too much, or fails.
        """
        if node.graph is not self.graph.graph:
            raise Undecidable("it belongs to a function inside the graph")
        known = self.made.get(node)
        if known is None:
            try:
                known = self._run(node)
            except Undecidable:
                raise
            except Exception as error:
                raise Undecidable(str(error)) from None
            self.made[node] = known
        return known

    def _run(self, wanted: fx.Node) -> bool:
        """Compute a node's truth value from the inputs of the call that is being captured."""
        relevant, written = self._relevant([wanted])
        together = self.relevant | relevant
        if len(together) > _MAX_NODES:
            raise Undecidable("too much of the graph has to run for it")
        self.relevant = together
        graph = self.graph
        values: dict[fx.Node, Any] = {}
        for node, example in zip(graph.placeholders, graph.examples, strict=True):
            if node in relevant:
                copied = graph.group_of.get(node) in written
                values[node] = example.detach().clone() if copied else example
        with torch.no_grad():
            for node in graph.graph.nodes:
                if node not in relevant or node.op == "placeholder":
                    continue
                args = fx.node.map_arg(node.args, values.__getitem__)
                kwargs = fx.node.map_arg(node.kwargs, values.__getitem__)
                if node.op == "call_method":
                    receiver, *args = args
                    values[node] = getattr(receiver, node.target)(*args, **kwargs)
                else:
                    values[node] = node.target(*args, **kwargs)
            return bool(values[wanted])

    def check(self) -> tuple[Callable[..., bool], list[Any], list[Any]] | None:
        """What says of the inputs' values whether all decisions would fall again as they did.

        Returns:
            The function, the keys of the inputs that it takes, and their values now; None if the
            decisions depend on no input.
        """
        if not self.made:
            return None
        fn, places = self._ahead(list(self.made))
        if not places:
            return None
        check = _Repeats(fn, tuple(self.made.values()))
        graph = self.graph
        return check, [graph.inputs[p] for p in places], [graph.examples[p] for p in places]

    def _ahead(self, wanted: list[fx.Node]) -> tuple[_Ahead, list[int]]:
        """The function that computes nodes from inputs, and the places of the inputs it takes."""
        relevant, written = self._relevant(wanted)
        graph = new_graph()
        copies: dict[fx.Node, fx.Node] = {}
        places: list[int] = []
        for place, node in enumerate(self.graph.placeholders):
            if node in relevant:
                places.append(place)
                copies[node] = graph.placeholder(node.name)
        for place in places:
            node = self.graph.placeholders[place]
            if self.graph.group_of.get(node) in written:
                copies[node] = graph.call_method("clone", (copies[node],))
        for node in self.graph.graph.nodes:
            if node in relevant and node.op != "placeholder":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in wanted))
        return _Ahead(make_graph_module(graph, "foresight")), places

    def _relevant(self, wanted: Sequence[fx.Node]) -> tuple[set[fx.Node], set[int]]:
        """The nodes that some nodes' values depend on, and the memory that these write to."""
        graph = self.graph
        needed = set(wanted)
        memory: set[int] = set()  # what is written behind all of them does not count
        relevant: set[fx.Node] = set()
        writes: dict[int, int] = {}
        for node in reversed(graph.graph.nodes):
            if node in needed and node in graph.group_of:
                memory.add(graph.group_of[node])
            written = graph.writes.get(node, ())
            if node not in needed and memory.isdisjoint(written):
                continue
            relevant.add(node)
            if len(relevant) > _MAX_NODES or node in graph.drawing:
                raise Undecidable("too much of the graph has to run for it")
            self._check_size(node)
            for group in written:
                writes[group] = writes.get(group, 0) + 1
                memory.add(group)
            for part in node.all_input_nodes:
                needed.add(part)
                if part in graph.group_of:
                    memory.add(graph.group_of[part])
        if any(count > _MAX_WRITES for count in writes.values()):
            raise Undecidable("it is counted up")
        self._check_inputs(relevant)
        return relevant, set(writes)

    @staticmethod
    def _check_size(node: fx.Node) -> None:
        meta = node.meta.get("capture_meta")
        if meta is None:
            return
        if any(size != 1 for size in meta.shape) or meta.device.type != "cpu" or not meta.is_plain:
            raise Undecidable("it depends on more than single numbers in CPU memory")

    def _check_inputs(self, relevant: set[fx.Node]) -> None:
        graph = self.graph
        seen: set[int] = set()
        for place, node in enumerate(graph.placeholders):
            if node not in relevant:
                continue
            if not self.accepts(graph.inputs[place]):
                raise Undecidable("it depends on a value that was passed in")
            group = graph.group_of.get(node)
            if group is not None and group in seen:
                raise Undecidable("inputs share memory")
            if group is not None:
                seen.add(group)


class _Ahead:
    """Runs a part of a graph on copies, apart from autograd, and gives truth values."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self.forward = gm.forward

    def __call__(self, *values: Any) -> tuple[bool, ...]:
        with torch.no_grad():
            return tuple(map(bool, self.forward(*values)))


class _Repeats:
    """Says whether decisions would fall as they did."""

    def __init__(self, fn: _Ahead, outcomes: tuple[bool, ...]) -> None:
        self.fn = fn
        self.outcomes = outcomes

    def __call__(self, *values: Any) -> bool:
        return self.fn(*values) == self.outcomes
