"""Decoding: what becomes of the constructs whose raw form differs between Pythons."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest

from capture.errors import InternalError
from capture.instructions.decode import decode
from capture.instructions.instruction import Instruction
from capture.instructions.ops import JUMPS, TERMINATORS, Op
from capture.instructions.versions import NULL_BEFORE_CALLABLE
from tests.instructions.programs import sample_codes

# ruff: noqa: B018, B023, C416, E731


def ops(function: Any) -> list[tuple[Op, object]]:
    return [(inst.op, inst.arg) for inst in decode(function.__code__).instructions]


def test_indices_and_targets_are_places_in_the_list() -> None:
    for code in sample_codes():
        instructions = decode(code).instructions
        assert [inst.index for inst in instructions] == list(range(len(instructions)))
        for inst in instructions:
            assert (inst.op in JUMPS) == (inst.target >= 0)
            assert inst.target < len(instructions)
        assert instructions[-1].op in TERMINATORS


def test_exception_entries_are_disjoint_and_in_order() -> None:
    for code in sample_codes():
        decoded = decode(code)
        last = 0
        for entry in decoded.exception_table:
            assert last <= entry.start < entry.end <= len(decoded.instructions)
            last = entry.end
            assert decoded.handler_at(entry.start) is entry
            assert decoded.handler_at(entry.end - 1) is entry


def test_a_call_finds_its_keyword_names() -> None:
    def function(f: Any, x: int) -> None:
        f(1, k=x, j=2)

    assert (Op.CALL, (3, ("k", "j"))) in ops(function)
    assert (Op.LOAD_CONST, ("k", "j")) not in ops(function)


def test_a_jump_into_a_call_reaches_the_call() -> None:
    def function(f: Any, x: int) -> Any:
        a = f(k=1 if x else 2)
        b = a or f(j=a)
        return f(a, b)

    instructions = decode(function.__code__).instructions
    call = next(inst for inst in instructions if inst.op is Op.CALL)
    jump = next(inst for inst in instructions if inst.op is Op.JUMP)
    assert jump.target == call.index


def test_null_comes_where_the_raw_code_puts_it() -> None:
    def function() -> None:
        print(1)

    first = ops(function)[:2]
    expected = [(Op.PUSH_NULL, None), (Op.LOAD_GLOBAL, "print")]
    assert first == (expected if NULL_BEFORE_CALLABLE else expected[::-1])


def test_conditional_jumps_test_a_bool() -> None:
    def function(a: int, b: int) -> int:
        while a < b:
            a += 1
        return a and b

    instructions = decode(function.__code__).instructions
    for inst in instructions:
        if inst.op in (Op.POP_JUMP_IF_TRUE, Op.POP_JUMP_IF_FALSE):
            assert instructions[inst.index - 1].op is Op.TO_BOOL
    assert (Op.COMPARE_OP, "<") in ops(function)


def test_an_exhausted_loop_goes_on_behind_its_end() -> None:
    def function(a: list[int]) -> int:
        for i in a:
            print(i)
        return 7

    instructions = decode(function.__code__).instructions
    loop = next(inst for inst in instructions if inst.op is Op.FOR_ITER)
    target = instructions[loop.target]
    assert (target.op, target.arg) == (Op.LOAD_CONST, 7)


def test_slices_and_subscripts_are_one_operation() -> None:
    def function(a: Any, b: Any) -> None:
        a[b], a[b:]
        a[b:] = 1

    names = [op for op, _ in ops(function)]
    assert names.count(Op.BUILD_SLICE) == 2
    assert ops(function).count((Op.BINARY_OP, "[]")) == 2
    assert names.count(Op.STORE_SUBSCR) == 1


def test_cells_are_told_from_locals() -> None:
    def function(a: int, b: int) -> Callable[[], tuple[int, int]]:
        return lambda: (a, b)

    assert ops(function)[:2] == [(Op.MAKE_CELL, "a"), (Op.MAKE_CELL, "b")]
    loads = [inst for inst in ops(function) if inst[0] in (Op.LOAD_CLOSURE, Op.LOAD_FAST)]
    assert loads == [(Op.LOAD_CLOSURE, "a"), (Op.LOAD_CLOSURE, "b")]


def test_a_comprehension_hides_a_cell_behind_a_local() -> None:
    def function(a: int) -> object:
        get = lambda: a
        defaults = lambda b=a, c=a: b
        return get, defaults, [a for a in range(3)], [(a, a) for a in range(3)]

    found = ops(function)
    assert found.count((Op.LOAD_CLOSURE, "a")) == 1
    assert found.count((Op.LOAD_DEREF, "a")) == 2
    hidden = (Op.LOAD_FAST_AND_CLEAR, "a")
    assert found.count((Op.LOAD_FAST, "a")) == (3 if hidden in found else 0)
    assert not decode(function.__code__).remade_cells


def test_a_comprehension_that_makes_cells_is_noted() -> None:
    def function(a: int) -> object:
        return a, [lambda: a for a in range(3)]

    decoded = decode(function.__code__)
    inlined = "a" in function.__code__.co_cellvars
    assert decoded.remade_cells == ({"a"} if inlined else set())
    names = [inst.op for inst in decoded.instructions]
    assert (Op.LOAD_CELL_AND_CLEAR in names) == inlined
    assert names.count(Op.STORE_CELL) == (2 if inlined else 0)


def test_super_calls_are_recognised_or_plain() -> None:
    class Base:
        def method(self) -> None: ...

    class Derived(Base):
        def method(self) -> None:
            super().method()

    found = ops(Derived.method)
    assert (Op.SUPER_ATTR, ("method", True, False)) in found or (
        Op.LOAD_METHOD,
        "method",
    ) in found


def test_positions_and_offsets_are_the_raw_ones() -> None:
    def function(a: int) -> int:
        return a * 3

    code = function.__code__
    positions = list(code.co_positions())
    for inst in decode(code).instructions:
        assert inst.position is not None
        assert tuple(inst.position) == positions[inst.offset // 2]


def test_extended_arguments_are_read() -> None:
    code = next(code for code in sample_codes() if code.co_name == "big")
    stores = [inst.arg for inst in decode(code).instructions if inst.op is Op.STORE_FAST]
    assert stores == [f"v{number}" for number in range(400)]


def copy_of(code: CodeType) -> CodeType:
    return code.replace(co_name=code.co_name)


def test_decoded_code_is_cached_by_identity() -> None:
    def function() -> None: ...

    code = function.__code__
    other = copy_of(code)
    assert other == code
    assert decode(code) is decode(code)
    assert decode(other) is not decode(code)
    assert decode(other).code is other


def test_the_cache_keeps_no_code_alive() -> None:
    code = copy_of(test_the_cache_keeps_no_code_alive.__code__)
    decoded = decode(code)
    gone = weakref.ref(code)
    del code
    gc.collect()
    assert gone() is None
    with pytest.raises(InternalError, match="gone"):
        decoded.code


def test_text_shows_place_name_argument_and_target() -> None:
    assert str(Instruction(Op.LOAD_FAST, "x", 3)) == "   3 LOAD_FAST 'x'"
    assert str(Instruction(Op.JUMP, None, 12, target=4)) == "  12 JUMP -> 4"


def test_generators_are_decoded_too() -> None:
    code = next(code for code in sample_codes() if code.co_name == "generator")
    found = [inst.op for inst in decode(code).instructions]
    assert Op.RETURN_GENERATOR in found
    assert Op.YIELD_VALUE in found
    assert Op.SEND in found


@pytest.mark.parametrize("table", [b"", b"\xff", b"\xf8" * 20])
def test_line_tables_of_the_program_need_not_fit(table: bytes) -> None:
    def fn(x: int) -> int:
        return x + 1

    code = fn.__code__.replace(co_linetable=table)
    assert len(decode(code).instructions) == len(decode(fn.__code__).instructions)
