"""Holds the rules of the inspect module; must not know the interpreter."""

from __future__ import annotations

import inspect
import types
from typing import Any

from capture import break_reasons as reasons
from capture.guards.kinds import DictKeysAre, IdIs
from capture.sources import (
    AttrSource,
    DictItemSource,
    FunctionCodeSource,
    FunctionDefaultsSource,
    FunctionKwDefaultsSource,
    Source,
)
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.constant import boolean
from capture.variables.functions import FunctionVariable, MethodVariable
from capture.variables.objects import ClassVariable


@python_rule_for(inspect.signature)
def _signature(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """A signature is made of the function's own parts, all guarded, so it is a constant."""
    target = args[0] if args else None
    bound = isinstance(target, MethodVariable)
    fn = target.fn.realize(tracer) if isinstance(target, MethodVariable) else target
    if kwargs or len(args) != 1 or not isinstance(fn, FunctionVariable) or fn.value is MISSING:
        unsupported(reasons.UNKNOWN_CALLABLE, "inspect.signature")
    source = fn.source
    for name in _OTHER_ANSWERS:
        if source is None or fn.dict_get(tracer, name) is not None:
            unsupported(reasons.UNKNOWN_CALLABLE, "inspect.signature of a wrapper")
    assert source is not None
    tracer.guard(IdIs(FunctionCodeSource(source), fn.code))
    tracer.guard(IdIs(FunctionDefaultsSource(source), fn.value.__defaults__))
    _guard_dict(tracer, fn.value.__kwdefaults__, FunctionKwDefaultsSource(source))
    _guard_dict(tracer, fn.value.__annotations__, AttrSource(source, "__annotations__"))
    real = types.MethodType(fn.value, object()) if bound else fn.value
    return tracer.wrap_static(inspect.signature(real), None)


_OTHER_ANSWERS = (
    "__wrapped__", "__signature__", "__text_signature__", "__partialmethod__", "_partialmethod",
)  # fmt: skip


def _guard_dict(tracer: Tracer, value: dict[str, Any] | None, source: Source) -> None:
    tracer.guard(IdIs(source, value))
    if value is not None:
        tracer.guard(DictKeysAre(source, tuple(value)))
        for name, item in value.items():
            tracer.guard(IdIs(DictItemSource(source, name), item))


def _code_flag(function: Any, flag: int) -> None:
    def ask(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        target = args[0] if len(args) == 1 and not kwargs else None
        if isinstance(target, MethodVariable):
            target = target.fn.realize(tracer)
        if not isinstance(target, FunctionVariable):
            unsupported(reasons.UNKNOWN_CALLABLE, f"inspect.{function.__name__}")
        if target.source is not None:
            tracer.guard(IdIs(FunctionCodeSource(target.source), target.code))
        return boolean(bool(target.code.co_flags & flag))

    python_rule_for(function)(ask)


_code_flag(inspect.isgeneratorfunction, inspect.CO_GENERATOR)
_code_flag(inspect.isasyncgenfunction, inspect.CO_ASYNC_GENERATOR)


@python_rule_for(inspect.isclass)
def _isclass(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 1 or kwargs:
        unsupported(reasons.UNKNOWN_CALLABLE, "inspect.isclass")
    return boolean(isinstance(args[0], ClassVariable))
