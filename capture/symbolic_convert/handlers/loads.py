"""Holds the handlers that load and store names: locals, cells, globals, constants."""

from __future__ import annotations

import builtins
import sys
import types
from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.guards.kinds import DictHas
from capture.instructions.ops import Op
from capture.sources import DictItemSource, ModulesSource
from capture.symbolic_convert.handlers.exceptions import HandlerMarker
from capture.symbolic_convert.lifetimes import check_watchers
from capture.symbolic_convert.registry import raw
from capture.variables.base import (
    MISSING,
    NULL,
    LazyVariable,
    ObservedException,
    Variable,
    unsupported,
)
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import SetVariable, TupleVariable, is_finalized
from capture.variables.functions import CellVariable
from capture.variables.objects import ObjectVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


UNBOUND = "cannot access local variable {!r} where it is not associated with a value"
UNBOUND_FREE = (
    "cannot access free variable {!r} where it is not associated with a value in enclosing scope"
)


def constant(tracer: Translator, value: Any) -> Variable:
    """The variable of a constant of the code."""
    kind = type(value)
    if kind is tuple:
        return TupleVariable([constant(tracer, v) for v in value], tuple, value)
    if kind is frozenset:
        return SetVariable(None, frozenset, value)
    if isinstance(value, type):
        return tracer.wrap_static(value, None)
    return ConstantVariable(value)


