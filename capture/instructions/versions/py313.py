"""Holds what Python 3.13's bytecode changed over 3.12's; must not know later versions."""

from __future__ import annotations

from typing import cast

from capture.errors import UnsupportedPythonError
from capture.instructions.instruction import Instruction
from capture.instructions.ops import Op
from capture.instructions.versions import py312, rules
from capture.instructions.versions.rules import LowerRule, RaiseRule, Reader, Writer

__all__ = ["DROPPED", "LOWER", "RAISE", "UNSUPPORTED"]

DROPPED = py312.DROPPED - {"END_FOR"}

UNSUPPORTED: dict[str, str] = {
    **py312.UNSUPPORTED,
    "EXIT_INIT_CHECK": "occurs in the interpreter's own code only",
    "ENTER_EXECUTOR": "is never part of co_code",
}


def _load_global(reader: Reader, arg: int) -> None:
    reader.emit(Op.LOAD_GLOBAL, reader.names[arg >> 1])
    if arg & 1:
        reader.emit(Op.PUSH_NULL)


def _end_for(reader: Reader, arg: int) -> None:
    reader.skip_pop = True


def _pop_top(reader: Reader, arg: int) -> None:
    if reader.skip_pop:  # the second half of a loop's end, which FOR_ITER skips too
        reader.skip_pop = False
    else:
        reader.emit(Op.POP_TOP)


def _load_fast_load_fast(reader: Reader, arg: int) -> None:
    rules.load_fast(reader, arg >> 4)
    rules.load_fast(reader, arg & 15)


def _store_fast_load_fast(reader: Reader, arg: int) -> None:
    rules.store_fast(reader, arg >> 4)
    rules.load_fast(reader, arg & 15)


def _store_fast_store_fast(reader: Reader, arg: int) -> None:
    rules.store_fast(reader, arg >> 4)
    rules.store_fast(reader, arg & 15)


def _compare(reader: Reader, arg: int) -> None:
    reader.emit(Op.COMPARE_OP, rules.COMPARE_SYMBOLS[arg >> 5])
    if arg & 16:
        reader.emit(Op.TO_BOOL)


def _call_kw(reader: Reader, arg: int) -> None:
    """Read a call whose keyword names were pushed as a constant just before."""
    names = reader.instructions.pop()
    if names.op is not Op.LOAD_CONST or not isinstance(names.arg, tuple):
        raise UnsupportedPythonError(
            f"{reader.code.co_qualname}: keyword names of a call are no constant"
        )
    reader.emit(Op.CALL, (arg, names.arg))


def _set_function_attribute(reader: Reader, arg: int) -> None:
    reader.emit(Op.SET_FUNCTION_ATTRIBUTE, rules.FUNCTION_PARTS[arg])


def _convert(reader: Reader, arg: int) -> None:
    reader.emit(Op.CONVERT, rules.CONVERSIONS[arg])


def _format(has_spec: bool) -> RaiseRule:
    return lambda reader, arg: reader.emit(Op.FORMAT, has_spec)


def _make_function(reader: Reader, arg: int) -> None:
    reader.emit(Op.MAKE_FUNCTION, frozenset())


def _write_call(writer: Writer, inst: Instruction) -> None:
    count, kwnames = cast("tuple[int, tuple[str, ...]]", inst.arg)
    if kwnames:
        writer.emit("LOAD_CONST", writer.const(kwnames))
        writer.emit("CALL_KW", count)
    else:
        writer.emit("CALL", count)


def _write_compare(writer: Writer, inst: Instruction) -> None:
    symbol = cast(str, inst.arg)
    writer.emit("COMPARE_OP", rules.COMPARE_NUMBERS[symbol] << 5 | py312.COMPARE_MASKS[symbol])


def _write_make_function(writer: Writer, inst: Instruction) -> None:
    """Write the making of a function; of its parts, those pushed last are set first."""
    parts = cast("frozenset[str]", inst.arg)
    writer.emit("MAKE_FUNCTION")
    for bit, part in reversed(rules.FUNCTION_PARTS.items()):
        if part in parts:
            writer.emit("SET_FUNCTION_ATTRIBUTE", bit)


def _write_set_function_attribute(writer: Writer, inst: Instruction) -> None:
    bit = next(bit for bit, part in rules.FUNCTION_PARTS.items() if part == inst.arg)
    writer.emit("SET_FUNCTION_ATTRIBUTE", bit)


def _write_convert(writer: Writer, inst: Instruction) -> None:
    writer.emit("CONVERT_VALUE", rules.CONVERSIONS.index(cast(str, inst.arg)))


def _write_format(writer: Writer, inst: Instruction) -> None:
    writer.emit("FORMAT_WITH_SPEC" if inst.arg else "FORMAT_SIMPLE")


_GONE = {"KW_NAMES", "FORMAT_VALUE", "LOAD_CLOSURE"}

RAISE: dict[str, RaiseRule] = {
    **{name: rule for name, rule in py312.RAISE.items() if name not in _GONE},
    "END_FOR": _end_for,
    "POP_TOP": _pop_top,
    "LOAD_GLOBAL": _load_global,
    "LOAD_FAST": rules.load_fast,
    "LOAD_FAST_LOAD_FAST": _load_fast_load_fast,
    "STORE_FAST_LOAD_FAST": _store_fast_load_fast,
    "STORE_FAST_STORE_FAST": _store_fast_store_fast,
    "COMPARE_OP": _compare,
    "TO_BOOL": rules.same(Op.TO_BOOL),
    "CALL_KW": _call_kw,
    "MAKE_FUNCTION": _make_function,
    "SET_FUNCTION_ATTRIBUTE": _set_function_attribute,
    "CONVERT_VALUE": _convert,
    "FORMAT_SIMPLE": _format(False),
    "FORMAT_WITH_SPEC": _format(True),
    "POP_JUMP_IF_FALSE": rules.forward(Op.POP_JUMP_IF_FALSE),
    "POP_JUMP_IF_TRUE": rules.forward(Op.POP_JUMP_IF_TRUE),
}

LOWER: dict[Op, LowerRule] = {
    **py312.LOWER,
    Op.LOAD_CLOSURE: rules.write_cell("LOAD_FAST"),
    Op.TO_BOOL: rules.write_same("TO_BOOL"),
    Op.COMPARE_OP: _write_compare,
    Op.CALL: _write_call,
    Op.MAKE_FUNCTION: _write_make_function,
    Op.SET_FUNCTION_ATTRIBUTE: _write_set_function_attribute,
    Op.CONVERT: _write_convert,
    Op.FORMAT: _write_format,
    Op.SWAP: rules.write_counted("SWAP"),
}

NULL_BEFORE_CALLABLE = False
SEND_POPS_RECEIVER = False
#: ``generator.close()`` gives what the generator returns.
CLOSE_GIVES_RESULT = True
#: ``locals()`` gives one dict for each frame.
LOCALS_ARE_SHARED = False
#: ``generator.throw()`` of a class, a value and a traceback warns.
THROW_WARNS_OF_PARTS = True
FOR_END: tuple[str, ...] = ("END_FOR", "POP_TOP")
