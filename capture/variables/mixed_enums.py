"""Holds enum members that are numbers or texts as well (``IntEnum``, ``class Mode(str, Enum)``).

C code takes such a member for its number or text. Must not know the interpreter.
"""

from __future__ import annotations

import enum
from typing import Any

from capture.variables.base import MISSING, Variable
from capture.variables.constant import ConstantVariable
from capture.variables.objects import ObjectVariable, lookup_mro

_BASES: tuple[Any, ...] = (int, float, str, bytes)


def plain_value(v: Variable, *methods: str) -> Variable:
    """The constant that a member is to C code which asks for the methods; else the value itself.

    A method that the enum defines anew is the program's: the member stays one.
    """
    if not isinstance(v, ObjectVariable) or not isinstance(v.value, enum.Enum):
        return v
    member: Any = v.value
    base = next((b for b in _BASES if isinstance(member, b)), None)
    if base is None:
        return v
    for name in methods:
        if lookup_mro(v.cls, name)[0] is not base.__dict__.get(name, MISSING):
            return v
    if base in (str, bytes):
        return ConstantVariable(base.__getitem__(member, slice(None)))
    return ConstantVariable(base.__int__(member) if base is int else base.__float__(member))
