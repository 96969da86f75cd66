"""Operators called as methods of C types: what they compute, refuse and leave alone."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import pytest
import torch

X = torch.tensor([1.0, 2.0])


class Plain:
    def __radd__(self, other):
        return "radd"


class Length(float):
    """A float that gives its operators' results its own type."""

    def __add__(self, other):
        result = super().__add__(other)
        return result if result is NotImplemented else Length(result)


CALLS = {
    "int": lambda: int.__add__(1, Plain()),
    "reflected": lambda: int.__rfloordiv__(2, Plain()),
    "int_float": lambda: (int.__add__(1, 1.5), float.__add__(1.5, 1), int.__radd__(1, 2)),
    "complex": lambda: complex.__mul__(1j, "a"),
    "set": lambda: (set.__and__({1}, {1: 2}), set.__or__({1}, {2}), {1}.__rsub__([1])),
    "set_class": lambda: frozenset.__xor__(frozenset([1]), 3),
    "str": lambda: ("ab".__add__("c"), "ab".__mul__(2), "%s".__mod__(Plain)),
    "tensor": lambda: (int.__add__(1, X), (1.5).__mul__(X), 1j.__truediv__(X)),
    "power": lambda: True.__pow__(Plain()),
    "own": lambda: (Length(1) + 2, Length(1) + Plain()),
    "repeat": lambda: [1].__mul__("a"),
    "repeat_in_place": lambda: [1].__imul__({1}),
    "concatenate": lambda: [1].__add__((2,)),
    "pop_tuple": lambda: collections.OrderedDict(a=1).pop((1, 2)),
    "pop_none": lambda: collections.OrderedDict(a=1).pop(None),
    "pop_nothing": lambda: collections.OrderedDict(a=1).pop(),
    "move": lambda: collections.OrderedDict(a=1).move_to_end(None),
    "popitem": lambda: collections.Counter().popitem(),
    "pairs": lambda: collections.OrderedDict(a=1).update([1]),
    "longer": lambda: collections.OrderedDict(a=1).update(["abc"]),
    "init": lambda: [1, 2].__init__(3),
    "send": lambda: (i for i in [1]).send(1, 2),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_call(check, call):
    def fn(x):
        try:
            return x + 1, call()
        except Exception as error:
            return x + 2, type(error), str(error), error.args

    check(fn, (X,))


def test_list_is_empty_after_a_failed_init(check):
    def fn(x, items):
        try:
            items.__init__(3)
        except TypeError as error:
            return x + 1, items, str(error)

    check(fn, (X, [1, 2]))


def test_which_end_a_tensor_says(check):
    def fn(x, last):
        ordered = collections.OrderedDict(a=1, b=2)
        return x + 1, ordered.popitem(last=last)

    check(fn, (X, torch.tensor(False)), (X, torch.tensor(True)))
