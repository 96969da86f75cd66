"""Measures what symbolic sizes cost: capture of a toy GPT, and its warm guards.

    python benchmarks/dynamic_shapes.py [--depth 6] [--rounds 5]

The backend runs the graph as it is. Prints CPU milliseconds of the first call with static sizes, a
symbolic batch, a symbolic length, and both, each as a multiple of the static one, for each target;
then the CPU microseconds of a warm call less the graph, with static and with symbolic sizes.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

import torch
from measure import TARGETS, compiler, cpu_us, forget
from models import GPT

FORMS: dict[str, tuple[int, ...]] = {"static": (), "batch": (0,), "length": (1,), "both": (0, 1)}


def capture_ms(depth: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return CPU milliseconds of a first call by target and form, medians of interleaved rounds."""
    samples: dict[str, dict[str, list[float]]] = {t: {f: [] for f in FORMS} for t in TARGETS}
    for number in range(rounds + 1):
        for target in TARGETS:
            for form, dims in FORMS.items():
                forget(target)
                compiled = compiler(target, lambda graph, inputs: graph.forward)(GPT(depth))
                ids = torch.randint(0, 100, (3, 16))
                for dim in dims:
                    torch._dynamo.mark_dynamic(ids, dim)
                gc.collect()
                taken = cpu_us(lambda compiled=compiled, ids=ids: compiled(ids)) / 1e3
                if number:  # the first round sets up what is used from then on
                    samples[target][form].append(taken)
    return {
        target: {form: statistics.median(times) for form, times in forms.items()}
        for target, forms in samples.items()
    }


def guards_us(depth: int, repeat: int = 2000, rounds: int = 7) -> dict[str, float]:
    """Return CPU microseconds of a warm call that runs no graph, by form."""
    import capture

    capture.reset()

    def nothing(graph: Any, inputs: Any) -> Any:
        kept: list[Any] = []

        def run(*args: Any) -> Any:
            if not kept:
                kept.append(graph.forward(*args))
            return kept[0]

        return run

    calls = {}
    for form, dims in FORMS.items():
        compiled = capture.compile(GPT(depth), backend=nothing)
        ids = torch.randint(0, 100, (3, 16))
        for dim in dims:
            capture.mark_dynamic(ids, dim)
        compiled(ids)
        calls[form] = (compiled, ids)
    samples: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(rounds):
        for form, (compiled, ids) in calls.items():
            start = time.process_time()
            for _ in range(repeat):
                compiled(ids)
            samples[form].append((time.process_time() - start) / repeat * 1e6)
    return {form: statistics.median(times) for form, times in samples.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=6, help="blocks of the GPT")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for target, forms in capture_ms(arguments.depth, arguments.rounds).items():
        row = ", ".join(f"{f} {t:.0f} ms ({t / forms['static']:.2f}x)" for f, t in forms.items())
        print(f"first call, {target:>8}: {row}", flush=True)
    warm = guards_us(arguments.depth)
    row = ", ".join(f"{f} {t:.2f} us ({t / warm['static']:.2f}x)" for f, t in warm.items())
    print(f"warm call without graph: {row}")


if __name__ == "__main__":
    main()
