"""Whole training steps as one graph: forward, loss, backward and what becomes of gradients."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    """The oracle, on each backend that must give eager's bits."""
    check.inner = request.param
    return check


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(5, 6)


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(64, 3),
    )
    return net, torch.randn(5, 3, 8, 8)


def attention():
    net = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
        nn.Flatten(),
        nn.Linear(32, 3),
    )
    return net, torch.randn(5, 4, 8)


def recurrent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(6, 5, batch_first=True)
            self.head = nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.cell(x)[0][:, -1])

    return Net(), torch.randn(5, 4, 6)


def tied():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(7, 4)
            self.out = nn.Linear(4, 7, bias=False)
            self.out.weight = self.table.weight

        def forward(self, x):
            return self.out(self.table(x).sum(1))

    return Net(), torch.randint(7, (5, 3))


MODELS = [mlp, convolutions, attention, recurrent, tied]
Y = torch.tensor([0, 1, 2, 0, 1])


def state(net):
    return (
        [p.detach().clone() for p in net.parameters()],
        [b.clone() for b in net.buffers()],
        [None if p.grad is None else p.grad.clone() for p in net.parameters()],
    )


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_step_is_one_graph_and_equal_to_eager(check, make):
    def script(decorate):
        torch.manual_seed(0)
        net, x = make()
        seen = []

        @decorate
        def step(x, y):
            net.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p.sub_(p.grad, alpha=0.1)
            return loss.detach()

        for _ in range(4):
            seen.append((step(x, Y), state(net)))
        return seen

    report = check.script(script, fullgraph=True)
    assert report.breaks == []
    assert report.graphs <= 2


def test_gradients_accumulate_over_micro_batches_and_steps(check):
    def script(decorate):
        torch.manual_seed(0)
        net, x = mlp()

        @decorate
        def accumulate(x, y):
            for part, wanted in zip(x.split(2), y.split(2), strict=True):
                (F.cross_entropy(net(part), wanted) / 3).backward()

        seen = []
        for n in range(4):
            accumulate(x, Y)
            seen.append(state(net))
            if n == 2:
                net.zero_grad()
        return seen

    report = check.script(script, fullgraph=True)
    assert report.graphs == 2


def test_loop_of_steps_compiles_few_graphs(check):
    def script(decorate):
        torch.manual_seed(0)
        net, x = mlp()

        @decorate
        def train(steps):
            losses = []
            for _ in range(steps):
                net.zero_grad()
                loss = F.cross_entropy(net(x), Y)
                loss.backward()
                with torch.no_grad():
                    for p in net.parameters():
                        p -= 0.1 * p.grad
                losses.append(loss.detach())
            return losses

        return train(100), state(net)

    assert check.script(script).graphs <= 3


def test_eager_code_between_steps_sees_and_changes_gradients(check):
    def script(decorate):
        torch.manual_seed(0)
        net, x = mlp()

        @decorate
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        seen = []
        for n in range(5):
            loss = step(x, Y)
            seen.append((loss, state(net)))
            if n == 1:
                for p in net.parameters():
                    p.grad.mul_(0.5)
            if n == 2:
                net.zero_grad(set_to_none=False)
            if n == 3:
                net[0].weight.grad = None
        return seen

    check.script(script)


def test_frozen_parameters_get_nothing(check):
    def script(decorate):
        torch.manual_seed(0)
        net, x = mlp()

        @decorate
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss.detach()

        seen = [step(x, Y), state(net)]
        net[0].requires_grad_(False)
        seen += [step(x, Y), state(net)]
        net[0].requires_grad_(True)
        seen += [step(x, Y), state(net)]
        return seen

    assert check.script(script, fullgraph=True).breaks == []


def test_moving_average_of_parameters(check):
    def script(decorate):
        torch.manual_seed(0)
        net, x = mlp()
        average = [p.detach().clone() for p in net.parameters()]

        @decorate
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            with torch.no_grad():
                for p, a in zip(net.parameters(), average, strict=True):
                    p.sub_(0.1 * p.grad)
                    p.grad = None
                    a.lerp_(p, 0.1)
            return loss.detach()

        return [(step(x, Y), state(net), [a.clone() for a in average]) for _ in range(4)]

    report = check.script(script, fullgraph=True)
    assert report.graphs == 1


def test_scaled_loss_and_clipped_gradients(check):
    def script(decorate):
        torch.manual_seed(0)
        net, x = mlp()

        @decorate
        def step(x, y, scale):
            net.zero_grad()
            (F.cross_entropy(net(x), y) * scale).backward()
            for p in net.parameters():
                p.grad.div_(scale)
            total = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
            for p in net.parameters():
                p.grad.mul_((1.0 / (total + 1e-6)).clamp(max=1.0))
            return total

        return [(step(x, Y, torch.tensor(64.0)), state(net)) for _ in range(3)]

    check.script(script, fullgraph=True)


@pytest.mark.parametrize("bad", [False, True], ids=["good", "bad"])
def test_step_whose_forward_counts_its_calls_before_it_looks_up(check, bad):
    """What may fail on data stands behind a side effect, and an optimizer's numbers behind both."""

    def script(decorate):
        torch.manual_seed(0)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.out = nn.Embedding(7, 4), nn.Linear(4, 3)
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                return self.out(self.table(x).sum(1))

        net = Net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)

        @decorate
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        seen = []
        for n in range(5):
            x = torch.randint(7, (5, 3))
            if bad and n in (1, 3):
                with pytest.raises(IndexError):
                    step(x + 7, Y)
            else:
                seen.append(step(x, Y))
            seen.append((net.calls, state(net), len(optimizer.state)))
        return seen

    report = check.script(script)
    assert bad or (report.breaks == [] and report.graphs == 2)
