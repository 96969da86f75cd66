"""Holds the rules of callables that are always left to Python, each with its reason."""

from __future__ import annotations

import inspect

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule


@rule(eval, exec, input, breakpoint, compile, __import__)
def _inspection(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args:
        unsupported(reasons.FRAME_INSPECTION, "breakpoint(), input() and the like")
    return None


@rule(print)
def _print(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "print")


@python_rule_for(inspect.getsource)
def _signature(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "inspect.getsource")
