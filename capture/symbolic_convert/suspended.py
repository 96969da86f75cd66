"""Holds what happens where a suspended generator is dropped; must not know how it was made.

Python raises ``GeneratorExit`` where it stands. A generator that only passes that on may die at any
time, unseen: handlers for other exceptions (as in ``collections.abc.Sequence.__iter__``) do that.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from capture.errors import GraphBreak
from capture.instructions.instruction import Instruction
from capture.instructions.ops import Op
from capture.symbolic_convert.frame import Frame
from capture.variables.base import LazyVariable
from capture.variables.objects import ClassVariable

if TYPE_CHECKING:
    from capture.symbolic_convert.translator import Translator

__all__ = ["cleans_up"]


def cleans_up(tracer: Translator, frame: Frame) -> bool:
    """True if a suspended generator has something to do when it is dropped, or holds another."""
    for v in (*frame.stack, *frame.locals.values()):
        if isinstance(v, LazyVariable) and type(v.value) is types.GeneratorType:
            return True
    entry = frame.decoded.handler_at(max(frame.index - 1, 0))
    while entry is not None and not _is_own_handler(frame, entry.target):
        raised_at = _passes_on(tracer, frame, entry.target)
        if raised_at is None:
            return True
        entry = frame.decoded.handler_at(raised_at)
    return False


def _passes_on(tracer: Translator, frame: Frame, index: int) -> int | None:
    """Where a handler raises ``GeneratorExit`` again; None if it may do something else."""
    code = frame.instructions
    if [inst.op for inst in code[index : index + 3]] == [Op.COPY, Op.POP_EXCEPT, Op.RERAISE]:
        return index + 2
    if code[index].op is not Op.PUSH_EXC_INFO:
        return None
    index += 1
    while code[index].op is not Op.RERAISE:
        names: list[Instruction] = []
        while code[index].op is Op.LOAD_GLOBAL:
            names.append(code[index])
            index += 1
        index += code[index].op is Op.BUILD_TUPLE
        if not names or code[index].op is not Op.CHECK_EXC_MATCH:
            return None
        index += 2 if code[index + 1].op is Op.TO_BOOL else 1  # not on 3.13
        if code[index].op is not Op.POP_JUMP_IF_FALSE:
            return None
        if not all(_is_for_others(tracer, frame, inst.arg) for inst in names):
            return None
        index = code[index].target
    return index


def _is_for_others(tracer: Translator, frame: Frame, name: object) -> bool:
    """True for the name of a class of exceptions that ``GeneratorExit`` is not one of."""
    assert isinstance(name, str)
    try:
        cls = tracer.load_global(frame, name).realize(tracer)
    except GraphBreak:
        return False
    if not isinstance(cls, ClassVariable) or not issubclass(cls.value, BaseException):
        return False
    return not issubclass(GeneratorExit, cls.value)


def _is_own_handler(frame: Frame, target: int) -> bool:
    """True for the handlers that the compiler puts around generators."""
    inst = frame.instructions[target]
    return inst.op in (Op.CLEANUP_THROW, Op.STOPITERATION_ERROR) or "STOPITERATION" in str(inst.arg)
