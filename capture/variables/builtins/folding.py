"""Holds the folding of pure functions: called for real if all arguments are known constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capture.polyfills import is_pure
from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.constant import ScalarVariable


def fold_pure(
    tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """Call a pure function whose arguments are all known constants."""
    if not is_pure(value):
        return None
    known = []
    for a in args:
        if isinstance(a, ScalarVariable):
            a = a.specialize(tracer)
        known.append(tracer.as_python(a))
    known_kw = {k: tracer.as_python(v) for k, v in kwargs.items()}
    if MISSING in [*map(_marker, known), *map(_marker, known_kw.values())]:
        return None
    try:
        result = value(*known, **known_kw)
    except Exception as error:
        tracer.raise_real(error)
    given_out = _mutables([result])
    if given_out and given_out & _mutables([known, known_kw], inside=True):
        return None  # what the program passed is of copies here, and is to come out itself
    return tracer.wrap_result(result)


def _mutables(values: Iterable[Any], inside: bool = False) -> set[int]:
    """The ids of the lists, dicts and sets in values; ``inside``: the outermost left out."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, list | dict | set) and not inside:
            found.add(id(value))
        if isinstance(value, dict):
            found |= _mutables(value.values())
        elif isinstance(value, list | tuple):
            found |= _mutables(value)
    return found


def _marker(value: Any) -> Any:
    return MISSING if value is MISSING else None
