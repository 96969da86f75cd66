"""Holds ``id(obj)``: a number that only a run knows, but two of which can be compared.

Must not know the interpreter.
"""

from __future__ import annotations

from capture import break_reasons as reasons
from capture.guards.kinds import IsNotSame
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable


class IdentityVariable(Variable):
    """The ``id`` of a value; it is computed when the value is rebuilt."""

    __slots__ = ("target",)

    def __init__(self, target: Variable) -> None:
        super().__init__(None)
        self.target = target

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return int


class AddressKey:
    """The ``id`` of what only a run makes, as a key of our own dicts.

    It equals no number: what a number in such a dict tells of is another object.
    """

    __slots__ = ("address", "tracer")

    def __init__(self, tracer: Tracer, address: IdentityVariable) -> None:
        self.tracer = tracer
        self.address = address

    def __hash__(self) -> int:
        """All are compared."""
        return hash(AddressKey)

    def __eq__(self, other: object) -> bool:
        """True for the id of the same object."""
        if not isinstance(other, AddressKey):
            return False
        return same_address(self.tracer, self.address, other.address)


def same_address(tracer: Tracer, left: IdentityVariable, right: IdentityVariable) -> bool:
    """Whether two ids are the same; break if they may be so of different objects.

    What was let go of leaves its place to what is made later, so that both have one id.
    """
    both = [left.target.realize(tracer), right.target.realize(tracer)]
    if both[0] is both[1]:
        return True
    if all(isinstance(v, ConstantVariable) for v in both):
        values = [v.value for v in both if isinstance(v, ConstantVariable)]
        if type(values[0]) is type(values[1]) and values[0] == values[1]:
            unsupported(reasons.UNKNOWN_OPERATION, "comparison of ids of equal constants")
    first, second = (v.source for v in both)
    if first is not None and second is not None:
        tracer.guard(IsNotSame(first, second))
        return False
    if all(_is_alive(tracer, v) for v in both):
        return False
    unsupported(reasons.UNKNOWN_OPERATION, "comparison of ids of objects that may be gone")


def _is_alive(tracer: Tracer, v: Variable) -> bool:
    if v.source is not None:
        return not tracer.may_have_ended()
    return tracer.is_held(v)
