"""Holds the rules of sets and frozensets."""

from __future__ import annotations

from typing import Any

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, Rule, rule
from capture.variables.constant import NONE, ConstantVariable, boolean
from capture.variables.containers import (
    DictVariable,
    SequenceVariable,
    SetVariable,
    is_constant_key,
)
from capture.variables.iteration import items_of, iterate, set_table


def _make_set(cls: type) -> Rule:
    def make(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        entries: dict[Any, Variable] = dict(_hashed_items(tracer, args[0])) if args else {}
        table = _table_of(tracer, args[0], entries) if args else ()
        made = SetVariable(entries, cls, table=None if table is None else cls(table))
        return stamp(tracer, made)

    return make


def _table_of(tracer: Tracer, v: Variable, hashed: dict[Any, Variable]) -> Any:
    """Real elements that a real set takes up as the program's set does ``v``; None if unknown."""
    if not all(is_constant_key(k) for k in hashed):
        return None
    v = v.realize(tracer)
    if isinstance(v, SetVariable):
        return set_table(tracer, v)
    exact = isinstance(v, DictVariable) and v.cls is dict  # what a set reads in one go
    return dict.fromkeys(hashed) if exact else list(hashed)


rule(set)(_make_set(set))


rule(frozenset)(_make_set(frozenset))


@rule(set.__init__)
def _set_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = args[0]
    if not isinstance(target, SetVariable) or kwargs:
        return None
    if len(args) > 1:
        update_set(tracer, target, args[1])
    return NONE


def _set_of(args: list[Variable]) -> SetVariable:
    target = args[0]
    if not isinstance(target, SetVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a set method on {target.describe()}")
    return target


@rule(set.add)
def _set_add(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _set_of(args).add(tracer, args[1])
    return NONE


@rule(set.discard)
def _set_discard(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _set_of(args).discard(tracer, args[1])
    return NONE


@rule(set.remove)
def _set_remove(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not _set_of(args).discard(tracer, args[1]):
        tracer.raise_error(KeyError, args[1])
    return NONE


@rule(set.clear)
def _set_clear(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _set_of(args).replace(tracer, {})
    return NONE


@rule(set.copy, frozenset.copy)
def _set_copy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _set_of(args)
    table = set_table(tracer, target)
    made = SetVariable(
        dict(target.entries(tracer)), target.cls, table=None if table is None else table.copy()
    )
    return stamp(tracer, made)


def _hashed_items(tracer: Tracer, v: Variable) -> dict[Any, Variable]:
    v = v.realize(tracer)
    if isinstance(v, SetVariable):
        return v.entries(tracer)
    found: dict[Any, Variable] = {}
    for item in iterate(tracer, v):
        found.setdefault(tracer.hashed(item), item)
    return found


@rule(set.update)
def _set_update(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    for other in args[1:]:
        update_set(tracer, _set_of(args), other)
    return NONE


def update_set(tracer: Tracer, target: SetVariable, other: Variable) -> None:
    """``target.update(other)``."""
    other = other.realize(tracer)
    if not isinstance(other, (SetVariable, DictVariable, SequenceVariable)):
        for item in items_of(tracer, other):
            target.add(tracer, item)
        return
    hashed = dict(_hashed_items(tracer, other))
    before = target.table
    table = None if before is None else _table_of(tracer, other, hashed)
    if table is not None:
        before.update(table)
    target.table = None
    for item in hashed.values():
        target.add(tracer, item)
    if table is not None:
        target.table = before


def _combine(how: str) -> Rule:
    def run(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        mine = dict(_set_of(args).entries(tracer))
        table = set_table(tracer, _set_of(args))
        for other in args[1:]:
            theirs = _hashed_items(tracer, other)
            real = None if table is None else _table_of(tracer, other, theirs)
            table = None if real is None else getattr(table, how)(real)
            if how == "union":
                mine = {**mine, **{k: v for k, v in theirs.items() if k not in mine}}
            elif how == "intersection":
                mine = {k: v for k, v in mine.items() if k in theirs}
            else:
                mine = {k: v for k, v in mine.items() if k not in theirs}
        if table is not None:
            mine = {k: ConstantVariable(k) for k in table}
        cls = frozenset if _set_of(args).cls is frozenset else set
        return stamp(tracer, SetVariable(mine, cls, table=None if table is None else cls(table)))

    return run


for _name in ("union", "intersection", "difference"):
    rule(getattr(set, _name), getattr(frozenset, _name))(_combine(_name))


@rule(set.issubset, frozenset.issubset)
def _issubset(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(_set_of(args).entries(tracer).keys() <= _hashed_items(tracer, args[1]).keys())


@rule(set.issuperset, frozenset.issuperset)
def _issuperset(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(_set_of(args).entries(tracer).keys() >= _hashed_items(tracer, args[1]).keys())
