"""Holds ``id(obj)``: a number that only a run knows, but two of which can be compared.

Must not know the interpreter.
"""

from __future__ import annotations

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported


class IdentityVariable(Variable):
    """The ``id`` of a value; it is computed when the value is rebuilt."""

    __slots__ = ("target",)

    def __init__(self, target: Variable) -> None:
        super().__init__(None)
        self.target = target

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return int


def comparable(tracer: Tracer, left: IdentityVariable, right: IdentityVariable) -> bool:
    """Whether two ids differ exactly if their objects do; else break.

    What was let go of leaves its place to what is made later, so that both have one id.
    """
    if left.target is right.target:
        return True
    both = (left.target, right.target)
    if all(v.source is not None for v in both) or all(tracer.is_held(v) for v in both):
        return True
    unsupported(reasons.UNKNOWN_OPERATION, "comparison of ids of objects that may be gone")
