"""Optimizers with more parameters than loops are unrolled for by default: steps stay one graph."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn, optim

import capture
from capture import counters
from capture.backends import GraphCounter
from tests.comparison import difference

COUNT = 380


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


def trained(make, compiled, count=COUNT):
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(2)) for _ in range(count)]
    optimizer = make(params)
    counter = GraphCounter()

    def step():
        optimizer.step()
        optimizer.zero_grad()

    fn = capture.compile(step, backend=counter) if compiled else step
    for n in range(3):
        torch.manual_seed(n)
        for p in params:
            p.grad = torch.randn(2)
        fn()
    return [p.detach() for p in params], optimizer.state_dict(), counter


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.AdamW(p, foreach=False),
        lambda p: optim.SGD(p, momentum=0.9, foreach=False),
        lambda p: optim.RMSprop(p, centered=True, momentum=0.5, foreach=False),
        lambda p: optim.RAdam(p, foreach=False),
    ],
    ids=["AdamW", "SGD", "RMSprop", "RAdam"],
)
def test_a_loop_over_parameters_is_unrolled(make):
    params, state, _ = trained(make, False)
    ours, state_of_ours, counter = trained(make, True)
    assert not difference((params, state), (ours, state_of_ours))
    assert counters.snapshot().breaks == []
    assert counter.graph_count == 2


def test_more_decisions_than_are_taken_ahead_break(monkeypatch):
    monkeypatch.setattr("capture.graph.foresight._MAX_NODES", 30)
    params, state, _ = trained(lambda p: optim.RAdam(p, foreach=False), False, 12)
    ours, state_of_ours, _ = trained(lambda p: optim.RAdam(p, foreach=False), True, 12)
    assert not difference((params, state), (ours, state_of_ours))
    assert {b.reason_id for b in counters.snapshot().breaks} == {"CAP0002"}


def test_a_loop_of_python_alone_is_not_unrolled_to_its_end():
    def count(x):
        total = 0
        for i in range(100_000):
            total += i % 7
        return x + total

    x = torch.ones(2)
    assert torch.equal(capture.compile(count, backend="eager")(x), count(x))
