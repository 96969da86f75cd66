"""Which arguments an operator's result hangs on, read from autograd's graph."""

# mypy: ignore-errors

from __future__ import annotations

import torch
import torch.nn.functional as F

from capture.graph.links import MAYBE, UNKNOWN, Links


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def test_all_arguments_that_are_differentiated():
    a, b, c = leaf(2), torch.ones(2), leaf(2)
    assert Links([a, b, c]).of(a * b + c) == (0, 2)


def test_inner_tensors_end_the_walk():
    a = leaf(2)
    inner = a * 2
    assert Links([a, inner]).of(inner + 1) == (1,)


def test_result_without_history_hangs_on_nothing():
    a = leaf(2)
    links = Links([a])
    assert links.of(a.detach()) == ()
    assert links.of(torch.zeros(2, requires_grad=True)) == ()


def test_each_of_several_results_has_its_own():
    a, b = leaf(2), leaf(2)
    links = Links([a, b])
    first, second = a * 2, b * 2
    assert links.of(first) == (0,)
    assert links.of(second) == (1,)


def test_tensor_written_to_hangs_on_itself_and_the_other():
    a, b = leaf(2), leaf(2)
    inner = a * 2
    links = Links([inner, b])
    inner.mul_(b)
    assert links.of(inner) == (0, 1)


def test_leaf_that_was_not_given_is_unknown():
    a, other = leaf(2), leaf(2)
    assert Links([a]).of(a * other) == (UNKNOWN, 0)


def test_backward_in_python_and_sparse_gradients_are_told_by_a_run():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    a, table = leaf(2), leaf(3, 2)
    assert MAYBE in Links([a]).of(Same.apply(a))
    index = torch.tensor([1])
    assert Links([table]).of(F.embedding(index, table)) == (0,)
    assert MAYBE in Links([table]).of(F.embedding(index, table, sparse=True))
