"""Holds how the user wants one function captured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Options"]


@dataclass
class Options:
    """How one compiled function is captured."""

    backend: Callable[..., Any]
    fullgraph: bool = False
    dynamic: bool | None = None
    on_piece: list[Callable[[Any], None]] = field(default_factory=list)
