"""Holds the running of generators, as frames that the interpreter leaves and enters again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture import break_reasons as reasons
from capture.symbolic_convert.frame import Frame
from capture.variables.base import ObservedException, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable, is_none
from capture.variables.functions import GeneratorVariable
from capture.variables.objects import ClassVariable, ExceptionVariable

if TYPE_CHECKING:
    from capture.symbolic_convert.translator import Translator


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
            tracer.unwind(ObservedException(thrown), depth)
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


def close(tracer: Translator, generator: GeneratorVariable) -> Variable:
    """``generator.close()``."""
    if generator.state != "suspended":
        generator.state = "finished"
        return NONE
    try:
        item = _resume(tracer, generator, ExceptionVariable(GeneratorExit, [], None))
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), (GeneratorExit, StopIteration)):
            return NONE
        raise
    if item is not None:
        tracer.raise_error(RuntimeError, "generator ignored GeneratorExit")
    return NONE


def throw(tracer: Translator, generator: GeneratorVariable, args: list[Variable]) -> Variable:
    """``generator.throw(...)``."""
    exception = args[0].realize(tracer)
    if isinstance(exception, ClassVariable):
        exception = tracer.call(exception, args[1:2] if len(args) > 1 else [], {}).realize(tracer)
    elif len(args) > 1 and not all(is_none(a.realize(tracer)) for a in args[1:]):
        unsupported(reasons.UNKNOWN_OPERATION, "generator.throw() with three arguments")
    if generator.state != "suspended":
        generator.state = "finished"
        raise ObservedException(exception)
    item = _resume(tracer, generator, exception)
    if item is None:
        result = generator.frame.result
        tracer.raise_observed(StopIteration, [] if is_none(result) else [result])
    return item
