"""Trains models for five whole steps with AdamW, each step compiled as one function.

    python -m tests.conformance.whole_steps [--models FILE] [--backend aot_eager] [--ops REGEX]

A step is forward, a loss over all results, ``backward``, ``step`` and ``zero_grad``. Losses and
parameters must be eager's. The models are those of ``tests.conformance.models``, or the table
``MODELS`` (name to a function that gives module, arguments and keywords) of another file.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

import capture
from capture import counters
from capture.backends import GraphCounter
from tests.conformance import models
from tests.conformance.database import Row, copied, parser, sweep

STEPS = 5


def loss_of(value: Any) -> Any:
    """The mean square of all numbers in a model's results that a gradient can flow to."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.requires_grad:
            return value.float().square().mean()
        return 0.0
    if hasattr(value, "values"):
        return sum(loss_of(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(loss_of(item) for item in value)
    return 0.0


def train(module: Any, args: Any, kwargs: Any, decorate: Callable[[Any], Any]) -> list[Any]:
    """The losses of five steps."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.01)

    @decorate
    def step() -> Any:
        loss = loss_of(module(*args, **kwargs))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    torch.manual_seed(5)
    return [step() for _ in range(STEPS)]


def distance(expected: list[torch.Tensor], actual: list[torch.Tensor]) -> float:
    """The greatest difference, relative to the numbers that are expected."""
    found = 0.0
    for a, b in zip(expected, actual, strict=True):
        a, b = a.detach().double(), b.detach().double()
        if not torch.equal(a.isnan(), b.isnan()):
            return float("inf")
        gap = ((a - b).abs() / (a.abs() + 1e-3)).nan_to_num(0.0)
        found = max(found, gap.max().item() if gap.numel() else 0.0)
    return found


def cases(build: models.Build, backend: str) -> Iterator[Row]:
    """A model's row."""
    row = Row("", "five steps")
    torch.manual_seed(3)
    module, args, kwargs = build()
    module.train(module.training)
    twins = copied(module), copied(module)
    expected = train(module, args, kwargs, lambda fn: fn)
    again = distance(expected, train(twins[0], args, kwargs, lambda fn: fn))
    capture.reset()
    counter = GraphCounter(backend)
    actual = train(twins[1], args, kwargs, lambda fn: capture.compile(fn, backend=counter))
    stats = counters.snapshot()
    row.graphs = counter.graph_count
    row.breaks = sorted({f"{b.reason_id} {b.detail or b.title}" for b in stats.breaks})
    row.whole = not row.breaks and row.graphs <= 2  # the optimizer's state is made in the first
    losses = distance(expected, actual)
    weights = distance(list(module.parameters()), list(twins[1].parameters()))
    row.detail = f"losses differ by {losses:.1e}, parameters by {weights:.1e}, eager {again:.1e}"
    if losses > max(1e-5, 10 * again) or weights > max(1e-2, 100 * again):
        row.verdict = "differs"
    yield row


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    options = parser(__doc__)
    options.add_argument("--models", metavar="FILE", help="a file with a table of other models")
    options.add_argument("--backend", default="aot_eager")
    options.set_defaults(progress=True)  # a model may take minutes
    chosen = options.parse_args(arguments)
    builds: dict[str, models.Build] = models.MODELS
    if chosen.models:
        builds = runpy.run_path(chosen.models)["MODELS"]
    entries = [(name, lambda b=build: cases(b, chosen.backend)) for name, build in builds.items()]
    return sweep("Whole training steps (models)", entries, lambda run, count: run(), chosen)


if __name__ == "__main__":
    sys.exit(main())
