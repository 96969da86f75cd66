"""What the counters count, and that a snapshot is a copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from capture import counters
from capture.errors import BreakReason

REASON = BreakReason("CAP9999", "a test")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    counters.reset()
    yield
    counters.reset()


def test_everything_is_counted() -> None:
    counters.record_frame(compile("", "model.py", "exec"))
    counters.record_graph("g", 3)
    counters.record_graph("h", 4)
    counters.record_break(REASON, "model.py:3")
    counters.record_break(REASON, "model.py:3")
    counters.record_break(REASON, "model.py:9")
    counters.record_recompile("model.py:1", "`x` changed")
    counters.record_compile_time(0.5)
    stats = counters.snapshot()
    assert (stats.frames, stats.graphs, stats.ops, stats.compile_seconds) == (1, 2, 7, 0.5)
    assert stats.breaks == [
        counters.BreakRecord("CAP9999", "a test", "model.py:3", 2),
        counters.BreakRecord("CAP9999", "a test", "model.py:9", 1),
    ]
    assert stats.recompiles == [counters.RecompileRecord("model.py:1", "`x` changed", 1)]
    kinds = [event.kind for event in stats.events]
    assert kinds == ["frame", "graph", "graph", "break", "break", "break", "recompile", "compile"]
    times = [event.time_s for event in stats.events]
    assert times == sorted(times)


def test_snapshot_is_a_copy_and_reset_forgets() -> None:
    counters.record_graph("g", 1)
    before = counters.snapshot()
    counters.record_graph("g", 1)
    counters.reset()
    assert before.graphs == 1
    assert len(before.events) == 1
    assert counters.snapshot() == counters.Stats()


def test_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_MAX_EVENTS", 5)
    counters.reset()
    for i in range(9):
        counters.record_graph(f"g{i}", 1)
    stats = counters.snapshot()
    assert stats.graphs == 9
    assert [event.detail for event in stats.events] == [f"g{i}: 1 operators" for i in range(4, 9)]
