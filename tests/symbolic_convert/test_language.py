"""Tests every construct of the language against eager: captured, and with breaks inside."""

# mypy: ignore-errors

from __future__ import annotations

import linecache

import pytest
import torch

import capture
from capture.instructions.ops import Op
from capture.symbolic_convert import handlers, registry
from tests.symbolic_convert import language

X = torch.arange(16.0).view(4, 4) / 7 - 0.5


def captured(value):
    return value


@capture.disable
def broken(value):
    return value


def within(program):
    """The program as a callee, with tensor work around it: so it is captured whatever it does."""

    def caller(x, K):
        y = x + 1
        result = program(y, K)
        return result, y * 2

    return caller


@pytest.mark.parametrize("program", language.PROGRAMS, ids=lambda program: program.__name__)
def test_construct(check, program):
    check(program, (X, captured), (X, broken), backward=False)


@pytest.mark.parametrize("program", language.PROGRAMS, ids=lambda program: program.__name__)
def test_construct_in_callee(check, program):
    check(within(program), (X, captured), (X, broken), backward=False)


@pytest.mark.parametrize("name", language.NEWER)
def test_newer_construct(check, name):
    text = language.NEWER[name]
    filename = f"<language {name}>"
    try:
        code = compile(text, filename, "exec", dont_inherit=True)
    except SyntaxError:
        pytest.skip("this Python has no such syntax")
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names = dict(vars(language))
    exec(code, names)
    check(names[name], (X, captured), (X, broken), backward=False)
    check(within(names[name]), (X, captured), (X, broken), backward=False)


_ASYNC = "coroutines are run by Python"
_TYPES = "type parameters and aliases are made by Python"

#: Operations without a handler, and why: they break the graph and Python runs them.
DELIBERATE = {
    Op.IMPORT_STAR: "occurs in modules only, which Python runs",
    Op.NOP: "is never decoded",
    Op.INTRINSIC_2: _TYPES,
    Op.BEFORE_ASYNC_WITH: _ASYNC,
    Op.GET_AWAITABLE: _ASYNC,
    Op.GET_AITER: _ASYNC,
    Op.GET_ANEXT: _ASYNC,
    Op.END_ASYNC_FOR: _ASYNC,
    Op.ASYNC_GEN_WRAP: _ASYNC,
}


def test_every_operation_has_a_handler_or_a_reason():
    assert handlers
    without = {op for op in Op if registry.HANDLERS[op] is registry._break}
    assert without == set(DELIBERATE)
