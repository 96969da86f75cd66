"""A changing integer that is looked for among a few: that it is none of them is what is guarded."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import pytest
import torch

import capture
from capture.backends import GraphCounter

CONTAINERS = {
    "dict": {3: "a", 6: "b"},
    "counter": collections.Counter([3, 6]),
    "keys": {3: "a", 6: "b"}.keys(),
    "set": {3, 6},
    "frozenset": frozenset({3, 6}),
    "tuple": (3, 6),
    "mixed": {3: "a", "b": 2, 6.0: 1},
    "empty": {},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_answers_are_those_of_eager(name):
    container = CONTAINERS[name]
    counter = GraphCounter()

    def found(x, n):
        return x * n if n in container else x + n

    capture.reset()
    compiled = capture.compile(found, backend=counter)
    x = torch.ones(2)
    for n in (1, 2, 3, 4, 5, 6, 7, 7, 3, 6, True, 3.0, 5):
        assert torch.equal(compiled(x, n), found(x, n)), n
    if name in ("dict", "counter", "set", "frozenset"):
        assert counter.graph_count <= 7


def test_a_container_that_changes_is_seen():
    container = {3: 0}

    def found(x, n):
        return x * n if n in container else x + n

    capture.reset()
    compiled = capture.compile(found, backend="eager")
    x = torch.ones(2)
    for n in (1, 2, 4, 5):
        assert torch.equal(compiled(x, n), found(x, n))
    container[7] = 1
    for n in (5, 6, 7, 8):
        assert torch.equal(compiled(x, n), found(x, n))
    del container[3]
    for n in (3, 4, 7):
        assert torch.equal(compiled(x, n), found(x, n))


def test_a_key_written_before_is_found():
    def found(x, n):
        seen = {2: 0}
        seen[5] = 1
        del seen[2]
        return x * n if n in seen else x + n

    capture.reset()
    compiled = capture.compile(found, backend="eager")
    x = torch.ones(2)
    for n in (1, 2, 3, 4, 5, 6, 2):
        assert torch.equal(compiled(x, n), found(x, n))


def test_milestones_of_a_schedule_recompile_only_where_they_are_met():
    def losses(decorate):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [4, 12])
        x = torch.randn(4, 3)

        @decorate
        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss.detach(), optimizer.param_groups[0]["lr"]

        return [step() for _ in range(25)]

    capture.reset()
    counter = GraphCounter()
    assert losses(lambda fn: fn) == losses(lambda fn: capture.compile(fn, backend=counter))
    assert counter.graph_count <= 5  # three in the beginning, and one for each milestone
