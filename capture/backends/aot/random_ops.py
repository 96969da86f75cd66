"""Holds operators that draw eager's random numbers where the functional ones do not.

``bernoulli_`` fills memory in the order of its strides, but the functional operator that the trace
makes of it (dropout is made of it) returns a contiguous tensor. The operators here keep the order,
and are opaque to compilers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from capture.backends.aot.adapter import Decompositions

__all__ = ["eager_random", "opaque_random"]

_libraries: list[Any] = []  # an operator goes with its library


def _bernoulli_like(tensor: Tensor, p: float, *, generator: Any = None) -> Tensor:
    return torch.empty_like(tensor).bernoulli_(p, generator=generator)


def _bernoulli_by(tensor: Tensor, p: Tensor, *, generator: Any = None) -> Tensor:
    return torch.empty_like(tensor).bernoulli_(p, generator=generator)


def _bernoulli_of(p: Tensor, *, generator: Any = None) -> Tensor:
    return torch.bernoulli(p, generator=generator)


_OPERATORS: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "bernoulli_like": ("(Tensor self, float p, *, Generator? generator=None)", _bernoulli_like),
    "bernoulli_by": ("(Tensor self, Tensor p, *, Generator? generator=None)", _bernoulli_by),
    "bernoulli_of": ("(Tensor p, *, Generator? generator=None)", _bernoulli_of),
}


@functools.cache
def _operators() -> Any:
    library: Any = torch.library.Library(  # type: ignore[no-untyped-call]
        "capture", "FRAGMENT"
    )
    for name, (signature, function) in _OPERATORS.items():
        library.define(f"{name}{signature} -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
        library.impl(name, function, "CompositeExplicitAutograd")
    _libraries.append(library)
    return torch.ops.capture


@functools.cache
def eager_random() -> Decompositions:
    """Return decompositions that keep eager's random numbers, element for element."""
    like = _operators().bernoulli_like.default

    def bernoulli(tensor: Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
        if tensor.is_contiguous():
            return NotImplemented
        return like(tensor, p, generator=generator)

    return {torch.ops.aten.bernoulli.p: bernoulli}


@functools.cache
def opaque_random() -> Decompositions:
    """Return the same for a compiler that gets operators of this family wrong itself.

    Inductor runs them in place, and may put what reads the numbers before what draws them.
    """
    ops = _operators()

    def like(tensor: Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
        return ops.bernoulli_like.default(tensor, p, generator=generator)

    def by(tensor: Tensor, p: Tensor, *, generator: Any = None) -> Any:
        return ops.bernoulli_by.default(tensor, p, generator=generator)

    def of(p: Tensor, *, generator: Any = None) -> Any:
        return ops.bernoulli_of.default(p, generator=generator)

    aten = torch.ops.aten
    return {aten.bernoulli.p: like, aten.bernoulli.Tensor: by, aten.bernoulli.default: of}
