"""Holds numbers that follow from a graph's inputs and are computed before it runs.

A float computed from a size (``1 / math.sqrt(n)``) would be arithmetic in the graph that compilers
take for a constant. Computed before the graph, in Python's own arithmetic, it is one more number
among the inputs, as exact as eager's. Must not know what a number is computed from.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import fx

from capture.graph.values import ScalarValue

__all__ = ["DerivedValue"]


class DerivedValue(ScalarValue):
    """A number known before the graph runs; an input once something asks for its node."""

    __slots__ = ("_made", "_make_node")

    def __init__(
        self, pytype: type, example: int | float | bool, make_node: Callable[[], fx.Node]
    ) -> None:
        self._made: fx.Node | None = None
        self._make_node = make_node
        self.pytype = pytype
        self.example = example
        self.nonzero = False
        self.is_input = True

    @property
    def node(self) -> fx.Node:  # type: ignore[override]
        """The graph's placeholder for it."""
        if self._made is None:
            self._made = self._make_node()
        return self._made

    def __repr__(self) -> str:
        return f"DerivedValue({self.pytype.__name__}, {self.example!r})"
