"""Holds branches on data one side of which only raises: what is checked rather than computed.

The graph checks that the branch goes the other way, and raises if not. Then the piece starts again
in Python, where the program raises what it raises. So nothing may have changed before the check.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

from capture import break_reasons as reasons
from capture.errors import GraphBreak
from capture.graph.data_sizes import UNEXPECTED
from capture.graph.output_graph import OutputGraph
from capture.graph.tensor_meta import CannotPropagate
from capture.instructions.ops import Op
from capture.variables import operators
from capture.variables.constant import FALSE, ScalarVariable
from capture.variables.read_numbers import as_bool, takes_numbers
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator
    from capture.variables.base import Variable

__all__ = ["expected_truth"]

_LONGEST = 64  # instructions from a branch to where it raises
_ENDS = frozenset({Op.RETURN_VALUE, Op.YIELD_VALUE, Op.JUMP, Op.FOR_ITER, Op.RERAISE})


def expected_truth(tracer: Translator, inst: Instruction, value: Variable) -> bool:
    """``bool(value)`` in front of a jump: decided, or expected and checked by the graph."""
    try:
        return operators.truth(tracer, value)
    except GraphBreak as signal:
        if signal.reason is not reasons.DATA_DEPENDENT:
            raise
        expected = _other_than_raising(tracer.frames[-1], inst)
        if expected is None:
            raise
        if isinstance(value, ScalarVariable) and takes_numbers(tracer):
            holds = as_bool(tracer, value)
            if not expected:
                holds = tracer.scalar_call(operator.eq, [holds, FALSE], None, ())
            tracer.assume(holds)
            return expected
        if not isinstance(value, TensorVariable) or not _may_expect(tracer, value):
            raise
        _expect(tracer, value, expected)
        return expected


def _may_expect(tracer: Translator, value: TensorVariable) -> bool:
    """True where a failed check can still be answered by a start in Python."""
    meta = value.meta
    return (
        type(tracer.graph) is OutputGraph
        and not tracer.graph.mutates_inputs
        and meta.is_plain
        and meta.device.type == "cpu"  # elsewhere a failed check ends the process's use of it
        and all(size == 1 for size in meta.shape)
    )


def _expect(tracer: Translator, value: TensorVariable, expected: bool) -> None:
    graph, check = tracer.graph, torch.ops.aten._assert_async.msg
    place = tracer.stack_summary()
    raising = graph.may_raise
    try:
        tested = value.value
        if not expected:
            tested = graph.call("call_function", torch.logical_not, (tested,), {}, place)
        graph.call("call_function", check, (tested, UNEXPECTED), {}, place)
    except CannotPropagate:
        raise GraphBreak(reasons.DATA_DEPENDENT, what="A branch or bool() on a tensor") from None
    graph.may_raise = raising  # it raises for the failure's own reason
    tracer.mutations += 1
    tracer.failure.expected.append(tracer.ordinal)


def _other_than_raising(frame: Frame, inst: Instruction) -> bool | None:
    """The truth value that does not lead straight to a ``raise``; None if there is none such."""
    instructions = frame.instructions
    if inst.index + 1 >= len(instructions):
        return None
    jump = instructions[inst.index + 1]
    if jump.op not in (Op.POP_JUMP_IF_TRUE, Op.POP_JUMP_IF_FALSE):
        return None
    ahead, aside = _raises(frame, jump.index + 1), _raises(frame, jump.target)
    if ahead == aside:
        return None
    return (jump.op is Op.POP_JUMP_IF_TRUE) == ahead


def _raises(frame: Frame, index: int) -> bool:
    """True if the instructions from here on come to a ``raise`` without a jump."""
    for inst in frame.instructions[index : index + _LONGEST]:
        if inst.op is Op.RAISE_VARARGS:
            return True
        if inst.op in _ENDS or inst.target >= 0:
            return False
    return False
