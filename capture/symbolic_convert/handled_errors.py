"""Holds what handlers of the program pass over: errors that operators never raise because of data.

``except NotImplementedError:`` around an operator catches what it raises for a device or a type,
which is known when it is captured. What it raises because of data (an index out of range) goes
through such a handler as if there were none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture.graph.op_rules import runs_on_samples
from capture.instructions.ops import Op
from capture.variables.objects import ClassVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import ExceptionEntry
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator

__all__ = ["passes_over"]

_NEVER_ON_DATA: tuple[type[BaseException], ...] = (
    NotImplementedError, AttributeError, ImportError, KeyError, NameError, StopIteration, OSError,
)  # fmt: skip


def passes_over(tracer: Translator, frame: Frame, entry: ExceptionEntry, target: Any) -> bool:
    """Tell whether a handler lets through all that a call in the graph raises because of data."""
    if not runs_on_samples(target):  # code of the program may raise anything
        return False
    names = _caught(frame, entry)
    if not names or not names <= _NAMES:
        return False
    for name in sorted(names):
        caught = tracer.load_global(frame, name).realize(tracer)
        if not isinstance(caught, ClassVariable) or caught.value not in _NEVER_ON_DATA:
            return False
    return True


_TEST = [Op.CHECK_EXC_MATCH, Op.POP_JUMP_IF_FALSE]  # up to 3.12 with a TO_BOOL between them
_NAMES = {cls.__name__ for cls in _NEVER_ON_DATA}


def _caught(frame: Frame, entry: ExceptionEntry) -> set[str]:
    """The names of the classes that a handler catches; none if it does more than to name them."""
    instructions = frame.instructions
    place = entry.target + 1
    found: set[str] = set()
    while place < len(instructions):
        first = place
        while instructions[place].op is Op.LOAD_GLOBAL:
            found.add(str(instructions[place].arg))
            place += 1
        if place - first > 1 and instructions[place].op is Op.BUILD_TUPLE:
            place += 1
        test = [inst for inst in instructions[place : place + 3] if inst.op is not Op.TO_BOOL][:2]
        if [inst.op for inst in test] != _TEST:
            return set()
        place = test[1].target
        if instructions[place].op is Op.RERAISE:
            return found
    return set()
