"""Holds conditions on sizes and ints, and their form for the native evaluator.

A condition is the text of a Python expression over ``a0``, ``a1``, ... the values of its sources.
Plain integer arithmetic is evaluated natively; everything else is left to Python. The numbers are
those of ``csrc/shape_guards.c``. Must not know variables or graphs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from capture.guards.guard import ConditionGuard
from capture.sources import SizeSource, Source, StrideSource, function_of

__all__ = ["NumbersHold", "Program", "programs_of", "without_implied"]

_VARIABLE_LIMIT = 64
_STACK_LIMIT = 32
_SIZE, _STRIDE, _INT = range(3)
_CONST, _LOAD, _NEG, _NOT, _REQUIRE = 0, 1, 9, 18, 19
_ARITHMETIC: dict[type, int] = {
    ast.Add: 2,
    ast.Sub: 3,
    ast.Mult: 4,
    ast.FloorDiv: 5,
    ast.Mod: 6,
}
_CALLS = {"max": 7, "min": 8}
_COMPARISONS: dict[type, int] = {
    ast.Eq: 10,
    ast.NotEq: 11,
    ast.Lt: 12,
    ast.LtE: 13,
    ast.Gt: 14,
    ast.GtE: 15,
    ast.Is: 10,
}
_AND, _OR = 16, 17
_PLACE = re.compile(r"\ba(\d+)\b")


@dataclass(frozen=True, slots=True)
class NumbersHold(ConditionGuard):
    """An expression over the sources' values, which are numbers, is true."""

    sources: tuple[Source, ...]
    text: str

    @property
    def fn(self) -> Callable[..., object]:
        """The condition as a Python function of the values."""
        return function_of(len(self.sources), self.text)

    @property
    def readable(self) -> str:
        """The condition with the names of the sources."""
        return _PLACE.sub(lambda found: self.sources[int(found[1])].name, self.text)


class _Unusual(Exception):
    """Raised for what the native evaluator lacks."""


@dataclass(frozen=True, slots=True)
class Program:
    """Conditions for the native evaluator.

    Attributes:
        holders: the sources whose values it is given: tensors and ints.
        variables: what it reads of them, (place in ``holders``, kind, dimension).
        code: operators and their operands.
        fallback: decides in Python, given the variables' values.
    """

    holders: tuple[Source, ...]
    variables: tuple[tuple[int, int, int], ...]
    code: tuple[int, ...]
    fallback: Callable[..., bool]


def programs_of(guards: Sequence[NumbersHold]) -> tuple[list[Program], list[NumbersHold]]:
    """Return programs for as many of the guards as possible, and the other guards."""
    programs: list[Program] = []
    others: list[NumbersHold] = []
    builder = _Builder()
    for guard in guards:
        try:
            code, depth = _lower(guard)
        except (_Unusual, SyntaxError):
            others.append(guard)
            continue
        if depth > _STACK_LIMIT or len(guard.sources) > _VARIABLE_LIMIT:
            others.append(guard)
            continue
        if builder.guards and not builder.has_room(guard):
            programs.append(builder.finish())
            builder = _Builder()
        builder.add(guard, code)
    if builder.guards:
        programs.append(builder.finish())
    return programs, others


def without_implied(guards: Sequence[NumbersHold]) -> list[NumbersHold]:
    """Drop the guards that an expression raises nothing where another one evaluates it first."""
    suffix = " is not None"
    compared = {
        (guard.sources, guard.text[: guard.text.rindex(" == ")])
        for guard in guards
        if " == " in guard.text
    }
    return [
        guard
        for guard in guards
        if not guard.text.endswith(suffix)
        or (guard.sources, guard.text.removesuffix(suffix)) not in compared
    ]


