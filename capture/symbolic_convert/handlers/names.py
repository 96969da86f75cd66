"""Holds the handlers of names in a class body: its namespace first, then cells or globals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.symbolic_convert.registry import raw
from capture.variables.base import Variable, stamp, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


def _namespace(frame: Frame, inst: Instruction) -> DictVariable:
    if frame.namespace is None:
        unsupported(reasons.UNSUPPORTED_INSTRUCTION, inst.op.name)
    return frame.namespace


def _from_cell(tracer: Translator, frame: Frame, name: str) -> Variable:
    value = frame.cells[name].get(tracer)
    if value is None:
        text = "cannot access free variable {!r} where it is not associated with a value in"
        tracer.raise_error(NameError, f"{text.format(name)} enclosing scope")
    return value


@raw(Op.LOAD_NAME)
def load_name(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A name of the body, a global or a built-in one."""
    name: Any = inst.arg
    found = _namespace(frame, inst).get_hashed(tracer, name)
    frame.stack.append(tracer.load_global(frame, name) if found is None else found)


@raw(Op.STORE_NAME)
def store_name(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Give a name of the body its value."""
    _namespace(frame, inst).set(tracer, ConstantVariable(inst.arg), frame.stack.pop())


@raw(Op.DELETE_NAME)
def delete_name(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``del`` of a name of the body."""
    if not _namespace(frame, inst).delete(tracer, ConstantVariable(inst.arg)):
        tracer.raise_error(NameError, f"name {inst.arg!r} is not defined")


@raw(Op.LOAD_LOCALS)
def load_locals(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The namespace itself."""
    frame.stack.append(_namespace(frame, inst))


@raw(Op.LOAD_CLASSDEREF)
def load_classderef(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A name of the body, or else of an enclosing function."""
    name: Any = inst.arg
    found = _namespace(frame, inst).get_hashed(tracer, name)
    frame.stack.append(_from_cell(tracer, frame, name) if found is None else found)


def _look_up(tracer: Translator, frame: Frame, inst: Instruction) -> Variable | None:
    holder = frame.stack.pop()
    if not isinstance(holder, DictVariable) or holder is not frame.namespace:
        unsupported(reasons.UNSUPPORTED_INSTRUCTION, inst.op.name)
    return holder.get_hashed(tracer, inst.arg)


@raw(Op.LOAD_FROM_DICT_OR_DEREF)
def load_from_dict_or_deref(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """As LOAD_CLASSDEREF, with the namespace on the stack."""
    name: Any = inst.arg
    found = _look_up(tracer, frame, inst)
    frame.stack.append(_from_cell(tracer, frame, name) if found is None else found)


@raw(Op.LOAD_FROM_DICT_OR_GLOBALS)
def load_from_dict_or_globals(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """As LOAD_NAME, with the namespace on the stack."""
    name: Any = inst.arg
    found = _look_up(tracer, frame, inst)
    frame.stack.append(tracer.load_global(frame, name) if found is None else found)


@raw(Op.SETUP_ANNOTATIONS)
def setup_annotations(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Make sure that the body has a dict of annotations."""
    namespace = _namespace(frame, inst)
    if namespace.get_hashed(tracer, "__annotations__") is None:
        made = stamp(tracer, DictVariable())
        namespace.set(tracer, ConstantVariable("__annotations__"), made)
