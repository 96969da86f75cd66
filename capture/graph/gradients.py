"""Holds the backward call as a graph runs it: gradients are values, not attributes.

``leaf_gradients`` is the target of a node. It gives what ``backward()`` would put into ``grad``, so
that a backend sees an ordinary call: it can trace it, and drop gradients that nobody keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from capture.graph.tensor_meta import TensorMeta, contiguous_strides

__all__ = ["gradient_meta", "gradients", "is_dense", "leaf_gradients"]


def leaf_gradients(
    outputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None],
    leaves: Sequence[Tensor],
    fresh: Sequence[bool],
    retain_graph: bool,
    watched: Sequence[Tensor] = (),
) -> list[Tensor]:
    """Return the gradient of each leaf, and of each watched tensor on the way there.

    Those that are ``fresh`` are tensors of their own with the strides that eager gives to ``grad``;
    the others are only good for being added to something.
    """
    hooks = [(leaf, leaf._backward_hooks) for leaf in leaves if leaf._backward_hooks]
    try:
        for leaf, _ in hooks:  # what they do is a part of the graph, or of what follows it
            leaf._backward_hooks = None
        found = torch.autograd.grad(
            outputs,
            [*leaves, *watched],
            grad_outputs,
            retain_graph=retain_graph,
            allow_unused=True,
        )
    finally:
        for leaf, own in hooks:
            leaf._backward_hooks = own
    taken = {id(gradient) for gradient in grad_outputs}
    kept = []
    for leaf, gradient, keeps in zip(leaves, found[: len(leaves)], fresh, strict=True):
        if gradient is None:
            raise RuntimeError("a leaf was expected to get a gradient, but got none")
        if keeps and gradient.layout is not torch.strided:
            if id(gradient) in taken or _is_shared(gradient):
                gradient = gradient.clone()
            taken.add(id(gradient))
        elif keeps:
            if id(gradient) in taken or _is_shared(gradient) or not _obeys(gradient, leaf):
                gradient = _obedient_copy(gradient, leaf)
            taken.add(id(gradient))
            if gradient._is_view():
                gradient = gradient.detach()
        kept.append(gradient)
    for gradient in found[len(leaves) :]:
        if gradient is None:
            raise RuntimeError("a tensor was expected to get a gradient, but got none")
        kept.append(gradient.clone() if id(gradient) in taken else gradient)
    return kept


def gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None],
    **options: bool,
) -> Sequence[Tensor | None]:
    """Return what ``torch.autograd.grad`` does."""
    return torch.autograd.grad(outputs, inputs, grad_outputs, allow_unused=True, **options)


# The AOT stage looks for it: histories of tensors may be freed within the graph.
leaf_gradients.capture_backward = True  # type: ignore[attr-defined]
gradients.capture_backward = True  # type: ignore[attr-defined]


def gradient_meta(leaf: TensorMeta, layout: torch.layout = torch.strided) -> TensorMeta:
    """Return the metadata of a leaf's fresh gradient."""
    if layout is not torch.strided:
        return TensorMeta(leaf.shape, (), leaf.dtype, leaf.device, layout=layout)
    dense = is_dense(leaf.shape, leaf.stride)
    stride = leaf.stride if dense else contiguous_strides(leaf.shape)
    return TensorMeta(leaf.shape, stride, leaf.dtype, leaf.device)


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether each place of the memory between first and last element is used just once."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size != 1:
            if size and step != expected:
                return False
            expected *= size
    return True


def _is_shared(gradient: Tensor) -> bool:
    """True if something else than the caller refers to the tensor."""
    if type(gradient) is not Tensor:
        return False  # traced: what the tracer holds does not count
    count: int = gradient._use_count()  # type: ignore[attr-defined]
    return count > 1


def _obeys(gradient: Tensor, leaf: Tensor) -> bool:
    stride = gradient.stride()
    if stride == leaf.stride() and leaf.is_contiguous():
        return True
    if not is_dense(leaf.shape, leaf.stride()):
        return gradient.is_contiguous()
    return all(
        have == want if size != 1 else have != 0
        for have, want, size in zip(stride, leaf.stride(), leaf.shape, strict=True)
    )


def _obedient_copy(gradient: Tensor, leaf: Tensor) -> Tensor:
    if not is_dense(leaf.shape, leaf.stride()):
        return gradient.clone(memory_format=torch.contiguous_format)
    with torch.no_grad():
        copy = gradient.new_empty_strided(leaf.shape, leaf.stride())
        return copy.copy_(gradient)
