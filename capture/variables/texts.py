"""Holds texts of numbers that change: made at run time where nothing asks what they say.

A size in an f-string that is returned, stored, printed or raised decides nothing. Whatever asks for
the text itself (a comparison, a key of a dict, a method) takes it for a constant. Must not know the
interpreter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from capture.variables.base import Variable
from capture.variables.constant import ConstantVariable, ScalarVariable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capture.variables.base import Tracer

__all__ = ["Field", "TextVariable", "field_of", "joined", "percent"]

# Formats that some numbers of a type have no text in: a code point that there is not.
_PARTIAL = ("c",)
_LONGEST = 200
_PERCENT = re.compile(r"%(?:(%)|([dis])|(\.\d+[feg]))")


class Field(NamedTuple):
    """A number in a text, and its format."""

    number: ScalarVariable
    spec: str


class TextVariable(Variable):
    """A str of constant parts and numbers that follow from the inputs.

    ``real`` is the constant that it has been taken for, once something asked.
    """

    __slots__ = ("parts", "real")

    def __init__(self, parts: tuple[str | Field, ...]) -> None:
        super().__init__(None)
        self.parts = parts
        self.real: ConstantVariable | None = None

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return str

    def realize(self, tracer: Tracer) -> Variable:
        """Take the text for a constant, and guard that it is the same."""
        if self.real is None:
            texts = [
                part if isinstance(part, str) else _constant(tracer, part) for part in self.parts
            ]
            self.real = ConstantVariable("".join(texts))
        return self.real


def _constant(tracer: Tracer, field: Field) -> str:
    return format(field.number.specialize(tracer).value, field.spec)


def field_of(tracer: Tracer, v: Variable, spec: str) -> Variable | None:
    """The text of a number in a format, or None if it is to be told now."""
    if not isinstance(v, ScalarVariable) or not v.known or spec.endswith(_PARTIAL):
        return None
    v = tracer.bounded(v)  # there is a limit to the digits of a text
    if not isinstance(v, ScalarVariable):
        return None
    try:
        format(v.example, spec)
    except (ArithmeticError, ValueError):
        return None
    return TextVariable((Field(v, spec),))


def joined(parts: Sequence[Variable]) -> Variable | None:
    """The concatenation of texts, or None if one of them is no text that is known by parts."""
    found: list[str | Field] = []
    for v in parts:
        if isinstance(v, TextVariable):
            v = v.real or v
        if isinstance(v, TextVariable):
            found += v.parts
        elif isinstance(v, ConstantVariable) and type(v.value) is str:
            found.append(v.value)
        else:
            return None
    if len(found) > _LONGEST or all(isinstance(part, str) for part in found):
        return None
    return TextVariable(tuple(found))


def percent(tracer: Tracer, template: str, values: list[Variable]) -> Variable | None:
    """``template % values`` for numbers in the plainest formats; None for all else."""
    if not any(isinstance(v, ScalarVariable) and v.known for v in values):
        return None
    parts: list[Variable] = []
    end = 0
    waiting = list(values)
    for found in _PERCENT.finditer(template):
        if "%" in template[end : found.start()]:
            return None
        parts.append(ConstantVariable(template[end : found.start()] + ("%" if found[1] else "")))
        end = found.end()
        if found[1]:
            continue
        if not waiting:
            return None
        value = waiting.pop(0)
        kind = value.python_type()
        if kind is not int and (kind is not float or found[2] in ("d", "i")):
            return None
        spec = found[3] or ""
        if isinstance(value, ConstantVariable):
            parts.append(ConstantVariable(format(value.value, spec)))
            continue
        text = field_of(tracer, value, spec)
        if text is None:
            return None
        parts.append(text)
    if waiting or "%" in template[end:]:
        return None
    return joined([*parts, ConstantVariable(template[end:])])
