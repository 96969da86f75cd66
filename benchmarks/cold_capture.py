"""Measures the first call of a compiled model, over its depth.

    python benchmarks/cold_capture.py [--plot docs/figures/cold-capture.svg]

The backend runs the graph as it is, so capture, guards and one eager run are what is measured.
Prints CPU milliseconds of a first call for each target, and what one more equal block costs (the
slope of the least-squares line); with --plot draws them (matplotlib).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from measure import TARGETS, compiler, cpu_us, forget
from models import GPT, MLP, ConvNet
from torch import nn

DEPTHS = (1, 2, 4, 8, 12, 24)

Maker = Callable[[int], nn.Module]

MODELS: dict[str, tuple[Maker, Callable[[], torch.Tensor]]] = {
    "mlp": (MLP, lambda: torch.randn(2, 8)),
    "gpt": (GPT, lambda: torch.randint(0, 100, (2, 16))),
    "convnet": (ConvNet, lambda: torch.randn(2, 3, 8, 8)),
}


def measure(make: Maker, depth: int, x: torch.Tensor, rounds: int = 3) -> dict[str, float]:
    """Return CPU milliseconds of a first call by target, the best of interleaved rounds."""
    samples: dict[str, list[float]] = {target: [] for target in TARGETS}
    for _ in range(rounds):
        for target in TARGETS:
            forget(target)
            compiled = compiler(target, lambda graph, inputs: graph.forward)(make(depth))
            samples[target].append(cpu_us(lambda compiled=compiled: compiled(x)) / 1e3)
    return {target: min(times) for target, times in samples.items()}


def plot(results: dict[str, dict[int, dict[str, float]]], path: Path) -> None:
    """Draw milliseconds of the first call over depth, one panel a model."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(results), figsize=(4 * len(results), 3.5))
    for axes, (name, rows) in zip(panels, results.items(), strict=True):
        for target in TARGETS:
            axes.plot(list(rows), [row[target] for row in rows.values()], "o-", label=target)
        axes.set(title=name, xlabel="equal blocks", ylabel="CPU ms of the first call", ylim=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, help="where to draw the figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, dict[int, dict[str, float]]] = {}
    for name, (make, inputs) in MODELS.items():
        x = inputs()
        measure(make, 1, x, rounds=1)  # what each target sets up once is no model's
        rows = results[name] = {depth: measure(make, depth, x) for depth in DEPTHS}
        for depth, row in rows.items():
            times = " ".join(f"{target} {row[target]:8.1f}" for target in TARGETS)
            ratio = row["dynamo"] / row["capture"]
            print(f"{name:>8} {depth:>3} blocks: {times} ms, ratio {ratio:.1f}", flush=True)
        slopes = {
            target: statistics.linear_regression(
                list(rows), [row[target] for row in rows.values()]
            ).slope
            for target in TARGETS
        }
        each = " ".join(f"{target} {slope:.2f}" for target, slope in slopes.items())
        print(
            f"{name:>8} one more block: {each} ms, ratio {slopes['dynamo'] / slopes['capture']:.1f}"
        )
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
