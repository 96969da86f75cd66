"""Debuggers and profilers beside compiled code."""

# mypy: ignore-errors

from __future__ import annotations

import bdb
import cProfile
import pstats
import sys

import pytest
import torch

import capture

X = torch.ones(2)


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


@capture.disable
def brk(*_):
    pass


def callee(x):
    y = x * 3
    return y - 1


def f(x):
    y = x + 1
    y = callee(y)
    brk(y)
    z = y * 2
    return callee(z)


def traced(fn):
    """The events in this file's functions; the trace is set before the call."""
    seen = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("f", "callee"):
            seen.append((frame.f_code.co_name, frame.f_lineno, event, sorted(frame.f_locals)))
        return trace

    sys.settrace(trace)
    try:
        fn(X)
    finally:
        sys.settrace(None)
    return seen


def test_trace_set_before_a_call_sees_the_original():
    expected = traced(f)
    compiled = capture.compile(f, backend="eager")
    assert traced(compiled) == expected  # and nothing is compiled
    assert capture.counters.snapshot().graphs == 0
    compiled(X)
    assert capture.counters.snapshot().graphs > 0
    assert traced(compiled) == expected


class Debugger(bdb.Bdb):
    def __init__(self):
        super().__init__()
        self.hits = []

    def user_line(self, frame):
        if self.break_here(frame):
            self.hits.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
        self.set_continue()


def hits(fn):
    debugger = Debugger()
    debugger.set_break(__file__, callee.__code__.co_firstlineno + 2)
    debugger.set_break(__file__, f.__code__.co_firstlineno + 4)
    debugger.runcall(fn, X)
    return debugger.hits


def test_breakpoints_hit():
    compiled = capture.compile(f, backend="eager")
    compiled(X)
    assert hits(compiled) == hits(f)
    assert len(hits(f)) == 3


def helper(i):
    return sum(range(i))


@capture.disable
def library(y):
    return [helper(k) for k in range(4)], helper(7)


def top(x):
    y = x + 1
    library(y)
    return y * 2


def profile(fn):
    profiler = cProfile.Profile()
    profiler.enable()
    fn(X)
    profiler.disable()
    stats = pstats.Stats(profiler).stats
    return {key[1:]: value[:2] for key, value in stats.items() if key[0] == __file__}


def test_profile_of_code_that_is_not_captured():
    compiled = capture.compile(top, backend="eager")
    compiled(X)
    expected, found = profile(top), profile(compiled)
    for name in ("helper", "library"):
        key = next(k for k in expected if k[1] == name)
        assert found[key] == expected[key]


def profile_events(fn):
    seen = []

    def note(frame, event, arg):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("helper", "library"):
            seen.append((frame.f_code.co_name, event))

    sys.setprofile(note)
    try:
        fn(X)
    finally:
        sys.setprofile(None)
    return seen


def test_profile_function_sees_what_is_not_captured():
    compiled = capture.compile(top, backend="eager")
    compiled(X)
    assert profile_events(compiled) == profile_events(top) != []
