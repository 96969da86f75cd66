"""Holds how Python 3.11's bytecode is read and written; must not know any other version."""

from __future__ import annotations

from typing import cast

from capture.instructions.instruction import Instruction
from capture.instructions.ops import Op
from capture.instructions.versions import rules
from capture.instructions.versions.rules import LowerRule, RaiseRule, Reader, Writer

__all__ = ["DROPPED", "LOWER", "RAISE", "UNSUPPORTED"]

#: Raw instructions without canonical counterpart; writing adds what the code needs of them.
DROPPED = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "PRECALL", "COPY_FREE_VARS"})

UNSUPPORTED: dict[str, str] = {"PRINT_EXPR": "occurs in the interactive shell only"}


def _load_global(reader: Reader, arg: int) -> None:
    if arg & 1:
        reader.emit(Op.PUSH_NULL)
    reader.emit(Op.LOAD_GLOBAL, reader.names[arg >> 1])


def _compare(reader: Reader, arg: int) -> None:
    reader.emit(Op.COMPARE_OP, rules.COMPARE_SYMBOLS[arg])


def _jump_or_pop(op: Op) -> RaiseRule:
    def rule(reader: Reader, arg: int) -> None:
        reader.emit(Op.COPY, 1)
        reader.emit(Op.TO_BOOL)
        reader.jump(op, reader.next_offset + 2 * arg)
        reader.emit(Op.POP_TOP)

    return rule


def _backward(op: Op, *, truth: bool) -> RaiseRule:
    def rule(reader: Reader, arg: int) -> None:
        if truth:
            reader.emit(Op.TO_BOOL)
        reader.jump(op, reader.next_offset - 2 * arg)

    return rule


def _write_compare(writer: Writer, inst: Instruction) -> None:
    writer.emit("COMPARE_OP", rules.COMPARE_NUMBERS[cast(str, inst.arg)])


def _write_call(writer: Writer, inst: Instruction) -> None:
    count, kwnames = cast("tuple[int, tuple[str, ...]]", inst.arg)
    if kwnames:
        writer.emit("KW_NAMES", writer.const(kwnames))
    writer.emit("PRECALL", count)
    writer.emit("CALL", count)


def _write_pop_jump(condition: str) -> LowerRule:
    def rule(writer: Writer, inst: Instruction) -> None:
        direction = "BACKWARD" if writer.is_backward(inst.target) else "FORWARD"
        writer.jump(f"POP_JUMP_{direction}_IF_{condition}", inst.target)

    return rule


