"""Backward calls inside of graphs: what becomes of ``grad``, of the freed graph, of errors."""

# mypy: ignore-errors
# ruff: noqa: E731

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

AUTOGRAD_CALL = "CAP0018"
FREED = "Trying to backward through the graph a second time"


@pytest.fixture(params=["eager", pytest.param("aot_eager", marks=pytest.mark.slow)])
def check(check, request):
    """The oracle, on each backend that must give eager's bits."""
    check.inner = request.param
    return check


def leaf(*shape, grad=None, seed=0):
    torch.manual_seed(seed)
    made = torch.randn(*shape, requires_grad=True)
    if grad is not None:
        made.grad = torch.full_like(made, float(grad))
    return made


X = torch.tensor([1.0, -2.0, 3.0])


def in_graph(report, graphs=None):
    assert report.breaks == []
    if graphs is not None:
        assert report.graphs == graphs
    return report


def natively(report):
    assert AUTOGRAD_CALL in report.reasons
    return report


# --- what becomes of grad ------------------------------------------------------------------------


def test_gradient_is_set(check):
    def f(w, x):
        (w * x).sum().backward()
        return w.grad

    in_graph(check(f, (leaf(3), X), fullgraph=True), 1)


def test_gradient_is_added_in_place_to_the_one_there(check):
    def f(w, x):
        before = w.grad
        (w * x).sum().backward()
        return w.grad is before, w.grad

    in_graph(check(f, (leaf(3, grad=2), X), (leaf(3), X), fullgraph=True), 2)


def test_gradients_of_several_calls_add_up(check):
    def f(w, x):
        for factor in range(3):
            (w * x * factor).sum().backward()
        return w.grad

    in_graph(check(f, (leaf(3), X), (leaf(3, grad=1), X)), 2)


def test_gradient_is_read_changed_and_dropped_in_the_graph(check):
    def f(w, x):
        (w * x).exp().sum().backward()
        w.grad.clamp_(max=0.5)
        kept = w.grad * 2
        w.grad = None
        return kept

    in_graph(check(f, (leaf(3), X), (leaf(3, grad=1), X)))


def test_leaves_that_are_not_reached_keep_their_grad(check):
    def f(w, v, x):
        y = v * x
        (w * x).sum().backward()
        return y.detach(), v.grad, w.grad

    in_graph(check(f, (leaf(3), leaf(3), X), (leaf(3), leaf(3, grad=1), X), backward=False))


def test_detached_and_frozen_parts_get_nothing(check):
    def f(w, v, x):
        with torch.no_grad():
            a = v * x
        (w * a + v.detach() * w).sum().backward()
        return w.grad, v.grad

    in_graph(check(f, (leaf(3), leaf(3), X), (leaf(3), torch.ones(3), X)))


def test_one_gradient_for_two_leaves_is_two_tensors(check):
    def f(a, b):
        (a + b).sum().backward()
        return a.grad is b.grad, a.grad.add_(1), b.grad

    in_graph(check(f, (leaf(3), leaf(3, seed=1))))


def test_gradient_has_the_strides_of_its_leaf(check):
    def f(w, x):
        (w.t() @ x).sum().backward()
        return w.grad, w.grad.stride()

    for w in (leaf(3, 4), leaf(4, 3).detach().t().requires_grad_()):
        in_graph(check(f, (w, torch.ones(3, 2))))


def test_gradient_of_an_expanded_leaf(check):
    w = torch.ones(1, 3).expand(4, 3).requires_grad_()
    in_graph(check(lambda w, x: ((w * x).sum().backward(), w.grad)[1], (w, X)))


def test_gradient_that_is_given(check):
    def f(w, x, g):
        (w * x).backward(g)
        return w.grad, g

    in_graph(check(f, (leaf(3), X, X * 2)))


def test_gradient_that_is_given_to_a_leaf_itself_is_copied(check):
    def f(w, g):
        w.backward(g)
        g.add_(1)
        return w.grad, g

    in_graph(check(f, (leaf(3), X)))


def test_inputs_choose_the_leaves(check):
    def f(w, v, x):
        (w * v * x).sum().backward(inputs=[w])
        return w.grad, v.grad

    in_graph(check(f, (leaf(3), leaf(3), X)))


def test_several_losses_in_one_call(check):
    def f(w, v, x):
        torch.autograd.backward([(w * x).sum(), v * x], [None, x])
        return w.grad, v.grad

    in_graph(check(f, (leaf(3), leaf(3), X)))


def test_two_losses_share_what_is_kept(check):
    def f(w, x):
        y = (w * x).tanh()
        y.sum().backward(retain_graph=True)
        (y * y).sum().backward()
        return w.grad

    in_graph(check(f, (leaf(3), X)))


def test_leaf_made_in_the_graph(check):
    def f(x):
        w = (x * 2).requires_grad_()
        (w * x).sum().backward()
        return w, w.grad

    in_graph(check(f, (X,), backward=False))


