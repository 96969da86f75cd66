"""Holds the table of C functions and methods that may be folded by calling them on constants.

Pure means: the result follows from the arguments alone (within a process), nothing is changed, and
the result is a constant or a fresh list of constants. Constants are None, Ellipsis, NotImplemented,
bool, int, float, complex, str, bytes, and slices, ranges, tuples and frozensets of them. A pure
call may raise: that is what eager would raise. Everything not listed is impure. Must not know the
interpreter, variables or torch.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
import os
import struct
import sys
import types
from collections.abc import Mapping

NEVER_FOLD_MODULES = frozenset(
    {
        "asyncio",
        "ctypes",
        "datetime",
        "gc",
        "io",
        "locale",
        "multiprocessing",
        "os",
        "posix",
        "random",
        "secrets",
        "select",
        "signal",
        "socket",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
        "weakref",
        "_random",
        "_thread",
        "_weakref",
    }
)
"""Modules whose functions read or change the world: no table may ever take one from there."""

_BUILTINS = (
    "abs all any ascii bin bool bytes callable chr complex divmod float format frozenset hash hex "
    "int len max min oct ord pow range repr round slice str sum tuple"
)

# Not `is_` and `is_not`: equal constants need not be one object. Not `call`: it calls anything.
_OPERATOR_NAMES = (
    "abs add and_ concat contains countOf eq floordiv ge getitem gt iadd iand iconcat ifloordiv "
    "ilshift imatmul imod imul index indexOf inv invert ior ipow irshift isub itruediv ixor le "
    "length_hint lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor"
)

_CONSTANT_TYPES: tuple[type, ...] = (
    bool,
    bytes,
    complex,
    float,
    frozenset,
    int,
    range,
    slice,
    str,
    tuple,
    type(None),
    type(...),
    type(NotImplemented),
)

# What object gives to all, what makes iterators (they have state), a mutable dict or a memoryview.
_IMPURE_METHODS = frozenset(
    {
        "__class__",
        "__class_getitem__",
        "__delattr__",
        "__dir__",
        "__doc__",
        "__getattribute__",
        "__init__",
        "__init_subclass__",
        "__iter__",
        "__new__",
        "__reduce__",
        "__reduce_ex__",
        "__reversed__",
        "__setattr__",
        "__sizeof__",
        "__subclasshook__",
        "maketrans",
        "__buffer__",
        "__release_buffer__",
        "__getformat__",
        "__setformat__",
    }
)

_DESCRIPTOR_TYPES = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    staticmethod,
)


def _methods_of(kind: type) -> frozenset[str]:
    return frozenset(
        name
        for base in kind.__mro__
        if base is not object
        for name, value in vars(base).items()
        if isinstance(value, _DESCRIPTOR_TYPES) and name not in _IMPURE_METHODS
    )


PURE_METHODS: Mapping[type, frozenset[str]] = {kind: _methods_of(kind) for kind in _CONSTANT_TYPES}
"""Exact type -> names of its methods that are pure on constants (class methods included)."""


def _functions_of(module: types.ModuleType) -> set[object]:
    return {f for f in vars(module).values() if type(f) is types.BuiltinFunctionType}


def _pure_callables() -> frozenset[object]:
    found: set[object] = {getattr(builtins, name) for name in _BUILTINS.split()}
    found |= _functions_of(math) | _functions_of(cmath)
    found |= {getattr(operator, name) for name in _OPERATOR_NAMES.split()}
    found |= {struct.calcsize, struct.pack, struct.unpack, sys.intern, os.fspath}
    for kind, names in PURE_METHODS.items():
        # Through getattr: `int.from_bytes` bound to int, `str.upper` and `int.__add__` unbound.
        found |= {getattr(kind, name) for name in names}
    return frozenset(found)


PURE: frozenset[object] = _pure_callables()
"""Functions, types and unbound methods that may be folded on constants."""

# Types whose own hash and == run no user code, so that a set look-up is safe.
_HASHED_TYPES = frozenset(
    {
        type,
        types.BuiltinFunctionType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
    }
)


def is_pure_method(kind: type, name: str) -> bool:
    """Tell whether `kind.name` may be folded when self and all arguments are constants."""
    return type(kind) is type and name in PURE_METHODS.get(kind, ())


def is_pure(callable_: object) -> bool:
    """Tell whether `callable_` may be folded by calling it when all arguments are constants."""
    kind = type(callable_)
    if kind in _HASHED_TYPES and callable_ in PURE:
        return True
    if kind is types.BuiltinFunctionType or kind is types.MethodWrapperType:
        owner = callable_.__self__  # type: ignore[attr-defined]
        return is_pure_method(type(owner), callable_.__name__)  # type: ignore[attr-defined]
    return False
