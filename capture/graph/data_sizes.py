"""Holds what is particular to sizes that depend on data: how they are told, checked and assumed.

An operator such as ``nonzero`` brings symbols of its own into its result's sizes: a node behind it
tells the number. Rules for metadata treat such a number as if it were neither zero nor one where
they cannot tell; so what they say is compared with what the operator does on small real tensors,
with zero, one and some other number for each symbol. What they take for granted is asserted in the
graph, in front of the operator. Must not know the interpreter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from capture.graph.symbols import Dim, Inexpressible, Shapes
from capture.graph.tensor_meta import TensorMeta

__all__ = ["UNEXPECTED", "Numbers", "assume", "depends_on_data", "dims_of", "matches", "points"]

UNEXPECTED = "capture: data is not as expected"
"""What the graph raises where a check of it fails."""

_CPU = torch.device("cpu")
_COUNTS = (0, 1, 3, 5, 7, 11, 13)


def assume(holds: Any) -> None:
    """Stop the graph unless what was taken for granted holds; the piece runs in Python then.

    Raises:
        RuntimeError: if it does not hold.
    """
    if isinstance(holds, torch.SymBool):
        torch.ops.aten._assert_scalar.default(holds, UNEXPECTED)
    elif not holds:
        raise RuntimeError(UNEXPECTED)


def depends_on_data(meta: TensorMeta) -> bool:
    """Tell whether some size or stride of a tensor depends on data."""
    return any(type(n) is Dim and n.hint is None for n in (*meta.shape, *meta.stride))


def dims_of(result: Any) -> Iterator[Dim]:
    """Yield each symbolic number in what an outcome says of its results."""
    meta = getattr(result, "meta", None)
    if isinstance(meta, TensorMeta):
        yield from (n for n in (*meta.shape, *meta.stride) if type(n) is Dim)
    dim = getattr(result, "dim", None)
    if type(dim) is Dim:
        yield dim
    if isinstance(getattr(result, "items", None), tuple):
        for item in result.items:
            yield from dims_of(item)


class Numbers:
    """Numbers for all symbols of one call; a result's own symbols get theirs from what came out."""

    def __init__(self, shapes: Shapes, values: dict[Any, int]) -> None:
        self._shapes = shapes
        self.values = values

    def of(self, n: Any) -> int:
        """Return an int for an int or a ``Dim`` of the arguments."""
        if type(n) is not Dim:
            return int(n)
        found = self._shapes.settled_expr(n).xreplace(self._integers()).doit()
        if not found.is_Integer:
            raise Inexpressible(f"{n} has no value")
        return int(found)

    def at(self, meta: TensorMeta) -> TensorMeta:
        """Return metadata with numbers for symbols, for a tensor that costs little to make."""
        return meta._replace(
            shape=tuple(map(self.of, meta.shape)),
            stride=tuple(map(self.of, meta.stride)),
            device=_CPU,
        )

    def agrees(self, n: Any, number: Any) -> bool:
        """Tell whether a size of the result can be ``number``; new symbols take it on."""
        if type(n) is not Dim:
            return bool(n == number)
        expr = self._shapes.settled_expr(n)
        if expr.is_Symbol and expr not in self.values:
            self.values[expr] = number
        found = expr.xreplace(self._integers()).doit()
        return bool(not found.is_Integer or int(found) == number)

    def _integers(self) -> dict[Any, Any]:
        return {s: self._shapes.sympy.Integer(n) for s, n in self.values.items()}


def points(metas: Sequence[TensorMeta], sizes: Sequence[Dim], shapes: Shapes) -> list[Numbers]:
    """Return numbers to try a call with: none, one and several for what depends on data."""
    symbols: dict[Any, None] = {}
    for n in (*sizes, *itertools.chain(*((*m.shape, *m.stride) for m in metas))):
        if type(n) is Dim:
            symbols.update(dict.fromkeys(shapes.settled_expr(n).free_symbols))
    data = [symbol for symbol in symbols if symbol not in shapes.inputs]
    backed = {s: shapes.inputs[s].hint for s in symbols if s in shapes.inputs}
    found = []
    for count in (0, 1, 4):
        found.append(Numbers(shapes, {**backed, **dict.fromkeys(data, count)}))
    if len(data) > 1:
        for shift in (0, 1, 2):
            counts = itertools.islice(itertools.cycle(_COUNTS), shift, None)
            found.append(Numbers(shapes, {**backed, **dict(zip(data, counts, strict=False))}))
    return [p for p in found if all(shapes.might_hold(a, p.values) for a in shapes.all_assumed())]


def _kind(meta: TensorMeta) -> TensorMeta:
    return meta._replace(shape=(), stride=(), device=_CPU)


def _are_empty(expected: Any, found: Any, numbers: Numbers) -> bool:
    """Tell whether two results are tensors without elements: they share no memory anyway."""
    meta, real = getattr(expected, "meta", None), getattr(found, "meta", None)
    if not isinstance(meta, TensorMeta):
        return False
    if real is None:  # what was given comes back
        return any(type(n) is Dim and numbers.of(n) == 0 for n in meta.shape)
    return 0 in real.shape and all(map(numbers.agrees, meta.shape, real.shape))


def matches(expected: Any, found: Any, numbers: Numbers) -> bool:
    """Tell whether an outcome's result is what a run on real tensors gave."""
    dim = getattr(expected, "dim", None)
    if type(dim) is Dim:
        return numbers.agrees(dim, getattr(found, "value", None))
    if type(expected) is not type(found):
        return _are_empty(expected, found, numbers)
    for name in ("position", "kind", "differentiable", "alias_group", "view_group", "cls", "value"):
        if getattr(expected, name, None) != getattr(found, name, None):
            return False
    meta, real = getattr(expected, "meta", None), getattr(found, "meta", None)
    if isinstance(meta, TensorMeta) and isinstance(real, TensorMeta):
        if _kind(meta) != _kind(real):
            return False
        if meta.ndim != real.ndim:
            return False
        # a size has to be right always, a stride where it says something about memory
        if not all(map(numbers.agrees, meta.shape, real.shape)):
            return False
        if min(real.shape, default=2) > 1 and not all(
            map(numbers.agrees, meta.stride, real.stride)
        ):
            return False
    if isinstance(getattr(expected, "items", None), tuple):
        return len(expected.items) == len(found.items) and all(
            matches(e, f, numbers) for e, f in zip(expected.items, found.items, strict=True)
        )
    return True
