"""Steps that switch ``requires_grad`` of parameters off and on again: compiled, and right."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn

import capture
from capture.backends.aot import aot_autograd, run_graph

X = torch.arange(12.0).reshape(3, 4) / 10


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    check.inner = request.param
    return check


def networks():
    torch.manual_seed(0)
    return nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))


def assign(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def call(module, flag):
    module.requires_grad_(flag)


def adversarial(decorate, switch=assign, steps=4, initially=True):
    """A generator and a critic, whose gradients are off while the generator learns."""
    generator, critic = networks()
    switch(critic, initially)
    slow = torch.optim.SGD(generator.parameters(), lr=0.1)
    fast = torch.optim.Adam(critic.parameters(), lr=0.01)

    @decorate
    def step(x, noise):
        if not initially:
            switch(critic, True)
        fast.zero_grad()
        loss = (critic(generator(noise).detach()) - critic(x)).mean()
        loss.backward()
        fast.step()
        for p in critic.parameters():
            p.data.clamp_(-0.3, 0.3)
        switch(critic, False)
        slow.zero_grad()
        gain = -critic(generator(noise)).mean()
        gain.backward()
        slow.step()
        if initially:
            switch(critic, True)
        return loss.detach(), gain.detach()

    seen = [step(X + n, torch.ones(3, 2) * n) for n in range(steps)]
    modules = (generator, critic)
    return (
        seen,
        [list(m.parameters()) for m in modules],
        [[p.grad for p in m.parameters()] for m in modules],
        [p.requires_grad for p in critic.parameters()],
    )


@pytest.mark.parametrize("switch", [assign, call])
@pytest.mark.parametrize("initially", [True, False])
def test_steps_of_two_networks(check, switch, initially):
    report = check.script(lambda decorate: adversarial(decorate, switch, initially=initially))
    assert (report.graphs, report.breaks) == (2, [])


def test_they_are_compiled():
    graphs = []

    def compiler(gm, inputs):
        graphs.append(gm)
        return run_graph(gm, inputs)

    backend = aot_autograd(fw_compiler=compiler)
    capture.reset()
    adversarial(lambda fn: capture.compile(fn, backend=backend))
    assert len(graphs) == 2


def test_input_that_is_left_in_another_state(check):
    def program(decorate):
        net, _ = networks()
        step = decorate(lambda x: (call(net, False), net(x))[1])
        found = step(torch.ones(2, 2))
        return found, found.requires_grad, [p.requires_grad for p in net.parameters()]

    check.script(program)


def test_what_eager_refuses(check):
    def program(decorate):
        w, seen = torch.ones(3, requires_grad=True), []

        def inner(w):
            y = w * 2
            y.requires_grad = False
            return y

        def whole(w):
            w = w.int()
            w.requires_grad = True
            return w

        def no_flag(w):
            w.requires_grad = 1
            return w * 2

        for fn in (inner, whole, no_flag):
            try:
                seen.append(decorate(fn)(w))
            except Exception as error:
                seen.append((type(error), str(error)))
        return seen

    check.script(program)


def test_new_tensors_are_made_leaves(check):
    def program(decorate):
        @decorate
        def saliency(x):
            x = x.clone()
            x.requires_grad = True
            x.sin().sum().backward()
            return x.grad, x

        return [saliency(X + n) for n in range(2)]

    check.script(program)
