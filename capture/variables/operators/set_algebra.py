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
from capture.variables.constant import ConstantVariable
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    RangeVariable,
    SequenceVariable,
    SetVariable,
    TupleVariable,
    is_constant_key,
)
from capture.variables.iteration import items_of
from capture.variables.objects import lookup_mro
from capture.variables.operators.tables import BINARY

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
        _combine_outer(tracer, how, target, others)
        return
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


def _require_constants(tracer: Tracer, how: str, target: SetVariable, other: Operand) -> None:
    if not _constant(target.entries(tracer)) or other.real is None:
        unsupported(reasons.SIDE_EFFECT, f"{how}_update of {target.describe()}")


def _lend(tracer: Tracer, v: Variable, operand: Operand) -> Variable:
    """What the journal keeps of an operand: itself if it is from outside, else as it is now."""
    if isinstance(v, DictVariable):
        keys = stamp(tracer, DictVariable())
        keys.entries = {k: (item, ConstantVariable(None)) for k, item in operand.items.items()}
        return keys
    assert isinstance(v, SetVariable)
    if not v.is_new:
        v.lent = True
        return v
    if v.popped:
        unsupported(reasons.SIDE_EFFECT, "update by a set that was popped from")
    kept = SetVariable(dict(v.entries(tracer)), v.cls)
    kept.table = type(operand.real)(operand.real)
    return stamp(tracer, kept)


def _combine_outer(tracer: Tracer, how: str, target: SetVariable, others: list[Variable]) -> None:
    """An in-place method of a set from outside, journalled so that its table becomes eager's."""
    if len(others) > 1 and how == "intersection":
        unsupported(reasons.SIDE_EFFECT, f"{how}_update of {target.describe()}")
    for v in others:
        if v.realize(tracer) is target:
            unsupported(reasons.SIDE_EFFECT, f"{how}_update of {target.describe()} by itself")
        operand = Operand.of(tracer, v)
        _require_constants(tracer, how, target, operand)
        mine = target.entries(tracer)
        if how == "symmetric_difference":
            for key in [*(set(operand.real) if type(operand.real) is list else operand.real)]:
                if not target.discard(tracer, key):
                    target.add(tracer, operand.items[key], key)
            continue
        entries = _step(how, mine, operand)
        if how == "difference":
            gone = ListVariable([item for key, item in mine.items() if key not in entries])
            target.assign(tracer, entries, None, "difference_update", gone)
            continue
        if operand.is_set and len(operand.items) > len(mine):
            order = target.order(tracer)
            if order is None:
                unsupported(reasons.SIDE_EFFECT, f"{how}_update of {target.describe()}")
            walked = [tracer.hashed(item) for item in order]
        else:
            walked = list(operand.real)
        kept = {k: entries[k] for k in walked if k in entries}
        left = ListVariable([*kept.values()])
        target.assign(tracer, kept, set(iter(kept)), "intersection_update", left)  # one by one


def update_set(tracer: Tracer, target: SetVariable, v: Variable) -> None:
    """``target.update(v)``: what is not a set or a dict is added one by one."""
    v = v.realize(tracer)
    if not isinstance(v, SetVariable) and not (isinstance(v, DictVariable) and v.cls is dict):
        for item in items_of(tracer, v):
            target.add(tracer, item)
        return
    if v is target:
        return
    other = Operand.of(tracer, v)
    if not target.is_new:
        _require_constants(tracer, "update", target, other)
        operand = _lend(tracer, v, other)
        target.assign(
            tracer, _step("union", target.entries(tracer), other), None, "update", operand
        )
        return
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


def _view_operand(tracer: Tracer, v: Variable) -> Operand | None:
    """A keys or items view as an operand; its real stand-in is a view too."""
    if not isinstance(v, DictViewVariable) or v.kind == "values":
        return None
    entries = v.target.load(tracer)
    if v.kind == "keys":
        items = {k: entry[0] for k, entry in entries.items()}
        return Operand(items, dict.fromkeys(items).keys() if _constant(items) else None)
    pairs = [TupleVariable([*entry]) for entry in entries.values()]
    items = {tracer.hashed(pair): pair for pair in pairs}
    return Operand(items, dict(items.keys()).items() if _constant(items) else None)


def _operand(tracer: Tracer, v: Variable) -> Operand | None:
    view = _view_operand(tracer, v)
    if view is not None or (isinstance(v, SetVariable) and not is_plain_set(v)):
        return view
    plain = (SetVariable, DictVariable, SequenceVariable, RangeVariable)
    return Operand.of(tracer, v) if isinstance(v, plain) else None


def set_binary(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """``|``, ``&``, ``-`` and ``^`` of sets and views, or None if there is no rule."""
    how = METHODS[symbol]
    if isinstance(left, SetVariable) and isinstance(right, SetVariable):
        if is_plain_set(left) and is_plain_set(right):
            return combine(tracer, how, left, [right])
        return None
    views = [_view_operand(tracer, v) for v in (left, right)]
    if views == [None, None] or (views[0] is None and not isinstance(left, SetVariable)):
        return None
    mine, theirs = views[0] or _operand(tracer, left), views[1] or _operand(tracer, right)
    if mine is None or theirs is None:
        return None
    entries = _step(how, mine.items, theirs)
    made = SetVariable(entries, set)
    made.table = None
    if mine.real is not None and theirs.real is not None:
        made.table = BINARY[symbol][0](mine.real, theirs.real)
        made._entries = {k: entries[k] for k in made.table}
    return stamp(tracer, made)


def set_key(tracer: Tracer, v: Variable) -> Any:
    """The hashed key that a set looks up: of a set, the frozenset with its elements."""
    v = v.realize(tracer)
    if isinstance(v, SetVariable) and lookup_mro(v.cls, "__hash__")[0] is None:
        return frozenset(v.entries(tracer))
    return tracer.hashed(v)
