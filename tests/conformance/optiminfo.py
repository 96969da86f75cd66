"""Sweeps torch's optimizer database: every OptimizerInfo with its options over three steps.

    python -m tests.conformance.optiminfo [--whole-step] [--ops REGEX] [--shard I/N] [--list]

Two programs: a whole training step, and ``optimizer.step()`` alone. ``--whole-step`` runs the first
alone, for five steps.

What counts as captured whole is a program without a break, in one graph for the first step, which
makes the state, and one for the later ones.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_optimizers import (
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

import capture
from capture import counters
from capture.backends import GraphCounter
from tests.conformance.database import Program, Row, Seen, disagreement, parser, sweep

STEPS = 3
WHOLE_STEPS = 5


class _Setup:
    """A model with an optimizer and data, the same each time it is made."""

    def __init__(self, info: Any, options: dict[str, Any], bias: bool) -> None:
        torch.manual_seed(5)
        self.model: torch.nn.Module
        if info.only_supports_sparse_grads:
            self.model = torch.nn.Embedding(6, 3, sparse=True)
            self.x: Any = torch.randint(6, (4,))
        else:
            self.model = torch.nn.Sequential(
                torch.nn.Linear(4, 5, bias=bias), torch.nn.Tanh(), torch.nn.Linear(5, 3, bias=bias)
            )
            self.x = torch.randn(4, 4)
        self.y = torch.randn(4, 3)
        self.needs_closure = info.step_requires_closure
        parameters = list(self.model.parameters())
        if options.get("differentiable"):
            parameters = [p.clone() for p in parameters]  # type: ignore[misc]
        self.parameters = parameters
        self.optimizer = info.optim_cls(parameters, **options)
        self.differentiable = bool(options.get("differentiable"))

    def train(self, step: Program, steps: int) -> list[Any]:
        """Whole steps."""
        return [
            step(self.model, self.optimizer, self.x, self.y, self.needs_closure)
            for _ in range(steps)
        ]

    def update(self, step: Program, steps: int) -> list[Any]:
        """Steps of the optimizer with gradients made outside."""
        done = []
        for n in range(steps):
            for number, p in enumerate(self.parameters):
                torch.manual_seed(100 * n + number)
                grad = torch.randn(p.shape)
                if isinstance(self.model, torch.nn.Embedding):
                    grad = grad.to_sparse()
                p.grad = grad
            done.append(step(self.optimizer))
        return done

    def state(self) -> Any:
        """Everything that the steps change."""
        return [
            [p.detach() for p in self.parameters],
            [p.grad for p in self.parameters] if not self.differentiable else [],
            self.optimizer.state_dict(),
        ]


def train(model: Any, optimizer: Any, x: Any, y: Any, needs_closure: bool) -> Any:
    """A training step as people write it."""
    if needs_closure:

        def closure() -> Any:
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure).detach()
    optimizer.zero_grad()
    loss: Any = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def update(optimizer: Any) -> Any:
    """The optimizer alone."""
    return optimizer.step()


def _observe(setup: _Setup, kind: str, step: Program, steps: int) -> Seen:
    seen = Seen()
    try:
        with torch.random.fork_rng():
            torch.manual_seed(9)
            seen.value = getattr(setup, kind)(step, steps)
    except Exception as error:
        seen.error = error
    seen.arguments = setup.state()
    return seen


def _most_graphs(options: dict[str, Any]) -> int:
    """How many graphs the steps may take."""
    if options.get("differentiable") and options.get("momentum"):
        return 3  # the buffer is missing, then a copy of the gradient, then has a history
    return 2


def cases(info: Any, count: int, whole_step: bool = False) -> Iterator[Row]:
    """All options of an optimizer, in both programs."""
    steps = WHOLE_STEPS if whole_step else STEPS
    for given in _get_optim_inputs_including_global_cliquey_kwargs("cpu", torch.float32, info):
        options = {"lr": 0.01, **given.kwargs}
        try:
            _Setup(info, options, True)
            bias = True
        except Exception:
            bias = False
        kinds: list[tuple[str, Program]] = (
            [] if info.step_requires_closure or whole_step else [("update", update)]
        )
        if not options.get("differentiable"):
            kinds.append(("train", train))
        for kind, program in kinds:
            row = Row("", f"{kind} {given.kwargs}")
            try:
                expected = _observe(_Setup(info, options, bias), kind, program, steps)
            except Exception as error:
                row.verdict, row.detail = "skipped", f"eager: {error}"
                yield row
                continue
            capture.reset()
            counter = GraphCounter()
            compiled = capture.compile(program, backend=counter)
            actual = _observe(_Setup(info, options, bias), kind, compiled, steps)
            found = disagreement(expected, actual, True)
            if isinstance(actual.error, capture.errors.InternalError):
                row.verdict, found = "internal error", repr(actual.error.__cause__)
            elif found:
                row.verdict = "differs"
            row.detail = found
            breaks = counters.snapshot().breaks
            row.graphs = counter.graph_count
            row.breaks = sorted({f"{b.reason_id} {b.detail or b.title}" for b in breaks})
            row.whole = not row.breaks and 1 <= row.graphs <= _most_graphs(options)
            yield row


def entries() -> list[tuple[str, Any]]:
    """Name and entry of all optimizers."""
    return [(info.name, info) for info in optim_db]


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep."""
    made = parser(__doc__)
    made.add_argument("--whole-step", action="store_true", help="whole training steps only")
    options = made.parse_args(arguments)
    title = "Training steps (OptimizerInfo)" if options.whole_step else "Optimizers (OptimizerInfo)"
    chosen = functools.partial(cases, whole_step=options.whole_step)
    return sweep(title, entries(), chosen, options)


if __name__ == "__main__":
    sys.exit(main())
