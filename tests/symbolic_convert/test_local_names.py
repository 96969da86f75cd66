"""``locals()``, ``globals()``, ``vars()`` and ``dir()`` without arguments, without a break."""

# mypy: ignore-errors

from __future__ import annotations

import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def test_locals_are_those_bound_now(check):
    def f(x, y):
        z = y + 1
        before = dict(locals())
        del z
        w = 2  # noqa: F841
        return x + 1, sorted(before), sorted(locals()), locals()["w"]

    assert not check(f, (X, 1), (X, 2)).breaks


def test_calls_share_their_dict_as_in_eager(check):
    def f(x):
        first = locals()
        size = len(first)
        y = 1  # noqa: F841
        second = locals()
        return x + 1, size, first is second, "y" in first, list(second)[:2]

    assert not check(f, (X,)).breaks


def test_cells_and_free_variables_are_told(check):
    def f(x):
        seen = 3

        def inner():
            own = 4  # noqa: F841
            return seen, sorted(locals().items())

        found = inner()
        return x + 1, found, sorted(k for k in vars() if k != "f")

    assert not check(f, (X,)).breaks


def test_names_of_a_match_that_failed(check):
    def f(x, subject):
        match subject:
            case [first, *rest]:  # noqa: F841
                pass
            case {"key": value}:  # noqa: F841
                pass
        return x + 1, dir()

    assert not check(f, (X, [1, 2]), (X, {"key": 5}), (X, 3)).breaks


def test_the_dict_leaves_the_frame(check):
    def f(x, y):
        y = y + 1
        return locals(), x + 1

    check(f, (X, 1))


def test_a_dict_that_a_later_call_fills_leaves_the_frame_to_python(check):
    def f(x):
        first = locals()
        x = x + 1
        capture.graph_break()
        y = 2  # noqa: F841
        locals()
        return x + 1, sorted(first)

    check(f, (X,))


def test_globals_are_the_dict_itself(check):
    def f(x):
        return x + globals()["X"], globals() is f.__globals__

    assert not check(f, (X,)).breaks


def test_names_of_built_in_types(check):
    def f(x):
        return x + 1, dir(dict), dir(int), "append" in dir(list)

    assert not check(f, (X,)).breaks
