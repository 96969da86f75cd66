"""Holds what the polyfills share to take their arguments as the C functions do.

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from operator import index
from typing import Any


class Missing:
    """The default of an argument that was not given (a class: the cheapest constant to trace)."""


def as_size(value: Any) -> int:
    """Convert to a Py_ssize_t as Argument Clinic does (Objects/abstract.c, PyNumber_AsSsize_t)."""
    size = index(value)
    if size > sys.maxsize or size < -sys.maxsize - 1:
        raise OverflowError("Python int too large to convert to C ssize_t")
    return size


def type_lookup(cls: type, name: str) -> Any:
    """Find `name` in the MRO of `cls`, unbound and without the metaclass; `Missing` if absent."""
    for base in cls.__mro__:
        namespace = base.__dict__
        if name in namespace:
            return namespace[name]
    return Missing


def type_name(cls: type) -> str:
    """The name of a class in the interpreter's messages: that of a C type may have its module."""
    base = list if int in type.__dict__["__mro__"].__get__(cls) else int
    make: Any = base.__new__
    try:
        make(cls)  # fails before anything is made: the class is none of this base's
    except TypeError as error:
        text = str(error).removeprefix(f"{base.__name__}.__new__(")
        return text.partition("): ")[0]
    return cls.__name__


def run_length_hint(iterable: Any) -> None:
    """Run a user's `__len__` or `__length_hint__` as list() does.

    See Objects/abstract.c, PyObject_LengthHint. The number does not matter, but the call and its
    errors are visible. Methods implemented in C are left out: they have no effect.
    """
    kind = type(iterable)
    if type(getattr(kind, "__len__", None)) is types.FunctionType:
        try:
            len(iterable)
        except TypeError:
            pass
        else:
            return
    method = type_lookup(kind, "__length_hint__")
    if type(method) is not types.FunctionType:
        return
    try:
        hint = method(iterable)
    except TypeError:
        return
    if hint is NotImplemented:
        return
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type_name(type(hint))}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")


def error_text(call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    """Return the text of the exception that a C function raises: it differs between versions."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return str(error)
    raise AssertionError(f"{call} accepts {args}, {kwargs}")
