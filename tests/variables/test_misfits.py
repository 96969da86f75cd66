"""Calls whose arguments do not fit: the errors are eager's, and caught without a break."""

# mypy: ignore-errors

from __future__ import annotations

import abc

import pytest
import torch

X = torch.tensor([1.0, -2.0, 3.0])


def plain(a, b=1):
    return a, b


def strict(a, /, b, *, c, d=4):
    return a, b, c, d


def generator(a):
    yield a


def enclosing(n):
    def inner(a, *rest, key):
        return a, rest, key, n

    return inner


class Thing:
    def method(self, a):
        return a


CALLS = [
    lambda: plain(),
    lambda: plain(1, 2, 3),
    lambda: plain(1, a=2),
    lambda: plain(1, c=2),
    lambda: strict(1, 2),
    lambda: strict(1, 2, 3, c=1),
    lambda: strict(a=1, b=2, c=3),
    lambda: generator(),
    lambda: enclosing(3)(1),
    lambda: enclosing(3)(key=1),
    lambda: Thing().method(),
    lambda: Thing.method(1, 2, 3),
    lambda: Thing(1),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_misfit_is_caught(check, call):
    def f(x):
        try:
            call()
        except TypeError as error:
            return x + 1, str(error)

    assert not check(f, (X,)).breaks


@pytest.mark.parametrize("call", CALLS)
def test_a_misfit_leaves_the_frame(check, call):
    def f(x):
        x = x + 1
        return call(), x

    check(f, (X,))


def test_an_abstract_class_is_not_instantiated(check):
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def first(self): ...

        @abc.abstractmethod
        def second(self): ...

    def f(x):
        try:
            Abstract()
        except TypeError as error:
            return x + 1, str(error)

    assert not check(f, (X,)).breaks
