"""Measures what a warm ``step()`` and ``zero_grad()`` cost beside eager's, over the parameters.

    python benchmarks/optimizer_step.py [--parameters 100]

The last column is capture with a backend that does nothing: guards, inputs, the call, and the
writes to ``grad``. Prints CPU microseconds a call, the gradients being given anew before each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn, optim

import capture

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], optim.Optimizer]] = {
    "SGD, momentum": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9),
    "Adam": lambda ps: optim.Adam(ps),
    "Adam, foreach": lambda ps: optim.Adam(ps, foreach=True),
    "AdamW, fused": lambda ps: optim.AdamW(ps, fused=True),
    "RAdam, foreach": lambda ps: optim.RAdam(ps, foreach=True),
}
CALLS = 30


def step(optimizer: optim.Optimizer) -> None:
    """What is measured."""
    optimizer.step()
    optimizer.zero_grad()


def idle_backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Run the graph once, for the state that it makes; hand out the same answer from then on."""
    answers: list[Any] = []

    def run(*args: Any) -> Any:
        if not answers:
            answers.append(graph(*args))
        return answers[0]

    return run


def measure(make: Callable[[list[nn.Parameter]], optim.Optimizer], fn: Any, count: int) -> float:
    """Return CPU microseconds a warm call."""
    parameters = [nn.Parameter(torch.randn(4, 4)) for _ in range(count)]
    gradients = [torch.randn(4, 4) for _ in parameters]
    optimizer = make(parameters)
    taken = []
    for _ in range(CALLS):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        started = time.process_time()
        fn(optimizer)
        taken.append(time.process_time() - started)
    return median(taken[5:]) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=100)
    count = parser.parse_args().parameters
    torch.set_num_threads(1)
    print(f"{'':16} {'eager':>9} {'captured':>9} {'no graph':>9}   us a call, {count} parameters")
    for name, make in OPTIMIZERS.items():
        row = [measure(make, step, count)]
        for backend in ("eager", idle_backend):
            capture.reset()
            row.append(measure(make, capture.compile(step, backend=backend), count))
        print(f"{name:16} " + " ".join(f"{us:9.0f}" for us in row), flush=True)


if __name__ == "__main__":
    main()
