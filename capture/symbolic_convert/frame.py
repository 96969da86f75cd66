"""Holds the state of one frame under symbolic execution; must not know the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture.instructions.decode import DecodedCode, decode
from capture.variables.constant import NONE

if TYPE_CHECKING:
    from types import CodeType

    from capture.instructions.instruction import Instruction
    from capture.variables.base import Variable
    from capture.variables.containers import DictVariable, LocalsVariable
    from capture.variables.functions import CellVariable, FunctionVariable, GeneratorVariable


class Frame:
    """One frame: stack, locals, cells and the place in the code.

    ``nested`` frames were called from within an instruction (``tracer.call``): their result goes to
    ``result``, not on the caller's stack, and a graph break cannot go on inside them.
    """

    __slots__ = (
        "await_discard", "cells", "code", "decoded", "fn", "generator", "globals", "handled",
        "index", "instructions", "iterations", "locals", "mark", "namespace", "nested", "ordinal",
        "override", "result", "saved", "snapshot", "stack", "yielded",
    )  # fmt: skip

    def __init__(self, code: CodeType, fn: FunctionVariable | None, globals_: DictVariable) -> None:
        self.code = code
        self.fn = fn
        self.globals = globals_
        self.decoded: DecodedCode = decode(code)
        self.instructions: list[Instruction] = self.decoded.instructions
        self.stack: list[Variable] = []
        self.locals: dict[str, Variable] = {}
        self.cells: dict[str, CellVariable] = {}
        self.index = 0
        self.nested = False
        self.override: Variable | None = None
        self.result: Variable = NONE
        self.generator: GeneratorVariable | None = None
        self.yielded: Variable | None = None
        self.handled: list[Variable] = []
        self.saved: list[Variable] = []
        self.mark = 0
        self.ordinal = 0
        self.iterations: dict[int, tuple[int, int, int, int]] | None = None
        self.await_discard = False
        self.snapshot: LocalsVariable | None = None  # what ``locals()`` gave
        self.namespace: DictVariable | None = None  # of a class body

    @property
    def line(self) -> int:
        """The line of the instruction being executed."""
        index = max(self.index - 1, 0)
        position = self.instructions[index].position if self.instructions else None
        return (position and position.line) or self.code.co_firstlineno

    @property
    def location(self) -> str:
        """``file:line`` of the instruction being executed."""
        return f"{self.code.co_filename}:{self.line}"
