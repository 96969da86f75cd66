"""Holds the handlers that suspend and resume generators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.symbolic_convert.generators import finish_send
from capture.symbolic_convert.registry import handles, raw
from capture.variables import iteration
from capture.variables.attributes import load_attr
from capture.variables.base import ObservedException, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.exceptions import stop_value
from capture.variables.functions import GeneratorVariable
from capture.variables.objects import ExceptionVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


@raw(Op.RETURN_GENERATOR)
def return_generator(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The start of a generator's body."""
    if frame.generator is None:
        unsupported(reasons.COROUTINE, frame.code.co_qualname)
    frame.stack.append(NONE)


@raw(Op.YIELD_VALUE)
def yield_value(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``yield``."""
    if frame.generator is None:
        unsupported(reasons.COROUTINE, frame.code.co_qualname)
    frame.yielded = frame.stack.pop()
    tracer.frames.pop()


@handles(Op.GET_YIELD_FROM_ITER, "iterable -- iterator")
def get_yield_from_iter(tracer: Translator, inst: Instruction, iterable: Variable) -> Variable:
    """``yield from``: the iterator."""
    return iteration.get_iter(tracer, iterable)


@raw(Op.SEND)
def send(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Pass a value to the inner iterator: it yields, or it is finished and its result is left."""
    value = frame.stack.pop().realize(tracer)
    receiver = frame.stack[-1].realize(tracer)
    result: Variable = NONE
    if isinstance(receiver, GeneratorVariable):
        item = tracer.run_generator(receiver, value)
        if item is None:
            result = receiver.frame.result
    elif isinstance(value, ConstantVariable) and value.value is None:
        item, result = iteration.next_or_result(tracer, receiver)
    else:
        try:
            item = tracer.call(load_attr(tracer, receiver, "send"), [value], {})
        except ObservedException as signal:
            exception = signal.exception
            if not isinstance(exception, ExceptionVariable) or not issubclass(
                exception.cls, StopIteration
            ):
                raise
            item, result = None, stop_value(exception)
    if item is not None:
        frame.stack.append(item)
        return
    place: Any = inst.target
    finish_send(frame, result)
    frame.index = place


@raw(Op.END_SEND)
def end_send(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Drop the receiver below the result of ``yield from``."""
    value = frame.stack.pop()
    frame.stack.pop()
    frame.stack.append(value)


@raw(Op.STOPITERATION_ERROR)
def stopiteration_error(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A StopIteration that leaves a generator becomes a RuntimeError (the caller turns it)."""


@raw(Op.CLEANUP_THROW)
def cleanup_throw(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """What ``throw`` raised in ``yield from``: the end of the inner iterator gives its result."""
    exception = frame.stack.pop().realize(tracer)
    if not isinstance(exception, ExceptionVariable) or not issubclass(exception.cls, StopIteration):
        raise ObservedException(exception)
    del frame.stack[-2:]
    frame.stack += [NONE, stop_value(exception)]
