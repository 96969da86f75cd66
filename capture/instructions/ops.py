"""Holds the canonical instruction set and what each operation does to the stack.

Every supported Python's bytecode is read into these operations; nothing above this package sees a
raw opcode. The canonical stack is the raw stack of the running Python: the same slots in the same
order, NULLs included. Must not know decoding, assembling, or any one Python version.
"""

from __future__ import annotations

import enum

__all__ = ["EFFECTS", "JUMPS", "TERMINATORS", "Op"]


class Op(enum.IntEnum):
    """A canonical operation; the comment says what ``Instruction.arg`` is (none if silent)."""

    # constants, locals, cells
    LOAD_CONST = enum.auto()  # the object
    LOAD_FAST = enum.auto()  # name; raises UnboundLocalError if unbound
    LOAD_FAST_AND_CLEAR = enum.auto()  # name; pushes NULL if unbound, then unbinds
    STORE_FAST = enum.auto()  # name; storing NULL unbinds
    DELETE_FAST = enum.auto()  # name
    LOAD_DEREF = enum.auto()  # name
    STORE_DEREF = enum.auto()  # name
    DELETE_DEREF = enum.auto()  # name
    MAKE_CELL = enum.auto()  # name
    LOAD_CLOSURE = enum.auto()  # name; pushes the cell itself
    LOAD_CELL_AND_CLEAR = enum.auto()  # name; pushes the cell itself, empties its slot (3.12+)
    STORE_CELL = enum.auto()  # name; puts back what LOAD_CELL_AND_CLEAR saved (3.12+)
    LOAD_CLASSDEREF = enum.auto()  # name
    LOAD_FROM_DICT_OR_DEREF = enum.auto()  # name
    # names outside of the fast locals
    LOAD_GLOBAL = enum.auto()  # name
    STORE_GLOBAL = enum.auto()  # name
    DELETE_GLOBAL = enum.auto()  # name
    LOAD_NAME = enum.auto()  # name
    STORE_NAME = enum.auto()  # name
    DELETE_NAME = enum.auto()  # name
    LOAD_LOCALS = enum.auto()
    LOAD_FROM_DICT_OR_GLOBALS = enum.auto()  # name
    LOAD_BUILD_CLASS = enum.auto()
    SETUP_ANNOTATIONS = enum.auto()
    # the stack itself
    NOP = enum.auto()  # never decoded; made code may need one
    PUSH_NULL = enum.auto()
    POP_TOP = enum.auto()
    COPY = enum.auto()  # i, counted from the top, 1 is the top
    SWAP = enum.auto()  # i
    # attributes and items
    LOAD_ATTR = enum.auto()  # name
    LOAD_METHOD = enum.auto()  # name; two slots, as a CALL wants them
    STORE_ATTR = enum.auto()  # name
    DELETE_ATTR = enum.auto()  # name
    SUPER_ATTR = enum.auto()  # (name, two slots wanted, super was called with two arguments)
    STORE_SUBSCR = enum.auto()
    DELETE_SUBSCR = enum.auto()
    # operators
    BINARY_OP = enum.auto()  # symbol: "+", "+=", "[]"
    COMPARE_OP = enum.auto()  # symbol: "<"
    IS_OP = enum.auto()  # True for "is not"
    CONTAINS_OP = enum.auto()  # True for "not in"
    UNARY_NEGATIVE = enum.auto()
    UNARY_POSITIVE = enum.auto()
    UNARY_INVERT = enum.auto()
    UNARY_NOT = enum.auto()
    TO_BOOL = enum.auto()
    # jumps
    JUMP = enum.auto()  # True if backward
    POP_JUMP_IF_TRUE = enum.auto()  # the operand is an exact bool
    POP_JUMP_IF_FALSE = enum.auto()
    POP_JUMP_IF_NONE = enum.auto()
    POP_JUMP_IF_NOT_NONE = enum.auto()
    FOR_ITER = enum.auto()  # jumps when exhausted, the iterator popped
    RETURN_VALUE = enum.auto()
    # iteration, matching, containers
    GET_ITER = enum.auto()
    GET_LEN = enum.auto()
    MATCH_MAPPING = enum.auto()
    MATCH_SEQUENCE = enum.auto()
    MATCH_KEYS = enum.auto()
    MATCH_CLASS = enum.auto()  # number of positional patterns
    BUILD_TUPLE = enum.auto()  # n
    BUILD_LIST = enum.auto()  # n
    BUILD_SET = enum.auto()  # n
    BUILD_MAP = enum.auto()  # n pairs
    BUILD_CONST_KEY_MAP = enum.auto()  # n values below a tuple of keys
    BUILD_STRING = enum.auto()  # n
    BUILD_SLICE = enum.auto()  # 2 or 3
    LIST_APPEND = enum.auto()  # i: the list's place once the value is popped
    LIST_EXTEND = enum.auto()  # i
    SET_ADD = enum.auto()  # i
    SET_UPDATE = enum.auto()  # i
    MAP_ADD = enum.auto()  # i
    DICT_UPDATE = enum.auto()  # i
    DICT_MERGE = enum.auto()  # i
    LIST_TO_TUPLE = enum.auto()
    UNPACK_SEQUENCE = enum.auto()  # n
    UNPACK_EX = enum.auto()  # (before, after)
    CONVERT = enum.auto()  # "str", "repr", "ascii"
    FORMAT = enum.auto()  # True if a format spec lies on top
    # calls and functions
    CALL = enum.auto()  # (number of all arguments, names of the keyword arguments)
    CALL_FUNCTION_EX = enum.auto()  # True if a mapping of keyword arguments lies on top
    MAKE_FUNCTION = enum.auto()  # frozenset of "defaults" "kwdefaults" "annotations" "closure"
    SET_FUNCTION_ATTRIBUTE = enum.auto()  # one of these
    IMPORT_NAME = enum.auto()  # name
    IMPORT_FROM = enum.auto()  # name
    IMPORT_STAR = enum.auto()
    INTRINSIC_1 = enum.auto()  # CPython's name of the intrinsic
    INTRINSIC_2 = enum.auto()
    # exceptions and context managers
    RAISE_VARARGS = enum.auto()  # n
    RERAISE = enum.auto()  # place of lasti below the exception, or 0
    PUSH_EXC_INFO = enum.auto()
    POP_EXCEPT = enum.auto()
    CHECK_EXC_MATCH = enum.auto()
    CHECK_EG_MATCH = enum.auto()
    PREP_RERAISE_STAR = enum.auto()
    ENTER_CONTEXT = enum.auto()
    WITH_EXCEPT_START = enum.auto()
    # generators and coroutines
    BEFORE_ASYNC_WITH = enum.auto()
    RETURN_GENERATOR = enum.auto()
    YIELD_VALUE = enum.auto()  # (raw argument, argument of the RESUME behind it)
    SEND = enum.auto()
    END_SEND = enum.auto()
    GET_YIELD_FROM_ITER = enum.auto()
    GET_AWAITABLE = enum.auto()  # raw argument
    GET_AITER = enum.auto()
    GET_ANEXT = enum.auto()
    END_ASYNC_FOR = enum.auto()
    ASYNC_GEN_WRAP = enum.auto()
    CLEANUP_THROW = enum.auto()
    STOPITERATION_ERROR = enum.auto()


