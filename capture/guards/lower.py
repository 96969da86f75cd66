"""Holds the lowering of guards to the native tree; must not know variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture.guards.guard import Guard
from capture.sources import Source

if TYPE_CHECKING:
    from capture._native import GuardTree

__all__ = ["build_tree"]


def build_tree(guards: list[Guard], captures: list[Source]) -> GuardTree:
    """Return one native tree for the guards, filling ``captures``."""
    raise NotImplementedError