@raw(Op.LOAD_CONST)
def load_const(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A constant of the code."""
    frame.stack.append(constant(tracer, inst.arg))


@raw(Op.LOAD_FAST)
def load_fast(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A local variable."""
    name: Any = inst.arg
    value = frame.locals.get(name)
    if value is None:
        tracer.raise_error(UnboundLocalError, UNBOUND.format(name))
    frame.stack.append(value)


@raw(Op.LOAD_FAST_AND_CLEAR)
def load_fast_and_clear(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A local variable that a comprehension is about to shadow."""
    name: Any = inst.arg
    frame.stack.append(frame.locals.pop(name, NULL))


@raw(Op.STORE_FAST)
def store_fast(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Assign to a local variable."""
    value = frame.stack.pop()
    name: Any = inst.arg
    drop(tracer, frame.locals.get(name))
    if value is NULL:
        frame.locals.pop(name, None)
    else:
        frame.locals[name] = value


@raw(Op.DELETE_FAST)
def delete_fast(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``del`` of a local variable."""
    name: Any = inst.arg
    drop(tracer, frame.locals.get(name))
    if frame.locals.pop(name, None) is None:
        tracer.raise_error(UnboundLocalError, UNBOUND.format(name))


@raw(Op.MAKE_CELL)
def make_cell(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Put a local variable into a cell."""
    name: Any = inst.arg
    cell = CellVariable()
    tracer.made_cells.append(cell)
    cell.contents = frame.locals.pop(name, None)
    frame.cells[name] = cell


@raw(Op.LOAD_CLOSURE)
def load_closure(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A cell, for a closure."""
    name: Any = inst.arg
    frame.stack.append(frame.cells[name])


@raw(Op.LOAD_CELL_AND_CLEAR)
def load_cell_and_clear(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A cell that a comprehension is about to shadow."""
    name: Any = inst.arg
    cell: Variable = frame.cells.pop(name, NULL)
    frame.stack.append(frame.locals.pop(name, cell))


@raw(Op.STORE_CELL)
def store_cell(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Put a shadowed cell back."""
    name: Any = inst.arg
    value = frame.stack.pop()
    if value is NULL:
        frame.cells.pop(name, None)
        frame.locals.pop(name, None)
    elif isinstance(value, CellVariable):
        frame.cells[name] = value
        frame.locals.pop(name, None)
    else:  # another comprehension of the frame uses the slot for a plain local
        frame.locals[name] = value
        frame.cells.pop(name, None)


@raw(Op.LOAD_DEREF)
def load_deref(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The contents of a cell."""
    name: Any = inst.arg
    value = frame.cells[name].get(tracer)
    if value is None:
        if name in frame.code.co_freevars:
            tracer.raise_error(NameError, UNBOUND_FREE.format(name))
        tracer.raise_error(UnboundLocalError, UNBOUND.format(name))
    frame.stack.append(value)


@raw(Op.STORE_DEREF)
def store_deref(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Assign to the contents of a cell."""
    name: Any = inst.arg
    frame.cells[name].set(tracer, frame.stack.pop())


@raw(Op.DELETE_DEREF)
def delete_deref(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``del`` of the contents of a cell."""
    name: Any = inst.arg
    if frame.cells[name].get(tracer) is None:
        free = name in frame.code.co_freevars
        tracer.raise_error(
            NameError if free else UnboundLocalError,
            (UNBOUND_FREE if free else UNBOUND).format(name),
        )
    frame.cells[name].set(tracer, None)


@raw(Op.LOAD_GLOBAL)
def load_global(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A global or built-in name."""
    name: Any = inst.arg
    frame.stack.append(tracer.load_global(frame, name))


@raw(Op.STORE_GLOBAL)
def store_global(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Assign to a global name."""
    name: Any = inst.arg
    frame.globals.set(tracer, ConstantVariable(name), frame.stack.pop())


@raw(Op.DELETE_GLOBAL)
def delete_global(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``del`` of a global name."""
    name: Any = inst.arg
    if not frame.globals.delete(tracer, ConstantVariable(name)):
        tracer.raise_error(NameError, f"name {name!r} is not defined")


@raw(Op.LOAD_BUILD_CLASS)
def load_build_class(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The function that runs a class statement."""
    frame.stack.append(tracer.wrap_static(builtins.__build_class__, None))


@raw(Op.PUSH_NULL)
def push_null(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The NULL beside a callable."""
    frame.stack.append(NULL)


def drop(tracer: Translator, v: Variable | None) -> None:
    """Leave dropping what may run code then, now, to Python: generators, objects with __del__."""
    if v is None or v is NULL:
        return
    if isinstance(v, LazyVariable):
        real: Any = v.value
        if type(real) is types.GeneratorType and real.gi_frame is not None:
            v = v.realize(tracer)
        else:
            check_watchers(tracer, v)
    if isinstance(v, ObjectVariable) and type(v.value) is types.GeneratorType:
        unsupported(reasons.OPAQUE_ITERATOR, v.describe())
    if isinstance(v, (LazyVariable, ObjectVariable)) and is_finalized(v):
        unsupported(reasons.SIDE_EFFECT, f"Dropping {v.describe()}, which has __del__")


@raw(Op.POP_TOP)
def pop_top(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Drop a value."""
    drop(tracer, frame.stack.pop())


@raw(Op.COPY)
def copy(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Push a value from deeper in the stack again."""
    place: Any = inst.arg
    value = frame.stack[-place]
    frame.stack.append(value)
    if isinstance(value, HandlerMarker):
        frame.stack[-place - 1] = NONE  # the handler is left by the copy; nobody reads this one


@raw(Op.SWAP)
def swap(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Exchange the top with a value deeper in the stack."""
    place: Any = inst.arg
    stack = frame.stack
    stack[-1], stack[-place] = stack[-place], stack[-1]


@raw(Op.IMPORT_NAME)
def import_name(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """A module that is imported already is found in ``sys.modules``, guarded; else Python imports.

    Source: ``Python/import.c`` (``PyImport_ImportModuleLevelObject``).
    """
    name: Any = inst.arg
    level = tracer.as_python(frame.stack[-2])
    names = tracer.as_python(frame.stack[-1])
    if level:
        package = frame.globals.get_hashed(tracer, "__package__")
        base = MISSING if package is None else tracer.as_python(package)
        if type(base) is not str or level > base.count(".") + 1:
            unsupported(reasons.IMPORT, name)
        base = base.rsplit(".", level - 1)[0]
        name = f"{base}.{name}" if name else base
    elif not names:
        imported_module(tracer, name)
        name = name.partition(".")[0]
    module = imported_module(tracer, name)
    if names:
        refuse_missing(name, names)
    tracer.load_builtin("__import__", builtins.__import__)
    del frame.stack[-2:]
    frame.stack.append(module)


def refuse_missing(name: str, wanted: tuple[str, ...]) -> None:
    """Leave to Python what ``from package import module`` still has to import."""
    found = vars(sys.modules[name])
    if "__path__" in found and any(n not in found for n in wanted):
        unsupported(reasons.IMPORT, name)


def imported_module(tracer: Translator, name: str) -> Variable:
    """A fully imported module by its name."""
    found = sys.modules.get(name)
    spec = getattr(found, "__spec__", None)
    if found is None or getattr(spec, "_initializing", False):
        unsupported(reasons.IMPORT, name)
    source = ModulesSource()
    tracer.guard(DictHas(source, name))
    return tracer.wrap(found, DictItemSource(source, name))


@raw(Op.IMPORT_FROM)
def import_from(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``from ... import name``."""
    name: Any = inst.arg
    module = frame.stack[-1].realize(tracer)
    try:
        found = tracer.getattr(module, name)
    except ObservedException:
        unsupported(reasons.IMPORT, name)
    frame.stack.append(found)
