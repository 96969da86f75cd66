"""Holds the operators: symbol to function and special methods."""

from __future__ import annotations

import operator
from typing import Any

BINARY: dict[str, tuple[Any, str, str]] = {
    "+": (operator.add, "__add__", "__radd__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
}
INPLACE: dict[str, tuple[Any, str]] = {
    "+=": (operator.iadd, "__iadd__"),
    "-=": (operator.isub, "__isub__"),
    "*=": (operator.imul, "__imul__"),
    "/=": (operator.itruediv, "__itruediv__"),
    "//=": (operator.ifloordiv, "__ifloordiv__"),
    "%=": (operator.imod, "__imod__"),
    "**=": (operator.ipow, "__ipow__"),
    "@=": (operator.imatmul, "__imatmul__"),
    "<<=": (operator.ilshift, "__ilshift__"),
    ">>=": (operator.irshift, "__irshift__"),
    "&=": (operator.iand, "__iand__"),
    "|=": (operator.ior, "__ior__"),
    "^=": (operator.ixor, "__ixor__"),
}
COMPARE: dict[str, tuple[Any, str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Any, str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}
