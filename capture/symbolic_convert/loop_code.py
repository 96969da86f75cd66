"""Holds the making of code that runs the rest of a ``for`` loop natively and comes back.

A loop that Python advances is captured round by round. Where its body is left to Python, or where
rounds without number have met no tensor, the rest of the loop is run by the code made here, and the
frame is captured again from the loop's end on.

The code has the function's body twice. In the first, all that is not of the loop is a jump into the
second, which finishes the frame natively: that is where ``break`` goes, and an exception that a
handler around the loop catches. Without these there is no second. What is left for the first is the
iterator's end, and there the state has one shape, for which there is a site.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import CodeType

from capture.errors import InternalError
from capture.instructions.analysis import successors
from capture.instructions.decode import DecodedCode, decode
from capture.instructions.instruction import ExceptionEntry
from capture.instructions.ops import JUMPS, TERMINATORS, Op
from capture.symbolic_convert.resume import (
    SILENT,
    BreakCode,
    FrameCode,
    Layout,
    Outcome,
    Slot,
)

__all__ = ["FINISHED", "make_loop_code"]

#: The number in front of the frame's own result, where other codes have the number of an outcome.
FINISHED = -1
_MANY_STATES = 5_000


def make_loop_code(code: CodeType, index: int, layout: Layout) -> BreakCode | None:
    """Make code that runs a loop to its end: ``(0, *values)``, or ``(FINISHED, result)``.

    Args:
        code: the original code object.
        index: a canonical index in the body of a ``for`` loop, or of its ``FOR_ITER``.
        layout: the state there.

    Returns:
        None if there is no loop, or if its rounds begin with different layouts: there is no one
        site behind it then.
    """
    decoded = decode(code)
    found = _innermost(decoded, index)
    if found is None:
        return None
    head, body = found
    try:
        round_layout = _layout_of_rounds(code, decoded, index, layout, head, body)
        if round_layout is None:
            return None
        end = FrameCode(code, head).after(round_layout, jump=True)
    except InternalError:  # a state that no layout describes
        return None
    frame = FrameCode(code, index)
    frame.restore(layout)
    start = frame.emit(Op.JUMP)
    loop = _copy_loop(frame, head, body)
    leaves = bool(loop.leaving) or any(
        entry.target not in body and not body.isdisjoint(range(entry.start, entry.end))
        for entry in decoded.exception_table
    )
    rest = frame.copy_body(FINISHED) if leaves else []
    for place, target in loop.leaving:
        frame.out[place].target = rest[target]
    frame.entries[:0] = [  # the loop's copy is in front of the other
        replace(
            entry,
            start=loop.places[entry.start],
            end=loop.places[entry.end],
            target=(loop.places if entry.target in body else rest)[entry.target],
        )
        for entry in decoded.exception_table
        if loop.places[entry.start] < loop.places[entry.end]
    ]
    start.target = loop.places[index]
    frame.out[loop.places[head]].target = len(frame.out)
    frame.position = decoded.instructions[head].position
    frame.hand_over(0, end)
    return BreakCode(frame.assemble(), (Outcome(decoded.instructions[head].target, end),))


def _innermost(decoded: DecodedCode, index: int) -> tuple[int, set[int]] | None:
    """Return the head and the instructions of the innermost ``for`` loop around an instruction."""
    heads: dict[int, list[int]] = {}  # the jumps back to each
    before: dict[int, list[int]] = {}
    for inst in decoded.instructions:
        for after in _reached(decoded, inst.index):
            before.setdefault(after, []).append(inst.index)
        if inst.target >= 0 and decoded.instructions[inst.target].op is Op.FOR_ITER:
            heads.setdefault(inst.target, []).append(inst.index)
    found = None
    for head, jumps in heads.items():
        body, todo = {head, *jumps}, jumps
        while todo:
            for place in before.get(todo.pop(), ()):
                if place not in body:
                    body.add(place)
                    todo.append(place)
        if index in body and (found is None or len(body) < len(found[1])):
            found = head, body
    return found


def _reached(decoded: DecodedCode, index: int) -> Iterator[int]:
    """Where control goes from an instruction, handlers included."""
    yield from successors(decoded.instructions, index)
    entry = decoded.handler_at(index)
    if entry is not None and decoded.instructions[index].op not in SILENT:
        yield entry.target


def _layout_of_rounds(
    code: CodeType, decoded: DecodedCode, index: int, layout: Layout, head: int, body: set[int]
) -> Layout | None:
    """Return the layout with which every round begins after the state, if it is one."""
    frames: dict[int, FrameCode] = {}
    seen: set[tuple[int, Layout]] = set()
    found: Layout | None = None
    todo = [(index, layout)]
    while todo:
        state = place, now = todo.pop()
        if place not in body or state in seen:
            continue
        if len(seen) == _MANY_STATES:
            return None
        seen.add(state)
        if place == head:
            if found is not None:
                return None
            found = now
        inst = decoded.instructions[place]
        frame = frames.get(place)
        if frame is None:
            frame = frames[place] = FrameCode(code, place)
        if inst.op not in TERMINATORS:
            todo.append((place + 1, frame.after(now)))
        if inst.op in JUMPS:
            todo.append((inst.target, frame.after(now, jump=True)))
        entry = decoded.handler_at(place)
        if entry is not None and inst.op not in SILENT:
            todo.append((entry.target, _caught(now, entry)))
    return found


def _caught(layout: Layout, entry: ExceptionEntry) -> Layout:
    """Return the state in which a handler begins."""
    values = (Slot.VALUE, Slot.VALUE) if entry.lasti else (Slot.VALUE,)
    return replace(layout, stack=layout.stack[: entry.depth] + values)


class _Loop:
    """The copy of the loop: places of the original's instructions, and jumps that leave it."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.leaving: list[tuple[int, int]] = []


def _copy_loop(frame: FrameCode, head: int, body: set[int]) -> _Loop:
    """Append the loop's instructions; in the place of what they lead to stands a jump."""
    decoded = frame.decoded
    loop = _Loop()
    stubs = {
        after for place in body - {head} for after in successors(decoded.instructions, place)
    } - body
    jumps = []
    for inst in decoded.instructions:
        loop.places.append(len(frame.out))
        if inst.index in stubs:
            loop.leaving.append((len(frame.out), inst.index))
            frame.emit(Op.JUMP)
        elif inst.index in body:
            frame.position = inst.position
            copy = frame.copy(inst)
            if inst.target >= 0 and inst.index != head:
                jumps.append(copy)
    loop.places.append(len(frame.out))
    for jump in jumps:
        jump.target = loop.places[jump.target]
    return loop
