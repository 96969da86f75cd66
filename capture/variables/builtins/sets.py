"""Holds the rules of sets and frozensets."""

from __future__ import annotations

from typing import Any

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, Rule, rule
from capture.variables.constant import NONE, boolean
from capture.variables.containers import SetVariable
from capture.variables.iteration import iterate


def _make_set(cls: type) -> Rule:
    def make(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        entries: dict[Any, Variable] = {}
        for item in iterate(tracer, args[0]) if args else []:
            entries.setdefault(tracer.hashed(item), item)
        return stamp(tracer, SetVariable(entries, cls))

    return make


rule(set)(_make_set(set))


rule(frozenset)(_make_set(frozenset))


@rule(set.__init__)
def _set_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = args[0]
    if not isinstance(target, SetVariable) or kwargs:
        return None
    for item in iterate(tracer, args[1]) if len(args) > 1 else []:
        target.add(tracer, item)
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
    return stamp(tracer, SetVariable(dict(_set_of(args).entries(tracer)), _set_of(args).cls))


def _hashed_items(tracer: Tracer, v: Variable) -> dict[Any, Variable]:
    v = v.realize(tracer)
    if isinstance(v, SetVariable):
        return v.entries(tracer)
    return {tracer.hashed(i): i for i in iterate(tracer, v)}


@rule(set.update)
def _set_update(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    for other in args[1:]:
        for item in list(_hashed_items(tracer, other).values()):
            _set_of(args).add(tracer, item)
    return NONE


def _combine(how: str) -> Rule:
    def run(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        mine = dict(_set_of(args).entries(tracer))
        for other in args[1:]:
            theirs = _hashed_items(tracer, other)
            if how == "union":
                mine = {**mine, **{k: v for k, v in theirs.items() if k not in mine}}
            elif how == "intersection":
                mine = {k: v for k, v in mine.items() if k in theirs}
            else:
                mine = {k: v for k, v in mine.items() if k not in theirs}
        return stamp(
            tracer, SetVariable(mine, frozenset if _set_of(args).cls is frozenset else set)
        )

    return run


for _name in ("union", "intersection", "difference"):
    rule(getattr(set, _name), getattr(frozenset, _name))(_combine(_name))


@rule(set.issubset, frozenset.issubset)
def _issubset(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(_set_of(args).entries(tracer).keys() <= _hashed_items(tracer, args[1]).keys())


@rule(set.issuperset, frozenset.issuperset)
def _issuperset(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(_set_of(args).entries(tracer).keys() >= _hashed_items(tracer, args[1]).keys())
