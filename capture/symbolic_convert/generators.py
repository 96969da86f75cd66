"""Holds the running of generators, as frames that the interpreter leaves and enters again."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.instructions.versions import (
    CLOSE_GIVES_RESULT,
    SEND_POPS_RECEIVER,
    THROW_WARNS_OF_PARTS,
)
from capture.symbolic_convert import raising
from capture.symbolic_convert.frame import Frame
from capture.variables.base import MISSING, ObservedException, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable, is_none
from capture.variables.containers import TupleVariable
from capture.variables.exceptions import stop_value
from capture.variables.functions import GeneratorVariable
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    TracebackVariable,
    lookup_mro,
)

if TYPE_CHECKING:
    from capture.symbolic_convert.translator import Translator

_YIELD_FROM = 2  # of the RESUME behind a yield: in ``yield from``; above it, in ``await``


def run(tracer: Translator, generator: GeneratorVariable, sent: Variable | None) -> Variable | None:
    """Run a generator's frame to its next yield; None when it is finished."""
    if generator.state == "finished":
        generator.frame.result = NONE
        return None
    if generator.running:
        tracer.raise_error(ValueError, "generator already executing")
    if generator.state == "created":
        if sent is not None and not is_none(sent):
            tracer.raise_error(TypeError, "can't send non-None value to a just-started generator")
    else:
        generator.frame.stack.append(sent if sent is not None else NONE)
    return _resume(tracer, generator)


def _resume(
    tracer: Translator, generator: GeneratorVariable, thrown: Variable | None = None
) -> Variable | None:
    """Run on behind the last yield, or raise ``thrown`` there; the next item, or None."""
    frame = generator.frame
    assert isinstance(frame, Frame)
    tracer.mutations += 1
    generator.state = "suspended"
    generator.running = True
    frame.nested = True
    frame.yielded = None
    tracer.push_frame(frame)
    depth = len(tracer.frames) - 1
    try:
        if thrown is not None:
            if frame.handled:  # by the generator itself: its caller's does not count
                raising.chain_to(thrown, frame.handled[-1])
            if not tracer.unwind(ObservedException(thrown), depth):
                raise ObservedException(thrown)
        tracer.run_until(depth)
    except ObservedException as signal:
        generator.state = "finished"
        if issubclass(signal.exception.python_type(), StopIteration):
            error = ExceptionVariable(
                RuntimeError, [ConstantVariable("generator raised StopIteration")], None
            )
            error.cause = error.context = signal.exception
            raise ObservedException(error) from None
        raise
    finally:
        generator.running = False
    if frame.yielded is None:
        generator.state = "finished"
    return frame.yielded


def _delegate(generator: GeneratorVariable) -> Variable | None:
    """The iterator that a suspended ``yield from`` passes values on to."""
    frame = generator.frame
    assert isinstance(frame, Frame)
    inst = frame.instructions[frame.index - 1]
    parts: Any = inst.arg
    _, resumed = parts
    return frame.stack[-1] if resumed & 3 >= _YIELD_FROM else None


def _close_iterator(tracer: Translator, iterator: Variable) -> Variable | None:
    """Close what ``yield from`` was suspended in; the exception that this raises, if any."""
    iterator = iterator.realize(tracer)
    try:
        if isinstance(iterator, GeneratorVariable):
            close(tracer, iterator)
        elif lookup_mro(iterator.python_type(), "close")[0] is not MISSING:
            tracer.call(tracer.getattr(iterator, "close"), [], {})
    except ObservedException as signal:
        return signal.exception
    return None


def close(tracer: Translator, generator: GeneratorVariable) -> Variable:
    """``generator.close()``."""
    if generator.state != "suspended":
        tracer.mutations += generator.state != "finished"
        generator.state = "finished"
        return NONE
    inner = _delegate(generator)
    error = None if inner is None else _close_iterator(tracer, inner)
    if error is None:
        error = ExceptionVariable(GeneratorExit, [], None)
        tracer.set_context(error)
    try:
        item = _resume(tracer, generator, error)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), (GeneratorExit, StopIteration)):
            return NONE
        raise
    if item is not None:
        tracer.raise_error(RuntimeError, "generator ignored GeneratorExit")
    return generator.frame.result if CLOSE_GIVES_RESULT else NONE


