"""Holds the rules of regular expressions on constants: patterns and matches are immutable."""

from __future__ import annotations

import re
from typing import Any

from capture.guards.kinds import IdIs
from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.containers import ListVariable
from capture.variables.objects import ObjectVariable

_KINDS = (re.Pattern, re.Match)


def _real(tracer: Tracer, v: Variable) -> Any:
    """A constant, a pattern or a match; else MISSING."""
    v = v.realize(tracer)
    if isinstance(v, ObjectVariable) and type(v.value) in _KINDS:
        if v.source is not None:
            tracer.guard(IdIs(v.source, v.value))
        return v.value
    return tracer.as_python(v)


def _fold(tracer: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Variable | None:
    known = [_real(tracer, a) for a in args]
    named = {k: _real(tracer, v) for k, v in kwargs.items()}
    if any(v is MISSING for v in (*known, *named.values())):
        return None
    try:
        result = fn(*known, **named)
    except Exception as error:
        tracer.raise_real(error)
    if type(result) in _KINDS:
        return tracer.wrap_static(result, None)
    if type(result) is list:
        return ListVariable([tracer.wrap_result(item) for item in result])
    return tracer.wrap_result(result)


def _add(fn: Any, register: Any) -> None:
    @register(fn)  # type: ignore[untyped-decorator]
    def _(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        return _fold(tracer, fn, args, kwargs)


def _add_substitution(fn: Any, register: Any) -> None:
    @register(fn)  # type: ignore[untyped-decorator]
    def _(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        replacement = args[1] if len(args) > 1 else kwargs.get("repl")
        if replacement is None or type(_real(tracer, replacement)) not in (str, bytes):
            return None  # it is called
        return _fold(tracer, fn, args, kwargs)


for _name in ("compile", "match", "fullmatch", "search", "split", "findall", "escape"):
    _add(getattr(re, _name), python_rule_for)
for _name in ("match", "fullmatch", "search", "split", "findall"):
    _add(getattr(re.Pattern, _name), rule)
for _name in ("sub", "subn"):
    _add_substitution(getattr(re, _name), python_rule_for)
    _add_substitution(getattr(re.Pattern, _name), rule)
for _name in ("group", "groups", "groupdict", "start", "end", "span"):
    _add(getattr(re.Match, _name), rule)
