"""Holds the nodes that compute symbolic sizes in a graph; must not know metadata or variables."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from capture.graph.fx_adapter import append_node
from capture.graph.symbols import Dim, Inexpressible, Shapes, fold

__all__ = ["SizeNodes"]

_OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
    "+": ("add", operator.add),
    "-": ("sub", operator.sub),
    "*": ("mul", operator.mul),
    "//": ("floordiv", operator.floordiv),
    "%": ("mod", operator.mod),
    "==": ("eq", operator.eq),
    "!=": ("ne", operator.ne),
    "<": ("lt", operator.lt),
    "<=": ("le", operator.le),
    ">": ("gt", operator.gt),
    ">=": ("ge", operator.ge),
    "and": ("and_", operator.and_),
    "or": ("or_", operator.or_),
    "not": ("sym_not", torch.sym_not),
    "max": ("sym_max", torch.sym_max),
    "min": ("sym_min", torch.sym_min),
}


class SizeNodes:
    """Makes a node for an expression when it is asked for; equal parts are computed once.

    Args:
        add_input: makes a placeholder of a name, an example and a key.
    """

    def __init__(
        self, graph: fx.Graph, shapes: Shapes, add_input: Callable[[str, object, object], fx.Node]
    ) -> None:
        self._graph = graph
        self._shapes = shapes
        self._add_input = add_input
        self._known: dict[Any, fx.Node] = {}
        self._made: list[fx.Node] = []

    def node(self, dim: Dim) -> fx.Node:
        """Return the node whose value is ``dim``.

        Raises:
            Inexpressible: if plain integer arithmetic cannot compute it.
        """
        return self.node_of(dim.expr)

    def node_of(self, expr: Any) -> fx.Node:
        """Return the node for an expression, or for a relation.

        Raises:
            Inexpressible: if plain integer arithmetic cannot compute it.
        """
        found = self._known.get(expr)
        if found is None:
            found = self._known[expr] = fold(expr, self._symbol, self._apply)
        return found

    def _symbol(self, symbol: Any) -> fx.Node:
        told: fx.Node | None = self._shapes.told.get(symbol)
        if told is not None:
            return told
        number = self._shapes.inputs.get(symbol)
        if number is None:
            raise Inexpressible(f"{symbol} is no input")
        if number.node is None:
            number.node = self._add_input(str(symbol), number.hint, number.key)
        node: fx.Node = number.node
        return node

    def _apply(self, symbol: str, operands: list[Any]) -> fx.Node:
        if symbol not in _OPERATORS:
            raise Inexpressible(f"`{symbol}` in a size")
        key = (symbol, *operands)
        found = self._known.get(key)
        if found is None:
            name, target = _OPERATORS[symbol]
            found = append_node(self._graph, "call_function", name, target, tuple(operands), {})
            self._known[key] = found
            self._made.append(found)
        return found

    def drop_unused(self) -> None:
        """Take out of the graph what nothing asked for in the end."""
        for node in reversed(self._made):
            if not node.users:
                self._graph.erase_node(node)
