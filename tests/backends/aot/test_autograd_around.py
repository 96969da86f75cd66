"""Autograd around graphs of the AOT stage: tangents, hooks, repeated backwards, random numbers."""

# mypy: ignore-errors

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
import torch.utils.checkpoint
from torch import nn


@pytest.fixture
def same(check):
    check.inner = "aot_eager"
    return check.script


class Heads(nn.Module):
    """Three outputs, each with parameters of its own."""

    def __init__(self):
        super().__init__()
        self.body, self.pool, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.body(x)
        return h, torch.tanh(self.pool(h)), self.head(h)


def gradients(module):
    return {name: p.grad for name, p in module.named_parameters()}


# -- tangents --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)], ids=["static", "symbolic"])
@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradient_of_what_is_not_used_is_none(same, used, sizes):
    def program(decorate):
        torch.manual_seed(0)
        module = Heads()
        called = decorate(module)
        seen = []
        for n in sizes:
            module.zero_grad()
            outputs = called(torch.randn(n, 4))
            sum(outputs[i].pow(2).sum() for i in used).backward()
            seen.append(
                {name: None if g is None else g.clone() for name, g in gradients(module).items()}
            )
        return seen

    same(program)


def test_gradient_of_what_is_not_used_is_none_in_a_double_backward(same):
    def program(decorate):
        torch.manual_seed(0)
        module = Heads()
        x = torch.randn(2, 4, requires_grad=True)
        outputs = decorate(module)(x)
        (gradient,) = torch.autograd.grad(outputs[0].pow(2).sum(), x, create_graph=True)
        gradient.sum().backward()
        return gradient, gradients(module)

    same(program)


TANGENTS = {
    "expanded": lambda y: y.sum(),
    "transposed": lambda y: (y.t() * torch.arange(12.0).reshape(4, 3)).sum(),
    "strided": lambda y: (y[::2, ::2] ** 2).sum(),
    "sparse in effect": lambda y: y[0, 1] * 3,
    "through two views": lambda y: (y.view(-1)[1:] * y.t().reshape(-1)[:-1]).sum(),
}


@pytest.mark.parametrize("loss", TANGENTS.values(), ids=list(TANGENTS))
def test_tangents_of_any_geometry(same, loss):
    def program(decorate):
        @decorate
        def f(x, w):
            return x @ w, (x * 2).sum()

        x = torch.arange(6.0).reshape(3, 2).requires_grad_()
        w = torch.arange(8.0).reshape(2, 4).requires_grad_()
        seen = []
        for _ in range(2):
            y, _ = f(x, w)
            loss(y).backward()
            seen += [x.grad.clone(), w.grad.clone(), x.grad.stride(), w.grad.stride()]
        return seen

    same(program)


# -- what requires grad ----------------------------------------------------------------------------


def test_outputs_without_a_gradient(same):
    def program(decorate):
        @decorate
        def f(x):
            with torch.no_grad():
                quiet = x * 3
            values, where = x.max(0)
            return quiet, values, where, x.detach() + 1, x > 1, (x * 2).long()

        x = torch.arange(6.0).reshape(3, 2).requires_grad_()
        outputs = f(x)
        outputs[1].sum().backward()
        return outputs, [o.requires_grad for o in outputs], [o.is_leaf for o in outputs], x.grad

    same(program)


def test_the_same_function_with_and_without_gradients(same):
    def program(decorate):
        @decorate
        def f(x, w):
            return (x * w).tanh()

        x, w = torch.arange(3.0), torch.ones(3)
        seen = []
        for needs_x, needs_w in ((False, False), (True, False), (False, True), (True, True)):
            a, b = x.clone().requires_grad_(needs_x), w.clone().requires_grad_(needs_w)
            y = f(a, b)
            with torch.no_grad():
                seen.append(f(a, b).requires_grad)
            with torch.inference_mode():
                seen.append(f(a, b).is_inference())
            if y.requires_grad:
                y.sum().backward()
            seen += [y, y.requires_grad, a.grad, b.grad]
        return seen

    same(program)


# -- backward, again -------------------------------------------------------------------------------


def make(decorate):
    @decorate
    def f(x, w):
        return (torch.sin(x @ w) * x.sum()).sum()

    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    w = torch.arange(8.0).reshape(2, 4).requires_grad_()
    return f(x, w), x, w


def test_retained_graph_goes_backward_again(same):
    def program(decorate):
        loss, x, w = make(decorate)
        loss.backward(retain_graph=True)
        first = x.grad.clone()
        loss.backward()
        return first, x.grad, w.grad

    same(program)


def test_second_backward_is_eagers_error(same):
    def program(decorate):
        loss, x, _ = make(decorate)
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return "backward through the graph a second time" in str(error), x.grad

    same(program)