#: What each operation takes from the stack and leaves there, top on the right. ``*`` marks an
#: operation whose operands are counted by its argument: see ``analysis.pops_pushes``.
EFFECTS: dict[Op, str] = {
    Op.LOAD_CONST: "-- value",
    Op.LOAD_FAST: "-- value",
    Op.LOAD_FAST_AND_CLEAR: "-- value_or_null",
    Op.STORE_FAST: "value_or_null --",
    Op.DELETE_FAST: "--",
    Op.LOAD_DEREF: "-- value",
    Op.STORE_DEREF: "value --",
    Op.DELETE_DEREF: "--",
    Op.MAKE_CELL: "--",
    Op.LOAD_CLOSURE: "-- cell",
    Op.LOAD_CELL_AND_CLEAR: "-- cell",
    Op.STORE_CELL: "cell --",
    Op.LOAD_CLASSDEREF: "-- value",
    Op.LOAD_FROM_DICT_OR_DEREF: "dict -- value",
    Op.LOAD_GLOBAL: "-- value",
    Op.STORE_GLOBAL: "value --",
    Op.DELETE_GLOBAL: "--",
    Op.LOAD_NAME: "-- value",
    Op.STORE_NAME: "value --",
    Op.DELETE_NAME: "--",
    Op.LOAD_LOCALS: "-- dict",
    Op.LOAD_FROM_DICT_OR_GLOBALS: "dict -- value",
    Op.LOAD_BUILD_CLASS: "-- function",
    Op.SETUP_ANNOTATIONS: "--",
    Op.NOP: "--",
    Op.PUSH_NULL: "-- null",
    Op.POP_TOP: "value --",
    Op.COPY: "-- value",
    Op.SWAP: "--",
    Op.LOAD_ATTR: "obj -- value",
    Op.LOAD_METHOD: "obj -- slot slot",
    Op.STORE_ATTR: "value obj --",
    Op.DELETE_ATTR: "obj --",
    Op.SUPER_ATTR: "*",
    Op.STORE_SUBSCR: "value obj key --",
    Op.DELETE_SUBSCR: "obj key --",
    Op.BINARY_OP: "lhs rhs -- value",
    Op.COMPARE_OP: "lhs rhs -- value",
    Op.IS_OP: "lhs rhs -- bool",
    Op.CONTAINS_OP: "item container -- bool",
    Op.UNARY_NEGATIVE: "value -- value",
    Op.UNARY_POSITIVE: "value -- value",
    Op.UNARY_INVERT: "value -- value",
    Op.UNARY_NOT: "value -- bool",
    Op.TO_BOOL: "value -- bool",
    Op.JUMP: "--",
    Op.POP_JUMP_IF_TRUE: "bool --",
    Op.POP_JUMP_IF_FALSE: "bool --",
    Op.POP_JUMP_IF_NONE: "value --",
    Op.POP_JUMP_IF_NOT_NONE: "value --",
    Op.FOR_ITER: "*",
    Op.RETURN_VALUE: "value --",
    Op.GET_ITER: "iterable -- iterator",
    Op.GET_LEN: "obj -- obj length",
    Op.MATCH_MAPPING: "subject -- subject bool",
    Op.MATCH_SEQUENCE: "subject -- subject bool",
    Op.MATCH_KEYS: "subject keys -- subject keys values_or_none",
    Op.MATCH_CLASS: "subject type names -- attributes_or_none",
    Op.BUILD_TUPLE: "*",
    Op.BUILD_LIST: "*",
    Op.BUILD_SET: "*",
    Op.BUILD_MAP: "*",
    Op.BUILD_CONST_KEY_MAP: "*",
    Op.BUILD_STRING: "*",
    Op.BUILD_SLICE: "*",
    Op.LIST_APPEND: "value --",
    Op.LIST_EXTEND: "iterable --",
    Op.SET_ADD: "value --",
    Op.SET_UPDATE: "iterable --",
    Op.MAP_ADD: "key value --",
    Op.DICT_UPDATE: "mapping --",
    Op.DICT_MERGE: "mapping --",
    Op.LIST_TO_TUPLE: "list -- tuple",
    Op.UNPACK_SEQUENCE: "*",
    Op.UNPACK_EX: "*",
    Op.CONVERT: "value -- string",
    Op.FORMAT: "*",
    Op.CALL: "*",
    Op.CALL_FUNCTION_EX: "*",
    Op.MAKE_FUNCTION: "*",
    Op.SET_FUNCTION_ATTRIBUTE: "value function -- function",
    Op.IMPORT_NAME: "level fromlist -- module",
    Op.IMPORT_FROM: "module -- module value",
    Op.IMPORT_STAR: "module --",
    Op.INTRINSIC_1: "value -- value",
    Op.INTRINSIC_2: "value value -- value",
    Op.RAISE_VARARGS: "*",
    Op.RERAISE: "exception --",
    Op.PUSH_EXC_INFO: "exception -- previous exception",
    Op.POP_EXCEPT: "previous --",
    Op.CHECK_EXC_MATCH: "exception type -- exception bool",
    Op.CHECK_EG_MATCH: "exception type -- rest match",
    Op.PREP_RERAISE_STAR: "original list -- exception",
    Op.ENTER_CONTEXT: "manager -- exit value",
    Op.WITH_EXCEPT_START: "-- value",
    Op.BEFORE_ASYNC_WITH: "manager -- exit awaitable",
    Op.RETURN_GENERATOR: "-- value",
    Op.YIELD_VALUE: "value -- sent",
    Op.SEND: "*",
    Op.END_SEND: "receiver value -- value",
    Op.GET_YIELD_FROM_ITER: "iterable -- iterator",
    Op.GET_AWAITABLE: "value -- awaitable",
    Op.GET_AITER: "iterable -- iterator",
    Op.GET_ANEXT: "iterator -- iterator awaitable",
    Op.END_ASYNC_FOR: "awaitable exception --",
    Op.ASYNC_GEN_WRAP: "value -- value",
    Op.CLEANUP_THROW: "iterator sent exception -- none value",
    Op.STOPITERATION_ERROR: "exception -- exception",
}

#: Operations with a jump target.
JUMPS = frozenset(
    {
        Op.JUMP,
        Op.POP_JUMP_IF_TRUE,
        Op.POP_JUMP_IF_FALSE,
        Op.POP_JUMP_IF_NONE,
        Op.POP_JUMP_IF_NOT_NONE,
        Op.FOR_ITER,
        Op.SEND,
    }
)

#: Operations behind which control never falls through.
TERMINATORS = frozenset({Op.JUMP, Op.RETURN_VALUE, Op.RAISE_VARARGS, Op.RERAISE})
