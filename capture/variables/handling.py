"""Holds what is known of the exception that a caller of the piece handles; must not know rules."""

from __future__ import annotations

import sys

from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds
from capture.variables.base import Tracer, unsupported


def guard_caller_handles_nothing(tracer: Tracer) -> None:
    """Guard that no exception is handled around the piece; break if one is."""
    if not is_not_handling():  # the caller, or capture itself right now
        unsupported(reasons.FRAME_INSPECTION, "the exception that a caller handles")
    tracer.guard(ExprHolds((), is_not_handling, "no exception is being handled"))


def is_not_handling() -> bool:
    """True if no exception is being handled in this thread."""
    return sys.exception() is None
