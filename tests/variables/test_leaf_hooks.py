"""Hooks on leaves in a captured backward call: in the graph, in eager's order and values."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

X = torch.arange(12.0).reshape(3, 4) / 10


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    check.inner = request.param
    return check


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def grads(net):
    return [p.grad for p in net.parameters()]


def training(net, optimizer, decorate, steps=3, seen=None):
    @decorate
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step(X + i) for i in range(steps)]
    return losses, list(net.parameters()), grads(net), seen


def whole(check, program, graphs=2):
    """Check a program whose steps must be captured whole."""
    report = check.script(program)
    assert (report.graphs, report.breaks) == (graphs, [])


def test_hooks_change_gradients(check):
    def program(decorate):
        net = model()
        for p in net.parameters():
            p.register_hook(lambda g: g.clamp(-0.01, 0.01))
            p.register_hook(lambda g: g * 2)
        return training(net, torch.optim.SGD(net.parameters(), lr=0.1), decorate)

    whole(check, program)


def test_hooks_run_as_gradients_arrive(check):
    def program(decorate):
        net, seen = model(), []
        for name, p in net.named_parameters():
            p.register_hook(lambda g, name=name: seen.append((name, g.sum())))
            p.register_post_accumulate_grad_hook(
                lambda p, name=name: seen.append((name, p.grad.norm()))
            )
        return training(net, torch.optim.SGD(net.parameters(), lr=0.1), decorate, seen=seen)

    whole(check, program)


def test_gradient_that_a_hook_keeps_is_not_the_leafs(check):
    def program(decorate):
        net, kept = model(), []
        net[0].weight.register_hook(lambda g: kept.append(g))

        @decorate
        def step(x):
            net.zero_grad(set_to_none=False)
            net(x).sum().backward()

        for i in range(3):
            step(X + i)
        return kept, grads(net)

    check.script(program)


def test_optimizers_step_within_the_backward(check):
    def program(decorate):
        net = model()
        optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in net.parameters()}

        def hook(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in net.parameters():
            p.register_post_accumulate_grad_hook(hook)

        @decorate
        def step(x):
            loss = net(x).square().mean()
            loss.backward()
            return loss.detach()

        losses = [step(X + i) for i in range(3)]
        return losses, list(net.parameters()), [o.state_dict() for o in optimizers.values()]

    whole(check, program)


def test_hook_replaces_grad(check):
    def program(decorate):
        net = model()

        def hook(p):
            p.grad = p.grad.sign() * p.grad.abs().mean()

        for p in net.parameters():
            p.register_post_accumulate_grad_hook(hook)
        return training(net, torch.optim.AdamW(net.parameters()), decorate)

    whole(check, program)


def test_hooks_of_a_shared_leaf_see_the_sum(check):
    def program(decorate):
        table = nn.Embedding(5, 4)
        table.weight.register_hook(lambda g: g * 3)

        @decorate
        def step(places):
            F.cross_entropy(table(places) @ table.weight.t(), places).backward()

        torch.manual_seed(0)
        nn.init.normal_(table.weight)
        for _ in range(2):
            step(torch.tensor([1, 2, 2]))
        return table.weight.grad

    whole(check, program)


def test_hooks_of_several_backward_calls(check):
    def program(decorate):
        net, norms = model(), []
        net[2].bias.register_hook(lambda g: g / 2)
        net[2].bias.register_post_accumulate_grad_hook(lambda p: norms.append(p.grad.norm()))

        @decorate
        def step(x):
            for part in x.split(1):
                net(part).sum().backward()

        step(X)
        step(X + 1)
        return grads(net), norms

    check.script(program)


def test_only_hooks_of_chosen_inputs_run(check):
    def program(decorate):
        net, seen = model(), {}
        for name, p in net.named_parameters():
            p.register_hook(lambda g, name=name: seen.__setitem__(name, g.sum()))

        @decorate
        def step(x):
            net(x).sum().backward(inputs=[net[0].weight, net[2].bias])

        step(X)
        return seen, grads(net)

    whole(check, program, 1)


def test_gradients_behind_hooks_have_the_leafs_strides(check):
    def program(decorate):
        w = nn.Parameter(torch.arange(8.0).reshape(2, 4).t())
        v = nn.Parameter(torch.ones(4)[::2])
        for p in (w, v):
            p.register_hook(lambda g: g + 1)

        @decorate
        def step(x):
            (x @ w + v).square().sum().backward()

        step(X)
        return w.grad, v.grad

    whole(check, program, 1)


def test_hooks_run_without_grad_mode(check):
    def program(decorate):
        net, modes = model(), []
        net[0].weight.register_hook(lambda g: modes.append(torch.is_grad_enabled()))

        @decorate
        def step(x):
            net(x).sum().backward()
            modes.append(torch.is_grad_enabled())

        step(X)
        return modes

    whole(check, program, 1)


def test_hook_that_removes_itself(check):
    def program(decorate):
        net, seen = model(), []

        def hook(g):
            seen.append(g.sum())
            handle.remove()

        handle = net[0].weight.register_hook(hook)
        return training(net, torch.optim.SGD(net.parameters(), lr=0.1), decorate, seen=seen)

    check.script(program)


@pytest.mark.parametrize(
    "hook", [lambda g: g.sum(), lambda g: 1, lambda g: g.double(), lambda g: {}["missing"]]
)
def test_what_eager_refuses_of_hooks_raises(check, hook):
    def program(decorate):
        w = torch.ones(3, requires_grad=True)
        w.register_hook(hook)

        @decorate
        def step(w):
            (w * 2).sum().backward()

        for _ in range(2):
            try:
                step(w)
            except Exception as error:
                found = type(error), str(error)
        return found

    check.script(program)


def test_hook_that_prints_is_left_to_python(check, capsys):
    def program(decorate):
        w = torch.ones(3, requires_grad=True)
        w.register_hook(lambda g: print(g.sum().item()))
        step = decorate(lambda w: (w * 2).sum().backward())
        for _ in range(2):
            step(w)
        return w.grad, capsys.readouterr().out

    check.script(program)
