"""Holds what happened so far: graphs, breaks, frames, recompiles; must not know who records it."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import CodeType

from capture.errors import BreakReason

__all__ = [
    "BreakRecord",
    "Event",
    "RecompileRecord",
    "Stats",
    "record_break",
    "record_compile_time",
    "record_frame",
    "record_graph",
    "record_recompile",
    "reset",
    "snapshot",
]

_MAX_EVENTS = 1_000


@dataclass(frozen=True, slots=True)
class BreakRecord:
    """A place where graphs break, and how often capture met it (not how often it ran)."""

    reason_id: str
    title: str
    user_location: str
    count: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecompileRecord:
    """A place that was compiled again, the guard that asked for it in words, and how often."""

    user_location: str
    sentence: str
    count: int


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened during capture, with the time it had ended.

    Attributes:
        time_s: on the clock of ``time.perf_counter``.
        kind: ``graph``, ``break``, ``frame``, ``recompile`` or ``compile``.
    """

    time_s: float
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stats:
    """What happened between two calls of ``reset``."""

    graphs: int = 0
    ops: int = 0
    frames: int = 0
    instructions: int = 0
    compile_seconds: float = 0.0
    breaks: list[BreakRecord] = field(default_factory=list)
    recompiles: list[RecompileRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class _Counters:
    def __init__(self) -> None:
        self.graphs = 0
        self.ops = 0
        self.frames = 0
        self.instructions = 0
        self.compile_seconds = 0.0
        self.breaks: dict[tuple[str, str, str, str], int] = {}
        self.recompiles: dict[tuple[str, str], int] = {}
        self.events: deque[Event] = deque(maxlen=_MAX_EVENTS)

    def add_event(self, kind: str, detail: str) -> None:
        self.events.append(Event(time.perf_counter(), kind, detail))


_lock = threading.Lock()
_counters = _Counters()


def record_graph(name: str, n_ops: int) -> None:
    """Count a compiled graph of ``n_ops`` operators."""
    with _lock:
        _counters.graphs += 1
        _counters.ops += n_ops
        _counters.add_event("graph", f"{name}: {n_ops} operators")


def record_break(reason: BreakReason, location: str, detail: str = "") -> None:
    """Count a graph break at ``file:line`` of the user's code; ``detail`` is the explanation."""
    with _lock:
        key = (reason.id, reason.title, location, detail)
        _counters.breaks[key] = _counters.breaks.get(key, 0) + 1
        _counters.add_event("break", f"{location}: {reason.id} {reason.title}")


def record_frame(code: CodeType) -> None:
    """Count a captured frame, or a captured piece of one."""
    with _lock:
        _counters.frames += 1
        _counters.add_event("frame", code.co_qualname)


def record_instructions(count: int) -> None:
    """Count instructions executed symbolically for one piece."""
    with _lock:
        _counters.instructions += count


def record_compile_time(seconds: float) -> None:
    """Add the wall time that one capture took, from the miss to the new entry."""
    with _lock:
        _counters.compile_seconds += seconds
        _counters.add_event("compile", f"{seconds:.3f} s")


def record_recompile(location: str, sentence: str) -> None:
    """Count a recompile of the place ``file:line`` and the guard failure that caused it."""
    with _lock:
        key = (location, sentence)
        _counters.recompiles[key] = _counters.recompiles.get(key, 0) + 1
        _counters.add_event("recompile", f"{location}: {sentence}")


def snapshot() -> Stats:
    """Return what was recorded since the last ``reset``."""
    with _lock:
        return Stats(
            graphs=_counters.graphs,
            ops=_counters.ops,
            frames=_counters.frames,
            instructions=_counters.instructions,
            compile_seconds=_counters.compile_seconds,
            breaks=[
                BreakRecord(*key[:3], count, key[3]) for key, count in _counters.breaks.items()
            ],
            recompiles=[
                RecompileRecord(*key, count) for key, count in _counters.recompiles.items()
            ],
            events=list(_counters.events),
        )


def reset() -> None:
    """Start counting from nothing."""
    global _counters
    with _lock:
        _counters = _Counters()
