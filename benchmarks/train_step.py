"""Measures a whole training step: eager, torch.compile in three ways, and capture.compile.

    python benchmarks/train_step.py [--models mlp transformer convnet] [--rounds 5] [--calls 20]

All compilers use Inductor. The variants start from the same parameters, see the same batches and
run in one process. A round gives every variant a block of steps in turn, so that a drift of the
machine's speed meets all; printed are CPU times (medians over rounds) and their ratios to eager's,
cold times (wall and CPU seconds of the first two steps), the last loss, and the greatest relative
difference of a parameter from eager's after the same number of steps. Gradients stay readable:
``zero_grad`` comes first.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import capture

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
Step = Callable[[Tensor, Tensor], Tensor]


class TransformerClassifier(nn.Module):
    """Two encoder layers over (batch, tokens, width), pooled to ten classes."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, width) to logits."""
        return self.head(self.encoder(x).mean(1))


def _mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def _convnet() -> nn.Module:
    def block(inner: int, outer: int) -> list[nn.Module]:
        return [nn.Conv2d(inner, outer, 3, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]

    return nn.Sequential(
        *block(3, 16), *block(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    )


Setup = tuple[
    Callable[[], nn.Module],
    Callable[[Any], torch.optim.Optimizer],
    Callable[[], Tensor],
]

MODELS: dict[str, Setup] = {
    "mlp": (_mlp, lambda p: torch.optim.Adam(p, lr=1e-3), lambda: torch.randn(32, 64)),
    "transformer": (
        TransformerClassifier,
        lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01),
        lambda: torch.randn(8, 16, 64),
    ),
    "convnet": (
        _convnet,
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        lambda: torch.randn(8, 3, 16, 16),
    ),
}
VARIANTS = ("eager", "compile(model)", "compile(model), compile(opt)", "compile(step)", "capture")


class Variant:
    """One way to train: its own copy of the model, and an optimizer."""

    def __init__(
        self, name: str, model: nn.Module, optimizer: Callable[[Any], torch.optim.Optimizer]
    ) -> None:
        self.name = name
        self.model = model
        self.optimizer = optimizer(model.parameters())
        self.step = self._step()

    def _step(self) -> Step:
        model, optimizer = self.model, self.optimizer
        forward: Any = model
        update: Any = optimizer.step
        if self.name in VARIANTS[1:3]:
            forward = torch.compile(model)
        if self.name == VARIANTS[2]:
            update = torch.compile(optimizer.step)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), y)
            loss.backward()
            update()
            return loss.detach()

        if self.name == "compile(step)":
            return torch.compile(step)
        return capture.compile(step) if self.name == "capture" else step


def batches(sample: Callable[[], Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the same batches for every variant."""
    generator = torch.Generator().manual_seed(1)
    shape = sample().shape
    while True:
        x = torch.randn(shape, generator=generator)
        yield x, torch.randint(0, 10, (shape[0],), generator=generator)


def measure(name: str, rounds: int, calls: int, variants: list[str]) -> dict[str, Any]:
    """Train with each variant; return times, losses and differences by variant."""
    make, optimizer, sample = MODELS[name]
    torch.manual_seed(0)
    model = make()
    runs = {v: Variant(v, copy.deepcopy(model), optimizer) for v in variants}
    streams = {v: batches(sample) for v in variants}
    cold: dict[str, tuple[float, float]] = {}
    graphs = 0
    for v, run in runs.items():
        capture.counters.reset()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(2):
            run.step(*next(streams[v]))
        cold[v] = time.perf_counter() - wall, time.process_time() - cpu
        for _ in range(8):
            run.step(*next(streams[v]))
        if v == "capture":
            graphs = capture.stats().graphs
    samples: dict[str, list[float]] = {v: [] for v in variants}
    losses: dict[str, float] = {}
    for _ in range(rounds):
        for v, run in runs.items():
            given = [next(streams[v]) for _ in range(calls)]
            start = time.process_time()
            for x, y in given:
                loss = run.step(x, y)
            samples[v].append((time.process_time() - start) / calls * 1e3)
            losses[v] = float(loss)
    reference = list(runs["eager"].model.parameters())
    result: dict[str, Any] = {"graphs of capture": graphs}
    ratios = {
        v: statistics.median(
            base / own for base, own in zip(samples["eager"], samples[v], strict=True)
        )
        for v in variants
    }
    print(f"\n{name}: {rounds} rounds of {calls} steps; graphs of capture: {graphs}")
    print(
        f"{'':30} {'ms/step':>8} {'eager/x':>8} {'cold wall':>10} {'cold cpu':>9} {'loss':>9}  diff"
    )
    for v, run in runs.items():
        difference = max(
            float(((a - b).abs().max() / b.abs().max()).detach())
            for a, b in zip(run.model.parameters(), reference, strict=True)
        )
        ms = statistics.median(samples[v])
        result[v] = {
            "ms": round(ms, 3), "ratio": round(ratios[v], 2), "loss": losses[v],
            "difference": difference, "cold_wall_s": round(cold[v][0], 1),
            "cold_cpu_s": round(cold[v][1], 1),
        }  # fmt: skip
        print(
            f"{v:30} {ms:8.2f} {ratios[v]:8.2f} {cold[v][0]:9.1f}s {cold[v][1]:8.1f}s "
            f"{losses[v]:9.5f}  {difference:.1e}",
            flush=True,
        )
    others = [v for v in variants if v not in ("capture", "eager")]
    if "capture" in variants and others:
        best = min(others, key=lambda v: result[v]["ms"])
        over = statistics.median(
            a / b for a, b in zip(samples[best], samples["capture"], strict=True)
        )
        result["best other / capture"] = round(over, 2)
        print(f"capture is {over:.2f} times as fast as the best other, {best}")
    return result


def main() -> None:
    """Measure and print, a JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        json.dumps(
            {
                name: measure(name, options.rounds, options.calls, options.variants)
                for name in options.models
            }
        )
    )


if __name__ == "__main__":
    main()