def test_leaf_reached_by_two_names(check):
    def f(w, v, x):
        (w * v * x).sum().backward()
        return w.grad, v.grad

    w = leaf(3)
    assert in_graph(check(f, (w, w, X), (leaf(3), leaf(3), X))).graphs == 2


def test_in_place_operators_on_the_way(check):
    def f(w, v, x):
        y = w * x
        y.mul_(v)
        y[0] = v[1] * 3
        y.relu_().sum().backward()
        return w.grad, v.grad

    in_graph(check(f, (leaf(3), leaf(3, seed=3), X)))


def test_views_written_to_on_the_way(check):
    def f(w, v, x):
        y = (w * x).reshape(3, 1)
        y.select(1, 0).add_(v)
        (y * y).sum().backward()
        return w.grad, v.grad

    in_graph(check(f, (leaf(3), leaf(3, seed=3), X)))


def test_base_that_a_view_was_written_through(check):
    def f(w, x):
        y = x * 2
        y[1:].mul_(w[1:])
        y.sum().backward()
        return w.grad

    in_graph(check(f, (leaf(3), X)))


def test_under_no_grad(check):
    def f(w, x):
        loss = (w * x).sum()
        with torch.no_grad():
            loss.backward()
            w -= w.grad
        return w.grad

    in_graph(check(f, (leaf(3), X)))


def test_under_autocast(check):
    def f(w, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = F.linear(x, w)
            loss = y.float().square().mean()
        loss.backward()
        return loss.detach(), w.grad

    in_graph(check(f, (leaf(2, 3), torch.ones(4, 3))))


def test_dropout_draws_what_eager_draws(check):
    def f(w, x):
        for _ in range(2):
            F.dropout(w * x, 0.5).sum().backward()
        return w.grad, torch.rand(2)

    in_graph(check(f, (leaf(3), X)))


def test_double_precision_and_half(check):
    for dtype in (torch.float64, torch.bfloat16):
        w = torch.ones(3, dtype=dtype, requires_grad=True)
        in_graph(check(lambda w, x: ((w * x).sum().backward(), w.grad)[1], (w, X.to(dtype))))


def test_integer_inputs_and_embedding(check):
    def f(table, index):
        F.embedding(index, table).square().sum().backward()
        return table.grad

    in_graph(check(f, (leaf(5, 3), torch.tensor([1, 1, 4]))))


# --- the graph behind the loss -------------------------------------------------------------------


def test_loss_that_is_returned_has_a_freed_graph(check):
    def script(decorate):
        @decorate
        def f(w, x):
            loss = (w * x).exp().sum()
            loss.backward()
            return loss

        w = leaf(3)
        loss = f(w, X)
        with pytest.raises(RuntimeError, match=FREED):
            loss.backward()
        return loss, loss.requires_grad, loss.grad_fn is None, w.grad

    in_graph(check.script(script))


def test_loss_whose_graph_is_kept_can_go_backward_again(check):
    def script(decorate):
        @decorate
        def f(w, x):
            loss = (w * x).exp().sum()
            loss.backward(retain_graph=True)
            return loss

        w = leaf(3)
        f(w, X).backward()
        return w.grad

    in_graph(check.script(script))


def test_second_call_without_retaining_raises_as_in_eager(check):
    def f(w, x):
        loss = (w * x).exp().sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return FREED in str(error), w.grad

    natively(check(f, (leaf(3), X)))


def test_saved_tensor_that_was_written_to_raises_as_in_eager(check):
    def f(w, x):
        y = (w * x).exp()
        loss = y.sum()
        y.add_(1)
        loss.backward()
        return w.grad

    check(f, (leaf(3), X))


def test_second_loss_behind_an_update_of_what_the_first_saved(check):
    def f(w, v, x, state):
        first = (w * x).exp().sum() + (v * w).sum()
        first.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        state["steps"] = state.get("steps", 0) + 1
        w.grad = None
        second = (w * x).exp().sum()
        second.backward()
        return w.grad, v.grad

    in_graph(check(f, (leaf(3), leaf(3, seed=1), X, {})), 1)


def test_kept_loss_whose_tensors_were_updated_raises_as_in_eager(check):
    def f(w, v, x, state):
        first = (w * x).exp().sum()
        second = (v * w * w).sum()
        first.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        state["steps"] = 1
        second.backward()
        return w.grad, v.grad

    check(f, (leaf(3), leaf(3, seed=1), X, {}))


def test_in_place_operators_result_that_was_written_to_raises_as_in_eager(check):
    def f(w, x):
        y = torch.zeros(3)
        y.add_(w).exp_()
        loss = y.sum()
        with torch.no_grad():
            y.mul_(2)
        loss.backward()
        return w.grad

    check(f, (leaf(3), X))


def test_activations_are_freed_after_the_call(check):
    sizes = []

    def f(w, x):
        y = (w * x).exp()
        sizes.append(weakref.ref(y))
        y.sum().backward()
        del y
        return w.grad

    compiled = __import__("capture").compile(f, backend="eager")
    for _ in range(3):
        compiled(leaf(3), X)
    gc.collect()
    assert all(each() is None for each in sizes)


# --- errors and what is left to Python -----------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        lambda w, x: w * x,  # several elements
        lambda w, x: (x * 2).sum(),  # requires no grad
        lambda w, x: (w * x).sum().detach(),
    ],
)
def test_errors_are_those_of_eager(check, loss):
    def f(w, x):
        try:
            loss(w, x).backward()
        except RuntimeError as error:
            return str(error), w.grad

    check(f, (leaf(3), X))


