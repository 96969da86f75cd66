"""Holds pure-Python equivalents of C functions that call back or iterate, to be inlined.

Written from CPython's documented behaviour (3.11 to 3.13). A polyfill takes the arguments of the C
function and raises the same argument errors at the call; one that returns an iterator returns a
generator, whose original type `original_of` tells. Methods of instances are looked up by the
descriptor of the type (`list.sort`, `str.join`) and take self first.

The polyfills themselves need these forms from the interpreter: `iter(x)`, `next(it)`, `len`,
`type`, `isinstance`, `hasattr`, `getattr`, `bool`, `abs`, `callable`, `operator.index`, displays
and unpacking of exact lists and tuples, `str.join` of an exact list, `frozenset` of an exact set,
and the plain methods of exact list, set and dict.

A generator differs from the C iterator in this: once an exception has left it, StopIteration
included, it is finished, where most C iterators ask their source again; it has send(), throw() and
close(); it cannot be copied or pickled. A caller that uses such an iterator behind an exception or
beyond its end, or lets it escape, must not rely on the polyfill.

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import types

# Imported for the entries they add to the registry.
from capture.polyfills import (
    bisection,
    builtins,
    collections,
    containers,
    copying,
    exceptions,
    heaps,
    itertools,
    sorting,
)
from capture.polyfills import functools as functools_polyfills
from capture.polyfills import operator as operator_polyfills
from capture.polyfills.functools import partial_call
from capture.polyfills.operator import closure_of
from capture.polyfills.pure import is_pure, is_pure_method
from capture.polyfills.registry import GENERATOR_ORIGINALS, POLYFILLS
from capture.polyfills.sorting import moves_of, native_order, stable_order

__all__ = [
    "FOLDS",
    "GENERATOR_ORIGINALS",
    "POLYFILLS",
    "bisection",
    "builtins",
    "closure_of",
    "collections",
    "containers",
    "copying",
    "exceptions",
    "functools_polyfills",
    "heaps",
    "is_pure",
    "is_pure_method",
    "itertools",
    "moves_of",
    "native_order",
    "operator_polyfills",
    "original_of",
    "partial_call",
    "polyfill_for",
    "sorting",
    "stable_order",
]

# Types whose own hash and == run no user code, so that a dict look-up is safe.
_CALLABLE_TYPES = frozenset(
    {
        type,
        types.BuiltinFunctionType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
    }
)

FOLDS: dict[types.FunctionType, types.FunctionType] = {stable_order: native_order}  # type: ignore[dict-item]
"""A polyfill's helper -> what gives its result at once when all its arguments are constants."""


def polyfill_for(callable_: object) -> types.FunctionType | None:
    """Return the function to inline in place of a C callable, or None."""
    if type(callable_) not in _CALLABLE_TYPES:
        return None
    return POLYFILLS.get(callable_)


def original_of(code: types.CodeType) -> object | None:
    """Return the C iterator type that a polyfill's generator stands for, or None."""
    return GENERATOR_ORIGINALS.get(code)
