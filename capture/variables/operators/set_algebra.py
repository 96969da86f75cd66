"""Holds unions, intersections and differences of sets; must not know rules or codegen.

What C code iterates over, and in which order it looks elements up, decides which of two equal
elements stays and how the result is ordered. Source: ``Objects/setobject.c``.
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, stamp, unsupported
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    SetVariable,
    is_constant_key,
)
from capture.variables.iteration import items_of
from capture.variables.objects import lookup_mro

METHODS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
_OPERATORS = (
    *(f"__{kind}{name}__" for kind in ("", "r", "i") for name in ("or", "and", "sub", "xor")),
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__",
    "__contains__",
)  # fmt: skip


@functools.lru_cache(256)
def _is_plain(cls: type) -> bool:
    return not any(isinstance(lookup_mro(cls, n)[0], types.FunctionType) for n in _OPERATORS)


def is_plain_set(v: Variable) -> bool:
    """True for sets whose class leaves the operators to C."""
    return isinstance(v, SetVariable) and (v.cls is set or v.cls is frozenset or _is_plain(v.cls))


@dataclass(slots=True)
class Operand:
    """What a set is combined with: hashed key to element, and what stands for it in real calls."""

    items: dict[Any, Variable]
    real: Any
    is_set: bool = False

    @staticmethod
    def of(tracer: Tracer, v: Variable) -> Operand:
        """Read an iterable: a set or an exact dict in one go, others item by item."""
        v = v.realize(tracer)
        if isinstance(v, SetVariable):
            return Operand(v.entries(tracer), v.real(tracer), True)
        if isinstance(v, DictVariable) and v.cls is dict:
            items = {k: entry[0] for k, entry in v.load(tracer).items()}
            return Operand(items, dict.fromkeys(items) if _constant(items) else None)
        items = {}
        for item in items_of(tracer, v):
            items.setdefault(tracer.hashed(item), item)
        return Operand(items, list(items) if _constant(items) else None)


def _constant(items: dict[Any, Variable]) -> bool:
    return all(map(is_constant_key, items))


def _step(how: str, mine: dict[Any, Variable], other: Operand) -> dict[Any, Variable]:
    theirs = other.items
    if how == "union":
        return {**mine, **{k: v for k, v in theirs.items() if k not in mine}}
    if how == "intersection":
        walked, asked = (
            (mine, theirs) if other.is_set and len(theirs) > len(mine) else (theirs, mine)
        )
        return {k: v for k, v in walked.items() if k in asked}
    left = {k: v for k, v in mine.items() if k not in theirs}
    if how == "symmetric_difference":
        left.update({k: v for k, v in theirs.items() if k not in mine})
    return left


def _combined(
    tracer: Tracer, how: str, target: SetVariable, others: list[Variable]
) -> tuple[dict[Any, Variable], Any]:
    base: type = frozenset if issubclass(target.cls, frozenset) else set
    mine, table = dict(target.entries(tracer)), target.real(tracer)
    if table is not None and not others:
        table = base.copy(table)  # type: ignore[attr-defined]
    for v in others:
        other = Operand.of(tracer, v)
        mine = _step(how, mine, other)
        if table is not None and other.real is not None:
            table = getattr(base, how)(table, other.real)
        else:
            table = None
    if table is not None:
        mine = {k: mine[k] for k in table}
    return mine, table


def combine(tracer: Tracer, how: str, target: SetVariable, others: list[Variable]) -> Variable:
    """``target.how(*others)``: a new set."""
    entries, table = _combined(tracer, how, target, others)
    cls = frozenset if issubclass(target.cls, frozenset) else set
    if table is not None and cls is set:
        table = table if type(table) is set else set.copy(table)
    made = SetVariable(entries, cls)
    made.table = table
    return stamp(tracer, made)


def combine_inplace(tracer: Tracer, how: str, target: SetVariable, others: list[Variable]) -> None:
    """``target.how_update(*others)``, or the in-place operator."""
    if how == "union":
        for other in others:
            update_set(tracer, target, other)
        return
    if not target.is_new:
        unsupported(reasons.SIDE_EFFECT, f"{how}_update of {target.describe()}")
    entries, table = dict(target.entries(tracer)), target.table
    if how == "intersection":
        entries, table = _combined(tracer, how, target, others)
    else:
        for v in others:
            operand = Operand.of(tracer, v)
            entries = _step(how, entries, operand)
            if table is not None and operand.real is not None:
                getattr(set, f"{how}_update")(table, operand.real)
            else:
                table = None
    target.assign(tracer, entries, table)


def update_set(tracer: Tracer, target: SetVariable, v: Variable) -> None:
    """``target.update(v)``: what is not a set or a dict is added one by one."""
    v = v.realize(tracer)
    if not isinstance(v, SetVariable) and not (isinstance(v, DictVariable) and v.cls is dict):
        for item in items_of(tracer, v):
            target.add(tracer, item)
        return
    other = Operand.of(tracer, v)
    if not target.is_new:
        if other.items.keys() <= target.entries(tracer).keys():
            return  # it may get room for more, which shows in nothing but the order of later ones
        unsupported(reasons.SIDE_EFFECT, f"update of {target.describe()}")
    entries = _step("union", target.entries(tracer), other)
    table = target.table
    if table is not None and other.real is not None:
        table.update(other.real)
    else:
        table = None
    target.assign(tracer, entries, table)


def set_entries(tracer: Tracer, v: Variable) -> dict[Any, Variable] | None:
    """The elements of a set, or of a keys view, else None."""
    if isinstance(v, SetVariable) and is_plain_set(v):
        return v.entries(tracer)
    if isinstance(v, DictViewVariable) and v.kind == "keys":
        return {k: entry[0] for k, entry in v.target.load(tracer).items()}
    return None


def set_binary(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """``|``, ``&``, ``-`` and ``^`` of sets and keys views, or None if there is no rule."""
    mine, theirs = set_entries(tracer, left), set_entries(tracer, right)
    if mine is None or theirs is None:
        return None
    how = METHODS[symbol]
    if isinstance(left, SetVariable) and isinstance(right, SetVariable):
        return combine(tracer, how, left, [right])
    made = SetVariable(_step(how, mine, Operand(theirs, None, True)), set)
    made.table = None
    return stamp(tracer, made)


def set_key(tracer: Tracer, v: Variable) -> Any:
    """The hashed key that a set looks up: of a set, the frozenset with its elements."""
    v = v.realize(tracer)
    if isinstance(v, SetVariable) and lookup_mro(v.cls, "__hash__")[0] is None:
        return frozenset(v.entries(tracer))
    return tracer.hashed(v)
