"""``torch.autograd.grad`` inside of graphs."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

AUTOGRAD_CALL = "CAP0018"
X = torch.tensor([1.0, -2.0, 3.0])


@pytest.fixture(params=["eager", pytest.param("aot_eager", marks=pytest.mark.slow)])
def check(check, request):
    """The oracle, on each backend that must give eager's bits."""
    check.inner = request.param
    return check


def leaf(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, requires_grad=True)


def in_graph(report, graphs=None):
    assert report.breaks == []
    if graphs is not None:
        assert report.graphs == graphs
    return report


def natively(report):
    assert AUTOGRAD_CALL in report.reasons
    return report


def test_gradients_of_leaves(check):
    def f(w, v, x):
        return torch.autograd.grad((w * v * x).sum(), [w, v])

    in_graph(check(f, (leaf(3), leaf(3, seed=1), X), fullgraph=True), 1)


def test_gradient_of_a_tensor_on_the_way(check):
    def f(w, x):
        y = w * x
        z = y.exp()
        (g,) = torch.autograd.grad(z.sum(), y)
        return g, g.stride(), w.grad

    in_graph(check(f, (leaf(3), X)))


def test_with_gradients_of_the_outputs(check):
    def f(w, x):
        y = w * x
        return torch.autograd.grad([y, y.exp()], w, grad_outputs=[x, x * 2])

    in_graph(check(f, (leaf(3), X)))


def test_unused_inputs(check):
    def f(w, v, x):
        loss = (w * x).sum()
        a, b = torch.autograd.grad(loss, (w, v), allow_unused=True, retain_graph=True)
        c = torch.autograd.grad(loss, (w, v), materialize_grads=True)
        return a, b is None, c

    in_graph(check(f, (leaf(3), leaf(3), X)))


def test_unused_input_that_is_not_allowed_raises(check):
    def f(w, v, x):
        try:
            return torch.autograd.grad((w * x).sum(), (w, v))
        except RuntimeError as error:
            return str(error)

    natively(check(f, (leaf(3), leaf(3), X)))


def test_second_derivative(check):
    def f(w, x):
        (g,) = torch.autograd.grad((w.pow(3) * x).sum(), w, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), w)
        return g.detach(), h

    in_graph(check(f, (leaf(3), X)))


def test_gradient_with_a_history_is_returned(check):
    def f(w, x):
        (g,) = torch.autograd.grad((w.pow(3) * x).sum(), w, create_graph=True)
        return g * 2, g.requires_grad

    in_graph(check(f, (leaf(3), X)))


def test_gradient_penalty_goes_backward(check):
    def script(decorate):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

        @decorate
        def step(x):
            x = x.detach().requires_grad_()
            score = net(x).sum()
            (g,) = torch.autograd.grad(score, x, create_graph=True)
            loss = score + ((g.norm(dim=1) - 1) ** 2).mean()
            loss.backward()
            return loss.detach()

        found = []
        for _ in range(3):
            found.append((step(torch.ones(2, 3)), [p.grad.clone() for p in net.parameters()]))
        return found

    report = check.script(script)
    assert AUTOGRAD_CALL not in report.reasons


def test_unreached_leaf_of_a_gradient_stays_without(check):
    def f(w, b, x):
        y = (w * x).exp().sum() + b
        (g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
        g.sum().backward()
        return w.grad, b.grad

    in_graph(check(f, (leaf(3), leaf(1), X)))


def test_matrix_gradients_have_eagers_strides(check):
    def f(w, x):
        found = torch.autograd.grad(F.linear(x, w).tanh().sum(), [w])
        return found, found[0].stride(), found[0].is_contiguous()

    in_graph(check(f, (leaf(4, 3), torch.ones(5, 3))))


def test_same_gradient_twice_is_one_tensor(check):
    def f(a, b):
        first, second = torch.autograd.grad((a + b).sum(), [a, b])
        return first is second, first + 1

    in_graph(check(f, (leaf(3), leaf(3))))


def test_freed_graph_raises(check):
    def f(w, x):
        loss = (w * x).exp().sum()
        torch.autograd.grad(loss, w)
        try:
            torch.autograd.grad(loss, w)
        except RuntimeError as error:
            return "second time" in str(error)

    natively(check(f, (leaf(3), X)))


def test_written_to_after_it_was_saved_raises(check):
    def f(w, x):
        y = (w * x).exp()
        loss = y.sum()
        y.add_(1)
        try:
            return torch.autograd.grad(loss, w)
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)

    natively(check(f, (leaf(3), X)))


def test_history_from_outside(check):
    def script(decorate):
        @decorate
        def f(y, w):
            return torch.autograd.grad((y * w).sum(), w)

        w = leaf(3)
        return f(w * X, w)

    natively(check.script(script))


def test_mixed_with_backward(check):
    def f(w, x):
        loss = (w * x).exp().sum()
        (g,) = torch.autograd.grad(loss, w, retain_graph=True)
        loss.backward()
        return g, w.grad

    in_graph(check(f, (leaf(3), X)))


def test_no_grad_and_double_precision(check):
    def f(w, x):
        y = (w * x).sin().sum()
        with torch.no_grad():
            return torch.autograd.grad(y, w)[0] * 2

    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    in_graph(check(f, (w, X.double())))


def test_with_regard_to_an_inner_tensor_from_before_a_break(check):
    def f(x):
        y = x * 2
        z = y.sin().sum()
        print("break")
        return torch.autograd.grad(z, y)

    check(f, (torch.ones(3, requires_grad=True),))
