"""Holds equivalents of what C code does with exceptions and groups of them.

Must not know the interpreter, variables or torch.

Source: ``Objects/exceptions.c``.
"""

from __future__ import annotations

import types
from typing import Any

from capture.polyfills.arguments import error_text
from capture.polyfills.registry import polyfill_of

_SAMPLE = ExceptionGroup("", [ValueError()])
_WANTED = error_text(_SAMPLE.subgroup, 1)
_ANY_CALLABLE = "callable" in _WANTED  # up to 3.11 it must be a function


@polyfill_of(BaseException.add_note)
def add_note(self: Any, note: Any, /) -> None:
    """BaseException.add_note()."""
    if not isinstance(note, str):
        raise TypeError(f"note must be a str, not '{type(note).__name__}'")
    if not hasattr(self, "__notes__"):
        self.__notes__ = []
    notes = self.__notes__
    if not isinstance(notes, list):
        raise TypeError("Cannot add note: __notes__ is not a list")
    list.append(notes, note)


@polyfill_of(BaseExceptionGroup.derive)
def derive(self: Any, excs: Any, /) -> Any:
    """BaseExceptionGroup.derive()."""
    return BaseExceptionGroup(self.message, excs)


@polyfill_of(BaseExceptionGroup.split)
def split(self: Any, condition: Any, /) -> tuple[Any, Any]:
    """BaseExceptionGroup.split()."""
    by_type = _is_by_type(condition)
    return _split(self, condition, by_type, True)


@polyfill_of(BaseExceptionGroup.subgroup)
def subgroup(self: Any, condition: Any, /) -> Any:
    """BaseExceptionGroup.subgroup()."""
    by_type = _is_by_type(condition)
    return _split(self, condition, by_type, False)[0]


def _is_by_type(condition: Any) -> bool:
    """True for exception types, False for a predicate."""
    if isinstance(condition, type):
        if BaseException in condition.__mro__:
            return True
    elif type(condition) is types.FunctionType or (_ANY_CALLABLE and callable(condition)):
        return False
    elif type(condition) is tuple:
        for kind in condition:
            if not isinstance(kind, type) or BaseException not in kind.__mro__:
                raise TypeError(_WANTED)
        return True
    raise TypeError(_WANTED)


def _matches(exc: Any, condition: Any, by_type: bool) -> bool:
    if not by_type:
        return bool(condition(exc))
    kinds = type(exc).__mro__
    if type(condition) is tuple:
        for kind in condition:
            if kind in kinds:
                return True
        return False
    return condition in kinds


def _split(exc: Any, condition: Any, by_type: bool, with_rest: bool) -> tuple[Any, Any]:
    if _matches(exc, condition, by_type):
        return exc, None
    if BaseExceptionGroup not in type(exc).__mro__:
        return None, exc if with_rest else None
    matching = []
    others = []
    for part in exc.exceptions:
        match, rest = _split(part, condition, by_type, with_rest)
        if match is not None:
            matching.append(match)
        if rest is not None:
            others.append(rest)
    return _subset(exc, matching), _subset(exc, others) if with_rest else None


def _subset(group: Any, parts: list[Any]) -> Any:
    """A group of some of the exceptions of another one, with all that is known of that."""
    if not parts:
        return None
    made = group.derive(parts)
    if BaseExceptionGroup not in type(made).__mro__:
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    trace = group.__traceback__
    if trace is not None:
        made.__traceback__ = trace
    made.__context__ = group.__context__
    suppressed = made.__suppress_context__
    made.__cause__ = group.__cause__
    if _KEEPS_SUPPRESS:
        made.__suppress_context__ = suppressed
    if hasattr(group, "__notes__"):
        notes = group.__notes__
        if isinstance(notes, (list, tuple)):
            made.__notes__ = [*notes]
    return made


def _keeps_suppress() -> bool:
    """Whether the cause that a part of a group gets leaves its context visible."""
    group = ExceptionGroup("", [ValueError(), TypeError()])
    found = group.subgroup(ValueError)
    return found is not None and not found.__suppress_context__


_KEEPS_SUPPRESS = _keeps_suppress()


def prepare_reraise(original: Any, raised: list[Any]) -> Any:
    """What goes on behind the ``except*`` clauses of a statement, or None.

    Exceptions raised in the clauses are new; the others are parts of the original group.
    """
    if BaseExceptionGroup not in type(original).__mro__:
        return raised[0] if raised else None
    fresh = []
    kept: list[Any] = []
    for exc in raised:
        if exc is None:
            continue
        if _is_part(exc, original):
            _leaves(exc, kept)
        else:
            fresh.append(exc)
    rest = _project(original, kept) if kept else None
    if not fresh:
        return rest
    if rest is not None:
        fresh.append(rest)
    return BaseExceptionGroup("", fresh) if len(fresh) > 1 else fresh[0]


def _is_part(exc: Any, group: Any) -> bool:
    if BaseExceptionGroup not in type(exc).__mro__:
        return False
    return (
        exc.__traceback__ is group.__traceback__
        and exc.__cause__ is group.__cause__
        and exc.__context__ is group.__context__
    )


def _leaves(exc: Any, found: list[Any]) -> None:
    if BaseExceptionGroup in type(exc).__mro__:
        for part in exc.exceptions:
            _leaves(part, found)
    else:
        found.append(exc)


def _project(exc: Any, kept: list[Any]) -> Any:
    """The part of a group that holds the given leaves."""
    if BaseExceptionGroup not in type(exc).__mro__:
        for leaf in kept:
            if leaf is exc:
                return exc
        return None
    parts = []
    for part in exc.exceptions:
        found = _project(part, kept)
        if found is not None:
            parts.append(found)
    return _subset(exc, parts)
