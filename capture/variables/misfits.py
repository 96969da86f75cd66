"""Holds the errors about arguments that do not fit a Python function; must not know the rest.

The text is CPython's own: a function of the same signature that does nothing is called with as many
arguments and the same names. Binding fails before anything runs.
"""

from __future__ import annotations

import inspect
import types
from typing import NoReturn

from capture import break_reasons as reasons
from capture.variables.base import Tracer, unsupported
from capture.variables.functions import FunctionVariable

_KEPT_FLAGS = (
    inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
)


def _nothing() -> None:
    """Lend its body."""


def raise_misfit(tracer: Tracer, fn: FunctionVariable, given: int, names: list[str]) -> NoReturn:
    """Raise the TypeError of a call with ``given`` positional arguments and some by name."""
    try:
        _stub(fn)(*[None] * given, **dict.fromkeys(names))
    except TypeError as error:
        tracer.raise_error(TypeError, *error.args)
    unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about the arguments of {fn.qualname}()")


def _stub(fn: FunctionVariable) -> types.FunctionType:
    empty = _nothing.__code__
    code = fn.code.replace(
        co_code=empty.co_code,
        co_consts=empty.co_consts,
        co_names=(),
        co_flags=fn.code.co_flags & _KEPT_FLAGS,
        co_stacksize=max(empty.co_stacksize, 1),
        co_exceptiontable=b"",
        co_linetable=empty.co_linetable,
        co_cellvars=(),
        co_freevars=(),
        co_varnames=_all_names(fn.code),
        co_nlocals=len(_all_names(fn.code)),
    )
    stub = types.FunctionType(code, {}, fn.name, (None,) * len(fn.defaults) or None)
    stub.__qualname__ = fn.qualname
    stub.__kwdefaults__ = dict.fromkeys(fn.kwdefaults) or None
    return stub


def _all_names(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]
