"""Holds the rules of what the polyfills call to look behind the Python level."""

from __future__ import annotations

from capture.polyfills.arguments import Missing, run_length_hint, type_lookup, type_name
from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.length_hints import ask_length
from capture.variables.objects import ClassVariable, is_static_type, type_attribute


@python_rule_for(run_length_hint)
def _run_length_hint(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    ask_length(tracer, args[0])
    return NONE


@python_rule_for(type_name)
def _type_name(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    owner = args[0]
    if not isinstance(owner, ClassVariable):
        return None
    return ConstantVariable(type_name(owner.value))


@python_rule_for(type_lookup)
def _type_lookup(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    owner, name = args
    if not isinstance(owner, ClassVariable) or not isinstance(name, ConstantVariable):
        return None
    cls = owner.value
    source = None if is_static_type(cls) else tracer.class_source(cls, owner.source, owner)
    raw, where = type_attribute(tracer, cls, source, name.value)
    return tracer.wrap_static(Missing if raw is MISSING else raw, where)
