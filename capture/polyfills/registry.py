"""Holds the tables of C callables and their equivalents, and the decorators that fill them.

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

POLYFILLS: dict[object, types.FunctionType] = {}
"""C callable -> the Python function to inline in its place (a method takes self first)."""

GENERATOR_ORIGINALS: dict[types.CodeType, object] = {}
"""Code of a generator that stands for a C iterator -> the type of that iterator (`map`, ...)."""


def polyfill_of(*originals: object) -> Callable[[Function], Function]:
    """Register the decorated function as the equivalent of each of `originals`."""

    def register(function: Function) -> Function:
        assert isinstance(function, types.FunctionType)
        for original in originals:
            assert original not in POLYFILLS, original
            POLYFILLS[original] = function
        return function

    return register


def generator_of(original: object) -> Callable[[Function], Function]:
    """Register a generator function whose generators stand for instances of `original`."""

    def register(function: Function) -> Function:
        assert isinstance(function, types.FunctionType)
        GENERATOR_ORIGINALS[function.__code__] = original
        return function

    return register
