"""Holds the rules that make and bind functions, methods, cells and partial objects."""

from __future__ import annotations

import functools
import types

from capture.variables.attributes import load_attr
from capture.variables.base import MISSING, Tracer, Variable, stamp
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import ConstantVariable, boolean, is_none
from capture.variables.functions import CellVariable, MethodVariable, PartialVariable
from capture.variables.objects import ObjectVariable, lookup_mro


@rule(callable)
def _callable(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(lookup_mro(args[0].python_type(), "__call__")[0] is not MISSING)


@rule(functools.partial)
def _partial(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    fn, rest = args[0], args[1:]
    if isinstance(fn, PartialVariable):
        return stamp(
            tracer,
            PartialVariable(functools.partial, fn.fn, [*fn.args, *rest], {**fn.keywords, **kwargs}),
        )
    return stamp(tracer, PartialVariable(functools.partial, fn, list(rest), dict(kwargs)))


@rule(types.MethodType)
def _method_type(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return MethodVariable(args[0], args[1])


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
    found = instance.dict_get(tracer, name.value)
    if found is None:
        found = tracer.call(load_attr(tracer, descriptor, "func"), [instance], {})
        tracer.effects.set_attr(instance, name.value, found)
    return found
