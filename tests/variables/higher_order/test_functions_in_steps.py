"""The program's own autograd functions behind ``zero_grad``: what they read of ``grad`` is true."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.autograd import Function

import capture
from capture import counters
from capture.backends import GraphCounter


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad * ctx.factor, None


class ReadsInForward(Function):
    model = None

    @staticmethod
    def forward(ctx, x):
        if ReadsInForward.model.weight.grad is None:
            return x * 2
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class ReadsInBackward(Function):
    model = None

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if ReadsInBackward.model.weight.grad is None:
            return grad * 2
        return grad * 5


def five_steps(function, decorate):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    function.model = model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(5, 4)

    @decorate
    def step():
        optimizer.zero_grad()
        h = model(x)
        h = function.apply(h, 0.5) if function is Scaled else function.apply(h)
        loss = h.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step() for _ in range(5)]
    grads = [p.grad for p in model.parameters()]
    return losses, copy.deepcopy(list(model.parameters())), grads


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [Scaled, ReadsInForward, ReadsInBackward])
def test_steps_are_those_of_eager(function, backend):
    expected = five_steps(function, lambda fn: fn)
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        actual = five_steps(function, lambda fn: capture.compile(fn, backend=backend))
    for left, right in zip(expected, actual, strict=True):
        assert all(map(torch.equal, left, right))


def test_a_function_that_reads_no_grad_leaves_the_step_in_one_graph():
    capture.reset()
    counter = GraphCounter()
    with capture.config.patch(suppress_errors=False):
        five_steps(Scaled, lambda fn: capture.compile(fn, backend=counter))
    assert counters.snapshot().breaks == []
    assert counter.graph_count <= 2
