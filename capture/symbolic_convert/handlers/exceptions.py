"""Holds the handlers of raising and handling exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.polyfills.exceptions import prepare_reraise
from capture.symbolic_convert.registry import raw
from capture.variables.base import ObservedException, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable, boolean, is_none
from capture.variables.containers import TupleVariable
from capture.variables.objects import ClassVariable, ExceptionVariable, ObjectVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


class HandlerMarker(Variable):
    """The slot below an exception being handled: CPython keeps the previous one there."""

    __slots__ = ("exception",)

    def __init__(self, exception: Variable) -> None:
        super().__init__(None)
        self.exception = exception

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return type(None)


def is_exception(v: Variable) -> bool:
    """True for exception instances."""
    return issubclass(v.python_type(), BaseException)


@raw(Op.RAISE_VARARGS)
def raise_varargs(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``raise``, ``raise x`` or ``raise x from y``."""
    cause = frame.stack.pop().realize(tracer) if inst.arg == 2 else None
    if inst.arg == 0:
        for holder in reversed(tracer.frames):
            if holder.handled:
                raise raised_again(holder.handled[-1])
        unsupported(reasons.UNCAUGHT_EXCEPTION, "The exception being handled outside")
    exception = as_exception(tracer, frame.stack.pop().realize(tracer))
    if not isinstance(exception, ExceptionVariable):
        unsupported(reasons.SIDE_EFFECT, "raise of an exception from outside: its traceback grows")
    if cause is not None:
        if isinstance(cause, ClassVariable):
            cause = tracer.call(cause, [], {}).realize(tracer)
        if not (is_none(cause) or is_exception(cause)):
            tracer.raise_error(TypeError, "exception causes must derive from BaseException")
        exception.cause = cause
        exception.suppress_context = True
    tracer.set_context(exception)
    raise ObservedException(exception)


def as_exception(tracer: Translator, v: Variable) -> Variable:
    """An exception instance from what was raised."""
    if isinstance(v, ClassVariable) and issubclass(v.value, BaseException):
        made = tracer.call(v, [], {}).realize(tracer)
        if not is_exception(made):
            text = f"calling {v.value!r} should have returned an instance of BaseException"
            tracer.raise_error(TypeError, f"{text}, not {made.python_type()!r}")
        return made
    if isinstance(v, ObjectVariable) and is_exception(v):
        return v
    tracer.raise_error(TypeError, "exceptions must derive from BaseException")


@raw(Op.RERAISE)
def reraise(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Raise again at the end of a handler."""
    raise raised_again(frame.stack.pop().realize(tracer))


def raised_again(exception: Variable) -> ObservedException:
    """What goes on being raised: its traceback does not grow here."""
    signal = ObservedException(exception)
    signal.again = True
    return signal


@raw(Op.PUSH_EXC_INFO)
def push_exc_info(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Enter a handler."""
    exception = frame.stack.pop().realize(tracer)
    frame.stack.append(HandlerMarker(exception))
    frame.stack.append(exception)
    frame.handled = [*frame.handled, exception]


@raw(Op.POP_EXCEPT)
def pop_except(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Leave a handler."""
    frame.stack.pop()
    frame.handled = frame.handled[:-1]


@raw(Op.CHECK_EXC_MATCH)
def check_exc_match(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``except kind``: does it fit?"""
    wanted = wanted_classes(tracer, frame.stack.pop())
    cls = frame.stack[-1].realize(tracer).python_type()
    frame.stack.append(boolean(any(kind in cls.__mro__ for kind in wanted)))


def wanted_classes(tracer: Translator, kinds: Variable) -> list[type]:
    """The classes that stand behind ``except``."""
    kinds = kinds.realize(tracer)
    parts = kinds.items(tracer) if isinstance(kinds, TupleVariable) else [kinds]
    found = []
    for part in parts:
        part = part.realize(tracer)
        if not isinstance(part, ClassVariable) or not issubclass(part.value, BaseException):
            tracer.raise_error(
                TypeError, "catching classes that do not inherit from BaseException is not allowed"
            )
        found.append(part.value)
    return found


@raw(Op.CHECK_EG_MATCH)
def check_eg_match(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``except* kind``: the part of the group that fits, above the rest.

    Source: ``Python/ceval.c`` (``exception_group_match``).
    """
    kinds = frame.stack.pop()
    wanted = wanted_classes(tracer, kinds)
    if any(issubclass(kind, BaseExceptionGroup) for kind in wanted):
        what = "catching ExceptionGroup with except* is not allowed. Use except instead."
        tracer.raise_error(TypeError, what)
    exception = frame.stack[-1].realize(tracer)
    match, rest = _split(tracer, exception, kinds, wanted)
    if is_none(match):
        frame.stack.append(match)
        return
    frame.stack[-1:] = [rest, match]
    frame.handled = [*frame.handled[:-1], match]
    for place in range(len(frame.stack) - 1, -1, -1):
        if isinstance(frame.stack[place], HandlerMarker):
            frame.stack[place] = HandlerMarker(match)
            break


def _split(
    tracer: Translator, exception: Variable, kinds: Variable, wanted: list[type]
) -> tuple[Variable, Variable]:
    """What of an exception fits, and what does not."""
    if is_none(exception):
        return NONE, NONE
    cls = exception.python_type()
    is_group = issubclass(cls, BaseExceptionGroup)
    if any(kind in cls.__mro__ for kind in wanted):
        if is_group:
            return exception, NONE
        make = tracer.wrap_static(BaseExceptionGroup, None)
        parts: list[Variable] = [ConstantVariable(""), TupleVariable([exception])]
        return tracer.call(make, parts, {}).realize(tracer), NONE
    if not is_group:
        return NONE, exception
    pair = tracer.call(tracer.getattr(exception, "split"), [kinds], {}).realize(tracer)
    if not isinstance(pair, TupleVariable) or len(pair.items(tracer)) != 2:
        unsupported(reasons.UNKNOWN_OPERATION, f"{cls.__name__}.split() that gives no pair")
    match, rest = pair.items(tracer)
    return match.realize(tracer), rest.realize(tracer)


@raw(Op.PREP_RERAISE_STAR)
def prep_reraise_star(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """What is raised behind all ``except*`` clauses, or None."""
    raised = frame.stack.pop()
    original = frame.stack.pop()
    merge = tracer.wrap_static(prepare_reraise, None)
    frame.stack.append(tracer.call(merge, [original, raised], {}))
