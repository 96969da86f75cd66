"""Holds what Python 3.12's bytecode changed over 3.11's; must not know later versions."""

from __future__ import annotations

import dis
from typing import cast

from capture.instructions.instruction import Instruction
from capture.instructions.ops import Op
from capture.instructions.versions import py311, rules
from capture.instructions.versions.rules import LowerRule, RaiseRule, Reader, Writer

__all__ = ["DROPPED", "LOWER", "RAISE", "UNSUPPORTED"]

DROPPED = (py311.DROPPED - {"PRECALL"}) | {"END_FOR"}

UNSUPPORTED: dict[str, str] = {
    "INTERPRETER_EXIT": "occurs in the interpreter's own code only",
    "RESERVED": "is reserved by CPython",
}

_INTRINSICS_1: tuple[str, ...] = tuple(getattr(dis, "_intrinsic_1_descs"))  # noqa: B009
_INTRINSICS_2: tuple[str, ...] = tuple(getattr(dis, "_intrinsic_2_descs"))  # noqa: B009
_OWN_INTRINSICS_1 = {
    "INTRINSIC_STOPITERATION_ERROR": Op.STOPITERATION_ERROR,
    "INTRINSIC_ASYNC_GEN_WRAP": Op.ASYNC_GEN_WRAP,
    "INTRINSIC_UNARY_POSITIVE": Op.UNARY_POSITIVE,
    "INTRINSIC_LIST_TO_TUPLE": Op.LIST_TO_TUPLE,
}

# Which results of a comparison make each operator true: unordered 1, less 2, greater 4, equal 8.
# The specializing interpreter reads them from the low bits of the argument.
COMPARE_MASKS = {"<": 2, "<=": 2 | 8, "==": 8, "!=": 1 | 2 | 4, ">": 4, ">=": 4 | 8}


def _load_attr(reader: Reader, arg: int) -> None:
    reader.emit(Op.LOAD_METHOD if arg & 1 else Op.LOAD_ATTR, reader.names[arg >> 1])


def _load_super_attr(reader: Reader, arg: int) -> None:
    reader.emit(Op.SUPER_ATTR, (reader.names[arg >> 2], bool(arg & 1), bool(arg & 2)))


def _compare(reader: Reader, arg: int) -> None:
    reader.emit(Op.COMPARE_OP, rules.COMPARE_SYMBOLS[arg >> 4])


def _binary_slice(reader: Reader, arg: int) -> None:
    reader.emit(Op.BUILD_SLICE, 2)
    reader.emit(Op.BINARY_OP, "[]")


def _store_slice(reader: Reader, arg: int) -> None:
    reader.emit(Op.BUILD_SLICE, 2)
    reader.emit(Op.STORE_SUBSCR)


def _intrinsic_1(reader: Reader, arg: int) -> None:
    name = _INTRINSICS_1[arg]
    if own := _OWN_INTRINSICS_1.get(name):
        reader.emit(own)
    else:
        reader.emit(Op.INTRINSIC_1, name)


def _intrinsic_2(reader: Reader, arg: int) -> None:
    name = _INTRINSICS_2[arg]
    if name == "INTRINSIC_PREP_RERAISE_STAR":
        reader.emit(Op.PREP_RERAISE_STAR)
    else:
        reader.emit(Op.INTRINSIC_2, name)


def _write_super_attr(writer: Writer, inst: Instruction) -> None:
    name, is_method, two_arguments = cast("tuple[str, bool, bool]", inst.arg)
    writer.emit("LOAD_SUPER_ATTR", writer.name(name) << 2 | two_arguments << 1 | is_method)


def _write_compare(writer: Writer, inst: Instruction) -> None:
    symbol = cast(str, inst.arg)
    writer.emit("COMPARE_OP", rules.COMPARE_NUMBERS[symbol] << 4 | COMPARE_MASKS[symbol])


def _write_call(writer: Writer, inst: Instruction) -> None:
    count, kwnames = cast("tuple[int, tuple[str, ...]]", inst.arg)
    if kwnames:
        writer.emit("KW_NAMES", writer.const(kwnames))
    writer.emit("CALL", count)


def _write_pop_jump(condition: str, opposite: str) -> LowerRule:
    """Write a conditional jump; they go forward only, so backward ones hop over a jump."""

    def rule(writer: Writer, inst: Instruction) -> None:
        if not writer.is_backward(inst.target):
            writer.jump(f"POP_JUMP_IF_{condition}", inst.target)
            return
        behind = writer.new_label()
        writer.jump(f"POP_JUMP_IF_{opposite}", behind)
        writer.jump("JUMP_BACKWARD", inst.target)
        writer.put_label(behind)

    return rule


def _write_intrinsic_1(name: str) -> LowerRule:
    return lambda writer, inst: writer.emit("CALL_INTRINSIC_1", _INTRINSICS_1.index(name))


def _write_intrinsic(raw: str, names: tuple[str, ...]) -> LowerRule:
    return lambda writer, inst: writer.emit(raw, names.index(cast(str, inst.arg)))