def throw(tracer: Translator, generator: GeneratorVariable, args: list[Variable]) -> Variable:
    """``generator.throw(...)``."""
    exception = _thrown(tracer, [a.realize(tracer) for a in args])
    if generator.state != "suspended":
        tracer.mutations += generator.state != "finished"
        generator.state = "finished"
        raise ObservedException(exception)
    inner = _delegate(generator)
    item = (
        _resume(tracer, generator, exception)
        if inner is None
        else _throw_inside(tracer, generator, inner.realize(tracer), exception)
    )
    if item is None:
        result = generator.frame.result
        tracer.raise_observed(StopIteration, [] if is_none(result) else [result])
    return item


def _thrown(tracer: Translator, args: list[Variable]) -> Variable:
    """The exception that ``throw()`` raises: of an instance, or of a class and its arguments.

    Source: ``Objects/genobject.c`` (``_gen_throw``), ``Python/errors.c``.
    """
    kind, *rest = args
    if rest and THROW_WARNS_OF_PARTS:
        unsupported(reasons.UNKNOWN_OPERATION, "generator.throw() with several arguments")
    value: Variable = rest[0] if rest else NONE
    if len(rest) > 1 and not (is_none(rest[1]) or isinstance(rest[1], TracebackVariable)):
        if rest[1].python_type() is types.TracebackType:
            unsupported(reasons.UNKNOWN_OPERATION, "generator.throw() with a traceback")
        tracer.raise_error(TypeError, "throw() third argument must be a traceback object")
    if isinstance(kind, ClassVariable) and issubclass(kind.value, BaseException):
        if kind.value in value.python_type().__mro__:
            return value
        parts = [] if is_none(value) else [value]
        if isinstance(value, TupleVariable):
            parts = value.items(tracer)
        exception = tracer.call(kind, parts, {}).realize(tracer)
        if not issubclass(exception.python_type(), BaseException):
            unsupported(reasons.UNKNOWN_OPERATION, "generator.throw() of what is no exception")
        return exception
    if not issubclass(kind.python_type(), BaseException):
        what = "exceptions must be classes or instances deriving from BaseException, not "
        tracer.raise_error(TypeError, what + _name_of(kind))
    if not is_none(value):
        tracer.raise_error(TypeError, "instance exception may not have a separate value")
    return kind


def _name_of(v: Variable) -> str:
    return v.python_type().__name__


def _throw_inside(
    tracer: Translator, generator: GeneratorVariable, inner: Variable, exception: Variable
) -> Variable | None:
    """``throw`` while in ``yield from``: the inner iterator gets the exception first.

    Source: ``Objects/genobject.c`` (``_gen_throw``).
    """
    if issubclass(exception.python_type(), GeneratorExit):
        return _resume(tracer, generator, _close_iterator(tracer, inner) or exception)
    if not isinstance(inner, GeneratorVariable):
        if lookup_mro(inner.python_type(), "throw")[0] is MISSING:
            return _resume(tracer, generator, exception)
        unsupported(reasons.UNKNOWN_OPERATION, f"throw() into {inner.describe()}")
    try:
        return throw(tracer, inner, [exception])
    except ObservedException as signal:
        raised = signal.exception
    frame = generator.frame
    assert isinstance(frame, Frame)
    send = frame.instructions[frame.index - 2]
    if not issubclass(raised.python_type(), StopIteration) or send.op is not Op.SEND:
        return _resume(tracer, generator, raised)
    assert isinstance(raised, ExceptionVariable)
    finish_send(frame, stop_value(raised))
    frame.index = send.target
    return _resume(tracer, generator)


def finish_send(frame: Frame, result: Variable) -> None:
    """Leave the result as the version's SEND does.

    END_SEND drops the receiver, or the jump itself does.
    """
    if SEND_POPS_RECEIVER:
        frame.stack.pop()
    frame.stack.append(result)
