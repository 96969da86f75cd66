"""Tests of what is read off a tensor."""

from __future__ import annotations

import pytest
import torch

from capture.graph import CannotPropagate, meta_of
from capture.graph.tensor_meta import contiguous_strides

TENSORS = [
    torch.zeros(()),
    torch.zeros(0, 3),
    torch.zeros(2, 3),
    torch.zeros(2, 3).t(),
    torch.zeros(2, 3, 4, 5),
    torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    torch.zeros(2, 1, 4, 5).contiguous(memory_format=torch.channels_last),
    torch.zeros(2, 3, 1, 1),
    torch.zeros(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d),
    torch.zeros(3, 1).expand(3, 4),
    torch.zeros(6, 4)[::2],
    torch.zeros(0, 3, 4, 5),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{list(t.shape)}{list(t.stride())}")
def test_contiguity_is_eagers(tensor: torch.Tensor) -> None:
    meta = meta_of(tensor)
    formats = [torch.contiguous_format, torch.channels_last, torch.channels_last_3d]
    for memory_format in formats:
        expected = tensor.is_contiguous(memory_format=memory_format)
        assert meta.is_contiguous(memory_format) == expected, memory_format


def test_sizes() -> None:
    meta = meta_of(torch.zeros(2, 3))
    assert (meta.ndim, meta.numel, meta.size) == (2, 6, torch.Size([2, 3]))
    assert contiguous_strides((2, 0, 3)) == torch.zeros(2, 0, 3).stride()


def test_place_in_autograd() -> None:
    leaf = torch.zeros(2, requires_grad=True)
    meta = meta_of(leaf * 2)
    assert (meta.requires_grad, meta.is_leaf, meta.has_grad_fn) == (True, False, True)
    meta = meta_of(leaf)
    assert (meta.requires_grad, meta.is_leaf, meta.has_grad_fn) == (True, True, False)
    assert meta_of(torch.nn.Parameter(leaf)).cls is torch.nn.Parameter


def test_bits_and_inference() -> None:
    value = torch.zeros(2, dtype=torch.complex64)
    assert meta_of(value.conj()).is_conj
    assert meta_of(value.conj().imag).is_neg
    with torch.inference_mode():
        assert meta_of(torch.zeros(2)).is_inference


def test_sparse_has_no_strides() -> None:
    meta = meta_of(torch.eye(2).to_sparse())
    assert meta.stride == ()
    assert not meta.is_plain


def test_equal_metas_hash_alike() -> None:
    left, right = meta_of(torch.zeros(2)), meta_of(torch.ones(2))
    assert left == right
    assert hash(left) == hash(right)
    assert left != meta_of(torch.zeros(2, dtype=torch.float64))


def test_nested_steps_aside() -> None:
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    with pytest.raises(CannotPropagate):
        meta_of(nested)
