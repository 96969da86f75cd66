"""Hooks of autograd and of modules: whoever runs them, they see and do what they do in eager."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import graph as autograd_graph

X = torch.arange(6.0).reshape(2, 3)


def leaf(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, requires_grad=True)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))


def gradients(module):
    return [p.grad for p in module.parameters()]


# --- hooks of tensors made in the captured code ---------------------------------------------------


def changed_gradient(w):
    y = w * 2
    y.register_hook(lambda grad: grad * 3)
    y.sin().sum().backward()
    return w.grad


def removed_hook(w):
    y = w * 2
    handle = y.register_hook(lambda grad: grad * 3)
    handle.remove()
    y.sin().sum().backward()
    return w.grad


def observing_hook(w):
    seen = []
    y = w * 2
    y.register_hook(lambda grad: seen.append(grad * 3))
    y.sin().sum().backward()
    return w.grad, seen


def retained_gradient(w):
    y = w * 2
    y.retain_grad()
    y.sin().sum().backward()
    return w.grad, y.grad, y.retains_grad


def hook_of_the_function(w):
    seen = []
    y = w * 2
    y.grad_fn.register_hook(lambda *grads: seen.append(len(grads)))
    y.sum().backward()
    return w.grad, seen


def hook_on_several(w):
    seen = []
    a, b = w * 2, w * 3
    handle = autograd_graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))
    (a * b).sum().backward()
    handle.remove()
    return w.grad, seen


def what_autograd_knows(w):
    y = (w * 2).sum()
    return y.grad_fn is not None, y.grad_fn.name(), w.grad_fn, y.is_leaf, y.requires_grad


def hook_on_the_argument(w):
    handle = w.register_hook(lambda grad: grad * 3)
    (w * 2).sin().sum().backward()
    handle.remove()
    return w.grad


@pytest.mark.parametrize(
    "program",
    [
        changed_gradient, removed_hook, observing_hook, retained_gradient, hook_of_the_function,
        hook_on_several, what_autograd_knows, hook_on_the_argument,
    ],
)  # fmt: skip
def test_hooks_of_tensors(check, program):
    check(program, (leaf(3),), (leaf(4),))


def test_hook_of_an_escaping_tensor_runs_in_the_callers_backward(check):
    def f(w):
        y = w * 2
        y.register_hook(lambda grad: grad * 3)
        return y.sin(), y

    check(f, (leaf(3),))


def clamped(w):
    y = w * 2
    y.register_hook(lambda grad: torch.clamp(grad, -0.1, 0.1))
    y.sin().sum().backward()
    return w.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [changed_gradient, clamped])
def test_hook_that_only_computes_is_in_the_graph(check, backend, program):
    check.inner = backend
    assert check(program, (leaf(3),), fullgraph=True).graphs == 1


def test_hook_reads_what_it_refers_to_when_it_runs(check):
    def f(w):
        factor = 2
        y = w * 2
        y.register_hook(lambda grad: grad * factor)
        factor = 5
        y.sum().backward()
        return w.grad

    check(f, (leaf(3),))


def test_hook_reads_attributes_when_it_runs(check):
    def program(decorate):
        class Net(nn.Module):
            scale = 2.0

            def forward(self, w):
                y = w * 2
                y.register_hook(lambda grad: grad * self.scale)
                return y.sum()

        net, w = Net(), leaf(3)
        forward = decorate(net)
        for scale in (3.0, 4.0, 5.0):
            loss = forward(w)
            net.scale = scale
            loss.backward()
        return w.grad

    check.script(program)


# --- hooks that are there before ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hook_of_a_leaf_runs_at_each_step(check, name):
    def program(decorate):
        w, seen = leaf(3), []
        getattr(w, name)(lambda given: seen.append(given.sum().detach()))

        @decorate
        def step(w):
            (w * 2).sin().sum().backward()
            return w.grad.clone()

        return [step(w) for _ in range(3)], seen

    check.script(program)


def test_hook_that_is_added_and_removed_between_calls(check):
    def program(decorate):
        w = leaf(3)

        @decorate
        def step(w):
            w.grad = None
            (w * 2).sin().sum().backward()
            return w.grad.clone()

        found = [step(w)]
        handle = w.register_hook(lambda grad: grad * 10)
        found.append(step(w))
        handle.remove()
        return [*found, step(w)]

    check.script(program)


def test_optimizer_that_steps_within_the_backward(check):
    def program(decorate):
        w = leaf(3)
        optimizer = torch.optim.SGD([w], lr=0.1)

        def hook(p):
            optimizer.step()
            optimizer.zero_grad()

        w.register_post_accumulate_grad_hook(hook)

        @decorate
        def step(w):
            loss = (w * 2).sin().sum()
            loss.backward()
            return loss.detach()

        return [step(w) for _ in range(3)], w

    check.script(program)


# --- saved tensors --------------------------------------------------------------------------------


def test_saved_tensors_hooks_inside(check):
    def f(w):
        seen = []

        def pack(x):
            seen.append(tuple(x.shape))
            return x * 2

        with autograd_graph.saved_tensors_hooks(pack, lambda x: x / 2):
            y = (w.sin() * w).sum()
        return y, seen

    check(f, (leaf(3),))


def test_saved_tensors_hooks_around_the_call(check):
    def program(decorate):
        w, seen = leaf(3), []

        def pack(x):
            seen.append(tuple(x.shape))
            return x

        f = decorate(lambda w: (w.sin() * w).sum())
        f(w).backward()
        with autograd_graph.saved_tensors_hooks(pack, lambda x: x):
            f(w).backward()
        f(w).backward()
        return w.grad, seen

    check.script(program)


@pytest.mark.parametrize(
    "manager",
    [
        autograd_graph.save_on_cpu,
        lambda: autograd_graph.disable_saved_tensors_hooks("not here"),
    ],
)
def test_managers_of_saved_tensors(check, manager):
    def f(w):
        with manager():
            return (w.sin() * w).sum()

    check(f, (leaf(3),))


# --- hooks of modules -----------------------------------------------------------------------------


def _seen(log):
    return lambda module, *given: log.append(
        [None if g is None else g.sum() for part in given for g in part]
    )


@pytest.mark.parametrize("name", ["register_full_backward_hook", "register_full_backward_pre_hook"])
@pytest.mark.parametrize("within", [False, True])
def test_backward_hook_of_a_module(check, name, within):
    def program(decorate):
        net, log = model(), []
        getattr(net[2], name)(_seen(log))
        if within:
            step = decorate(lambda x: net(x).sum().backward())
        else:
            forward = decorate(net)

            def step(x):
                forward(x).sum().backward()

        for _ in range(3):
            step(X)
        return log, gradients(net)

    check.script(program)


def test_backward_hook_that_changes_the_gradient(check):
    def program(decorate):
        net = model()
        net[2].register_full_backward_hook(
            lambda module, given, out: tuple(g if g is None else g * 2 for g in given)
        )
        forward = decorate(net)
        for _ in range(2):
            forward(X).sum().backward()
        return gradients(net)

    check.script(program)


def test_hooks_of_modules_added_between_calls(check):
    def program(decorate):
        net, log = model(), []
        forward = decorate(net)
        found = [forward(X)]
        handles = [
            net[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
            net[0].register_forward_hook(lambda module, args, out: log.append("out") or out * 2),
            net.register_forward_hook(
                lambda module, args, kwargs, out: out + len(kwargs), with_kwargs=True
            ),
        ]
        found.append(forward(X))
        for handle in handles:
            handle.remove()
        return [*found, forward(X)], log

    check.script(program)
