"""Holds questions about canonical code: stack effects, depths, reachability, live variables.

Must not know decoding or assembling; works on lists of canonical instructions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from capture.errors import InternalError
from capture.instructions.decode import DecodedCode
from capture.instructions.instruction import ExceptionEntry, Instruction
from capture.instructions.ops import EFFECTS, JUMPS, TERMINATORS, Op
from capture.instructions.versions import SEND_POPS_RECEIVER

__all__ = [
    "live_locals",
    "pops_pushes",
    "reachable",
    "rebound_in_loops",
    "stack_depths",
    "stack_effect",
    "successors",
]


def _parse(text: str) -> tuple[int, int]:
    before, _, after = text.partition("--")
    return len(before.split()), len(after.split())


_FIXED = {op: _parse(text) for op, text in EFFECTS.items() if text != "*"}
_COUNTED: dict[Op, Callable[[Any], tuple[int, int]]] = {
    Op.BUILD_TUPLE: lambda n: (n, 1),
    Op.BUILD_LIST: lambda n: (n, 1),
    Op.BUILD_SET: lambda n: (n, 1),
    Op.BUILD_MAP: lambda n: (2 * n, 1),
    Op.BUILD_CONST_KEY_MAP: lambda n: (n + 1, 1),
    Op.BUILD_STRING: lambda n: (n, 1),
    Op.BUILD_SLICE: lambda n: (n, 1),
    Op.UNPACK_SEQUENCE: lambda n: (1, n),
    Op.UNPACK_EX: lambda counts: (1, counts[0] + 1 + counts[1]),
    Op.FORMAT: lambda has_spec: (2 if has_spec else 1, 1),
    Op.CALL: lambda arg: (arg[0] + 2, 1),
    Op.CALL_FUNCTION_EX: lambda has_kwargs: (4 if has_kwargs else 3, 1),
    Op.MAKE_FUNCTION: lambda parts: (len(parts) + 1, 1),
    Op.SUPER_ATTR: lambda arg: (3, 2 if arg[1] else 1),
    Op.RAISE_VARARGS: lambda n: (n, 0),
}


def pops_pushes(op: Op, arg: object, *, jump: bool = False) -> tuple[int, int]:
    """Return how many slots an operation takes and how many it leaves.

    Args:
        op: the operation.
        arg: its argument.
        jump: whether it jumps.
    """
    fixed = _FIXED.get(op)
    if fixed is not None:
        return fixed
    if op is Op.FOR_ITER:
        return (1, 0) if jump else (1, 2)
    if op is Op.SEND:
        return (2, 1) if jump and SEND_POPS_RECEIVER else (2, 2)
    return _COUNTED[op](arg)


def stack_effect(instruction: Instruction, *, jump: bool = False) -> int:
    """Return by how much an instruction changes the depth of the stack."""
    pops, pushes = pops_pushes(instruction.op, instruction.arg, jump=jump)
    return pushes - pops


def successors(instructions: Sequence[Instruction], place: int) -> Iterator[int]:
    """Yield the places where control goes from ``place`` without an exception."""
    instruction = instructions[place]
    if instruction.op not in TERMINATORS:
        yield place + 1
    if instruction.op in JUMPS:
        yield instruction.target


def stack_depths(
    instructions: Sequence[Instruction], exception_table: Sequence[ExceptionEntry] = ()
) -> list[int]:
    """Return the depth of the stack before each instruction, -1 where control never comes.

    Raises:
        InternalError: the stack is popped when empty, two ways in disagree, or control falls off
            the end.
    """
    depths = [-1] * len(instructions)
    work: list[int] = []

    def reach(place: int, depth: int, origin: int) -> None:
        if place >= len(instructions):
            raise InternalError(f"control falls off the end behind {instructions[origin]}")
        if depths[place] < 0:
            depths[place] = depth
            work.append(place)
        elif depths[place] != depth:
            raise InternalError(
                f"the stack is {depths[place]} or {depth} deep before {instructions[place]}"
            )

    def drain() -> None:
        while work:
            place = work.pop()
            instruction, depth = instructions[place], depths[place]
            jumps = instruction.op in JUMPS
            for jump in (False, True) if jumps else (False,):
                pops, pushes = pops_pushes(instruction.op, instruction.arg, jump=jump)
                if depth < pops:
                    raise InternalError(f"the stack is only {depth} deep before {instruction}")
                if jump:
                    reach(instruction.target, depth - pops + pushes, place)
                elif instruction.op not in TERMINATORS:
                    reach(place + 1, depth - pops + pushes, place)

    if instructions:
        reach(0, 0, 0)
        drain()
    pending = list(exception_table)
    while pending:
        covered = [
            entry
            for entry in pending
            if any(depths[place] >= 0 for place in range(entry.start, entry.end))
        ]
        if not covered:
            break
        pending = [entry for entry in pending if entry not in covered]
        for entry in covered:
            reach(entry.target, entry.depth + entry.lasti + 1, entry.start)
        drain()
    return depths


def reachable(decoded: DecodedCode, start: int = 0) -> frozenset[int]:
    """Return the indices that control can come to from ``start``, handlers included."""
    instructions = decoded.instructions
    seen: set[int] = set()
    work = [start]
    while work:
        place = work.pop()
        if place in seen:
            continue
        seen.add(place)
        work.extend(successors(instructions, place))
        handler = decoded.handler_at(place)
        if handler is not None:
            work.append(handler.target)
    return frozenset(seen)


def rebound_in_loops(decoded: DecodedCode, index: int) -> frozenset[str] | None:
    """Return the names that the loops around ``index`` store to; None outside of any loop."""
    instructions = decoded.instructions
    around = [
        (inst.target, place)
        for place, inst in enumerate(instructions)
        if inst.op in JUMPS and inst.target <= index <= place
    ]
    if not around:
        return None
    start, end = min(first for first, _ in around), max(last for _, last in around)
    stores = (Op.STORE_FAST, Op.STORE_DEREF)
    return frozenset(str(i.arg) for i in instructions[start : end + 1] if i.op in stores)


_READS = frozenset(
    {
        Op.LOAD_FAST,
        Op.LOAD_FAST_AND_CLEAR,
        Op.DELETE_FAST,
        Op.LOAD_DEREF,
        Op.DELETE_DEREF,
        Op.STORE_DEREF,  # the cell is needed, if not what it holds
        Op.LOAD_CLOSURE,
        Op.LOAD_CELL_AND_CLEAR,
        Op.LOAD_CLASSDEREF,
        Op.LOAD_FROM_DICT_OR_DEREF,
    }
)
_live: weakref.WeakKeyDictionary[DecodedCode, list[frozenset[str]]] = weakref.WeakKeyDictionary()


def live_locals(decoded: DecodedCode, index: int) -> frozenset[str]:
    """Return the plain locals and cells that may still be read before they are next written."""
    live = _live.get(decoded)
    if live is None:
        live = _live[decoded] = _find_live(decoded)
    return live[index]


def _find_live(decoded: DecodedCode) -> list[frozenset[str]]:
    instructions = decoded.instructions
    live: list[frozenset[str]] = [frozenset()] * len(instructions)
    changed = True
    while changed:
        changed = False
        for place in range(len(instructions) - 1, -1, -1):
            instruction = instructions[place]
            names: set[str] = set()
            for successor in successors(instructions, place):
                if successor < len(instructions):
                    names |= live[successor]
            if instruction.op is Op.STORE_FAST:
                names.discard(str(instruction.arg))
            elif instruction.op in _READS:
                names.add(str(instruction.arg))
            handler = decoded.handler_at(place)
            if handler is not None:  # it may raise before it has written
                names |= live[handler.target]
            if len(names) != len(live[place]):
                live[place] = frozenset(names)
                changed = True
    return live
