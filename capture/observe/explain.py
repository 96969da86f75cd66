"""Holds ``explain``: one call, captured afresh, told in graphs, breaks and guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from capture import counters
from capture.counters import BreakRecord, RecompileRecord
from capture.eval_frame import compile as capture_compile

__all__ = ["Explanation", "explain"]


@dataclass
class Explanation:
    """What capture made of the calls explained; ``print`` it.

    Attributes:
        graphs: the graphs, in the order in which they were compiled.
        breaks: the places where graphs ended, with the reason.
        recompiles: what was compiled again, and why.
        result: what the last call returned.
        compile_seconds: wall time spent capturing.
    """

    graphs: list[fx.GraphModule] = field(default_factory=list)
    breaks: list[BreakRecord] = field(default_factory=list)
    recompiles: list[RecompileRecord] = field(default_factory=list)
    result: Any = None
    compile_seconds: float = 0.0

    @property
    def graph_count(self) -> int:
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """In how many places a graph broke."""
        return len(self.breaks)

    def __str__(self) -> str:
        lines = [
            f"{len(self.graphs)} graphs, {len(self.breaks)} graph breaks, "
            f"{len(self.recompiles)} recompiles, captured in {self.compile_seconds:.3f} s"
        ]
        for number, gm in enumerate(self.graphs):
            calls = [n for n in gm.graph.nodes if n.op not in ("placeholder", "output")]
            lines.append(f"graph {number}: {len(calls)} operators")
        for each in self.breaks:
            lines.append(f"{each.user_location}: {each.reason_id} {each.title}: {each.detail}")
        for again in self.recompiles:
            lines.append(f"{again.user_location}: recompiled: {again.sentence}")
        return "\n".join(lines)


def explain(fn: Callable[..., Any], **settings: Any) -> Callable[..., Explanation]:
    """Return a callable that captures a call of ``fn`` afresh and says what came of it.

    ``explain(fn)(*args)`` runs ``fn`` once, with its side effects; settings as for ``compile``.
    """

    def run(*args: Any, **kwargs: Any) -> Explanation:
        found = Explanation()

        def keep(gm: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
            found.graphs.append(gm)
            return gm.forward

        before = counters.snapshot()
        compiled = capture_compile(fn, backend=keep, **settings)
        found.result = compiled(*args, **kwargs)
        after = counters.snapshot()
        found.breaks = _new(before.breaks, after.breaks)
        found.recompiles = _new(before.recompiles, after.recompiles)
        found.compile_seconds = after.compile_seconds - before.compile_seconds
        return found

    return run


def _new(before: list[Any], after: list[Any]) -> list[Any]:
    """The records that were not there before, or counted fewer."""
    return [each for each in after if each not in before]
