"""The backward call as a graph runs it, beside ``Tensor.backward``."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

from capture.graph.gradients import gradient_meta, is_dense, leaf_gradients
from capture.graph.tensor_meta import meta_of


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def eager(loss, leaves, gradient=None):
    loss.backward(gradient, retain_graph=True)
    return [each.grad for each in leaves]


def test_gradients_are_those_of_backward():
    leaves = [leaf(3, 4), leaf(4)]
    loss = (leaves[0] * leaves[1]).sin().sum()
    expected = eager(loss, leaves)
    found = leaf_gradients([loss], [None], leaves, [True, True], False)
    for have, want in zip(found, expected, strict=True):
        assert torch.equal(have, want)
        assert have.stride() == want.stride()
        assert not have.requires_grad


def test_fresh_gradients_are_tensors_of_their_own():
    a, b = leaf(3), leaf(3)
    first, second = leaf_gradients([(a + b).sum()], [None], [a, b], [True, True], False)
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


def test_gradient_that_was_given_is_copied():
    a, given = leaf(3), torch.ones(3)
    (found,) = leaf_gradients([a], [given], [a], [True], False)
    assert found is not given
    assert torch.equal(found, given)


@pytest.mark.parametrize(
    "make",
    [
        lambda: leaf(3, 4),
        lambda: torch.randn(4, 3).t().requires_grad_(),
        lambda: torch.randn(1, 4).expand(3, 4).requires_grad_(),
        lambda: torch.randn(6, 4)[::2].requires_grad_(),
        lambda: leaf(3, 1),
        lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_(),
    ],
)
@pytest.mark.parametrize("op", [torch.sum, lambda a: (a.mT * 2).exp().sum()])
def test_strides_follow_the_leaf(make, op):
    a = make()
    loss = op(a)
    (expected,) = eager(loss, [a])
    (found,) = leaf_gradients([loss], [None], [a], [True], False)
    assert found.stride() == expected.stride()
    assert torch.equal(found, expected)
    strides = zip(found.shape, found.stride(), gradient_meta(meta_of(a)).stride, strict=True)
    assert all(have == told for size, have, told in strides if size != 1)


def test_graph_is_freed_unless_it_is_retained():
    a = leaf(3)
    loss = a.exp().sum()
    leaf_gradients([loss], [None], [a], [True], True)
    leaf_gradients([loss], [None], [a], [True], False)
    with pytest.raises(RuntimeError, match="second time"):
        leaf_gradients([loss], [None], [a], [True], False)


def test_missing_gradient_is_an_error():
    a, b = leaf(3), leaf(3)
    with pytest.raises(RuntimeError, match="got none"):
        leaf_gradients([a.sum()], [None], [a, b], [True, True], False)


def test_dense_means_without_holes_and_overlaps():
    assert is_dense((3, 4), (4, 1))
    assert is_dense((3, 4), (1, 3))
    assert is_dense((3, 1), (1, 7))
    assert not is_dense((3, 4), (8, 1))
    assert not is_dense((3, 4), (0, 1))
