"""Holds operators, comparison, truth, subscripts and hashing; must not know the interpreter."""

from __future__ import annotations

from capture.variables.operators.arithmetic import binary_op, unary_op
from capture.variables.operators.comparison import (
    compare,
    container_compare,
    contains,
    equal,
    is_same,
    same_or_equal,
)
from capture.variables.operators.hashing import hash_key
from capture.variables.operators.numbers import fold, known_number, scalar_text
from capture.variables.operators.set_algebra import combine_inplace, set_key, update_set
from capture.variables.operators.subscripts import (
    delitem,
    dict_getitem,
    getitem,
    index_value,
    list_setitem,
    sequence_getitem,
    setitem,
)
from capture.variables.operators.tables import BINARY, COMPARE, INPLACE, UNARY
from capture.variables.operators.truth import length, truth

__all__ = [
    "BINARY",
    "COMPARE",
    "INPLACE",
    "UNARY",
    "binary_op",
    "combine_inplace",
    "compare",
    "container_compare",
    "contains",
    "delitem",
    "dict_getitem",
    "equal",
    "fold",
    "getitem",
    "hash_key",
    "index_value",
    "is_same",
    "known_number",
    "length",
    "list_setitem",
    "same_or_equal",
    "scalar_text",
    "sequence_getitem",
    "set_key",
    "setitem",
    "truth",
    "unary_op",
    "update_set",
]
