"""Holds the way from a number that nodes compute to a size: what computes it is followed back.

So ``n`` and ``n - 1`` of one ``item()`` are expressions over one symbol, and a condition of the
program on them says something about sizes. Must not know variables.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from capture.graph.symbols import Dim, Shapes

__all__ = ["NUMBER", "REFLEXIVE", "lift", "lift_condition"]

NUMBER = "capture_number"
"""Where a node's meta has the Python type of the number that the node gives."""

_ARITHMETIC: dict[Any, Callable[..., Any]] = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.neg: operator.neg,
    min: torch.sym_min,
    max: torch.sym_max,
}
_RELATIONS: dict[Any, Callable[..., Any]] = {
    target: target
    for target in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
}
REFLEXIVE: dict[Any, bool] = {target: target(0, 0) for target in _RELATIONS}
"""What a comparison of an int with itself comes to."""
_LARGE = 1 << 62


def lift(shapes: Shapes, node: Any, inputs: Mapping[fx.Node, tuple[Any, Any]]) -> Any:
    """Return the int or ``Dim`` of what a node gives, an int; None if it is too large for a size.

    Args:
        inputs: key and example of each placeholder.
    """
    if type(node) is int:
        return node if abs(node) < _LARGE else None
    if not isinstance(node, fx.Node) or node.meta.get(NUMBER) is not int:
        return None
    if node.op == "placeholder":
        key, example = inputs[node]
        if abs(example) >= _LARGE:
            return None
        return shapes.number(key, getattr(key, "name", node.name), example, node)
    function = _ARITHMETIC.get(node.target)
    if node.op == "call_function" and function is not None and not node.kwargs:
        parts = [lift(shapes, part, inputs) for part in node.args]
        if all(part is not None for part in parts):
            return shapes.arithmetic(function, *parts)
    return shapes.told_by(node)


def lift_condition(shapes: Shapes, node: fx.Node, inputs: Mapping[fx.Node, tuple[Any, Any]]) -> Any:
    """Return torch's symbolic bool (or a bool) for a comparison of ints, or None."""
    relation = _RELATIONS.get(node.target)
    if node.op != "call_function" or relation is None:
        return None
    parts = [lift(shapes, part, inputs) for part in node.args]
    if any(part is None for part in parts) or all(type(part) is not Dim for part in parts):
        return None
    return shapes.relation(relation, *parts)