def test_uncaught_error_leaves_what_was_done_before(check):
    def f(w, x):
        (w * x).sum().backward()
        (w * x).backward()

    check(f, (leaf(3), X))


def test_loss_from_outside(check):
    def script(decorate):
        @decorate
        def f(loss, x):
            (loss * 2).backward()
            return x + 1

        w = leaf(3)
        return f((w * X).sum(), X), w.grad

    natively(check.script(script))


def test_tensor_hooks_of_leaves_run(check):
    def script(decorate):
        seen = []

        @decorate
        def f(w, x):
            (w * x).sum().backward()
            return w.grad * 1

        w = leaf(3)
        found = [f(w, X)]
        handle = w.register_hook(lambda g: seen.append(g.clone()) or g * 2)
        found.append(f(w, X))
        handle.remove()
        found.append(f(w, X))
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        found.append(f(w, X))
        return found, seen

    in_graph(check.script(script), 4)


def test_hooks_of_tensors_on_the_way_run(check):
    def f(w, x):
        y = w * x
        seen = []
        y.register_hook(lambda g: seen.append(g.clone()) or g * 3)
        y.sum().backward()
        return seen, w.grad

    check(f, (leaf(3), X))


def test_retained_gradient_on_the_way(check):
    def f(w, x):
        y = w * x
        y.retain_grad()
        y.square().sum().backward()
        return y.grad, w.grad

    check(f, (leaf(3), X), backward=False)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_create_graph(check):
    def f(w, x):
        (w * w * x).sum().backward(create_graph=True)
        g, w.grad = w.grad, None
        (g * g).sum().backward()
        return w.grad

    check(f, (leaf(3), X))


def test_custom_function_on_the_way(check):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 5

    def f(w, x):
        Double.apply(w * x).sum().backward()
        return w.grad

    check(f, (leaf(3), X))


def test_sparse_gradient(check):
    def f(table, index):
        F.embedding(index, table, sparse=True).sum().backward()
        gradient, table.grad = table.grad, None
        return gradient.to_dense()

    report = check(f, (leaf(5, 3), torch.tensor([1, 1, 4])))
    assert AUTOGRAD_CALL not in report.reasons


def test_one_tensor_as_the_grad_of_two_leaves(check):
    def f(w, v, x):
        (w * v * x).sum().backward()
        return w.grad

    w, v = leaf(3), leaf(3, seed=1)
    w.grad = v.grad = torch.ones(3)
    natively(check(f, (w, v, X)))


def test_checkpointed_part(check):
    from torch.utils.checkpoint import checkpoint

    def f(w, x):
        checkpoint(lambda a: (a * x).tanh(), w, use_reentrant=False).sum().backward()
        return w.grad

    check(f, (leaf(3), X))


def test_break_before_and_behind(check):
    def f(w, x):
        y = w * x
        print(y.sum().item())
        loss = y.square().sum()
        loss.backward()
        print(w.grad)
        return w.grad * 2

    check(f, (leaf(3), X))


def test_break_behind(check):
    def f(w, x):
        loss = (w * x).square().sum()
        loss.backward()
        print(w.grad, loss.item())
        w.grad.zero_()
        return w.grad * 2

    report = check(f, (leaf(3), X), (leaf(3, grad=1), X))
    assert AUTOGRAD_CALL not in report.reasons


def test_inside_a_try_block(check):
    def f(w, x, index):
        try:
            loss = (w[index] * x[index]).sum()
            loss.backward()
        except IndexError:
            return "out of range", w.grad
        return w.grad

    check(f, (leaf(3), X, torch.tensor([0, 1])), (leaf(3), X, torch.tensor([7])))


def test_error_in_the_graph_leaves_zeroed_gradients_and_statistics(check):
    def script(decorate):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 5))

        @decorate
        def step(x, y):
            module.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            return loss.detach()

        x = torch.randn(3, 3)
        found = [step(x, torch.tensor([0, 1, 2])) for _ in range(3)]
        with pytest.raises(IndexError):
            step(x, torch.tensor([0, 1, 77]))
        if check.inner != "eager":  # the others write inputs back when all has gone well
            return found, [p.grad for p in module.parameters()]
        return found, [p.grad for p in module.parameters()], module[1].running_mean, module

    in_graph(check.script(script), 2)
