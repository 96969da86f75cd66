"""Holds what a piece knows of the ends of objects' lives; must not know code generation.

An object of the program dies when its last reference goes, and a weak reference tells. The writes
of a piece are replayed at its end only, so a weak reference that was followed in front of a write
may have found what is dead by then.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from capture import _native
from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds
from capture.variables.base import LazyVariable, Variable, unsupported
from capture.variables.containers import DictVariable, ListVariable
from capture.variables.functions import CellVariable

if TYPE_CHECKING:
    from capture.side_effects import Effect
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator

__all__ = ["check_watchers", "may_have_ended"]

# What is of these types holds no object of the program, or nothing that the program lets go of.
_HOLDS_NOTHING = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, types.ModuleType, types.CodeType,
        weakref.ref, type, torch.Tensor, torch.nn.Parameter,
        torch.dtype, torch.device,
    }
)  # fmt: skip

# Whose callbacks of weak references do nothing but let go of what was compiled.
_FRONTENDS = ("capture.", "torch._dynamo.", "torch._guards")


def may_have_ended(tracer: Translator) -> bool:
    """True if the program may have dropped the last reference to an object in this piece."""
    if any(_holds(old) for effect in tracer.effects.journal for old in _overwritten(effect)):
        return True
    kept = _kept(tracer.frames[0])
    return any(
        _holds(v.value) and id(v) not in kept and id(v.real) not in kept
        for v in tracer.given.values()
    )


def check_watchers(tracer: Translator, v: LazyVariable) -> None:
    """Break where the program drops what a weak reference with a callback watches.

    Only a value that came with the frame can be held by nothing else.
    """
    value, source = v.value, v.source
    if source is None or not type(value).__weakrefoffset__ or not _holds(value):
        return
    if not any(v is given for given in tracer.given.values()):
        return
    if not is_unwatched(value):
        unsupported(reasons.SIDE_EFFECT, f"Dropping {v.describe()}, which a weak reference watches")
    tracer.guard(ExprHolds((source,), is_unwatched, f"nothing watches {source.name}"))


def is_unwatched(value: object) -> bool:
    """True if no weak reference of the program to the object has a callback."""
    return all(_is_silent(reference) for reference in weakref.getweakrefs(value))


def _is_silent(reference: Any) -> bool:
    if not issubclass(type(reference), weakref.ref):
        return False  # a proxy does not tell
    callback = weakref.ref.__dict__["__callback__"].__get__(reference)
    return callback is None or _is_a_frontends(callback)


def _is_a_frontends(callback: Any) -> bool:
    """True for what makes guards fail whose object died: ours, and those of torch.compile."""
    if type(callback) is types.BuiltinFunctionType:
        return type(callback.__self__).__module__ == _native.__name__
    if type(callback) is types.MethodType:
        callback = callback.__func__
    if type(callback) is not types.FunctionType:
        return False
    module = callback.__globals__.get("__name__")
    return type(module) is str and module.startswith(_FRONTENDS)


def _holds(value: Any) -> bool:
    kind = type(value)
    if kind is list or kind is tuple:  # learning rates, sizes
        return any(type(item) not in _HOLDS_NOTHING for item in value)
    return kind not in _HOLDS_NOTHING and not issubclass(kind, type)


def _kept(root: Frame) -> set[int]:
    kept = {id(v) for v in (*root.locals.values(), *root.stack, *root.saved)}
    kept.update(id(cell.contents) for cell in root.cells.values())
    return kept


def _overwritten(effect: Effect) -> Iterator[Any]:
    """The values that the place of a write had before the piece."""
    target: Any = effect.target
    if isinstance(target, CellVariable):
        yield from _contents(target)
    elif isinstance(target, ListVariable):
        if target.touched:
            yield from _gone(target.value, target._items or ())
    elif isinstance(target, DictVariable):
        if effect.kind in ("dict_set", "dict_del"):
            key = effect.key
            if type(key) is str and isinstance(target.value, dict):
                yield dict.get(target.value, key)
                return
        if effect.kind != "dict_move":
            yield from dict.values(target.value)
    elif effect.kind == "attr":
        real = target.real_dict()
        if real is None or effect.key not in real:
            yield from _slot(target.value, effect.key)
        else:
            yield real[effect.key]
    elif effect.kind == "set_discard":
        yield from target.value


def _contents(cell: CellVariable) -> Iterator[Any]:
    try:
        yield cell.cell.cell_contents if cell.cell is not None else None
    except ValueError:
        return


def _gone(before: Iterable[Any], now: Iterable[Variable]) -> Iterator[Any]:
    left = {id(v.value) for v in now if isinstance(v, LazyVariable)}
    for value in before:
        if id(value) not in left:
            yield value


def _slot(value: Any, name: str) -> Iterator[Any]:
    try:
        yield object.__getattribute__(value, name)
    except AttributeError:
        return
