"""Holds the rules that make and bind functions, methods, cells and partial objects."""

from __future__ import annotations

import functools
import operator
import types
import weakref
from dataclasses import dataclass
from typing import Any

from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds
from capture.polyfills import polyfill_for
from capture.sources import ReferentSource
from capture.variables.attributes import load_attr
from capture.variables.base import MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.builtins import arity
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, ConstantVariable, boolean, is_none
from capture.variables.functions import (
    BINDING,
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    MadeCallableVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.objects import ClassVariable, ObjectVariable, lookup_mro
from capture.variables.weak import WeakVariable, referent


@rule(callable)
def _callable(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(lookup_mro(args[0].python_type(), "__call__")[0] is not MISSING)


@rule(functools.partial)
def _partial(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args:
        tracer.raise_error(TypeError, "type 'partial' takes at least one argument")
    fn, rest = args[0], args[1:]
    if lookup_mro(fn.python_type(), "__call__")[0] is MISSING:
        tracer.raise_error(TypeError, "the first argument must be callable")
    if isinstance(fn, PartialVariable):
        return stamp(
            tracer,
            PartialVariable(functools.partial, fn.fn, [*fn.args, *rest], {**fn.keywords, **kwargs}),
        )
    return stamp(tracer, PartialVariable(functools.partial, fn, list(rest), dict(kwargs)))


_MAKERS: dict[Any, type] = {
    operator.itemgetter: operator.itemgetter,
    operator.attrgetter: operator.attrgetter,
    operator.methodcaller: operator.methodcaller,
    functools.cmp_to_key: type(functools.cmp_to_key(operator.sub)),
}


def _add_maker(maker: Any, kind: type) -> None:
    equivalent = polyfill_for(maker)
    assert equivalent is not None

    @rule(maker)
    def _(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        arity.check_equivalent(tracer, maker, equivalent, args, kwargs)
        function = tracer.call(tracer.wrap_static(equivalent, None), args, kwargs)
        keywords = dict(kwargs)
        return stamp(tracer, MadeCallableVariable(kind, maker, list(args), keywords, function))


for _maker, _kind in _MAKERS.items():
    _add_maker(_maker, _kind)


@rule(weakref.ref.__call__)
def _referent(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    reference = args[0]
    if isinstance(reference, WeakVariable) and not reference.is_proxy:
        return referent(tracer, reference)
    if not isinstance(reference, ObjectVariable) or reference.source is None:
        return None
    found = weakref.ref.__call__(reference.value)
    if found is not None:
        if tracer.may_have_ended():
            unsupported(reasons.SIDE_EFFECT, f"{reference.source.name}() may be dead by now")
        return tracer.wrap(found, ReferentSource(reference.source))
    text = f"{reference.source.name} is dead"
    tracer.guard(ExprHolds((reference.source,), IsDead(), text))
    return NONE


@dataclass(frozen=True, slots=True)
class IsDead:
    """Says if a weak reference has nothing left to refer to."""

    def __call__(self, value: weakref.ref[object]) -> bool:
        """Look past any subclass."""
        return weakref.ref.__call__(value) is None


@rule(types.MethodType)
def _method_type(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if kwargs or len(args) != 2 or is_none(args[1]):
        return None
    fn = args[0].realize(tracer)
    if isinstance(fn, BuiltinVariable) and isinstance(fn.value, BINDING):
        return None  # that is no bound method of C, which a variable of this kind stands for
    if isinstance(fn, FunctionVariable | BuiltinVariable | MethodVariable | ClassVariable):
        return MethodVariable(fn, args[1])
    return None


@rule(types.FunctionType.__get__)
def _function_get(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return args[0] if is_none(args[1]) else MethodVariable(args[0], args[1])


@rule(types.CellType)
def _cell(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    cell = CellVariable()
    cell.contents = args[0] if args else None
    return cell


@python_rule_for(functools.cached_property.__get__)
def _cached_property_get(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """``cached_property.__get__`` without its lock. Source: ``Lib/functools.py``."""
    descriptor, instance = args[0], args[1]
    if is_none(instance):
        return descriptor
    name = load_attr(tracer, descriptor, "attrname").realize(tracer)
    if not isinstance(instance, ObjectVariable) or not isinstance(name, ConstantVariable):
        return None
    if type(name.value) is not str:
        return None  # it was never told its name
    found = instance.dict_get(tracer, name.value)
    if found is None:
        found = tracer.call(load_attr(tracer, descriptor, "func"), [instance], {})
        tracer.effects.set_attr(instance, name.value, found)
    return found
