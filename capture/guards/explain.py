"""Holds the explanations of guards for logs and reports; must not know variables or the cache."""

from __future__ import annotations

from dataclasses import dataclass

from capture.guards.guard import Guard
from capture.guards.guard_set import GuardSet
from capture.sources import Scope

__all__ = ["Failure", "all_failures", "describe", "first_failure"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that does not hold, why, and the user's place that made us guard."""

    guard: Guard
    reason: str
    user_frame: str | None

    def __str__(self) -> str:
        return f"{self.reason}, {self.user_frame}" if self.user_frame else self.reason


def first_failure(guards: GuardSet, scope: Scope) -> Failure | None:
    """Return the first guard that does not hold for these values, or None if all hold."""
    found = guards.first_failure(scope)
    if found is None:
        return None
    guard, reason = found
    return Failure(guard, reason, guards.user_frame(guard))


def all_failures(guards: GuardSet, scope: Scope) -> list[Failure]:
    """Return every guard that does not hold for these values."""
    return [
        Failure(guard, guard.explain(scope), guards.user_frame(guard))
        for guard in guards
        if not guard.check(scope)
    ]


def describe(guards: GuardSet) -> str:
    """Return one line per guard: what it demands and which place of the user's asked for it."""
    lines = []
    for guard in guards:
        place = guards.user_frame(guard)
        text = type(guard).__name__ + ": " + guard.describe()
        lines.append(f"{text}  ({place})" if place else text)
    return "\n".join(lines)
