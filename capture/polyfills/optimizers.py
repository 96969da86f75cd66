"""Holds equivalents of torch's wrappers around ``Optimizer.step``, and of profiler ranges.

The wrappers ask another compiler to break its graph at each end, and import it for that; run
eagerly, all that is left of them is what stands here. This is the one module of polyfills that
knows torch. It must not know the interpreter or variables.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

__all__ = ["OPTIMIZERS", "QUIET", "WRAPPERS", "WRAPPER_NAMES", "UnrecordedRange", "undisabled"]


def step_in_grad_mode(
    step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run ``step`` with grad mode on only if the optimizer is to be differentiated through."""
    before = torch.is_grad_enabled()
    try:
        torch.set_grad_enabled(args[0].defaults["differentiable"])
        return step(*args, **kwargs)
    finally:
        torch.set_grad_enabled(before)


def undisabled(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what another compiler is told to leave alone."""
    return fn(*args, **kwargs)


class UnrecordedRange(contextlib.ContextDecorator):
    """Stands for ``torch.profiler.record_function``: captured code shows no ranges of its own."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args

    def __enter__(self) -> UnrecordedRange:
        """Begin the range."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End the range."""


def _inner_code(function: Any, name: str) -> types.CodeType | None:
    """The code of the function ``name`` that ``function`` defines, if it does."""
    code = getattr(function, "__code__", None)
    for constant in getattr(code, "co_consts", ()):
        if isinstance(constant, types.CodeType) and constant.co_name == name:
            return constant
    return None


OPTIMIZERS = os.path.dirname(torch.optim.__file__) + os.sep
"""The folder of torch's own optimizers; it ends in a separator."""

WRAPPERS: dict[types.CodeType, tuple[str, Callable[..., Any]]] = {}
"""Code of a wrapper -> its free variable that holds the wrapped function, and its equivalent."""


def _add_wrapper(maker: str, name: str, wrapped: str, equivalent: Callable[..., Any]) -> None:
    """Give the wrapper that ``maker`` defines its equivalent; another torch may have none such."""
    code = _inner_code(getattr(torch_optimizer, maker, None) or getattr(torch, maker, None), name)
    if code is not None and wrapped in code.co_freevars:
        WRAPPERS[code] = wrapped, equivalent


_add_wrapper("_use_grad_for_differentiable", "_use_grad", "func", step_in_grad_mode)
_add_wrapper("_disable_dynamo", "inner", "fn", undisabled)
WRAPPER_NAMES = frozenset(code.co_name for code in WRAPPERS)

QUIET = frozenset(id(function.__code__) for _, function in WRAPPERS.values())
"""The ``id`` of code whose handlers only put back torch's state, as a failed piece does itself."""
