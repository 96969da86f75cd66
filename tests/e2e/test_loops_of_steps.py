"""Training loops inside of compiled functions, through the AOT stage: how often they compile."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import capture
from capture.backends import GraphCounter


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield
    capture.reset()


def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def state(model, opt):
    values = [*model.state_dict().values()]
    for each in opt.state.values():
        values += [v for v in each.values() if isinstance(v, torch.Tensor)]
    return values


@pytest.mark.parametrize("steps", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_plain_loop_compiles_at_most_three_graphs(steps):
    torch.manual_seed(1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)

    def train(model, opt):
        losses = []
        for _ in range(steps):
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.detach())
        return losses

    expected = make()
    losses = train(*expected)
    counter = GraphCounter("aot_eager")
    actual = make()
    found = capture.compile(train, backend=counter)(*actual)
    assert all(map(torch.equal, found, losses))
    assert all(map(torch.equal, state(*actual), state(*expected)))
    assert counter.graph_count <= 3


def test_a_loop_over_a_loader_runs_one_graph_for_each_step():
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    batches, epochs = 8, 3

    def train(model, opt, loader):
        total = 0.0
        for _ in range(epochs):
            for x, y in loader:
                opt.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                opt.step()
                total = total + loss.detach()
        return total

    def loader():
        return DataLoader(data, 64 // batches, generator=torch.Generator().manual_seed(2))

    expected = make()
    total = train(*expected, loader())
    counter = GraphCounter("aot_eager")
    actual = make()
    found = capture.compile(train, backend=counter)(*actual, loader())
    assert torch.equal(found, total)
    assert all(map(torch.equal, state(*actual), state(*expected)))
    assert counter.calls == batches * epochs
    assert counter.graph_count <= 3
