"""Holds the handlers of ``with``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.polyfills.arguments import type_name
from capture.sources import AttrSource
from capture.symbolic_convert.registry import raw
from capture.variables.attributes import bind, type_source_of
from capture.variables.base import MISSING, Variable, unsupported
from capture.variables.constant import NONE
from capture.variables.exceptions import traceback_of
from capture.variables.objects import ExceptionVariable, type_attribute

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


def special_method(tracer: Translator, obj: Variable, name: str) -> Variable:
    """A special method, looked up on the type as the interpreter does."""
    cls = obj.python_type()
    raw_, where = type_attribute(tracer, cls, type_source_of(tracer, obj), name)
    if raw_ is MISSING:
        if name in ("__enter__", "__exit__"):
            missed = "the context manager protocol"
            more = " (missed __exit__ method)" if name == "__exit__" else ""
            tracer.raise_error(
                TypeError, f"{type_name(cls)!r} object does not support {missed}{more}"
            )
        unsupported(reasons.UNKNOWN_OPERATION, f"{cls.__name__}.{name}")
    return bind(tracer, raw_, where, obj, cls, name)


@raw(Op.ENTER_CONTEXT)
def enter_context(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The start of ``with``: ``__exit__`` stays on the stack."""
    manager = frame.stack.pop().realize(tracer)
    enter = special_method(tracer, manager, "__enter__")
    leave = special_method(tracer, manager, "__exit__")
    frame.stack.append(leave)
    frame.stack.append(tracer.call(enter, [], {}))


@raw(Op.WITH_EXCEPT_START)
def with_except_start(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Call ``__exit__`` with the exception that leaves the block."""
    leave = frame.stack[-4]
    exception = frame.stack[-1].realize(tracer)
    cls = tracer.class_variable(exception.python_type(), exception.source)
    trace: Variable = NONE
    if isinstance(exception, ExceptionVariable):
        trace = traceback_of(exception) or NONE
    elif exception.source is not None:
        real: Any = exception
        trace = tracer.wrap(real.value.__traceback__, AttrSource(exception.source, "__traceback__"))
    frame.stack.append(tracer.call(leave, [cls, exception, trace], {}))
