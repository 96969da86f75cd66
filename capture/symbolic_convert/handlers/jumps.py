"""Holds the handlers of jumps and loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture import break_reasons as reasons
from capture.config import settings as config
from capture.errors import GraphBreak
from capture.instructions.ops import Op
from capture.polyfills.arguments import type_name
from capture.symbolic_convert.registry import handles, raw
from capture.symbolic_convert.translator import LoopEdge, Restart
from capture.variables import iteration, operators
from capture.variables.base import Variable
from capture.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


def jump_to(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Jump; a backward jump counts an iteration and may turn the loop into one run as a body."""
    target = inst.target
    if target <= inst.index:
        place = (id(frame.code), target)
        is_for = frame.instructions[target].op is Op.FOR_ITER
        if place in tracer.run_loops:
            if not is_for and not tracer.depth_nested():
                frame.index = target
                raise LoopEdge()
        else:
            counts = frame.iterations
            if counts is None:
                counts = frame.iterations = {}
            entry = counts.get(target)
            if entry is None:
                graph = tracer.graph
                entry = (0, graph.num_ops, tracer.ordinal, graph.backward_calls)
            number, first_op, first_ordinal, first_backward = entry[0] + 1, *entry[1:]
            counts[target] = (number, first_op, first_ordinal, first_backward)
            backwards = tracer.graph.backward_calls - first_backward
            if (
                number >= config.unroll_limit
                and _is_long(tracer.graph.num_ops - first_op, tracer.ordinal - first_ordinal)
            ) or backwards >= config.unroll_backward_limit:
                tracer.run_loops.add(place)
                raise Restart()
            if tracer.graph.backward_calls:  # those are none of the loops inside
                for inner in counts:
                    if target < inner <= inst.index:
                        counts[inner] = (*counts[inner][:3], tracer.graph.backward_calls)
    frame.index = target


def _is_long(nodes: int, instructions: int) -> bool:
    """Tell whether a loop that has come so far goes on too long to be unrolled.

    Python around operators is what an optimizer's loop over parameters consists of: the operators
    bound it. Where there is more Python than that, it is bounded itself.
    """
    around = _AROUND_NODE * nodes
    return nodes > config.unroll_node_limit or instructions > max(
        config.unroll_instruction_limit, around
    )


_AROUND_NODE = 100


@raw(Op.JUMP)
def jump(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Jump, forwards or backwards."""
    jump_to(tracer, frame, inst)


@raw(Op.POP_JUMP_IF_TRUE)
def pop_jump_if_true(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Jump if the popped value is true."""
    if operators.truth(tracer, frame.stack.pop()):
        jump_to(tracer, frame, inst)


@raw(Op.POP_JUMP_IF_FALSE)
def pop_jump_if_false(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Jump if the popped value is false."""
    if not operators.truth(tracer, frame.stack.pop()):
        jump_to(tracer, frame, inst)


def _is_none(tracer: Translator, v: Variable) -> bool:
    v = v.realize(tracer)
    return isinstance(v, ConstantVariable) and v.value is None


@raw(Op.POP_JUMP_IF_NONE)
def pop_jump_if_none(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Jump if the popped value is None."""
    if _is_none(tracer, frame.stack.pop()):
        jump_to(tracer, frame, inst)


@raw(Op.POP_JUMP_IF_NOT_NONE)
def pop_jump_if_not_none(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Jump if the popped value is not None."""
    if not _is_none(tracer, frame.stack.pop()):
        jump_to(tracer, frame, inst)


@handles(Op.GET_ITER, "iterable -- iterator")
def get_iter(tracer: Translator, inst: Instruction, iterable: Variable) -> Variable:
    """``iter(x)`` in front of a loop."""
    return iteration.get_iter(tracer, iterable)


@raw(Op.FOR_ITER)
def for_iter(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The next item of a loop, or its end."""
    if (id(frame.code), inst.index) in tracer.run_loops:
        raise GraphBreak(reasons.LOOP_NOT_UNROLLED, what=f"more than {config.unroll_limit}")
    iterator = frame.stack[-1].realize(tracer)
    item = iteration.next_item(tracer, iterator)
    if item is None:
        frame.stack.pop()
        frame.index = inst.target
    else:
        frame.stack.append(item)


@raw(Op.RETURN_VALUE)
def return_value(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Return to the caller, or from the piece."""
    value = frame.stack.pop()
    tracer.frames.pop()
    if frame.override is not None and not _is_none(tracer, value):
        kind = type_name(value.python_type())
        tracer.raise_error(TypeError, f"__init__() should return None, not {kind!r}")
    if frame.generator is not None:
        frame.generator.state = "finished"
        frame.result = value
    elif frame.nested:
        frame.result = frame.override if frame.override is not None else value
    elif tracer.frames:
        if frame.override is None:
            tracer.frames[-1].stack.append(value)
    else:
        tracer.result = value
