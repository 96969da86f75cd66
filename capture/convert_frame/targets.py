"""Holds where a frame goes on behind a piece: the sites and break codes of one function family.

There is one site for each place and layout, kept by the family of the compiled function.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from capture import logs
from capture._native import Break, Site
from capture.cache import FrameFamily, History
from capture.hiding import hide
from capture.instructions.analysis import rebound_in_loops
from capture.instructions.decode import decode
from capture.instructions.ops import Op
from capture.sources import CellContentsSource, LocalSource, RangeIteratorSource, Source
from capture.symbolic_convert.dynamic import Seen
from capture.symbolic_convert.loop_code import make_loop_code
from capture.symbolic_convert.resume import (
    BreakCode,
    Layout,
    Outcome,
    Slot,
    make_await_code,
    make_break_code,
    takes_slot0,
)
from capture.variables.base import Variable
from capture.variables.functions import IteratorVariable

# A loop with no more rounds to go is taken at its numbers first: constants make better graphs, and
# one for all numbers may never be needed.
_FEW_ROUNDS = 4
_breaks = logs.artifact("breaks")


def _ends_soon(stack: Sequence[Variable]) -> bool:
    """Tell whether the innermost loop of a frame runs over a range with few numbers left."""
    for v in reversed(stack):
        if isinstance(v, IteratorVariable):
            return v.kind == "range" and len(v.target.value) - v.position <= _FEW_ROUNDS
    return False


def site_for(
    family: FrameFamily, code: types.CodeType, outcome: Outcome, stack: Sequence[Variable]
) -> Site:
    """Return the resume site of a place in a frame's code; one per place and layout.

    Args:
        stack: what is on the frame's stack at the end of the piece.
    """
    key = (id(code), outcome.index, outcome.layout)
    found = family.sites.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    layout = outcome.layout
    arg0 = code.co_varnames[0] if takes_slot0(code) else None
    slot0 = layout.arg0_in_cell or (
        arg0 is not None and bool(layout.locals) and layout.locals[0] == arg0
    )
    carried = _carried_numbers(code, outcome)
    seen = Seen(carried=carried) if _ends_soon(stack) else Seen(numbers=carried)
    site = Site(
        outcome.index,
        layout,
        len(code.co_cellvars) + len(code.co_freevars),
        slot0,
        History(family, seen=seen),
    )
    family.sites[key] = (weakref.ref(code), site)
    return site


def break_target(
    family: FrameFamily,
    code: types.CodeType,
    index: int,
    layout: Layout,
    stack: Sequence[Variable],
) -> Break:
    """Return the code that runs one instruction natively, and the sites behind it."""
    key = (id(code), index, layout)
    found = family.breaks.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    made = make_break_code(code, index, layout)
    make_loop = None
    if decode(code).instructions[index].op is Op.FOR_ITER:
        make_loop = functools.partial(_idle_loop, family, weakref.ref(code), index, layout)
    return _remember_break(family, key, code, layout, made, stack, make_loop)


def _idle_loop(
    family: FrameFamily, ref: weakref.ref[types.CodeType], index: int, layout: Layout
) -> Break | None:
    code = ref()
    if code is None:
        return None
    if _breaks.enabled:
        position = decode(code).instructions[index].position
        _breaks.info(
            "%s:%s: this loop has met no tensor for many rounds; Python runs the rest of it.",
            code.co_filename,
            code.co_firstlineno if position is None else position.line,
        )
    return loop_target(family, code, index, layout)


def loop_target(
    family: FrameFamily, code: types.CodeType, index: int, layout: Layout
) -> Break | None:
    """Return the code that runs the rest of the loop around a place, and the site behind it.

    Returns:
        None if there is no loop around it, or none that Python could come back from.
    """
    key = (id(code), index, layout, "loop")
    found = family.breaks.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    made = make_loop_code(code, index, layout)
    if made is None:
        return None
    return _remember_break(family, key, code, layout, made, ())


def await_target(
    family: FrameFamily,
    code: types.CodeType,
    index: int,
    layout: Layout,
    discard: bool,
    stack: Sequence[Variable],
) -> Break:
    """Return the code that waits for a callee in the place of its call."""
    key = (id(code), index, layout, discard)
    found = family.breaks.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    made = make_await_code(code, index, layout, discard)
    return _remember_break(family, key, code, layout, made, stack)


def _remember_break(
    family: FrameFamily,
    key: Any,
    code: types.CodeType,
    layout: Layout,
    made: BreakCode,
    stack: Sequence[Variable],
    make_loop: Callable[[], Break | None] | None = None,
) -> Break:
    sites = tuple(site_for(family, code, outcome, stack) for outcome in made.outcomes)
    arg0 = code.co_varnames[0] if takes_slot0(code) else None
    has_slot0 = layout.arg0_in_cell or (
        arg0 is not None and bool(layout.locals) and layout.locals[0] == arg0
    )
    hide(made.code)
    target = Break(made.code, sites, takes_slot0(code), has_slot0, make_loop)
    family.breaks[key] = (weakref.ref(code), target, sites)
    return target


def cell_source(place: int, name: str) -> LocalSource:
    """Return where a resume site finds a cell of the frame."""
    return LocalSource(place, f"cell of {name}")


def stack_source(place: int, depth: int) -> LocalSource:
    """Return where a resume site finds an item of the frame's stack."""
    return LocalSource(place, f"<stack {depth}>")


def _carried_numbers(code: types.CodeType, outcome: Outcome) -> set[Source]:
    """Where a resume site in a loop finds what changes from round to round.

    A number found there is an input of the graph from the first time on, or from the first
    recompile on if the loop ends soon: the second round would ask for it anyway.
    """
    rebound = rebound_in_loops(decode(code), outcome.index)
    if rebound is None:
        return set()
    layout = outcome.layout
    found: set[Source] = set()
    place = 0
    for name in (*code.co_cellvars, *code.co_freevars):
        if name in rebound:
            found.add(CellContentsSource(cell_source(place, name)))
        place += 1
    place += layout.arg0_in_cell
    for name in layout.locals:
        if name in rebound:
            found.add(LocalSource(place, name))
        place += 1
    for depth in range(len(layout.stack) - layout.stack.count(Slot.NULL)):
        on_stack = stack_source(place, depth)
        found.add(on_stack)
        found.update(RangeIteratorSource(on_stack, part) for part in ("next", "left"))
        place += 1
    return found
