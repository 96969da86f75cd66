"""Epilogues: every kind of value made during capture comes out as eager would have made it."""

# mypy: ignore-errors

from __future__ import annotations

import collections
import functools
import math
import types

import pytest
import torch

import capture
from capture.codegen import Codegen
from capture.sources import LocalSource
from capture.variables.base import LazyVariable
from capture.variables.constant import ConstantVariable
from capture.variables.containers import ListVariable

X = torch.tensor([1.0, -2.0, 3.0])


class Thing:
    def __init__(self, v):
        self.v = v

    def go(self):
        return self.v


class Items(list):
    pass


class Named(dict):
    pass


def module_function(a):
    return a


VALUES = {
    "list": lambda x, t: [x, 1],
    "empty list": lambda x, t: [],
    "tuple": lambda x, t: (x, (1, ())),
    "dict": lambda x, t: {"a": x, 1: None, (1, 2): "t"},
    "set": lambda x, t: {1, "a", None},
    "frozenset": lambda x, t: frozenset([1, 2]),
    "slice": lambda x, t: slice(1, None, x.shape[0]),
    "range": lambda x, t: range(2, 9, 3),
    "size": lambda x, t: x.shape,
    "dtype and device": lambda x, t: (x.dtype, x.device, x.layout, torch.contiguous_format),
    "floats": lambda x, t: (0.0, -0.0, float("inf"), float("nan"), 1e300, 5e-324),
    "numbers": lambda x, t: (True, 1, 1.0, 1j, 10**30, -(2**80)),
    "texts": lambda x, t: ("a'\"\n\\", b"\x00\xff", "é" * 300, ...),
    "object": lambda x, t: Thing(x),
    "old object": lambda x, t: (t, t.v),
    "bound method": lambda x, t: (t.go, Thing(x).go),
    "class": lambda x, t: (Thing, int, type(t)),
    "functions": lambda x, t: (module_function, len, torch.relu, [].append.__name__),
    "partial": lambda x, t: functools.partial(module_function, x),
    "lambda": lambda x, t: lambda a=x: a,
    "subclasses": lambda x, t: (
        Items([x]),
        Named(k=x),
        collections.OrderedDict(a=x),
        collections.defaultdict(list, k=[x]),
        collections.deque([x], 3),
    ),
    "named tuple": lambda x, t: torch.max(x, 0),
    "views of dicts": lambda x, t: [*{"a": x}.items()],
    "exception": lambda x, t: ValueError("v", x.shape[0]),
    "module": lambda x, t: (types, torch.nn),
    "property object": lambda x, t: Thing.go,
    "none": lambda x, t: None,
    "tensor": lambda x, t: x,
    "parts of a shared list": lambda x, t: (lambda a: [a, a, (a,)])([x]),
    "notimplemented": lambda x, t: NotImplemented,
    "string methods": lambda x, t: "a-b".split("-"),
}


@pytest.mark.parametrize("name", VALUES)
def test_value_is_rebuilt(check, name):
    make = VALUES[name]

    def f(x, t):
        return make(x + 1, t)

    check(f, (X, Thing(5)))


@pytest.mark.parametrize("name", VALUES)
def test_value_is_rebuilt_for_a_break(check, name):
    make = VALUES[name]

    def f(x, t):
        value = make(x + 1, t)
        held = [value]
        capture.graph_break()
        return value, held, x * 2

    check(f, (X, Thing(5)))


def test_result_that_is_one_output_needs_no_epilogue(check):
    seen = []
    original = Codegen.finish

    def spy(self, *args):
        seen.append(args)
        return original(self, *args)

    Codegen.finish = spy
    try:
        check(lambda x: x + 1, (X,))
    finally:
        Codegen.finish = original
    assert not seen


def test_literal_keeps_the_sign_of_zero():
    cg = Codegen()
    assert math.copysign(1.0, eval(cg.literal(-0.0), cg.table)) == -1.0


def test_huge_integer_is_no_literal():
    cg = Codegen()
    assert cg.table[cg.literal(10**6000)] == 10**6000


def test_unused_lazy_value_is_a_capture():
    cg = Codegen()
    source = LocalSource(0, "x")
    assert cg.ref(LazyVariable(5, source)) == "c0"
    assert list(cg.captures) == [source]


def test_object_is_built_once():
    cg = Codegen()
    items = ListVariable([ConstantVariable(1)])
    assert cg.ref(items) == cg.ref(items)
    assert sum("= []" in line for line in cg.lines) == 1


def test_epilogue_sees_no_builtins():
    cg = Codegen()
    fn, source = cg.finish("None", "f")
    assert fn() is None
    assert fn.__globals__["__builtins__"] == {}
    assert source.startswith("def epilogue()")


def test_user_code_runs_in_no_epilogue(check):
    def program(compile):
        calls = []

        class Loud:
            def __init__(self, v):
                self.v = v
                calls.append("init")

            def __setattr__(self, name, value):
                calls.append("set")
                object.__setattr__(self, name, value)

            def __hash__(self):
                calls.append("hash")
                return 1

        class LoudDict(dict):
            def __setitem__(self, key, value):
                calls.append("setitem")
                dict.__setitem__(self, key, value)

        class LoudList(list):
            def append(self, v):
                calls.append("append")
                list.append(self, v)

        @compile
        def f(x):
            o = Loud(x + 1)
            d = LoudDict()
            d["k"] = o
            items = LoudList()
            items.append(o)
            return o, d, items

        return f(X), f(X), calls

    check.script(program)