def _write_prep_reraise_star(writer: Writer, inst: Instruction) -> None:
    writer.emit("CALL_INTRINSIC_2", _INTRINSICS_2.index("INTRINSIC_PREP_RERAISE_STAR"))


_GONE = {
    "UNARY_POSITIVE",
    "LIST_TO_TUPLE",
    "ASYNC_GEN_WRAP",
    "PREP_RERAISE_STAR",
    "IMPORT_STAR",
    "LOAD_METHOD",
    "LOAD_CLASSDEREF",
    "PRECALL",
}
_SIMPLE_RAISE, _SIMPLE_LOWER = rules.simple_pairs(
    {
        "END_SEND": Op.END_SEND,
        "CLEANUP_THROW": Op.CLEANUP_THROW,
        "LOAD_LOCALS": Op.LOAD_LOCALS,
    }
)

RAISE: dict[str, RaiseRule] = {
    **{
        name: rule for name, rule in py311.RAISE.items() if name not in _GONE and "_IF_" not in name
    },
    **_SIMPLE_RAISE,
    "RETURN_CONST": rules.return_const,
    "LOAD_FAST_CHECK": rules.slot(Op.LOAD_FAST),
    "LOAD_FAST_AND_CLEAR": rules.load_fast_and_clear,
    "STORE_FAST": rules.store_fast,
    "LOAD_ATTR": _load_attr,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "LOAD_FROM_DICT_OR_DEREF": rules.slot(Op.LOAD_FROM_DICT_OR_DEREF),
    "LOAD_FROM_DICT_OR_GLOBALS": rules.named(Op.LOAD_FROM_DICT_OR_GLOBALS),
    "COMPARE_OP": _compare,
    "BINARY_SLICE": _binary_slice,
    "STORE_SLICE": _store_slice,
    "CALL_INTRINSIC_1": _intrinsic_1,
    "CALL_INTRINSIC_2": _intrinsic_2,
    "POP_JUMP_IF_FALSE": rules.truth_forward(Op.POP_JUMP_IF_FALSE),
    "POP_JUMP_IF_TRUE": rules.truth_forward(Op.POP_JUMP_IF_TRUE),
    "POP_JUMP_IF_NONE": rules.forward(Op.POP_JUMP_IF_NONE),
    "POP_JUMP_IF_NOT_NONE": rules.forward(Op.POP_JUMP_IF_NOT_NONE),
}

LOWER: dict[Op, LowerRule] = {
    **{
        op: rule
        for op, rule in py311.LOWER.items()
        if op not in (Op.LOAD_CLASSDEREF, Op.IMPORT_STAR)
    },
    **_SIMPLE_LOWER,
    **{op: _write_intrinsic_1(name) for name, op in _OWN_INTRINSICS_1.items()},
    # In code of ours the compiler's proof that a local is bound does not hold.
    Op.LOAD_FAST: rules.write_local("LOAD_FAST_CHECK"),
    Op.LOAD_FAST_AND_CLEAR: rules.write_local("LOAD_FAST_AND_CLEAR"),
    Op.LOAD_CELL_AND_CLEAR: rules.write_cell("LOAD_FAST_AND_CLEAR"),
    Op.STORE_CELL: rules.write_cell("STORE_FAST"),
    Op.LOAD_ATTR: rules.write_named("LOAD_ATTR", shift=1),
    Op.LOAD_METHOD: rules.write_named("LOAD_ATTR", shift=1, bits=1),
    Op.SUPER_ATTR: _write_super_attr,
    Op.LOAD_FROM_DICT_OR_DEREF: rules.write_cell("LOAD_FROM_DICT_OR_DEREF"),
    Op.LOAD_FROM_DICT_OR_GLOBALS: rules.write_named("LOAD_FROM_DICT_OR_GLOBALS"),
    Op.COMPARE_OP: _write_compare,
    Op.CALL: _write_call,
    Op.PREP_RERAISE_STAR: _write_prep_reraise_star,
    Op.INTRINSIC_1: _write_intrinsic("CALL_INTRINSIC_1", _INTRINSICS_1),
    Op.INTRINSIC_2: _write_intrinsic("CALL_INTRINSIC_2", _INTRINSICS_2),
    Op.POP_JUMP_IF_TRUE: _write_pop_jump("TRUE", "FALSE"),
    Op.POP_JUMP_IF_FALSE: _write_pop_jump("FALSE", "TRUE"),
    Op.POP_JUMP_IF_NONE: _write_pop_jump("NONE", "NOT_NONE"),
    Op.POP_JUMP_IF_NOT_NONE: _write_pop_jump("NOT_NONE", "NONE"),
}

NULL_BEFORE_CALLABLE = True
SEND_POPS_RECEIVER = False
#: ``generator.close()`` gives what the generator returns.
CLOSE_GIVES_RESULT = False
#: ``locals()`` gives one dict for each frame.
LOCALS_ARE_SHARED = True
#: ``generator.throw()`` of a class, a value and a traceback warns.
THROW_WARNS_OF_PARTS = True
FOR_END: tuple[str, ...] = ("END_FOR",)
