"""Holds the rules of properties, static methods and class methods made during capture."""

from __future__ import annotations

from capture.variables.base import Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import NONE
from capture.variables.made_classes import DescriptorVariable, make_descriptor

_ACCESSORS = ("fget", "fset", "fdel", "doc")


@rule(property)
def _property(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    parts = list(args)
    for place, name in enumerate(_ACCESSORS):
        if name in kwargs:
            parts += [NONE] * (place + 1 - len(parts))
            parts[place] = kwargs[name]
    return make_descriptor(tracer, property, parts)


@rule(staticmethod)
def _static_method(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return make_descriptor(tracer, staticmethod, args)


@rule(classmethod)
def _class_method(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return make_descriptor(tracer, classmethod, args)


def _replace(place: int, tracer: Tracer, args: Args) -> Variable | None:
    made, accessor = args
    if not isinstance(made, DescriptorVariable):
        return None
    parts = [*made.parts, *[NONE] * (place + 1 - len(made.parts))]
    parts[place] = accessor
    return make_descriptor(tracer, property, parts)


@rule(property.getter)
def _getter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return _replace(0, tracer, args)


@rule(property.setter)
def _setter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return _replace(1, tracer, args)


@rule(property.deleter)
def _deleter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return _replace(2, tracer, args)