_SIMPLE = {
    "POP_TOP": Op.POP_TOP,
    "PUSH_NULL": Op.PUSH_NULL,
    "UNARY_POSITIVE": Op.UNARY_POSITIVE,
    "UNARY_NEGATIVE": Op.UNARY_NEGATIVE,
    "UNARY_NOT": Op.UNARY_NOT,
    "UNARY_INVERT": Op.UNARY_INVERT,
    "GET_LEN": Op.GET_LEN,
    "MATCH_MAPPING": Op.MATCH_MAPPING,
    "MATCH_SEQUENCE": Op.MATCH_SEQUENCE,
    "MATCH_KEYS": Op.MATCH_KEYS,
    "PUSH_EXC_INFO": Op.PUSH_EXC_INFO,
    "CHECK_EXC_MATCH": Op.CHECK_EXC_MATCH,
    "CHECK_EG_MATCH": Op.CHECK_EG_MATCH,
    "WITH_EXCEPT_START": Op.WITH_EXCEPT_START,
    "GET_AITER": Op.GET_AITER,
    "GET_ANEXT": Op.GET_ANEXT,
    "BEFORE_ASYNC_WITH": Op.BEFORE_ASYNC_WITH,
    "BEFORE_WITH": Op.ENTER_CONTEXT,
    "END_ASYNC_FOR": Op.END_ASYNC_FOR,
    "STORE_SUBSCR": Op.STORE_SUBSCR,
    "DELETE_SUBSCR": Op.DELETE_SUBSCR,
    "GET_ITER": Op.GET_ITER,
    "GET_YIELD_FROM_ITER": Op.GET_YIELD_FROM_ITER,
    "LOAD_BUILD_CLASS": Op.LOAD_BUILD_CLASS,
    "RETURN_GENERATOR": Op.RETURN_GENERATOR,
    "LIST_TO_TUPLE": Op.LIST_TO_TUPLE,
    "RETURN_VALUE": Op.RETURN_VALUE,
    "IMPORT_STAR": Op.IMPORT_STAR,
    "SETUP_ANNOTATIONS": Op.SETUP_ANNOTATIONS,
    "ASYNC_GEN_WRAP": Op.ASYNC_GEN_WRAP,
    "PREP_RERAISE_STAR": Op.PREP_RERAISE_STAR,
    "POP_EXCEPT": Op.POP_EXCEPT,
}
_COUNTED = {
    "SWAP": Op.SWAP,
    "COPY": Op.COPY,
    "BUILD_TUPLE": Op.BUILD_TUPLE,
    "BUILD_LIST": Op.BUILD_LIST,
    "BUILD_SET": Op.BUILD_SET,
    "BUILD_MAP": Op.BUILD_MAP,
    "BUILD_CONST_KEY_MAP": Op.BUILD_CONST_KEY_MAP,
    "BUILD_STRING": Op.BUILD_STRING,
    "BUILD_SLICE": Op.BUILD_SLICE,
    "LIST_APPEND": Op.LIST_APPEND,
    "LIST_EXTEND": Op.LIST_EXTEND,
    "SET_ADD": Op.SET_ADD,
    "SET_UPDATE": Op.SET_UPDATE,
    "MAP_ADD": Op.MAP_ADD,
    "DICT_UPDATE": Op.DICT_UPDATE,
    "DICT_MERGE": Op.DICT_MERGE,
    "UNPACK_SEQUENCE": Op.UNPACK_SEQUENCE,
    "RAISE_VARARGS": Op.RAISE_VARARGS,
    "RERAISE": Op.RERAISE,
    "MATCH_CLASS": Op.MATCH_CLASS,
    "GET_AWAITABLE": Op.GET_AWAITABLE,
}
_NAMED = {
    "STORE_NAME": Op.STORE_NAME,
    "DELETE_NAME": Op.DELETE_NAME,
    "LOAD_NAME": Op.LOAD_NAME,
    "STORE_ATTR": Op.STORE_ATTR,
    "DELETE_ATTR": Op.DELETE_ATTR,
    "STORE_GLOBAL": Op.STORE_GLOBAL,
    "DELETE_GLOBAL": Op.DELETE_GLOBAL,
    "LOAD_ATTR": Op.LOAD_ATTR,
    "LOAD_METHOD": Op.LOAD_METHOD,
    "IMPORT_NAME": Op.IMPORT_NAME,
    "IMPORT_FROM": Op.IMPORT_FROM,
}
_SIMPLE_RAISE, _SIMPLE_LOWER = rules.simple_pairs(_SIMPLE)
_COUNTED_RAISE, _COUNTED_LOWER = rules.counted_pairs(_COUNTED)
_NAMED_RAISE, _NAMED_LOWER = rules.named_pairs(_NAMED)

RAISE: dict[str, RaiseRule] = {
    **_SIMPLE_RAISE,
    **_COUNTED_RAISE,
    **_NAMED_RAISE,
    "RESUME": rules.resume,
    "LOAD_CONST": rules.load_const,
    "LOAD_ASSERTION_ERROR": rules.load_assertion_error,
    "LOAD_FAST": rules.slot(Op.LOAD_FAST),
    "STORE_FAST": rules.slot(Op.STORE_FAST),
    "DELETE_FAST": rules.slot(Op.DELETE_FAST),
    "LOAD_DEREF": rules.slot(Op.LOAD_DEREF),
    "STORE_DEREF": rules.slot(Op.STORE_DEREF),
    "DELETE_DEREF": rules.slot(Op.DELETE_DEREF),
    "MAKE_CELL": rules.make_cell,
    "LOAD_CLOSURE": rules.slot(Op.LOAD_CLOSURE),
    "LOAD_CLASSDEREF": rules.slot(Op.LOAD_CLASSDEREF),
    "LOAD_GLOBAL": _load_global,
    "BINARY_OP": rules.binary_op,
    "BINARY_SUBSCR": rules.binary_subscr,
    "COMPARE_OP": _compare,
    "IS_OP": rules.flag(Op.IS_OP),
    "CONTAINS_OP": rules.flag(Op.CONTAINS_OP),
    "UNPACK_EX": rules.unpack_ex,
    "KW_NAMES": rules.kw_names,
    "CALL": rules.call,
    "CALL_FUNCTION_EX": rules.call_function_ex,
    "MAKE_FUNCTION": rules.make_function,
    "FORMAT_VALUE": rules.format_value,
    "YIELD_VALUE": rules.yield_value,
    "FOR_ITER": rules.forward(Op.FOR_ITER),
    "SEND": rules.forward(Op.SEND),
    "JUMP_FORWARD": rules.jump_forward,
    "JUMP_BACKWARD": rules.jump_backward,
    "JUMP_BACKWARD_NO_INTERRUPT": rules.jump_backward,
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop(Op.POP_JUMP_IF_FALSE),
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop(Op.POP_JUMP_IF_TRUE),
    "POP_JUMP_FORWARD_IF_FALSE": rules.truth_forward(Op.POP_JUMP_IF_FALSE),
    "POP_JUMP_FORWARD_IF_TRUE": rules.truth_forward(Op.POP_JUMP_IF_TRUE),
    "POP_JUMP_FORWARD_IF_NONE": rules.forward(Op.POP_JUMP_IF_NONE),
    "POP_JUMP_FORWARD_IF_NOT_NONE": rules.forward(Op.POP_JUMP_IF_NOT_NONE),
    "POP_JUMP_BACKWARD_IF_FALSE": _backward(Op.POP_JUMP_IF_FALSE, truth=True),
    "POP_JUMP_BACKWARD_IF_TRUE": _backward(Op.POP_JUMP_IF_TRUE, truth=True),
    "POP_JUMP_BACKWARD_IF_NONE": _backward(Op.POP_JUMP_IF_NONE, truth=False),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": _backward(Op.POP_JUMP_IF_NOT_NONE, truth=False),
}

