"""Assembling: what was decoded comes back, and unsound instructions are refused with a listing."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from capture.errors import InternalError, UnsupportedPythonError
from capture.instructions.assemble import assemble
from capture.instructions.decode import decode
from capture.instructions.instruction import ExceptionEntry, Instruction, Position
from capture.instructions.ops import Op
from capture.instructions.versions import NULL_BEFORE_CALLABLE
from tests.conformance import stdlib
from tests.instructions.programs import nested, sample_codes, stdlib_codes


def reassemble(code: CodeType) -> CodeType:
    """Take a code object apart and build it again."""
    return stdlib.reassemble(code, decode(code))


def assert_same(code: CodeType) -> None:
    again = reassemble(code)
    before, after = decode(code), decode(again)
    assert len(before.instructions) == len(after.instructions)
    for old, new in zip(before.instructions, after.instructions, strict=True):
        assert (old.op, old.target, old.position) == (new.op, new.target, new.position)
        assert old.arg is new.arg or old.arg == new.arg
    assert before.exception_table == after.exception_table
    for name in ("name", "qualname", "argcount", "posonlyargcount", "kwonlyargcount", "flags",
                 "varnames", "cellvars", "freevars", "firstlineno"):  # fmt: skip
        assert getattr(again, f"co_{name}") == getattr(code, f"co_{name}")


def test_a_round_trip_changes_nothing() -> None:
    for code in sample_codes():
        assert_same(code)


@pytest.mark.slow
def test_a_round_trip_changes_nothing_in_the_standard_library() -> None:
    count = 0
    for code in stdlib_codes(step=7):
        try:
            assert_same(code)
        except UnsupportedPythonError:
            continue
        count += 1
    assert count > 3000


def rebuilt(code: CodeType) -> CodeType:
    consts = tuple(rebuilt(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return reassemble(code.replace(co_consts=consts))


@pytest.mark.slow
@pytest.mark.parametrize("module", ["fractions", "textwrap", "json.decoder", "heapq", "statistics"])
def test_a_reassembled_module_works(module: str) -> None:
    path = Path(sysconfig.get_paths()["stdlib"], *module.split(".")).with_suffix(".py")
    code = rebuilt(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
    scope: dict[str, Any] = {"__name__": module, "__package__": module.rpartition(".")[0]}
    exec(code, scope)
    uses: dict[str, tuple[str, object]] = {
        "fractions": ("str(Fraction('1.25') ** 3 + Fraction(7, 3))", "823/192"),
        "textwrap": ("fill('one two three', 8)", "one two\nthree"),
        "json.decoder": ("JSONDecoder().decode('{\"a\": [1, 2.5, null]}')", {"a": [1, 2.5, None]}),
        "heapq": ("list(merge([1, 4], [2, 3], reverse=False))", [1, 2, 3, 4]),
        "statistics": ("median([3, 1, 2]), mean([1, 2, 6])", (2, 3)),
    }
    text, expected = uses[module]
    assert eval(text, scope) == expected


def simple(*instructions: Instruction, **options: Any) -> CodeType:
    return assemble(instructions, name="made", filename="made.py", firstlineno=5, **options)


def call(code: CodeType, *args: object) -> Any:
    return FunctionType(code, {"abs": abs})(*args)


def load(value: object) -> Instruction:
    return Instruction(Op.LOAD_CONST, value)


RETURN = Instruction(Op.RETURN_VALUE)


def test_constants_keep_their_identity() -> None:
    first, second, third = [1], [1], object()
    code = simple(
        *(load(value) for value in (first, second, third, 0.0, -0.0, 1, True, first)),
        Instruction(Op.BUILD_TUPLE, 8),
        RETURN,
    )
    result = call(code)
    assert [id(value) for value in result[:3]] == [id(first), id(second), id(third)]
    assert str(result[3:]) == "(0.0, -0.0, 1, True, [1])"


def test_arguments_come_first_and_missing_locals_are_added() -> None:
    code = simple(
        Instruction(Op.LOAD_FAST, "x"),
        Instruction(Op.STORE_FAST, "y"),
        Instruction(Op.LOAD_FAST, "y"),
        RETURN,
        argnames=("x",),
    )
    assert code.co_varnames == ("x", "y")
    assert call(code, 4) == 4


def test_cells_are_made_if_nobody_does() -> None:
    code = simple(
        Instruction(Op.LOAD_FAST, "y"),
        Instruction(Op.STORE_DEREF, "x"),
        Instruction(Op.LOAD_DEREF, "x"),
        RETURN,
        argnames=("x", "y"),
        cellvars=("x",),
    )
    assert call(code, 1, 2) == 2


def test_a_call_is_written_as_the_running_python_wants_it() -> None:
    callee = [Instruction(Op.PUSH_NULL), Instruction(Op.LOAD_GLOBAL, "abs")]
    code = simple(
        *(callee if NULL_BEFORE_CALLABLE else callee[::-1]),
        load(-3),
        Instruction(Op.CALL, (1, ())),
        RETURN,
    )
    assert call(code) == 3


@pytest.mark.parametrize("op", [Op.POP_JUMP_IF_TRUE, Op.POP_JUMP_IF_NOT_NONE])
def test_conditional_jumps_go_backward_too(op: Op) -> None:
    # pops a list until an item is false (or None)
    loop = [
        Instruction(Op.LOAD_FAST, "x"),
        Instruction(Op.LOAD_METHOD, "pop"),
        Instruction(Op.CALL, (0, ())),
        *([Instruction(Op.TO_BOOL)] if op is Op.POP_JUMP_IF_TRUE else []),
        Instruction(op, target=0),
        Instruction(Op.LOAD_FAST, "x"),
        RETURN,
    ]
    assert call(simple(*loop, argnames=("x",)), [7, 8, None, 1, 2]) == [7, 8]


def test_to_bool_stands_alone() -> None:
    code = simple(Instruction(Op.LOAD_FAST, "x"), Instruction(Op.TO_BOOL), RETURN, argnames=("x",))
    assert call(code, [0]) is True
    assert call(code, []) is False


def test_control_may_fall_into_the_end_of_a_loop() -> None:
    code = simple(
        Instruction(Op.LOAD_FAST, "x"),
        Instruction(Op.GET_ITER),
        Instruction(Op.FOR_ITER, target=5),
        Instruction(Op.POP_TOP),
        Instruction(Op.POP_TOP),
        load("end"),
        RETURN,
        argnames=("x",),
    )
    assert call(code, ()) == "end"
    assert call(code, (1, 2)) == "end"


def test_an_exception_reaches_its_handler() -> None:
    code = simple(
        Instruction(Op.LOAD_FAST, "x"),
        Instruction(Op.LOAD_ATTR, "missing"),
        RETURN,
        Instruction(Op.BUILD_TUPLE, 2),
        RETURN,
        argnames=("x",),
        exception_table=[ExceptionEntry(1, 2, 3, 0, True)],
    )
    place, error = call(code, 1)
    assert isinstance(place, int)
    assert isinstance(error, AttributeError)


def test_positions_are_kept_and_missing_ones_are_the_first_line() -> None:
    position = Position(7, 8, 400, 3)
    code = simple(Instruction(Op.LOAD_CONST, 1, position=position), RETURN)
    assert decode(code).instructions[0].position == position
    last = decode(code).instructions[1].position
    assert last is not None
    assert last.line == 5


def test_far_jumps_are_long_enough() -> None:
    body = [Instruction(Op.LOAD_FAST, "x"), Instruction(Op.TO_BOOL)]
    body.append(Instruction(Op.POP_JUMP_IF_FALSE, target=3 + 2 * 70_000 + 1))
    for number in range(70_000):
        body += [load(number % 300), Instruction(Op.POP_TOP)]
    body += [Instruction(Op.JUMP, target=0), load("out"), RETURN]
    code = simple(*body, argnames=("x",))
    assert call(code, 0) == "out"


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ([Instruction(Op.POP_TOP), load(1), RETURN], "only 0 deep"),
        ([load(1)], "falls off the end"),
        ([load(1), Instruction(Op.JUMP, target=9)], "leads out|falls off"),
        ([Instruction(Op.LOAD_DEREF, "x"), RETURN], "'x' is no cell"),
        ([load(1), Instruction(Op.STORE_DEREF, "x"), load(1), RETURN], "'x' is no cell"),
        (
            [load(True), Instruction(Op.POP_JUMP_IF_TRUE, target=3), load(1), load(2), RETURN],
            "0 or 1 deep|1 or 0 deep",
        ),
    ],
)
def test_unsound_code_is_refused_with_a_listing(
    instructions: list[Instruction], message: str
) -> None:
    with pytest.raises(InternalError, match=message) as caught:
        simple(*instructions)
    assert "0: " in str(caught.value)


def test_reassembled_functions_run() -> None:
    source = "def f(x, *y, z=3, **k):\n return [a + z for a in (x, *y)], sorted(k), f'{x!r:>4}'"
    scope: dict[str, Any] = {}
    code = next(c for c in nested(compile(source, "<f>", "exec")) if c.co_name == "f")
    function = FunctionType(reassemble(code), scope)
    function.__kwdefaults__ = {"z": 3}
    assert function(1, 2, q=1) == ([4, 5], ["q"], "   1")
