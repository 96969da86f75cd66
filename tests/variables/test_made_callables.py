"""Getters, callers, keys and partial objects made in the frame: called there, and handed out."""

# mypy: ignore-errors

from __future__ import annotations

import bisect
import functools
import operator

import pytest
import torch

X = torch.tensor([3.0, 1.0])


class Thing:
    def __init__(self, value):
        self.value = value
        self.inner = self


MAKERS = {
    "item": lambda x: (operator.itemgetter(1), [5, 6]),
    "items": lambda x: (operator.itemgetter(1, slice(0, 1)), [5, 6]),
    "tensor_item": lambda x: (operator.itemgetter("a"), {"a": x}),
    "attribute": lambda x: (operator.attrgetter("inner.value", "value"), Thing(x)),
    "method": lambda x: (operator.methodcaller("add", x, alpha=2), x),
    "partial": lambda x: (functools.partial(torch.add, x, alpha=2), x),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_called_and_handed_out(check, make):
    def fn(x):
        called, argument = make(x)
        kept = {"callable": called}
        return called(argument), kept["callable"] is called, type(called), callable(called)

    def program(compiled):
        @compiled
        def give(x):
            called, argument = make(x)
            return x + 1, called, argument

        _, called, argument = give(X)
        return type(called), repr(type(called)), called(argument)

    assert not check(fn, (X,), fullgraph=True).breaks
    check.script(program)


def test_keys_of_comparisons(check):
    key = functools.cmp_to_key(lambda a, b: b - a)

    def fn(x):
        made = functools.cmp_to_key(lambda a, b: b - a)
        return x + 1, type(made), made(1) < made(2), key(2) < key(1), sorted([1, 3, 2], key=made)

    check(fn, (X,))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: functools.partial(),
        lambda x: functools.partial(3, 1),
        lambda x: functools.partial(x),
        lambda x: operator.itemgetter(),
        lambda x: operator.attrgetter(1),
        lambda x: operator.methodcaller(2),
        lambda x: torch.is_tensor(),
        lambda x: torch.is_tensor(x, 1),
        lambda x: torch.Size(x),
        lambda x: torch.Size(["a"]),
        lambda x: type(x, strict=True),
        lambda x: sorted(key=len),
        lambda x: sum(start=1),
        lambda x: enumerate(start=1),
        lambda x: bisect.bisect([1, 2], 1, "a"),
    ],
)
def test_errors_are_handled_where_the_program_does(check, call):
    def fn(x):
        try:
            return call(x)
        except TypeError as error:
            return x + 1, str(error)

    check(fn, (X,))
