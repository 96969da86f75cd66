"""Holds the set of guards of one cache entry; must not know variables or graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from capture.guards.guard import Guard
from capture.guards.lower import build_tree
from capture.sources import Scope, Source, UnreadableError

if TYPE_CHECKING:
    from capture._native import GuardTree

__all__ = ["GuardSet"]


class GuardSet:
    """Guards in the order they were asked for, each once, with the user's line that asked."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[Guard, str | None] = {}

    def add(self, guard: Guard, user_frame: str | None = None) -> None:
        """Add a guard unless it is there; ``user_frame`` is the user's place (``model.py:41``)."""
        self._guards.setdefault(guard, user_frame)

    def discard(self, guard: Guard) -> None:
        """Take a guard back."""
        self._guards.pop(guard, None)

    def update(self, other: GuardSet) -> None:
        """Add all guards of another set."""
        for guard, user_frame in other._guards.items():
            self._guards.setdefault(guard, user_frame)

    def copy(self) -> GuardSet:
        """Return an independent copy."""
        twin = GuardSet()
        twin._guards.update(self._guards)
        return twin

    def user_frame(self, guard: Guard) -> str | None:
        """The user's place that asked for the guard first."""
        return self._guards.get(guard)

    def __contains__(self, guard: Guard) -> bool:
        return guard in self._guards

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards)

    def __len__(self) -> int:
        return len(self._guards)

    def check(self, scope: Scope) -> bool:
        """Whether all guards hold; the Python oracle of the native tree."""
        return all(guard.check(scope) for guard in self._guards)

    def first_failure(self, scope: Scope) -> tuple[Guard, str] | None:
        """Return the first guard that does not hold, and why, or None if all hold."""
        for guard in self._guards:
            if not guard.check(scope):
                return guard, guard.explain(scope)
        return None

    def compile(self, captures: Sequence[Source] = ()) -> GuardTree:
        """Lower to one native tree that also fills an array with the values of ``captures``."""
        return build_tree(list(self._guards), list(captures))

    @staticmethod
    def read_captures(scope: Scope, captures: Sequence[Source]) -> list[object] | None:
        """Read the captures in Python, or None if one is not there."""
        try:
            return [source.read(scope) for source in captures]
        except UnreadableError:
            return None
