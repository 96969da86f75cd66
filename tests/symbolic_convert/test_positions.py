"""Tests that tracebacks point at the user's very expressions, in graphs, break and resume code.

PYTEST_DONT_REWRITE: pytest puts addresses into the messages of assertions.
"""

# mypy: ignore-errors
# ruff: noqa: B018, F821, F841

from __future__ import annotations

import traceback

import pytest
import torch

import capture


@capture.disable
def K(v):
    return v


@capture.disable
def boom(v):
    raise ValueError(v)


# fmt: off
def inner(a, b):
    c = a + 1
    return (K(a) +
            boom(b) * 3)


def in_comprehension_and_callee(x):
    y = x + 1
    K(y)
    return [inner(x, i) for i in (1, 2)] + [boom(2)]


def in_expression(x):
    y = x * 2
    K(1)
    d = {"a": [1, 2]}
    return y, d["a"][5]


def in_loop(x):
    y = x * 2
    for i in range(3):
        K(i)
        y = y + (1 / (1 - i))
    return y


def in_operator(x):
    y = x * 2
    K(0)
    with torch.no_grad():
        z = y.view(3, 5) + K(1)
    return z


def in_handler(x):
    y = x * 2
    try:
        K(0)
        raise KeyError("a")
    except KeyError as e:
        K(1)
        raise ValueError(K("b")) from e


def in_generator(x):
    y = x + 1
    def g():
        K(1)
        yield y
        raise OSError("in gen")
    return [v for v in g()]


def in_lambda(x):
    y = x + 1
    K(1)
    return (lambda q: q.foo(1)
            .bar)(y)


def in_assertion(x):
    y=x+1
    K(1)
    assert (y.sum() <
            0), "msg"


def in_name(x):
    y=x+1
    K(1)
    y.nothing = undefined_name + 1


def in_unpacking(x):
    y=x+1
    K(1)
    a, b = K((1, 2, 3))

# fmt: on
PROGRAMS = [value for name, value in list(globals().items()) if name.startswith("in_")]


def places(fn):
    """What is raised, with the exact place of every entry of the traceback, along the chain."""
    found = []
    try:
        fn(torch.ones(4))
    except Exception as caught:
        error = caught
        while error is not None:
            entries = traceback.extract_tb(error.__traceback__)
            own = [
                (e.name, e.lineno, e.end_lineno, e.colno, e.end_colno)
                for e in entries
                if e.filename == __file__ and e.name != "places"
            ]
            found.append((type(error), str(error), own))
            error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_places(program):
    expected = places(program)
    assert expected
    compiled = capture.compile(program, backend="eager")
    assert places(compiled) == expected
    assert places(compiled) == expected
