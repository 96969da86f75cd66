"""Backward calls through operators whose own code decides which gradients there are."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

AUTOGRAD_CALL = "CAP0018"


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    """The oracle, on each backend that must give eager's bits."""
    check.inner = request.param
    return check


def leaf(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, requires_grad=True)


class Scaled(torch.autograd.Function):
    """Twice the first argument; the second one gets no gradient."""

    @staticmethod
    def forward(ctx, x, y):
        return x * 2 + y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


class Reading(torch.autograd.Function):
    """Its backward looks at the numbers of the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 if grad.sum() > 0 else None


@torch.library.custom_op("capture_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@tripled.register_fake
def _tripled_fake(x):
    return torch.empty_like(x)


tripled.register_autograd(lambda ctx, grad: grad * 3)


def test_function_of_the_program_is_in_a_training_step(check):
    def f(w, x):
        Scaled.apply(w * x, x).sum().backward()
        return w.grad

    report = check(f, (leaf(3), torch.ones(3)), fullgraph=True)
    assert report.graphs == 1


def test_leaf_that_gets_no_gradient_keeps_none(check):
    def f(v, w):
        Scaled.apply(v, w).sum().backward()
        return v.grad, w.grad

    report = check(f, (leaf(3), leaf(3, seed=1)), fullgraph=True)
    assert report.values[0][1] is None


def test_leaf_reached_by_another_way_as_well_gets_that_gradient(check):
    def f(v, w):
        (Scaled.apply(v, w) * w).sum().backward()
        return v.grad, w.grad

    check(f, (leaf(3), leaf(3, seed=1)), fullgraph=True)


def test_backward_that_looks_at_numbers_is_left_to_python(check):
    def f(w):
        (Reading.apply(w) * w).sum().backward()
        return w.grad

    report = check(f, (leaf(3),), (leaf(3, seed=1),))
    assert AUTOGRAD_CALL in report.reasons


def test_custom_operator_is_in_a_training_step(check):
    def f(w):
        tripled(w).sin().sum().backward()
        return w.grad

    assert check(f, (leaf(3),), fullgraph=True).graphs == 1


# --- sparse gradients ---------------------------------------------------------------------------


def embedded(table, places):
    return F.embedding(places, table, sparse=True)


def dense(tensor):
    return tensor.layout, tensor.is_coalesced(), tensor.to_dense()


def test_gradient_of_a_sparse_embedding_is_sparse(check):
    def program(decorate):
        table = leaf(5, 3)

        @decorate
        def step(places):
            embedded(table, places).pow(2).sum().backward()

        step(torch.tensor([1, 2, 1]))
        return dense(table.grad)

    assert check.script(program, fullgraph=True).breaks == []


def test_dense_use_of_the_table_makes_the_gradient_dense(check):
    def program(decorate):
        table = leaf(5, 3)

        @decorate
        def step(places):
            (embedded(table, places).sum() + table.sin().sum()).backward()
            return table.grad

        return step(torch.tensor([1, 2, 1]))

    check.script(program)


def test_sparse_gradient_is_added_to_the_one_there_by_python(check):
    def program(decorate):
        table = leaf(5, 3)

        @decorate
        def step(places):
            embedded(table, places).pow(2).sum().backward()

        for places in ([1, 2], [2, 4], [0, 0]):
            step(torch.tensor(places))
        return dense(table.grad.coalesce())

    assert AUTOGRAD_CALL in check.script(program).reasons


def test_step_of_sparse_adam_is_one_graph_from_the_second_on(check):
    def program(decorate):
        torch.manual_seed(0)
        model = nn.Embedding(5, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)

        @decorate
        def step(places):
            loss = model(places).pow(2).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        losses = [step(torch.tensor([n % 5, 2])) for n in range(5)]
        return losses, model.weight, optimizer.state_dict()

    report = check.script(program, fullgraph=True)
    assert (report.graphs, report.calls) == (2, 5)


def test_sparse_adam_refuses_dense_gradients_as_in_eager(check):
    def f(table):
        optimizer = torch.optim.SparseAdam([table], lr=0.1)
        table.sin().sum().backward()
        try:
            optimizer.step()
        except RuntimeError as error:
            return str(error)

    check(f, (leaf(5, 3),))


def test_metadata_of_a_sparse_input_is_known(check):
    def program(decorate):
        given = torch.eye(3).to_sparse()
        f = decorate(lambda s, x: x + s.shape[0] + s.dim() if s.is_sparse else x * 2)
        x = torch.ones(2)
        return f(given, x), f(given, x), f(given.to_dense(), x), f(given.coalesce(), x)

    assert check.script(program, fullgraph=True).graphs == 2


def test_operators_on_sparse_tensors_are_left_to_python(check):
    def program(decorate):
        given = torch.eye(3).to_sparse()
        f = decorate(lambda s, x: (torch.sparse.mm(s, x) + 1, (s * 2).to_dense(), s @ x))
        x = torch.ones(3, 2)
        return f(given, x), f(given, x)

    assert check.script(program).breaks
