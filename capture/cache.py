"""Holds what is remembered per site between compilations; must not know how a piece is made.

The native ``Site`` keeps the entries; its ``data`` is a ``History``: what was seen to change, how
often it compiled, what the loops of its frame need.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from capture._native import Site
from capture.graph.sample import quiet
from capture.sources import Scope
from capture.symbolic_convert.dynamic import Seen

if TYPE_CHECKING:
    from capture._native import Break, Entry
    from capture.guards.guard_set import GuardSet

__all__ = ["FrameFamily", "History", "history_of"]


@dataclass
class FrameFamily:
    """What all sites of one captured frame share: its resume sites, breaks and loops."""

    sites: dict[Any, tuple[weakref.ref[CodeType], Site]] = field(default_factory=dict)
    breaks: dict[Any, tuple[weakref.ref[CodeType], Break, tuple[Site, ...]]] = field(
        default_factory=dict
    )
    run_loops: set[tuple[int, int]] = field(default_factory=set)
    idle: int = 0
    """Instructions executed symbolically; of interest while no piece worked on a tensor."""
    works: bool = False
    """Whether a piece worked on a tensor."""
    takes_data: bool = True
    """False once the backend refused numbers and sizes that depend on data."""
    takes_whole: bool = True
    """False once the backend refused to write all or nothing."""


@dataclass
class History:
    """What one site remembers."""

    family: FrameFamily
    seen: Seen = field(default_factory=Seen)
    compiles: int = 0
    empty: int = 0
    limit_reported: bool = False
    guard_sets: list[tuple[Any, GuardSet]] = field(default_factory=list)

    def failure(self, values: list[object], func: Any) -> list[tuple[Any, str, str | None]]:
        """Why each entry did not fit: (guard, sentence, user's place), most recent first."""
        scope = Scope(values, func)
        found = []
        with quiet():  # reading ``grad`` may warn, which is the program's affair
            for entry, guards in reversed(self.guard_sets):
                if not entry.alive:
                    continue
                failed = guards.first_failure(scope)
                if failed is not None:
                    found.append((failed[0], failed[1], guards.user_frame(failed[0])))
        return found

    def learn(self, values: list[object], func: Any) -> None:
        """What changed is symbolic from now on, all of it at once."""
        scope = Scope(values, func)
        with quiet():
            for entry, guards in self.guard_sets:
                if entry.alive:
                    self.seen.learn(list(guards), scope)

    def add(self, entry: Entry, guards: GuardSet) -> None:
        """Remember an entry's guards for explanations."""
        self.guard_sets = [(e, g) for e, g in self.guard_sets if e.alive]
        self.guard_sets.append((entry, guards))
        self.compiles += 1


def history_of(site: Site) -> History:
    """The site's history, made on first use."""
    if site.data is None:
        site.data = History(FrameFamily())
    found = site.data
    assert isinstance(found, History)
    return found
