"""Holds the rules of ``pickle`` for constants and plain containers of them.

What a pickle looks like depends on which of the values in it are one object, so only values of
which no two can be one are pickled here; a pickle is only read if it names no class.
"""

from __future__ import annotations

import pickle
import pickletools
from typing import Any

from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import ConstantVariable
from capture.variables.conversion import wrap_result

_NUMBERS = frozenset({type(None), bool, int, float})
_LIMIT = 1 << 16
_NAMING = frozenset(
    {
        "GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD", "EXT1",
        "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER", "BYTEARRAY8",
    }
)  # fmt: skip


def _is_plain(value: Any, seen: set[Any]) -> bool:
    """True for constants and exact containers of them; each text is there but once."""
    kind = type(value)
    if kind in _NUMBERS:
        return True
    if kind is str or kind is bytes:
        new = (kind, value) not in seen
        seen.add((kind, value))
        return new
    if kind is dict:
        return all(_is_plain(k, seen) and _is_plain(v, seen) for k, v in value.items())
    if kind is list or (kind is tuple and value):
        return all(_is_plain(item, seen) for item in value)
    return False


def _distinct(tracer: Tracer, v: Variable, seen: set[int]) -> bool:
    """True if all was made here, so that it is the same each time, and no container is there twice.

    ``as_python`` would make two of it.
    """
    if v.source is not None:
        return False
    if isinstance(v, ConstantVariable):
        return True
    if id(v) in seen:
        return False
    seen.add(id(v))
    parts: list[Variable] = []
    if hasattr(v, "items"):
        parts = v.items(tracer)
    elif hasattr(v, "load"):
        parts = [part for entry in v.load(tracer).values() for part in entry]
    return all(_distinct(tracer, part, seen) for part in parts)


@rule(pickle.dumps)
def _dumps(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args or kwargs.keys() - {"protocol"} or not _distinct(tracer, args[0], set()):
        return None
    value = tracer.as_python(args[0])
    rest = [tracer.as_python(a) for a in [*args[1:], *kwargs.values()]]
    if value is MISSING or not _is_plain(value, set()) or len(rest) > 1:
        return None
    if not all(r is None or type(r) is int for r in rest):
        return None
    try:
        return ConstantVariable(pickle.dumps(value, *rest))
    except ValueError as error:
        tracer.raise_real(error)


@rule(pickle.loads)
def _loads(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 1 or kwargs or args[0].source is not None:
        return None
    data = tracer.as_python(args[0])
    if type(data) is not bytes or len(data) > _LIMIT:
        return None
    try:
        names = {op.name for op, _, _ in pickletools.genops(data)}
        made = None if names & _NAMING else pickle.loads(data)
    except Exception:  # no pickle: Python says so
        return None
    if names & _NAMING or not _is_tree(made, set()):
        return None
    return wrap_result(tracer, made)


def _is_tree(value: Any, seen: set[int]) -> bool:
    """True if no list or dict is in there twice: each becomes a value of its own."""
    if type(value) not in (list, dict, tuple):
        return type(value) in _NUMBERS or type(value) in (str, bytes, complex)
    if id(value) in seen:
        return False
    seen.add(id(value))
    parts = [p for item in value.items() for p in item] if type(value) is dict else value
    return all(_is_tree(part, seen) for part in parts)
