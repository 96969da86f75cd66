"""Holds the guards of what was decided about symbolic sizes, and the user's marks on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture.errors import UserError
from capture.graph.symbols import Dim, Inexpressible, Shapes
from capture.guards.derived import compute_derived
from capture.guards.kinds import ExprHolds
from capture.guards.size_program import NumbersHold
from capture.sources import SizeSource
from capture.variables.sizes import expression

if TYPE_CHECKING:
    from collections.abc import Callable

    from capture.symbolic_convert.translator import Translator


def guard_sizes(tracer: Translator) -> None:
    """Guard what was decided about symbolic sizes; the backend has had its say.

    Raises:
        UserError: if the program or the backend pins a size that the user marked.
    """
    shapes = tracer.graph.shapes
    if shapes is None:
        return
    for source, number in list(shapes.by_key.items()):
        _check_mark(tracer, shapes, source, number)
    for condition in shapes.conditions():
        try:
            text, sources = expression(shapes, condition.expr)
            tracer.guards.add(NumbersHold(sources, text), condition.place)
        except Inexpressible:
            behind, compute = compute_derived([n.key for n in shapes.inputs.values()])
            check = _of_derived(shapes.checker(condition.expr), compute)
            tracer.guards.add(
                ExprHolds(tuple(behind), check, shapes.text_of(condition.expr)), condition.place
            )


def _of_derived(check: Callable[..., bool], compute: Callable[..., list[Any]]) -> Any:
    return lambda *given: check(*compute(given))


def _check_mark(tracer: Translator, shapes: Shapes, source: Any, dim: Dim) -> None:
    """Refuse to compile what pins a size that the user marked as dynamic."""
    if not isinstance(source, SizeSource) or source not in tracer.marked_sizes:
        return
    pinned = shapes.pinned(dim)
    if pinned is not None:
        condition, place = shapes.reason_for(dim)
        raise UserError(
            f"dimension {source.dim} of {source.base.name} is marked dynamic, but the program "
            f"demands that it is {pinned}: {condition} ({place or 'in the backend'}). Remove "
            "the mark, use capture.maybe_mark_dynamic, or change that line."
        )
