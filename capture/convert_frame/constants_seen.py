"""Holds the message about a source that had one constant after another; compiles nothing.

Strings, enums, types and what a program takes for a constant are compiled for themselves. Where a
site reaches its limit over such values, what helps is to know which input it is and what to do.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Any

from capture.guards.guard import Guard, shorten
from capture.guards.kinds import Equals, IdIs
from capture.guards.size_program import NumbersHold
from capture.sources import Source

__all__ = ["many_constants"]

_MANY = 3
_PINNED = re.compile(r"\(*a0\)* == (-?\d+)\)*")


def many_constants(failures: Iterable[tuple[Guard, str, str | None]]) -> str | None:
    """Say which source had many distinct constants, and the remedy; None if none had.

    Args:
        failures: for each entry the guard that failed, why, and the user's place.
    """
    values: dict[Source, dict[Any, Any]] = {}
    places: dict[Source, str] = {}
    sizes: set[Source] = set()
    total = 0
    for guard, _, place in failures:
        total += 1
        if isinstance(guard, Equals):
            source, value = guard.source, guard.value
        elif isinstance(guard, IdIs):
            source, value = guard.source, guard.reference.get()
        elif isinstance(guard, NumbersHold) and len(guard.sources) == 1:
            found = _PINNED.fullmatch(guard.text)
            if found is None:
                continue
            source, value = guard.sources[0], int(found[1])
            sizes.add(source)
        else:
            continue
        key = id(value) if isinstance(guard, IdIs) else (type(value), value)
        values.setdefault(source, {})[key] = value
        if place is not None:
            places.setdefault(source, place)
    if not values:
        return None
    source, seen = max(values.items(), key=lambda item: len(item[1]))
    if len(seen) < _MANY or 2 * len(seen) < total:
        return None
    if source in sizes:
        remedy = "that line uses it as a constant: move it out of the compiled function"
    elif all(type(value) in (int, float) for value in seen.values()):
        remedy = (
            "let numbers vary (dynamic=None and config.automatic_dynamic_shapes), or pass a tensor"
        )
    else:
        remedy = "pass what varies as a number or tensor, or compile one function for each value"
    where = f" ({places[source]})" if source in places else ""
    texts = ", ".join(_text(value) for value in seen.values())
    return f"`{source}`{where} had {len(seen)} constants: {texts}; {remedy}"


def _text(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value._name_}"
    return shorten(value, 30)