LOWER: dict[Op, LowerRule] = {
    **_SIMPLE_LOWER,
    **_COUNTED_LOWER,
    **_NAMED_LOWER,
    Op.NOP: rules.write_same("NOP"),
    Op.LOAD_CONST: rules.write_const,
    Op.LOAD_FAST: rules.write_local("LOAD_FAST"),
    Op.STORE_FAST: rules.write_local("STORE_FAST"),
    Op.DELETE_FAST: rules.write_local("DELETE_FAST"),
    Op.LOAD_DEREF: rules.write_cell("LOAD_DEREF"),
    Op.STORE_DEREF: rules.write_cell("STORE_DEREF"),
    Op.DELETE_DEREF: rules.write_cell("DELETE_DEREF"),
    Op.MAKE_CELL: rules.write_cell("MAKE_CELL"),
    Op.LOAD_CLOSURE: rules.write_cell("LOAD_CLOSURE"),
    Op.LOAD_CLASSDEREF: rules.write_cell("LOAD_CLASSDEREF"),
    Op.LOAD_GLOBAL: rules.write_named("LOAD_GLOBAL", shift=1),
    Op.BINARY_OP: rules.write_binary_op,
    Op.COMPARE_OP: _write_compare,
    Op.IS_OP: rules.write_counted("IS_OP"),
    Op.CONTAINS_OP: rules.write_counted("CONTAINS_OP"),
    Op.TO_BOOL: rules.write_to_bool,
    Op.UNPACK_EX: rules.write_unpack_ex,
    Op.CALL: _write_call,
    Op.CALL_FUNCTION_EX: rules.write_counted("CALL_FUNCTION_EX"),
    Op.MAKE_FUNCTION: rules.write_make_function,
    Op.CONVERT: rules.write_convert,
    Op.SWAP: rules.write_swap,
    Op.FORMAT: rules.write_format,
    Op.YIELD_VALUE: rules.write_yield,
    Op.JUMP: rules.write_jump,
    Op.FOR_ITER: rules.write_forward("FOR_ITER"),
    Op.SEND: rules.write_forward("SEND"),
    Op.POP_JUMP_IF_TRUE: _write_pop_jump("TRUE"),
    Op.POP_JUMP_IF_FALSE: _write_pop_jump("FALSE"),
    Op.POP_JUMP_IF_NONE: _write_pop_jump("NONE"),
    Op.POP_JUMP_IF_NOT_NONE: _write_pop_jump("NOT_NONE"),
}

#: A CALL finds NULL (or the method) below the callable (or self).
NULL_BEFORE_CALLABLE = True
#: SEND pops the receiver where it jumps.
SEND_POPS_RECEIVER = True
#: ``generator.close()`` gives what the generator returns.
CLOSE_GIVES_RESULT = False
#: ``locals()`` gives one dict for each frame.
LOCALS_ARE_SHARED = True
#: ``generator.throw()`` of a class, a value and a traceback warns.
THROW_WARNS_OF_PARTS = False
#: Raw instructions that stand behind an exhausted FOR_ITER's target and that it skips.
FOR_END: tuple[str, ...] = ()
