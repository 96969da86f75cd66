"""Holds what is known of a tensor without its data; must not know graphs or fake tensors.

A ``TensorMeta`` is a named tuple, so that hashing and comparing it (memo keys, guards) stay in C.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from capture.errors import CaptureError
from capture.graph.symbols import Dim

__all__ = ["CannotPropagate", "DependsOnData", "TensorMeta", "contiguous_strides", "meta_of"]

PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


class CannotPropagate(CaptureError):
    """Raised where the metadata of a result cannot be known at capture time.

    Attributes:
        reason: half a sentence for the user, such as "the shape depends on data".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DependsOnData(CannotPropagate):
    """Raised where data decides what cannot be known of a result."""


class TensorMeta(NamedTuple):
    """Everything about a tensor that decides how an operator treats it, its data aside.

    Sizes and strides are ints, or ``Dim`` where they may vary.
    """

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool = False
    layout: torch.layout = torch.strided
    is_leaf: bool = True
    has_grad_fn: bool = False
    is_inference: bool = False
    is_conj: bool = False
    is_neg: bool = False
    cls: type = torch.Tensor

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_symbolic(self) -> bool:
        """Whether some size or stride may vary."""
        return Dim in map(type, self.shape) or Dim in map(type, self.stride)

    @property
    def numel(self) -> int:
        """The number of elements."""
        result = 1
        for size in self.shape:
            result *= size
        return result

    @property
    def size(self) -> torch.Size:
        """The shape as eager gives it."""
        return torch.Size(self.shape)

    @property
    def is_plain(self) -> bool:
        """Whether operators can be propagated through a tensor like this."""
        return self.layout is torch.strided and self.cls in PLAIN_CLASSES

    @property
    def is_sparse(self) -> bool:
        """Whether it is a tensor in coordinate format: shape and dtype are all that is known."""
        return self.layout is torch.sparse_coo and self.cls in PLAIN_CLASSES

    def is_contiguous(self, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
        """Tell what ``Tensor.is_contiguous`` tells."""
        if memory_format is torch.preserve_format:
            raise RuntimeError("preserve memory format is unsupported by the contiguity check")
        if 0 in self.shape and memory_format is torch.contiguous_format:
            return True
        order = _DENSE_ORDERS.get(memory_format, ())
        if memory_format is torch.contiguous_format:
            order = tuple(range(self.ndim - 1, -1, -1))
        elif self.ndim != len(order):
            return False
        expected = 1
        for dim in order:
            if self.shape[dim] != 1:
                if self.stride[dim] != expected:
                    return False
                expected *= self.shape[dim]
        return True


_DENSE_ORDERS = {
    torch.channels_last: (1, 3, 2, 0),
    torch.channels_last_3d: (1, 4, 3, 2, 0),
}


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a freshly allocated tensor of ``shape``."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def meta_of(tensor: torch.Tensor) -> TensorMeta:
    """Read the metadata of a tensor.

    Raises:
        CannotPropagate: for tensors that have no strides in the usual sense and say so (nested).
    """
    if tensor.is_nested:
        raise CannotPropagate("a nested tensor has no single shape")
    layout = tensor.layout
    strided = layout is torch.strided
    requires_grad = tensor.requires_grad
    return TensorMeta(
        tuple(tensor.shape),
        tensor.stride() if strided else (),
        tensor.dtype,
        tensor.device,
        requires_grad,
        layout,
        tensor.is_leaf,
        requires_grad and tensor.grad_fn is not None,
        tensor.is_inference(),
        tensor.is_conj(),
        tensor.is_neg() if strided else False,
        type(tensor),
    )
