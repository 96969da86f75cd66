"""Holds locks made during capture: nobody else has seen them, so nobody waits.

Must not know rules or the interpreter.
"""

from __future__ import annotations

import _thread
from typing import Any

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported

LOCK: Any = type(_thread.allocate_lock())
RLOCK: Any = type(_thread.RLock())


class LockVariable(Variable):
    """A lock; ``depth`` says how many times it is held."""

    __slots__ = ("cls", "depth")

    def __init__(self, cls: type) -> None:
        super().__init__(None)
        self.cls = cls
        self.depth = 0

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return self.cls

    def acquire(self, tracer: Tracer) -> None:
        """Take the lock; break where that would wait for ever."""
        if self.depth and self.cls is LOCK:
            unsupported(reasons.SIDE_EFFECT, "A lock that is held already")
        tracer.mutations += 1
        self.depth += 1

    def release(self, tracer: Tracer) -> None:
        """Give the lock back."""
        if not self.depth:
            reentrant = self.cls is RLOCK
            text = "cannot release un-acquired lock" if reentrant else "release unlocked lock"
            tracer.raise_error(RuntimeError, text)
        tracer.mutations += 1
        self.depth -= 1
