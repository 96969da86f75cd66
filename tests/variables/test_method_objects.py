"""``types.MethodType`` over every kind of callable: made inside, handed in, kept over a break."""

# mypy: ignore-errors

from __future__ import annotations

import types

import pytest
import torch

X = torch.tensor([1.0, -2.0, 3.0])


class Callable:
    def __call__(self, *args):
        return args


def plain(self, *args):
    return self, args


CASES = [
    (plain, 3, (1,)),
    (len, [1, 2], ()),
    (int, "3", ()),
    (Callable(), 3, (1,)),
    (list.append, [1], (2,)),
    (str.upper, "a", ()),
    (dict.fromkeys, [1], ()),
    (torch.add, X, (3,)),
]


def outcome(method, args):
    result = method(*args)
    return type(method), method.__func__, method.__self__, result


@pytest.mark.parametrize(("fn", "bound", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_made_inside_and_kept_over_a_break(check, fn, bound, args):
    def f(x, bound):
        method = types.MethodType(fn, bound)
        print("break")
        return x + 1, outcome(method, args)

    check(f, (X, bound))


@pytest.mark.parametrize(("fn", "bound", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_handed_in(check, fn, bound, args):
    def f(x, method):
        return x + 1, method(*args), type(method), method.__self__

    check(f, (X, types.MethodType(fn, bound)))


@pytest.mark.parametrize("args", [(), (plain,), (plain, None), (3, 4), (plain, 1, 2)], ids=str)
def test_wrong_arguments(check, args):
    def f(x):
        try:
            return x, types.MethodType(*args)
        except TypeError as error:
            return x + 1, str(error)

    check(f, (X,))
