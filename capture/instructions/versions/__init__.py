"""Holds the choice of the running Python's tables; the only place that asks for its version."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from capture.errors import UnsupportedPythonError

if TYPE_CHECKING:
    from capture.instructions.ops import Op
    from capture.instructions.versions.rules import LowerRule, RaiseRule

__all__ = [
    "CLOSE_GIVES_RESULT",
    "DROPPED",
    "FOR_END",
    "LOCALS_ARE_SHARED",
    "LOWER",
    "NULL_BEFORE_CALLABLE",
    "RAISE",
    "SEND_POPS_RECEIVER",
    "SUPPORTED",
    "THROW_WARNS_OF_PARTS",
    "UNSUPPORTED",
    "table_module",
]

#: The Python versions with a table.
SUPPORTED = ((3, 11), (3, 12), (3, 13))


def table_module(version: tuple[int, int], implementation: str) -> str:
    """Return the name of the module with a Python's tables, or raise UnsupportedPythonError."""
    if implementation != "cpython" or version not in SUPPORTED:
        known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
        raise UnsupportedPythonError(
            f"capture reads the bytecode of CPython {known}, "
            f"not of {implementation} {version[0]}.{version[1]}"
        )
    return f"{__name__}.py{version[0]}{version[1]}"


_table = import_module(table_module(sys.version_info[:2], sys.implementation.name))

DROPPED: frozenset[str] = _table.DROPPED
RAISE: dict[str, RaiseRule] = _table.RAISE
LOWER: dict[Op, LowerRule] = _table.LOWER
UNSUPPORTED: dict[str, str] = _table.UNSUPPORTED
#: A CALL finds NULL (or the method) below the callable (or self); else above it.
NULL_BEFORE_CALLABLE: bool = _table.NULL_BEFORE_CALLABLE
#: SEND pops the receiver where it jumps.
SEND_POPS_RECEIVER: bool = _table.SEND_POPS_RECEIVER
#: ``generator.close()`` gives what the generator returns.
CLOSE_GIVES_RESULT: bool = _table.CLOSE_GIVES_RESULT
#: ``locals()`` gives one dict for each frame.
LOCALS_ARE_SHARED: bool = _table.LOCALS_ARE_SHARED
#: ``generator.throw()`` of a class, a value and a traceback warns.
THROW_WARNS_OF_PARTS: bool = _table.THROW_WARNS_OF_PARTS
#: Raw instructions that stand behind an exhausted FOR_ITER's target and that it skips.
FOR_END: tuple[str, ...] = _table.FOR_END
