"""Holds the comparison: the same training eagerly and captured, and the table of both."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor

import capture
from capture.counters import Stats
from capture.demo.data import VOCABULARY, make_loader, standard_library_text
from capture.demo.model import CharTransformer, ModelConfig
from capture.demo.train import make_optimizer, train
from capture.eval_frame import DEFAULT_BACKEND

__all__ = ["Run", "compiled_step", "equal_steps", "greatest_difference", "main", "run_training"]

BATCH_SIZE = 16
SEED = 2026
# Steps that are left out of the time per step: the first ones compile.
SETTLING_STEPS = 10
# These run the program's own operators: every loss must be eager's to the last bit.
BITWISE_BACKENDS = ("eager", "debug")
# Others add up in another order, and training carries such differences on.
MOST_DIFFERENCE = 0.01


@dataclass
class Run:
    """What one training run gave.

    Attributes:
        losses: the loss of each step.
        ended_s: when each step ended, on the clock of ``time.perf_counter``.
        started_s: when the first step began.
    """

    losses: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    started_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The time of all steps together."""
        return self.ended_s[-1] - self.started_s if self.ended_s else 0.0

    @property
    def step_ms(self) -> float:
        """The median time of a step, without the first ones."""
        times = [
            after - before for before, after in zip(self.ended_s, self.ended_s[1:], strict=False)
        ]
        return 1e3 * statistics.median(times[SETTLING_STEPS:] or times or [0.0])


def run_training(
    train_fn: Callable[..., list[Tensor]],
    text: str,
    *,
    steps: int,
    show: Callable[[float], object] = lambda loss: None,
) -> Run:
    """Build model, data and optimizer from the seed, and train with ``train_fn``."""
    torch.manual_seed(SEED)
    config = ModelConfig(len(VOCABULARY))
    model = CharTransformer(config)
    optimizer, scheduler = make_optimizer(model, steps=steps)
    loader = make_loader(
        text, context=config.context, batch_size=BATCH_SIZE, steps=steps, seed=SEED
    )
    run = Run()

    @capture.disable
    def on_step(loss: Tensor) -> None:
        show(loss.item())
        run.ended_s.append(time.perf_counter())

    run.started_s = time.perf_counter()
    losses = train_fn(model, loader, optimizer, scheduler, on_step)
    run.losses = [loss.item() for loss in losses]
    return run


def equal_steps(left: Run, right: Run) -> int:
    """Return how many steps have bitwise equal losses before the first that differs."""
    count = 0
    for a, b in zip(left.losses, right.losses, strict=False):
        if a.hex() != b.hex():
            break
        count += 1
    return count


def greatest_difference(left: Run, right: Run) -> float:
    """Return the greatest difference of a step's losses, relative to the loss."""
    pairs = zip(left.losses, right.losses, strict=False)
    return max((abs(a - b) / max(abs(a), 1e-12) for a, b in pairs), default=0.0)


def compiled_step(run: Run, stats: Stats, kinds: tuple[str, ...] = ("graph",)) -> int:
    """Return the step, counted from 1, in which a graph was last compiled; 0 for none."""
    times = [event.time_s for event in stats.events if event.kind in kinds]
    return 1 + sum(ended < times[-1] for ended in run.ended_s) if times else 0


def main(steps: int = 150, backend: str = DEFAULT_BACKEND, console: Console | None = None) -> int:
    """Run the demo, print its table, and return the exit status: 1 if a loss differs.

    With the backends ``eager`` and ``debug`` a loss differs if one bit does, with others if it is
    more than ``MOST_DIFFERENCE`` away.
    """
    console = console or Console()
    threads = torch.get_num_threads()
    # One thread: sums must be taken in the same order in both runs.
    torch.set_num_threads(1)
    try:
        text = standard_library_text()
        console.print(
            f"Training a character-level transformer for {steps} steps on {len(text):,} "
            f"characters of Python's standard library, first eagerly, then captured."
        )
        with _progress(console, "eager", steps) as show:
            eager = run_training(train, text, steps=steps, show=show)
        capture.reset()
        with _progress(console, "captured", steps) as show:
            captured = run_training(
                capture.compile(train, backend=backend), text, steps=steps, show=show
            )
        stats = capture.stats()
    finally:
        torch.set_num_threads(threads)
    console.print(_table(eager, captured, stats, backend))
    if stats.breaks:
        console.print(_breaks_table(stats))
    return _verdict(eager, captured, steps, backend, console)


def _verdict(eager: Run, captured: Run, steps: int, backend: str, console: Console) -> int:
    equal = equal_steps(eager, captured)
    complete = len(captured.losses) == len(eager.losses) == steps
    if complete and equal == steps:
        console.print(f"[green]All {steps} losses are bitwise equal to eager's.[/green]")
        return 0
    difference = greatest_difference(eager, captured)
    if complete and backend not in BITWISE_BACKENDS and difference <= MOST_DIFFERENCE:
        console.print(
            f"[green]All {steps} losses are eager's within {difference:.1e}[/green] "
            "(--backend eager compares them bit by bit)."
        )
        return 0
    console.print(f"[red]The losses differ from step {equal + 1} on.[/red]")
    return 1


@contextlib.contextmanager
def _progress(console: Console, title: str, steps: int) -> Iterator[Callable[[float], None]]:
    """Show a progress bar, and hand out the function that takes the loss of each step."""
    with Progress(
        TextColumn(f"{title:>9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        task = progress.add_task(title, total=steps, loss=float("nan"))

        def show(loss: float) -> None:
            progress.update(task, advance=1, loss=loss)

        yield show


def _table(eager: Run, captured: Run, stats: Stats, backend: str) -> Table:
    table = Table(title=f"Training, backend {backend!r}")
    for name in ("", "eager", "captured"):
        table.add_column(name, justify="right" if name else "left")

    def add(name: str, left: object, right: object) -> None:
        table.add_row(name, str(left), str(right))

    steps = len(eager.losses)
    add("first loss", *(f"{run.losses[0]:.6f}" if run.losses else "-" for run in (eager, captured)))
    add("last loss", *(f"{run.losses[-1]:.6f}" if run.losses else "-" for run in (eager, captured)))
    add("steps bitwise equal to eager", "", f"{equal_steps(eager, captured)} of {steps}")
    add("greatest relative difference", "", f"{greatest_difference(eager, captured):.1e}")
    add("graphs (operators)", "", f"{stats.graphs} ({stats.ops})")
    add("graph breaks (places)", "", len(stats.breaks))
    add("recompiles", "", sum(each.count for each in stats.recompiles))
    add("frames captured", "", stats.frames)
    add("cold capture", "", f"{stats.compile_seconds:.2f} s")
    add("last graph compiled", "", _when(captured, stats))
    add("time per step (median)", f"{eager.step_ms:.2f} ms", f"{captured.step_ms:.2f} ms")
    add("all steps", f"{eager.total_s:.2f} s", f"{captured.total_s:.2f} s")
    return table


def _when(run: Run, stats: Stats) -> str:
    step = compiled_step(run, stats)
    if not step:
        return "never"
    return f"step {step}" if step <= len(run.ended_s) else "after the loop"


def _short(location: str) -> str:
    """The last two parts of a path: enough to tell the files of a demo apart."""
    return "/".join(location.replace(os.sep, "/").split("/")[-2:])


def _breaks_table(stats: Stats) -> Table:
    table = Table(title="Graph breaks")
    for name in ("id", "reason", "where"):
        table.add_column(name, overflow="fold")
    for each in sorted(stats.breaks, key=lambda each: each.user_location):
        table.add_row(each.reason_id, each.detail or each.title, _short(each.user_location))
    return table
