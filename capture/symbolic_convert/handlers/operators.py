"""Holds the handlers of operators and formatting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.symbolic_convert.expectations import expected_truth
from capture.symbolic_convert.registry import handles, raw
from capture.variables import builtins, operators
from capture.variables.base import MISSING, Variable, unsupported
from capture.variables.constant import ConstantVariable, boolean
from capture.variables.texts import joined

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


@raw(Op.BINARY_OP)
def binary_op(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``a + b`` and the other binary and in-place operators."""
    symbol: Any = inst.arg
    stack = frame.stack
    result = joined(stack[-2:]) if symbol in ("+", "+=") else None
    if result is None:
        lhs, rhs = (v.realize(tracer) for v in stack[-2:])
        del stack[-2:]
        stack.append(operators.binary_op(tracer, symbol, lhs, rhs))
    else:
        stack[-2:] = [result]


@handles(Op.COMPARE_OP, "lhs rhs -- result")
def compare_op(tracer: Translator, inst: Instruction, lhs: Variable, rhs: Variable) -> Variable:
    """``a < b`` and the other comparisons."""
    symbol: Any = inst.arg
    return operators.compare(tracer, symbol, lhs, rhs)


@handles(Op.IS_OP, "lhs rhs -- result")
def is_op(tracer: Translator, inst: Instruction, lhs: Variable, rhs: Variable) -> Variable:
    """``a is b`` or ``a is not b``."""
    return boolean(operators.is_same(tracer, lhs, rhs) != bool(inst.arg))


@handles(Op.CONTAINS_OP, "item container -- result")
def contains_op(
    tracer: Translator, inst: Instruction, item: Variable, container: Variable
) -> Variable:
    """``a in b`` or ``a not in b``."""
    found = operators.contains(tracer, container, item)
    return boolean(operators.truth(tracer, found) != bool(inst.arg))


@handles(Op.UNARY_NEGATIVE, "value -- result")
def unary_negative(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """``-x``."""
    return operators.unary_op(tracer, "-", value)


@handles(Op.UNARY_POSITIVE, "value -- result")
def unary_positive(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """``+x``."""
    return operators.unary_op(tracer, "+", value)


@handles(Op.UNARY_INVERT, "value -- result")
def unary_invert(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """``~x``."""
    return operators.unary_op(tracer, "~", value)


@handles(Op.UNARY_NOT, "value -- result")
def unary_not(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """``not x``."""
    return boolean(not operators.truth(tracer, value))


@handles(Op.TO_BOOL, "value -- result")
def to_bool(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """``bool(x)`` in front of a test."""
    return boolean(expected_truth(tracer, inst, value))


@handles(Op.CONVERT, "value -- text")
def convert(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """``!s``, ``!r`` or ``!a`` in a formatted string."""
    how: Any = inst.arg
    return builtins.to_text(tracer, value, how)


@raw(Op.FORMAT)
def format_(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """One field of a formatted string."""
    spec = frame.stack.pop() if inst.arg else ConstantVariable("")
    frame.stack.append(builtins.format_value(tracer, frame.stack.pop(), spec))


@raw(Op.BUILD_STRING)
def build_string(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Join the parts of a formatted string."""
    count: Any = inst.arg
    together = joined(frame.stack[len(frame.stack) - count :])
    if together is not None:
        del frame.stack[len(frame.stack) - count :]
        frame.stack.append(together)
        return
    parts = [tracer.as_python(v) for v in frame.stack[len(frame.stack) - count :]]
    if any(p is MISSING for p in parts):
        unsupported(reasons.UNKNOWN_OPERATION, "a formatted string made at run time")
    del frame.stack[len(frame.stack) - count :]
    frame.stack.append(ConstantVariable("".join(parts)))
