"""Measures what a warm call costs beside the work itself, over the number of layers guarded.

    python benchmarks/warm_overhead.py [--plot docs/figures/warm-overhead.svg]

The backend returns a ready answer, so guards, inputs and the call are all that is left. Prints CPU
microseconds a call for each target, and the ratio; with --plot draws them (matplotlib).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from measure import TARGETS, compiler, forget, interleaved_us
from models import MLP

LAYERS = (1, 10, 25, 50, 100, 200, 400)


def ready_backend(answer: torch.Tensor) -> object:
    """Return a backend whose compiled graph does nothing but hand out the answer."""
    return lambda graph, inputs: lambda *args: (answer,)


@torch.no_grad()
def measure(layers: int) -> dict[str, float]:
    """Return CPU microseconds a call by target, for an MLP with that many linear layers."""
    model, x = MLP(layers), torch.randn(2, 8)
    answer = model(x)
    calls = {}
    for target in TARGETS:
        forget(target)
        compiled = compiler(target, ready_backend(answer))(model)
        for _ in range(5):
            compiled(x)
        calls[target] = lambda compiled=compiled: compiled(x)
    return interleaved_us(calls, repeat=max(100, 20_000 // layers))


def plot(rows: dict[int, dict[str, float]], path: Path) -> None:
    """Draw microseconds a call over layers, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for target in TARGETS:
        axes.loglog(list(rows), [row[target] for row in rows.values()], "o-", label=target)
    axes.set(xlabel="linear layers guarded", ylabel="CPU µs a warm call, without the graph")
    axes.grid(visible=True, which="both", alpha=0.3)
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
    rows = {}
    print(f"{'layers':>7} {'dynamo':>9} {'capture':>9} {'ratio':>7}   (CPU us a call)")
    for layers in LAYERS:
        rows[layers] = row = measure(layers)
        ratio = row["dynamo"] / row["capture"]
        print(f"{layers:>7} {row['dynamo']:>9.1f} {row['capture']:>9.1f} {ratio:>7.1f}", flush=True)
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
