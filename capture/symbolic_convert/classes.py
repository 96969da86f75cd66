"""Holds where the classes and cells that the program meets are found, and guarded."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import BoundCell, IdIs, IsSame, TypeAttrAbsent, UnboundCell
from capture.sources import MroItemSource, Source, TypeAttrSource, TypeSource
from capture.variables.base import MISSING, Variable, unsupported
from capture.variables.functions import CellVariable, FunctionVariable
from capture.variables.objects import ClassVariable, SuperVariable, lookup_mro
from capture.variables.wrap import refuse_unusual_class

if TYPE_CHECKING:
    from capture.symbolic_convert.translator import Translator

_MODULE_CALL_IMPL = torch.nn.Module._call_impl


def guard_cell(tracer: Translator, cell: CellVariable) -> None:
    """Guard whether a cell is bound."""
    assert cell.source is not None
    assert cell.cell is not None
    try:
        cell.cell.cell_contents  # noqa: B018
    except ValueError:
        tracer.guard(UnboundCell(cell.source))
    else:
        tracer.guard(BoundCell(cell.source))


def guard_class_lacks(tracer: Translator, cls: type, source: Source, name: str) -> None:
    """Guard that a class in the middle of an MRO has no attribute of its own.

    What a look-up from there finds must stay what it is; that is stricter than needed.
    """
    found, _ = lookup_mro(cls, name)
    if found is MISSING:
        tracer.guard(TypeAttrAbsent(source, name))
    else:
        tracer.guard(IdIs(TypeAttrSource(source, name), found))


def cell_variable(tracer: Translator, cell: types.CellType, source: Source) -> CellVariable:
    """The variable of a real cell; one per cell."""
    known = tracer.identity.get(id(cell))
    if known is None:
        known = tracer.identity[id(cell)] = CellVariable(cell, source)
        tracer.keep_alive.append(cell)
    elif known.source != source:
        assert known.source is not None
        tracer.guard(IsSame(source, known.source))
    assert isinstance(known, CellVariable)
    return known


def class_source(
    tracer: Translator, cls: type, source: Source | None, cls_var: Variable | None
) -> Source | None:
    """Where a class can be reached: guards on its attributes are the same for all instances."""
    noted = tracer.class_sources.get(id(cls))
    if noted is not None:
        return noted[1]
    found: Source | None = None
    if source is not None:
        found = TypeSource(source)
    elif cls_var is not None and cls_var.source is not None:
        found = cls_var.source
    else:
        for known, where in list(tracer.class_sources.values()):
            for place, base in enumerate(known.__mro__ or ()):
                if base is cls:
                    found = MroItemSource(where, place)
                    break
            if found is not None:
                break
    if found is not None:
        tracer.class_sources[id(cls)] = (cls, found)
    return found


def class_variable(tracer: Translator, cls: type, source: Source | None) -> ClassVariable:
    """The variable of a class that an object's type or an MRO led to."""
    known = tracer.identity.get(id(cls))
    if known is None:
        refuse_unusual_class(cls)
        where = tracer.class_source(cls, source, None)
        known = tracer.identity[id(cls)] = ClassVariable(cls, where)
        tracer.keep_alive.append(cls)
    assert isinstance(known, ClassVariable)
    return known


def torch_module_global(tracer: Translator, name: str) -> Variable | None:
    """A global of ``torch.nn.modules.module``, reached through ``nn.Module._call_impl``."""
    holder = tracer.class_variable(torch.nn.Module, None)
    where = tracer.class_source(torch.nn.Module, None, holder)
    if where is None:
        return None
    fn = tracer.wrap(_MODULE_CALL_IMPL, TypeAttrSource(where, "_call_impl"))
    assert isinstance(fn, FunctionVariable)
    found = fn.globals.get_hashed(tracer, name)
    return None if found is None else found.realize(tracer)


def zero_argument_super(tracer: Translator) -> Variable:
    """``super()``: the class from the ``__class__`` cell, the object from argument slot 0."""
    frame = tracer.frames[-1]
    if frame.code.co_argcount == 0:
        tracer.raise_error(RuntimeError, "super(): no arguments")
    cell = frame.cells.get("__class__")
    name = frame.code.co_varnames[0] if frame.code.co_varnames else None
    cls = cell.get(tracer) if cell is not None else None
    instance = frame.locals.get(name) if name else None
    if instance is None and name in frame.cells:
        instance = frame.cells[name].get(tracer)
    if cls is None or instance is None:
        unsupported(reasons.UNKNOWN_OPERATION, "super() without arguments")
    holder, instance = cls.realize(tracer), instance.realize(tracer)
    if not isinstance(holder, ClassVariable) or not (
        issubclass(instance.python_type(), holder.value)
        or (isinstance(instance, ClassVariable) and issubclass(instance.value, holder.value))
    ):
        unsupported(reasons.UNKNOWN_OPERATION, "super() of something else")
    return SuperVariable(cls.realize(tracer), instance)
