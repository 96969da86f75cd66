"""A thousand steps whose numbers change each time: at most two compilations, eager's bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import capture
from capture.backends import GraphCounter

_STEPS = 1000


class Model(nn.Module):
    """Counts its calls, and divides by a temperature that the caller sets."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.calls = 0
        self.temperature = 1.0

    def forward(self, x: Tensor) -> Any:
        """Warm up over the first hundred calls."""
        self.calls += 1
        return (self.layer(x) / self.temperature).softmax(-1) * min(1.0, self.calls / 100)


def train_step(model: Model, optimizer: Any, x: Tensor, step: int) -> Any:
    """One step of training; the number of the step is part of the loss."""
    optimizer.zero_grad()
    loss = model(x).square().sum() + step * 1e-3
    loss.backward()
    optimizer.step()
    return loss.detach()


def _train(optimizer: str, step: Any) -> tuple[list[Tensor], list[Tensor], int]:
    torch.manual_seed(0)
    model = Model()
    made = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
    x = torch.randn(3, 4)
    losses = []
    for number in range(_STEPS):
        made.param_groups[0]["lr"] = 0.1 * 0.999**number
        model.temperature = 1.0 + 0.01 * number
        losses.append(step(model, made, x, number))
    return losses, [p.detach() for p in model.parameters()], model.calls


@pytest.mark.parametrize(
    ("optimizer", "backend"),
    [
        ("SGD", "eager"),
        *[
            pytest.param(optimizer, backend, marks=pytest.mark.slow)
            for optimizer, backend in [
                ("SGD", "aot_eager"), ("Adam", "eager"), ("Adam", "aot_eager"),
            ]
        ],
    ],
)  # fmt: skip
def test_a_thousand_steps_compile_twice(optimizer: str, backend: str) -> None:
    counter = GraphCounter(backend)
    compiled: Any = capture.compile(train_step, backend=counter)
    expected = _train(optimizer, train_step)
    with capture.config.patch(suppress_errors=False):
        actual = _train(optimizer, compiled)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert counter.graph_count <= 2
    assert not capture.stats().breaks
    capture.reset()
