"""Tests that trace functions and monitoring tools follow the user's lines through compiled code."""

# mypy: ignore-errors

from __future__ import annotations

import sys

import pytest
import torch

import capture

X = torch.ones(2)


class Lines:
    """A trace function that notes the lines of this file."""

    def __init__(self):
        self.seen = []
        self.names = {}

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename != __file__ or frame.f_code.co_name in ("start", "stop"):
            return None
        if event == "line":
            self.seen.append((frame.f_code.co_name, frame.f_lineno))
            self.names[frame.f_lineno] = {n for n in frame.f_locals if not n.startswith(".")}
        return self


LINES = Lines()


@capture.disable
def start():
    sys.settrace(LINES)


@capture.disable
def stop():
    sys.settrace(None)


def helper(x):
    return x + 3


def traced_from_a_break(x):
    y = x + 1
    start()
    z = helper(y)
    for i in range(2):
        z = z + i
    stop()
    return z * y


def loops(x):
    for i in range(3):
        if i == 1:
            start()
        x = helper(x) + i
    stop()
    return x


def lines_of(fn, *wanted):
    first = fn.__code__.co_firstlineno
    return [first + n for n in wanted]


def traced_lines(fn, name):
    """The lines of a function in a run with ``LINES``, however it is set."""
    LINES.seen.clear()
    result = fn(X)
    return result, [line for found, line in LINES.seen if found == name]


def eager_lines(fn, behind):
    """The lines from the one ``behind`` the function's first on, traced from the very start."""
    sys.settrace(LINES)
    result, lines = traced_lines(fn, fn.__name__)
    assert sys.gettrace() is None
    return result, lines[lines.index(fn.__code__.co_firstlineno + behind) :]


@pytest.fixture(autouse=True)
def _own_trace():
    before = sys.gettrace()
    LINES.seen.clear()
    LINES.names.clear()
    yield
    sys.settrace(before)


def test_trace_set_in_a_break_follows_what_is_entered_afterwards():
    expected, lines = eager_lines(traced_from_a_break, 2)
    compiled = capture.compile(traced_from_a_break, backend="eager")
    for _ in range(3):
        result, seen = traced_lines(compiled, "traced_from_a_break")
        assert torch.equal(result, expected)
        assert sys.gettrace() is None
        assert seen == lines
        assert [name for name, _ in LINES.seen].count("helper") == 1
        assert LINES.names[lines[1]] >= {"x", "y"}


def test_trace_set_in_a_loop():
    expected, lines = eager_lines(loops, 3)
    compiled = capture.compile(loops, backend="eager")
    for _ in range(3):
        result, seen = traced_lines(compiled, "loops")
        assert torch.equal(result, expected)
        assert seen == lines


def test_trace_set_before_the_call_follows_the_original():
    compiled = capture.compile(helper, backend="eager")
    compiled(X)
    sys.settrace(LINES)
    try:
        compiled(X)
    finally:
        sys.settrace(None)
    assert LINES.seen == [("helper", helper.__code__.co_firstlineno + 1)]
    LINES.seen.clear()
    compiled(X)
    assert LINES.seen == []


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="this Python has no sys.monitoring")
@pytest.mark.parametrize("local", [False, True])
def test_line_monitoring_set_in_a_break(local):
    monitoring = sys.monitoring
    tool, event = 4, monitoring.events.LINE
    seen = []

    def callback(code, line):
        if code.co_name == "f":
            seen.append(line)

    @capture.disable
    def switch(on):
        if local:
            monitoring.set_local_events(tool, helper.__code__, event if on else 0)
        else:
            monitoring.set_events(tool, event if on else 0)

    def f(x):
        y = x + 1
        switch(True)
        z = helper(y) * 2
        switch(False)
        return z

    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, event, callback)
    try:
        compiled = capture.compile(f, backend="eager")
        for _ in range(2):
            seen.clear()
            assert torch.equal(compiled(X), f(X))
            if not local:
                assert set(lines_of(f, 3, 4)) <= set(seen)
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


def test_breakpoint_sees_all_names(monkeypatch):
    seen = []

    def hook():
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))

    def f(x):
        unused = 5  # noqa: F841
        y = x + 1
        breakpoint()
        rows = [i * y for i in range(2)]
        return rows[1]

    monkeypatch.setattr(sys, "breakpointhook", hook)
    compiled = capture.compile(f, backend="eager")
    f(X)
    for _ in range(2):
        compiled(X)
    assert seen[1:] == seen[:1] * 2
