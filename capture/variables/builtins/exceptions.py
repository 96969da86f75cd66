"""Holds the rules of exceptions, their tracebacks and what is being handled."""

from __future__ import annotations

import sys
import traceback

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, is_none
from capture.variables.containers import TupleVariable
from capture.variables.handling import guard_caller_handles_nothing
from capture.variables.objects import ExceptionVariable, TracebackVariable


@rule(BaseException.with_traceback)
def _with_traceback(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not is_none(args[1]):
        return None
    if isinstance(args[0], ExceptionVariable):
        tracer.mutations += 1
        args[0].bare = True
        return args[0]
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
    return TupleVariable([cls, exception, TracebackVariable(exception.raised_at)])


def _handled(tracer: Tracer) -> Variable:
    """The exception being handled, None if there is none, not by the caller either."""
    exception = tracer.handled_exception()
    if exception is not None:
        return exception
    guard_caller_handles_nothing(tracer)
    return NONE
