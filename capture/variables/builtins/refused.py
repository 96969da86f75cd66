"""Holds the rules of callables that are left to Python, nearly always, each with its reason."""

from __future__ import annotations

import inspect
import types
import warnings

import torch

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE


@rule(eval, exec, input, breakpoint, compile, __import__)
def _inspection(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args:
        unsupported(reasons.FRAME_INSPECTION, "breakpoint(), input() and the like")
    return None


@rule(print)
def _print(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "print")


@(rule if isinstance(warnings.warn, types.BuiltinFunctionType) else python_rule_for)(warnings.warn)
def _warn(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    text = args[0] if args else kwargs.get("message")
    known = None if text is None else tracer.as_python(text)
    if type(known) is not str or tracer.calling_code().co_filename != _MODULE_HOOKS:
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    # Between the hook and the program there are torch's own frames only.
    place, names = tracer.user_place()
    if place is None or not isinstance(names, dict):
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    tracer.effects.warned(known, place, names)
    return NONE


_MODULE_HOOKS = torch.utils.hooks.__file__


@python_rule_for(inspect.getsource)
def _signature(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "inspect.getsource")
