"""Holds whose line a warning is given for; must not know how it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capture.symbolic_convert.frame import Frame

__all__ = ["warned_place"]


def warned_place(
    frames: Sequence[Frame], level: int | None, internal: tuple[str, ...]
) -> tuple[tuple[str, int] | None, dict[str, Any]]:
    """File and line of a frame, and its global names; no place if that frame is not certain.

    Args:
        frames: those being run, innermost last.
        level: 1 for the innermost; None for the innermost in none of the ``internal`` files.
    """
    if level is None:
        outer = [f for f in frames if not f.code.co_filename.startswith(internal)]
        return _place(outer[-1]) if outer else (None, {})
    level = max(level, 1)
    if level > len(frames) or any(map(_may_skip, frames[len(frames) - level + 1 :])):
        return None, {}
    return _place(frames[-level])


def _may_skip(frame: Frame) -> bool:
    """True if Python has further frames between this one and its caller."""
    return (
        frame.nested or frame.code.co_name == "forward" or "/polyfills/" in frame.code.co_filename
    )


def _place(frame: Frame) -> tuple[tuple[str, int] | None, dict[str, Any]]:
    names = frame.globals.value
    if not isinstance(names, dict):
        return None, {}
    return (frame.code.co_filename, frame.line), names
