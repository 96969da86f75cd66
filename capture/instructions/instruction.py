"""Holds the canonical instruction and exception entry; must not know how they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from capture.instructions.ops import Op

__all__ = ["ExceptionEntry", "Instruction", "Position"]


class Position(NamedTuple):
    """Where an instruction stands in the source; lines count from 1, columns in UTF-8 bytes."""

    line: int | None
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


@dataclass(slots=True)
class Instruction:
    """One canonical instruction.

    Attributes:
        op: the operation.
        arg: its argument; ``ops.Op`` says what each operation wants.
        index: place in the canonical list.
        offset: place of the raw instruction in the original code, in bytes; -1 if made by us.
        position: place in the source.
        target: canonical index of the jump target, or -1.
    """

    op: Op
    arg: object = None
    index: int = -1
    offset: int = -1
    position: Position | None = None
    target: int = -1

    def __str__(self) -> str:
        text = f"{self.index:4} {self.op.name}"
        if self.arg is not None:
            text += f" {self.arg!r}"
        return text if self.target < 0 else f"{text} -> {self.target}"


@dataclass(frozen=True, slots=True)
class ExceptionEntry:
    """An exception raised in ``start <= index < end`` goes on at ``target``.

    The stack is cut to ``depth``; then the raising instruction's place is pushed if ``lasti`` is
    set, then the exception. All places are canonical indices.
    """

    start: int
    end: int
    target: int
    depth: int
    lasti: bool