class _Builder:
    def __init__(self) -> None:
        self.guards: list[NumbersHold] = []
        self.sources: dict[Source, int] = {}
        self.code: list[int] = []

    def has_room(self, guard: NumbersHold) -> bool:
        return len({*self.sources, *guard.sources}) <= _VARIABLE_LIMIT

    def add(self, guard: NumbersHold, code: list[tuple[int, int | None]]) -> None:
        places = [self.sources.setdefault(s, len(self.sources)) for s in guard.sources]
        for op, operand in code:
            self.code.append(op)
            if operand is not None:
                self.code.append(places[operand] if op == _LOAD else operand)
        self.code.append(_REQUIRE)
        self.guards.append(guard)

    def finish(self) -> Program:
        holders: dict[Source, int] = {}
        variables = []
        for source in self.sources:
            if isinstance(source, (SizeSource, StrideSource)):
                kind = _SIZE if isinstance(source, SizeSource) else _STRIDE
                place = holders.setdefault(source.base, len(holders))
                variables.append((place, kind, source.dim))
            else:
                variables.append((holders.setdefault(source, len(holders)), _INT, 0))
        places = [tuple(self.sources[s] for s in guard.sources) for guard in self.guards]
        conditions = [(guard.fn, wanted) for guard, wanted in zip(self.guards, places, strict=True)]

        def fallback(*values: int) -> bool:
            return all(fn(*[values[i] for i in wanted]) for fn, wanted in conditions)

        return Program(tuple(holders), tuple(variables), tuple(self.code), fallback)


def _lower(guard: NumbersHold) -> tuple[list[tuple[int, int | None]], int]:
    """Return the operators for a condition, and how deep its stack gets."""
    code: list[tuple[int, int | None]] = []
    depth = _emit(ast.parse(guard.text, mode="eval").body, code)
    return code, depth


def _emit(node: ast.expr, code: list[tuple[int, int | None]]) -> int:
    if isinstance(node, ast.Constant):
        value: Any = node.value
        if type(value) not in (int, bool) or not -(1 << 63) <= value < 1 << 63:
            raise _Unusual
        code.append((_CONST, int(value)))
        return 1
    if isinstance(node, ast.Name):
        if not node.id.startswith("a") or not node.id[1:].isdigit():
            raise _Unusual
        code.append((_LOAD, int(node.id[1:])))
        return 1
    if isinstance(node, ast.UnaryOp):
        op = {ast.USub: _NEG, ast.Not: _NOT}.get(type(node.op))
        if op is None:
            raise _Unusual
        depth = _emit(node.operand, code)
        code.append((op, None))
        return depth
    if isinstance(node, ast.BinOp):
        return _emit_two(_ARITHMETIC.get(type(node.op)), node.left, node.right, code)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        if isinstance(node.ops[0], ast.Is) and not _is_truth(node.comparators[0], node.left):
            raise _Unusual
        op = _COMPARISONS.get(type(node.ops[0]))
        return _emit_two(op, node.left, node.comparators[0], code)
    if isinstance(node, ast.BoolOp):
        op = _AND if isinstance(node.op, ast.And) else _OR
        depth = _emit(node.values[0], code)
        for value in node.values[1:]:
            depth = max(depth, 1 + _emit(value, code))
            code.append((op, None))
        return depth
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id in _CALLS and len(node.args) == 2:
            return _emit_two(_CALLS[node.func.id], node.args[0], node.args[1], code)
        if node.func.id == "bool" and len(node.args) == 1:
            depth = _emit(node.args[0], code)
            code.extend([(_NOT, None), (_NOT, None)])
            return depth
    raise _Unusual


def _is_truth(right: ast.expr, left: ast.expr) -> bool:
    """True for ``<comparison> is True`` and the like, where identity is equality."""
    if not isinstance(right, ast.Constant) or type(right.value) is not bool:
        return False
    return isinstance(left, (ast.Compare, ast.BoolOp)) or (
        isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "bool"
    )


def _emit_two(
    op: int | None, left: ast.expr, right: ast.expr, code: list[tuple[int, int | None]]
) -> int:
    if op is None:
        raise _Unusual
    depth = _emit(left, code)
    depth = max(depth, 1 + _emit(right, code))
    code.append((op, None))
    return depth
