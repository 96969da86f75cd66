"""What Python looks up on the type, asks by identity, or says in the words of the program."""

# mypy: ignore-errors

from __future__ import annotations

import functools
import operator
import types
import weakref

import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


class Own:
    def __format__(self, spec):
        return "class"

    def __neg__(self):
        return "class"

    def __str__(self):
        return "class"

    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return "class"


class Odd(type):
    __hash__ = None


class Unhashable(metaclass=Odd):
    pass


def test_special_methods_are_looked_up_on_the_type(check):
    def f(x):
        own = Own()
        for name in ("__format__", "__neg__", "__str__", "__getitem__"):
            setattr(own, name, types.MethodType(lambda *a: "instance", own))
        return x, f"{own}", format(own, "a"), -own, str(own), list(own)

    check(f, (X,))


def test_identity_of_numbers_that_change(check):
    def f(x, a, b):
        return x + a, a is b, [a][0] is a, a is not b

    big, other = 10**6, int("1000000")
    check(f, (X, 1, 1), (X, 2, 2), (X, 3, 3), (X, 4, 5), (X, big, big), (X, big, other))


def test_identity_of_nan(check):
    nan, other = float("nan"), float("nan")
    check(lambda x, a, b: (x, a is b, a in [b]), (X, nan, nan), (X, nan, other))


def test_in_place_operators_name_themselves_in_errors(check):
    def f(x):
        texts = []
        for left, right in ((None, 1), (1, "a"), ([], 1)):
            try:
                left -= right
            except TypeError as error:
                texts.append(str(error))
        return x, texts

    check(f, (X,))


def test_a_class_that_cannot_be_hashed(check):
    def f(x, cls):
        return x, cls() is not None, isinstance(cls(), cls)

    check(f, (X, Unhashable))


def test_a_class_without_instances_refuses(check):
    kind = type(functools.cmp_to_key(id))

    def f(x):
        try:
            kind()
        except TypeError as error:
            return x, str(error)

    check(f, (X,))


def test_operator_functions_count_their_arguments(check):
    def f(x):
        texts = []
        for call in (lambda: operator.getitem([1]), lambda: operator.setitem([1], 0)):
            try:
                call()
            except TypeError as error:
                texts.append(str(error))
        return x, texts

    check(f, (X,))


def test_a_dead_proxy_passes_through(check):
    class Thing:
        pass

    thing = Thing()
    proxy = weakref.proxy(thing)
    del thing

    def f(x, p):
        print("break")
        return x, p

    assert capture.compile(f, backend="eager")(X, proxy)[0] is X
    del check


def test_a_tuple_subclass_refuses_keywords(check):
    class Plain(tuple):
        pass

    class Named(tuple):
        def __init__(self, items, name=None):
            self.name = name

    def f(x):
        try:
            Plain(sequence=())
        except TypeError as error:
            return x, str(error), Named([1], name="n").name

    check(f, (X,))
