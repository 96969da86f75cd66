"""Numbers taken out of tensors: they stay in the graph until the program has to know them."""

# mypy: ignore-errors

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

VALUES = [(torch.tensor(v),) for v in ([1.5, 2.25, -3.0], [0.0, 0.0, 0.0], [1e30, 1.0, 3e-8])]

# what is returned, stored or computed with is no reason for a break
PROGRAMS: dict[str, Any] = {
    "item": lambda x: (x.sum().item(), x + 1),
    "int": lambda x: (int(x.clamp(-9, 9).sum()), x + 1),
    "float": lambda x: (float(x[0]), x + 1),
    "bool": lambda x: (bool(x.sum() > 1), bool(x[0]), x + 1),
    "list": lambda x: ((x * 2).tolist(), x[0].tolist(), x + 1),
    "equal": lambda x: (torch.equal(x, x + 0), torch.equal(x, x[:2]), x + 1),
    "allclose": lambda x: (torch.allclose(x, x + 1e-9), x + 1),
    "is_nonzero": lambda x: (torch.is_nonzero(x[1]), x + 1),
    "exact arithmetic": lambda x: (x * x[1].item() + x[2].item() / 3, x.sum().item() * 0.1 - 1 / 3),
    "as a factor": lambda x: torch.add(x, x, alpha=x[1].item()),
    "comparison": lambda x: (x.sum().item() > 1.0, x + 1),
    "extremes": lambda x: (min(x[0].item(), 3.0), max(x[0].item(), x[1].item()), x + 1),
    "absolute": lambda x: (abs(x[2].item()), -x[2].item(), x + 1),
    "in containers": lambda x: {"loss": x.sum().item(), "parts": [x[0].item(), (x[1].item(),)]},
    "sum of numbers": lambda x: (sum([x[0].item(), x[1].item()]), x + 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_number_needs_no_break(check, name, backend):
    check.inner = backend
    report = check(PROGRAMS[name], *VALUES)
    if backend == "eager" or name != "equal":  # a comparison in one call has no ATen graph
        assert report.graphs == 1, report.breaks
        assert not report.breaks
    assert not report.recompiles


# at most the one break that reading the number was
BREAKING: dict[str, Any] = {
    "branch": lambda x: x + 1 if x.sum().item() > 1 else x - 1,
    "text": lambda x: (f"{x.sum().item():.3f}", str(x[0].item()), x + 1),
    "print": lambda x: print(x.sum().item()),
    "loop": lambda x: [x + i for i in range(int(x[0].clamp(0, 3)))],
    "index": lambda x: ["a", "b", "c"][x.argmax().item()],
    "isfinite": lambda x: x + 1 if math.isfinite(x.sum().item()) else x,
    "round": lambda x: (round(x.sum().item(), 2), x + 1),
    "key": lambda x: ({x[1].item(): 1}, x + 1),
}


@pytest.mark.parametrize("name", BREAKING)
def test_break_comes_where_the_number_is_needed(check, name):
    report = check(BREAKING[name], *VALUES)
    assert len(report.breaks) <= 1 + (name == "print")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_step_with_its_loss_as_a_number_is_one_graph(check, backend):
    def program(compiler: Any) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        history: dict[str, list[float]] = {"loss": [], "correct": []}

        @compiler
        def step(x: torch.Tensor, y: torch.Tensor) -> float:
            out = model(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history["correct"].append((out.argmax(1) == y).sum().item())
            history["loss"].append(loss.item())
            return loss.item()

        losses = []
        for seed in range(5):
            torch.manual_seed(seed)
            losses.append(step(torch.randn(6, 4), torch.randint(0, 3, (6,))))
        return losses, history, [p.detach() for p in model.parameters()]

    check.inner = backend
    report = check.script(program)
    assert not report.breaks


def test_number_read_before_a_write_keeps_its_value(check):
    def f(x: torch.Tensor) -> Any:
        before = x.sum().item()
        x.mul_(2)
        between = x[0].item()
        x.zero_()
        return before, between, x[0].item(), before / 4

    for backend in ("eager", "aot_eager"):
        check.inner = backend
        report = check(f, *VALUES)
        assert report.graphs == 1


def test_attribute_that_counts_tensors_items(check):
    class Meter:
        def __init__(self) -> None:
            self.total = 0.0
            self.count = 0

    def program(compiler: Any) -> Any:
        meter = Meter()

        @compiler
        def update(loss: torch.Tensor) -> torch.Tensor:
            meter.total += loss.item() * 2
            meter.count += 1
            return loss + 1

        results = [update(torch.tensor(float(i))) for i in range(4)]
        return results, meter.total, meter.count

    check.script(program)


def test_scaler_with_a_found_infinity(check):
    def program(compiler: Any) -> Any:
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

        @compiler
        def step(x: torch.Tensor) -> float:
            optimizer.zero_grad()
            loss = (weight * x).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.item()

        losses = [step(torch.full((3,), v)) for v in (1.0, float("inf"), 2.0)]
        return losses, weight.detach(), scaler.get_scale()

    check.script(program)
