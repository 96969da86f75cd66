"""Holds how users mark dimensions of tensors, as torch's own functions do; must not know more.

The marks are the attributes that torch's functions set, so that both frontends honour both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from capture.errors import UserError

__all__ = ["mark_dynamic", "mark_static", "maybe_mark_dynamic"]

_DYNAMIC = "_dynamo_dynamic_indices"
_MAYBE = "_dynamo_weak_dynamic_indices"
_STATIC = "_dynamo_static_indices"
_BOUNDS = "_capture_bounds"


def mark_dynamic(
    tensor: Tensor,
    dim: int | Sequence[int],
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Make a dimension of an argument symbolic from the first call on.

    Args:
        dim: the dimension, or several; may count from the end.
        min: the least size; a smaller one is compiled on its own.
        max: the greatest size; a larger one is compiled on its own.

    Raises:
        UserError: for a dimension that the tensor has not. At the call, if its size is 0 or 1 or
            not within the bounds, or if the program demands one certain size of it.
    """
    for place in _places(tensor, dim):
        _add(tensor, _DYNAMIC, place)
        if min is not None or max is not None:
            if min is not None and max is not None and min > max:
                raise UserError(f"the least size {min} is greater than the greatest, {max}")
            _attribute(tensor, _BOUNDS, dict)[place] = (min, max)


def maybe_mark_dynamic(tensor: Tensor, dim: int | Sequence[int]) -> None:
    """Make a dimension symbolic from the first call on, unless the program pins its size."""
    for place in _places(tensor, dim):
        _add(tensor, _MAYBE, place)


def mark_static(tensor: Tensor, dim: int | Sequence[int] | None = None) -> None:
    """Keep a dimension (all of them if None) from becoming symbolic: each size has its graph."""
    for place in range(tensor.dim()) if dim is None else _places(tensor, dim):
        _add(tensor, _STATIC, place)


def _places(tensor: Tensor, dim: int | Sequence[int]) -> list[int]:
    if not isinstance(tensor, Tensor):
        raise UserError(f"only dimensions of tensors can be marked, not of {type(tensor).__name__}")
    rank = tensor.dim()
    places = []
    for place in [dim] if isinstance(dim, int) else dim:
        if not -rank <= place < rank:
            raise UserError(f"a tensor of {rank} dimensions has no dimension {place}")
        places.append(place % rank)
    return places


def _attribute(tensor: Tensor, name: str, kind: type) -> Any:
    found = tensor.__dict__.get(name)
    if found is None:
        found = kind()
        setattr(tensor, name, found)
    return found


def _add(tensor: Tensor, name: str, place: int) -> None:
    _attribute(tensor, name, set).add(place)
