"""Holds what the frames of a piece surely keep alive; must not know rules.

Only what Python's own frames hold counts: a polyfill keeps things longer than the C code it stands
for.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from capture import polyfills
from capture.variables.base import LazyVariable, Variable
from capture.variables.containers import DictVariable, SequenceVariable, SetVariable
from capture.variables.functions import CellVariable, FunctionVariable, MethodVariable
from capture.variables.objects import ObjectVariable

if TYPE_CHECKING:
    from capture.symbolic_convert.translator import Translator

__all__ = ["is_reachable", "leads_to"]

_POLYFILLS = os.path.dirname(polyfills.__file__) + os.sep
_LIMIT = 10_000


def is_reachable(tracer: Translator, wanted: Variable) -> bool:
    """True if a frame that is being run refers to the value, directly or through containers."""
    waiting: list[Variable] = []
    for frame in reversed(tracer.frames):  # what is asked for is mostly near the innermost one
        if frame.code.co_filename.startswith(_POLYFILLS):
            continue
        waiting += frame.locals.values()
        waiting += frame.stack
        waiting += frame.cells.values()
    return leads_to(waiting, wanted)


def leads_to(roots: Iterable[Variable], wanted: Variable) -> bool:
    """True if one of the values is the wanted one, or holds it; the nearest are looked at first."""
    seen: set[int] = set()
    waiting = collections.deque(roots)
    while waiting and len(seen) < _LIMIT:
        v: Any = waiting.popleft()
        if isinstance(v, LazyVariable):
            if v.real is None:
                continue
            v = v.real
        if v is wanted:
            return True
        if id(v) not in seen:
            seen.add(id(v))
            waiting += _parts(v)
    return False


def _parts(v: Variable) -> Iterator[Variable]:
    if isinstance(v, CellVariable):
        if v.contents is not None:
            yield v.contents
    elif isinstance(v, MethodVariable):
        yield v.fn
        yield v.instance
    elif isinstance(v, ObjectVariable):
        if isinstance(v, SequenceVariable):
            yield from v._items or ()
        elif isinstance(v, DictVariable):
            for key, value in v.entries.values():
                yield key
                yield value
        elif isinstance(v, SetVariable):
            yield from (v._entries or {}).values()
        elif isinstance(v, FunctionVariable):
            yield from v.closure
            yield from v.defaults
        if v.dict_view is not None:
            yield v.dict_view
        for held in (v.attrs or {}).values():
            if isinstance(held, Variable):
                yield held
