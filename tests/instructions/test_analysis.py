"""Analyses: declared stack effects agree with ``dis``, depths with the compiler, liveness."""

from __future__ import annotations

import dis
from typing import Any

from capture.instructions.analysis import (
    live_locals,
    reachable,
    stack_depths,
    stack_effect,
    successors,
)
from capture.instructions.assemble import assemble
from capture.instructions.decode import decode
from capture.instructions.instruction import Instruction
from capture.instructions.ops import JUMPS, Op
from capture.instructions.versions import RAISE
from capture.instructions.versions.rules import Reader
from tests.instructions.programs import sample_codes

#: Raw instructions whose effect ``dis`` splits between two or sees otherwise: a call's PRECALL and
#: CALL, the pair that a method load leaves, a generator's start, an exhausted loop's end, and the
#: receiver of a SEND.
DIFFERENT = {"PRECALL", "CALL", "CALL_KW", "LOAD_METHOD", "RETURN_GENERATOR", "FOR_ITER", "SEND",
             "END_FOR", "POP_TOP"}  # fmt: skip


def test_stack_effects_are_those_of_dis() -> None:
    checked: set[str] = set()
    for code in sample_codes():
        reader = Reader(code)
        reader.raw = code.co_code
        for raw in dis.get_instructions(code):
            name = raw.opname
            if name in DIFFERENT or name not in RAISE:
                continue
            reader.opcode, reader.offset, reader.instructions = raw.opcode, raw.offset, []
            RAISE[name](reader, raw.arg or 0)
            for jump in (False, True):
                if jump and not any(inst.op in JUMPS for inst in reader.instructions):
                    continue
                expected = dis.stack_effect(raw.opcode, raw.arg, jump=jump)
                assert effect_of(reader.instructions, jump=jump) == expected, name
            checked.add(name)
    assert len(checked) > 80


def effect_of(instructions: list[Instruction], *, jump: bool) -> int:
    total = 0
    for instruction in instructions:
        jumps = jump and instruction.op in JUMPS
        total += stack_effect(instruction, jump=jumps)
        if jumps:
            break
    return total


def test_depths_are_sound_and_close_to_the_compilers() -> None:
    for code in sample_codes():
        decoded = decode(code)
        depths = stack_depths(decoded.instructions, decoded.exception_table)
        assert 0 <= max(depths) <= code.co_stacksize + 1
        for entry in decoded.exception_table:
            assert depths[entry.target] == entry.depth + entry.lasti + 1


def branches(a: Any, b: Any) -> Any:
    try:
        c = a
        if b:
            return c
    except ValueError:
        print(a)
    return b


def test_reachable_follows_jumps_and_handlers() -> None:
    decoded = decode(branches.__code__)
    assert reachable(decoded) >= {entry.target for entry in decoded.exception_table}
    last = decoded.instructions[-1]
    assert reachable(decoded, last.index) <= {last.index, *range(last.index)}
    returns = next(inst for inst in decoded.instructions if inst.op is Op.RETURN_VALUE)
    assert returns.index in reachable(decoded, returns.index)


def test_liveness_sees_handlers_and_branches() -> None:
    decoded = decode(branches.__code__)
    assert live_locals(decoded, 0) == {"a", "b"}
    returned = next(inst for inst in decoded.instructions if inst.arg == "c" and
                    inst.op is Op.LOAD_FAST)  # fmt: skip
    assert live_locals(decoded, returned.index) == {"c"} | (
        {"a", "b"} if decoded.handler_at(returned.index) else set()
    )
    assert live_locals(decoded, len(decoded.instructions) - 1) <= {"a", "b"}


def test_liveness_keeps_cells_and_loop_variables() -> None:
    def function(a: list[int]) -> object:
        total = 0
        for i in a:
            total += i
        return lambda: a

    decoded = decode(function.__code__)
    loop = next(inst for inst in decoded.instructions if inst.op is Op.FOR_ITER)
    assert live_locals(decoded, loop.index) == {"a", "total"}


def test_successors() -> None:
    jump = Instruction(Op.JUMP, target=0)
    branch = Instruction(Op.POP_JUMP_IF_TRUE, target=5)
    assert list(successors([jump], 0)) == [0]
    assert list(successors([branch], 0)) == [1, 5]
    assert list(successors([Instruction(Op.RETURN_VALUE)], 0)) == []


def test_stacksize_can_be_given() -> None:
    code = assemble(
        [Instruction(Op.LOAD_CONST, 1), Instruction(Op.RETURN_VALUE)],
        name="f",
        filename="f.py",
        firstlineno=1,
        stacksize=9,
    )
    assert code.co_stacksize == 9
