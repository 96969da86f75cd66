"""Holds the table of instruction handlers and the decorator that fills it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.errors import GraphBreak
from capture.instructions.ops import Op

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator

Handler = Callable[["Translator", "Frame", "Instruction"], None]


def _break(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    raise GraphBreak(reasons.UNSUPPORTED_INSTRUCTION, what=inst.op.name)


HANDLERS: list[Handler] = [_break] * (max(Op) + 1)
"""Handler by operation; what has none breaks the graph."""


def raw(*ops: Op) -> Callable[[Handler], Handler]:
    """Register a handler that works on the frame itself."""

    def register(fn: Handler) -> Handler:
        for op in ops:
            assert HANDLERS[op] is _break, op
            HANDLERS[op] = fn
        return fn

    return register


def handles(op: Op, effect: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a handler by its stack effect, e.g. ``"lhs rhs -- result"``.

    The operands are popped, realised and passed in; what the handler returns is pushed. So a
    handler cannot unbalance the stack.
    """
    before, after = effect.split("--")
    count, pushes = len(before.split()), bool(after.split())

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        def handler(tracer: Translator, frame: Frame, inst: Instruction) -> None:
            stack = frame.stack
            operands = [v.realize(tracer) for v in stack[len(stack) - count :]]
            del stack[len(stack) - count :]
            result = fn(tracer, inst, *operands)
            if pushes:
                stack.append(result)

        HANDLERS[op] = handler
        return fn

    return register
