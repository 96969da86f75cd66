"""Loops of very many rounds without a tensor: Python runs the rest, then capture goes on."""

# mypy: ignore-errors

from __future__ import annotations

import io
import logging
import traceback

import pytest
import torch

import capture
from capture import _native
from capture.backends import GraphCounter

X = torch.tensor([1.0, -2.0, 3.0])
MANY = 30_000
LINES = ["go\n"] * 20_000 + ["stop\n"] + ["go\n"] * (MANY - 20_001)
TEXT = "".join(LINES)
MIXED = ("go\n" * 4_999 + "stop\n") * 4


def run(f, *args):
    """Result, graphs and how many instructions were left to Python."""
    counter = GraphCounter()
    compiled = capture.compile(f, backend=counter)
    before = _native.stats()["breaks"]
    with capture.config.patch(suppress_errors=False):
        result = compiled(*args, io.StringIO(TEXT))
    broken = _native.stats()["breaks"] - before
    capture.reset()
    return result, counter.graph_count, broken


def test_the_rest_of_an_idle_loop_is_run_at_once():
    def f(x, lines):
        seen = []
        for line in lines:
            if line == "stop\n":
                continue
            seen.append(line)
        return x * 3, seen

    (y, seen), graphs, broken = run(f, X)
    assert seen == [line for line in LINES if line == "go\n"]
    assert torch.equal(y, X * 3)
    assert graphs == 1  # behind the loop
    assert broken < MANY * 0.6


def test_a_loop_that_meets_tensors_stays_captured():
    def f(x, lines):
        for word in io.StringIO(MIXED):
            if word == "stop\n":
                x = x + 1
        return x

    y, graphs, broken = run(f, X)
    assert torch.equal(y, X + 4)
    assert graphs >= 1
    assert broken >= 20_000


def test_leaving_the_loop_by_break_and_return():
    def f(x, leave, word, lines):
        seen = []
        for line in lines:
            seen.append(line)
            if line == word:
                if leave:
                    return len(seen), x + 1
                break
        else:
            seen.append("else")
        return seen[-1], x * 2

    for args in ((False, "stop\n"), (True, "stop\n"), (False, "")):
        (first, y), _, broken = run(f, X, *args)
        expected = f(X, *args, io.StringIO(TEXT))
        assert first == expected[0]
        assert torch.equal(y, expected[1])
        assert broken < MANY * 0.6


def test_an_exception_keeps_its_lines():
    def f(x, lines):
        for line in lines:
            if line == "stop\n":
                raise ValueError(line)
        return x

    def places(g):
        with pytest.raises(ValueError, match="stop") as caught:
            g(X, io.StringIO(TEXT))
        own = [e for e in traceback.extract_tb(caught.value.__traceback__) if e.name == "f"]
        return [(e.filename, e.lineno) for e in own]

    assert places(capture.compile(f, backend="eager")) == places(f)
    capture.reset()


def test_handlers_inside_and_around_the_loop():
    def f(x, lines):
        caught = []
        try:
            for line in lines:
                try:
                    if line == "stop\n":
                        raise KeyError(line)
                except KeyError as error:
                    caught.append(error.args)
                else:
                    continue
                raise ValueError(line)
        except ValueError as error:
            caught.append(str(error))
        return x + len(caught), caught

    (y, caught), _, broken = run(f, X)
    assert caught == [("stop\n",), "stop\n"]
    assert torch.equal(y, X + 2)
    assert broken < MANY * 0.6


def test_cells_and_comprehensions_in_the_loop():
    def f(x, lines):
        seen = []

        def add(n):
            seen.append(n)

        for line in lines:
            add(sum([len(k) for k in (line, "ab")]))
        return x + len(seen), sum(seen)

    (y, total), graphs, _ = run(f, X)
    assert total == sum(len(line) + 2 for line in LINES)
    assert torch.equal(y, X + MANY)
    assert graphs == 1


def test_behind_a_loop_left_to_python_capture_goes_on():
    def f(x, lines):
        total = 0
        for number, line in enumerate(lines):
            total += hash((str(number), line)) % 2 >= 0  # another constant every time
        return x * 2 + total

    y, graphs, _ = run(f, X)
    assert torch.equal(y, X * 2 + MANY)
    assert graphs >= 1


def test_the_log_tells_of_it(caplog):
    def f(x, lines):
        for line in lines:
            pass
        return x + len(line)

    caplog.set_level(logging.INFO, logger="capture.breaks")
    run(f, X)
    assert "Python runs the rest of it" in caplog.text
