"""Holds the rules of ``copy``: how objects are taken apart, deep copies of built-in containers.

``copy.deepcopy`` itself keeps what it copied by ``id``. Whatever has a say in how it is copied is
left to the function.
"""

from __future__ import annotations

import copy
import copyreg
import types

from capture import break_reasons as reasons
from capture.guards.kinds import TypeIs
from capture.polyfills.copying import reduce_object
from capture.variables.base import LazyVariable, Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.builtins.sets import new_set
from capture.variables.constant import ConstantVariable
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    SetVariable,
    TupleVariable,
)
from capture.variables.objects import (
    ClassVariable,
    ModuleVariable,
    ObjectVariable,
    is_static_type,
)

_ATOMS = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented),
        range, types.CodeType, types.FunctionType, types.BuiltinFunctionType, type,
    }
)  # fmt: skip
_DEPTH = 100


def _passes_through(v: Variable) -> bool:
    """True for atoms that nothing has looked at: only their type matters."""
    return isinstance(v, LazyVariable) and v.real is None and type(v.value) in _ATOMS


def _is_plain(tracer: Tracer, v: Variable, seen: set[int], depth: int) -> bool:
    """True for atoms, sets of them, and exact lists, tuples and dicts of such."""
    if _passes_through(v):
        assert v.source is not None
        tracer.guard(TypeIs(v.source, v.python_type()))
        return True
    v = v.realize(tracer)
    if v.python_type() in _ATOMS or id(v) in seen:
        return True
    if depth > _DEPTH:
        return False
    seen.add(id(v))
    if isinstance(v, (ListVariable, TupleVariable)) and v.cls in (list, tuple):
        return all(_is_plain(tracer, i, seen, depth + 1) for i in v.items(tracer))
    if isinstance(v, SetVariable) and v.cls in (set, frozenset):
        order = v.order(tracer)
        return order is not None and all(i.python_type() in _ATOMS for i in order)
    if isinstance(v, DictVariable) and v.cls is dict and type(v) is DictVariable:
        return all(
            _is_plain(tracer, part, seen, depth + 1)
            for entry in v.load(tracer).values()
            for part in entry
        )
    return False


def _copied(tracer: Tracer, v: Variable, memo: dict[int, Variable]) -> Variable:
    if _passes_through(v):
        return v
    v = v.realize(tracer)
    known = memo.get(id(v))
    if known is not None:
        return known
    if isinstance(v, ListVariable):
        made = memo[id(v)] = stamp(tracer, ListVariable([]))
        for item in v.items(tracer):
            made.append(tracer, _copied(tracer, item, memo))
        return made
    if isinstance(v, DictVariable):
        result = memo[id(v)] = stamp(tracer, DictVariable())
        for key, item in list(v.load(tracer).values()):
            result.set(tracer, _copied(tracer, key, memo), _copied(tracer, item, memo))
        return result
    if isinstance(v, SetVariable):
        memo[id(v)] = new_set(tracer, v.cls, ListVariable(v.order(tracer) or []))
        return memo[id(v)]
    if isinstance(v, TupleVariable):
        old = v.items(tracer)
        items = [_copied(tracer, item, memo) for item in old]
        known = memo.get(id(v))  # a tuple that holds itself, through a list
        if known is not None:
            return known
        pairs = zip(old, items, strict=True)
        same = all(a is b or (not _passes_through(a) and a.realize(tracer) is b) for a, b in pairs)
        memo[id(v)] = v if same else TupleVariable(items)
        return memo[id(v)]
    return v


@python_rule_for(copy.deepcopy)
def _deepcopy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 1 or kwargs or not _is_plain(tracer, args[0], set(), 0):
        return None
    return _copied(tracer, args[0], {})


@rule(object.__reduce_ex__)
def _reduce(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """Taking an object apart whose memory is laid out in Python."""
    obj, protocol = args[0], tracer.as_python(args[1])
    if type(protocol) is not int or protocol < 2 or not isinstance(obj, ObjectVariable):
        return None
    if isinstance(obj, (ClassVariable, ModuleVariable)) or layout_of(obj.cls) not in _LAYOUTS:
        return None
    return tracer.call(tracer.wrap_static(reduce_object, None), [obj], {})


_LAYOUTS = (object, list, dict)


@python_rule_for(copyreg._slotnames)  # type: ignore[attr-defined]
def _slotnames(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """The names of the slots of a class follow from its bases, which are what they are."""
    if len(args) != 1 or kwargs or not isinstance(args[0], ClassVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "copyreg._slotnames")
    names = copyreg._slotnames(args[0].value)  # type: ignore[attr-defined]
    return ListVariable([ConstantVariable(name) for name in names])


def layout_of(cls: type) -> type:
    """The class in C whose memory layout a class has; slots are no part of it."""
    while not is_static_type(cls):
        assert cls.__base__ is not None
        cls = cls.__base__
    return cls
