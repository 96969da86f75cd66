"""Holds how time is taken here: CPU time, medians, targets interleaved; must not know what runs.

Absolute times mean little on shared machines. What is printed and kept is the ratio of two targets
measured in turn within one process, so that a drift of the machine's speed meets both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

__all__ = ["TARGETS", "compiler", "cpu_us", "forget", "interleaved_us"]

TARGETS = ("dynamo", "capture")


def compiler(target: str, backend: Any) -> Callable[[Any], Any]:
    """Return what compiles a function or module for a target of `TARGETS` with this backend."""
    if target == "dynamo":
        return lambda fn: torch.compile(fn, backend=backend)
    import capture

    return lambda fn: capture.compile(fn, backend=backend)


def forget(target: str) -> None:
    """Drop all that the target has compiled."""
    if target == "dynamo":
        torch._dynamo.reset()
    else:
        import capture

        capture.reset()


def cpu_us(call: Callable[[], object], repeat: int = 1) -> float:
    """Return the CPU microseconds of one call, the mean of `repeat` in a row."""
    start = time.process_time()
    for _ in range(repeat):
        call()
    return (time.process_time() - start) / repeat * 1e6


def interleaved_us(
    calls: Mapping[str, Callable[[], object]], repeat: int, rounds: int = 7
) -> dict[str, float]:
    """Return each call's CPU microseconds, the median over rounds in which all take their turn."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(cpu_us(call, repeat))
    return {name: statistics.median(values) for name, values in samples.items()}