def test_gradients_of_some_inputs(same):
    def program(decorate):
        loss, x, w = make(decorate)
        (only,) = torch.autograd.grad(loss, w, retain_graph=True)
        loss.backward(inputs=[x])
        return only, x.grad, w.grad

    same(program)


def test_backward_in_another_thread(same):
    def program(decorate):
        loss, x, w = make(decorate)
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
        return x.grad, w.grad

    same(program)


def test_several_calls_share_one_backward(same):
    def program(decorate):
        @decorate
        def f(x, w):
            return torch.relu(x @ w)

        w = torch.arange(4.0).reshape(2, 2).requires_grad_()
        x = torch.ones(3, 2)
        for _ in range(3):
            x = f(x, w) / 3
        x.sum().backward()
        return x, w.grad

    same(program)


def test_input_that_was_written_to_before_the_backward(same):
    """What eager refuses is refused; a graph that does not need the old value may go on."""

    def program(decorate):
        @decorate
        def f(x):
            return x * x

        x = torch.ones(3, requires_grad=True)
        y = x * 2
        out = f(y)
        y.add_(1)
        try:
            out.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)
        return x.grad

    same(program)


# -- hooks -----------------------------------------------------------------------------------------


def test_hooks_on_inputs_and_outputs(same):
    def program(decorate):
        @decorate
        def f(x):
            return (x * 3).tanh()

        seen = []
        leaf = torch.arange(3.0, requires_grad=True)
        leaf.register_hook(lambda g: g * 2)
        leaf.register_post_accumulate_grad_hook(lambda t: seen.append(("leaf", t.grad.clone())))
        x = leaf + 1
        x.register_hook(lambda g: seen.append(("input", g.clone())))
        x.retain_grad()
        y = f(x)
        y.retain_grad()
        y.register_hook(lambda g: g.clamp(max=0.5))
        y.sum().backward()
        return seen, x.grad, y.grad, leaf.grad

    same(program)


def test_hooks_of_saved_tensors_around_a_call(same):
    def program(decorate):
        @decorate
        def f(x, w):
            return (x @ w).sin()

        x = torch.arange(4.0).reshape(2, 2).requires_grad_()
        w = torch.ones(2, 2, requires_grad=True)
        f(x, w).sum().backward()
        seen = []

        def pack(tensor):
            seen.append(tuple(tensor.shape))
            return tensor.clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = f(x, w)
        y.sum().backward()
        with torch.autograd.graph.save_on_cpu():
            f(x, w).sum().backward()
        return seen, x.grad, w.grad

    same(program)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_around_a_compiled_part(same, reentrant):
    def program(decorate):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
        called = decorate(module)
        x = torch.randn(3, 4, requires_grad=True)
        for _ in range(2):
            y = torch.utils.checkpoint.checkpoint(called, x, use_reentrant=reentrant)
            y.pow(2).sum().backward()
        return y, x.grad, gradients(module)

    same(program)


def test_hooks_of_modules(same):
    def program(decorate):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        seen = []
        module[0].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].clone()))
        module[1].register_forward_hook(lambda m, a, out: out * 2)
        called = decorate(module)
        for _ in range(2):
            called(torch.ones(2, 3, requires_grad=True)).sum().backward()
        return seen, gradients(module)

    same(program)


# -- random numbers, memory, precision -------------------------------------------------------------


def test_random_numbers_go_on_as_in_eager(same):
    def program(decorate):
        @decorate
        def f(x):
            return torch.dropout(x, 0.5, True) + torch.rand_like(x) + torch.randn(3)

        seen = []
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            y = f(x)
            y.sum().backward()
            seen += [y, x.grad, torch.rand(2), torch.get_rng_state()]
        return seen

    same(program)


def test_what_was_saved_is_freed_by_the_backward(same):
    def program(decorate):
        @decorate
        def f(x):
            return (x.sin().exp() * 2).sum()

        x = torch.ones(3, requires_grad=True)
        f(x).backward()
        y = x * 2
        alive = weakref.ref(y)
        loss = f(y)
        del y
        loss.backward()
        gc.collect()
        return alive() is None

    same(program)


def test_autocast_around_and_inside(same):
    def program(decorate):
        @decorate
        def f(x, w):
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ w
            return y, x @ w

        x = torch.arange(4.0).reshape(2, 2).requires_grad_()
        w = torch.ones(2, 2, requires_grad=True)
        seen = []
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                y, z = f(x, w)
            (y.float().sum() + z.float().sum()).backward()
            seen += [y, z, x.grad.clone(), w.grad.clone()]
        return seen

    same(program)
