"""Holds the rules of exceptions, their tracebacks and what is being handled."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, is_none
from capture.variables.containers import TupleVariable
from capture.variables.exceptions import (
    EXCEPTIONS,
    fill_exception,
    set_traceback,
    traceback_of,
)
from capture.variables.handling import guard_caller_handles_nothing
from capture.variables.objects import ExceptionVariable, TracebackVariable


def _initializer(init: Any) -> None:
    def initialize(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        exception = args[0] if args else None
        if not isinstance(exception, ExceptionVariable):
            return None
        tracer.mutations += 1
        fill_exception(tracer, exception, init, args[1:], kwargs)
        return NONE

    rule(init)(initialize)


for _init in {c.__dict__["__init__"] for c in EXCEPTIONS if "__init__" in c.__dict__}:
    _initializer(_init)


@rule(BaseException.with_traceback)
def _with_traceback(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    exception = args[0]
    if isinstance(exception, ExceptionVariable) and set_traceback(exception, args[1]):
        tracer.mutations += 1
        return exception
    return None


@python_rule_for(traceback.clear_frames)
def _clear_frames(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) == 1 and isinstance(args[0], TracebackVariable):
        # Its frames are those of this piece: they have ended, and so have their locals, or they
        # are running, and then Python leaves them alone.
        return NONE
    unsupported(reasons.UNKNOWN_CALLABLE, "traceback.clear_frames")


@rule(sys.exception)
def _exception(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return _handled(tracer)


@rule(sys.exc_info)
def _exc_info(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    exception = _handled(tracer)
    if is_none(exception):
        return TupleVariable([NONE, NONE, NONE])
    if not isinstance(exception, ExceptionVariable):
        unsupported(reasons.FRAME_INSPECTION, "sys.exc_info() of an exception from outside")
    cls = tracer.class_variable(exception.cls, None)
    return TupleVariable([cls, exception, traceback_of(exception) or NONE])


def _handled(tracer: Tracer) -> Variable:
    """The exception being handled, None if there is none, not by the caller either."""
    exception = tracer.handled_exception()
    if exception is not None:
        return exception
    guard_caller_handles_nothing(tracer)
    return NONE
