"""Holds the rules of sets and frozensets: making, asking and changing them one by one."""

from __future__ import annotations

import types

from capture import break_reasons as reasons
from capture.variables import operators
from capture.variables.base import Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, Rule, rule
from capture.variables.constant import NONE, ConstantVariable, boolean
from capture.variables.containers import DictViewVariable, SetVariable
from capture.variables.iteration import get_iter, items_of
from capture.variables.objects import ClassVariable, lookup_mro
from capture.variables.operators.set_algebra import Operand, combine


def new_set(
    tracer: Tracer, cls: type, elements: Variable | None, cls_var: Variable | None = None
) -> Variable:
    """``set(elements)`` or ``frozenset(elements)``, or a bare instance of a subclass."""
    made = SetVariable({}, cls, cls_var=cls_var)
    base: type = frozenset if issubclass(cls, frozenset) else set
    if elements is None:
        made.table = base()
        return stamp(tracer, made)
    elements = elements.realize(tracer)
    if cls is frozenset and elements.python_type() is frozenset:
        return elements
    operand = Operand.of(tracer, elements)
    made._entries = dict(operand.items)
    made.table = None if operand.real is None else base(operand.real)
    return stamp(tracer, made)


def _make_set(cls: type) -> Rule:
    def make(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        return None if kwargs else new_set(tracer, cls, args[0] if args else None)

    return make


rule(set)(_make_set(set))


rule(frozenset)(_make_set(frozenset))


@rule(frozenset.__new__)
def _frozenset_new(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    cls = args[0]
    if not isinstance(cls, ClassVariable) or not issubclass(cls.value, frozenset) or len(args) > 2:
        return None
    if kwargs and not isinstance(lookup_mro(cls.value, "__init__")[0], types.FunctionType):
        return None
    return new_set(tracer, cls.value, args[1] if len(args) > 1 else None, cls)


@rule(set.__init__)
def _set_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = args[0]
    if not isinstance(target, SetVariable) or kwargs:
        return None
    if target.entries(tracer):
        target.clear(tracer)
    if len(args) > 1:
        operators.update_set(tracer, target, args[1])
    return NONE


def set_of(args: list[Variable]) -> SetVariable:
    """The receiver of a set method."""
    target = args[0]
    if not isinstance(target, SetVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a set method on {target.describe()}")
    return target


@rule(set.add)
def _set_add(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    set_of(args).add(tracer, args[1])
    return NONE


@rule(set.discard)
def _set_discard(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    set_of(args).discard(tracer, operators.set_key(tracer, args[1]))
    return NONE


@rule(set.remove)
def _set_remove(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not set_of(args).discard(tracer, operators.set_key(tracer, args[1])):
        tracer.raise_error(KeyError, args[1])
    return NONE


@rule(set.pop)
def _set_pop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not set_of(args).entries(tracer):
        tracer.raise_error(KeyError, "pop from an empty set")
    return set_of(args).pop(tracer)


@rule(set.clear)
def _set_clear(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    set_of(args).clear(tracer)
    return NONE


@rule(set.copy, frozenset.copy)
def _set_copy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if set_of(args).cls is frozenset:
        return args[0]
    return combine(tracer, "union", set_of(args), [])


@rule(set.update)
def _set_update(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    for other in args[1:]:
        operators.update_set(tracer, set_of(args), other)
    return NONE


def _combining(how: str) -> Rule:
    def run(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        return combine(tracer, how, set_of(args), args[1:])

    return run


def _changing(how: str) -> Rule:
    def run(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        operators.combine_inplace(tracer, how, set_of(args), args[1:])
        return NONE

    return run


for _name in ("union", "intersection", "difference", "symmetric_difference"):
    rule(getattr(set, _name), getattr(frozenset, _name))(_combining(_name))
    if _name != "union":
        rule(getattr(set, f"{_name}_update"))(_changing(_name))


@rule(set.issubset, frozenset.issubset)
def _issubset(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    theirs = Operand.of(tracer, args[1]).items
    return boolean(set_of(args).entries(tracer).keys() <= theirs.keys())


@rule(set.issuperset, frozenset.issuperset)
def _issuperset(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    theirs = Operand.of(tracer, args[1]).items
    return boolean(set_of(args).entries(tracer).keys() >= theirs.keys())


@rule(set.isdisjoint, frozenset.isdisjoint)
def _isdisjoint(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    mine = set_of(args).entries(tracer)
    if isinstance(args[1], SetVariable):
        return boolean(mine.keys().isdisjoint(args[1].entries(tracer)))
    for item in items_of(tracer, args[1]):  # it stops at the first that both have
        if tracer.hashed(item) in mine:
            return boolean(False)
    return boolean(True)


@rule(type({}.keys()).isdisjoint, type({}.items()).isdisjoint)
def _view_isdisjoint(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not isinstance(args[0], DictViewVariable):
        return None
    for item in items_of(tracer, args[1]):
        if tracer.truth(operators.contains(tracer, args[0], item)):
            return boolean(False)
    return boolean(True)


@rule(set.__contains__, frozenset.__contains__)
def _contains(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(operators.set_key(tracer, args[1]) in set_of(args).entries(tracer))


@rule(set.__len__, frozenset.__len__)
def _len(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return ConstantVariable(len(set_of(args).entries(tracer)))


@rule(set.__iter__, frozenset.__iter__)
def _iter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = set_of(args)
    if isinstance(lookup_mro(target.cls, "__iter__")[0], types.FunctionType):
        return None
    return get_iter(tracer, target)
