"""Holds ``locals()``: the names of a frame as a dict. Must not know the handlers.

Source: ``Objects/frameobject.c`` (``PyFrame_FastToLocalsWithError``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.instructions.versions import LOCALS_ARE_SHARED
from capture.variables.base import stamp, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable, LocalsVariable

if TYPE_CHECKING:
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator

__all__ = ["local_names"]


def local_names(tracer: Translator) -> DictVariable:
    """``locals()`` in the current frame: up to 3.12 one dict, brought up to date at each call."""
    frame = tracer.frames[-1]
    if frame.namespace is not None:
        return frame.namespace
    code = frame.code
    if any(inst.op is Op.LOAD_FAST_AND_CLEAR for inst in frame.instructions):
        unsupported(reasons.FRAME_INSPECTION, "locals() beside an inlined comprehension")
    names = frame.snapshot
    if names is None or not LOCALS_ARE_SHARED:
        names = stamp(tracer, LocalsVariable())
        frame.snapshot = names
    for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
        value = frame.locals.get(name)
        cell = frame.cells.get(name)
        if value is None and cell is not None:
            value = cell.get(tracer)
        key = ConstantVariable(name)
        if value is not None:
            names.set(tracer, key, value)
        else:
            names.delete(tracer, key)
    return names


def keep_shared(frames: list[Frame]) -> None:
    """The piece ends within these frames: what they share with their dicts cannot go on."""
    for frame in frames:
        if frame.snapshot is not None and LOCALS_ARE_SHARED:
            frame.snapshot.is_live = True
