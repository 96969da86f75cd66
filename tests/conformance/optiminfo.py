"""Sweeps torch's optimizer database: every OptimizerInfo with its options over three steps.

    python -m tests.conformance.optiminfo [--ops REGEX] [--samples N] [--shard I/N] [--list]

Two programs: a whole training step (its backward ends the graph), and ``optimizer.step()`` alone,
which is the one counted as captured or broken.
"""

from __future__ import annotations

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

    def train(self, step: Program) -> list[Any]:
        """Three whole steps."""
        return [
            step(self.model, self.optimizer, self.x, self.y, self.needs_closure)
            for _ in range(STEPS)
        ]

    def update(self, step: Program) -> list[Any]:
        """Three steps of the optimizer with gradients made outside."""
        done = []
        for n in range(STEPS):
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


def _observe(setup: _Setup, kind: str, step: Program) -> Seen:
    seen = Seen()
    try:
        with torch.random.fork_rng():
            torch.manual_seed(9)
            seen.value = getattr(setup, kind)(step)
    except Exception as error:
        seen.error = error
    seen.arguments = setup.state()
    return seen


def cases(info: Any, count: int) -> Iterator[Row]:
    """All options of an optimizer, in both programs."""
    for given in _get_optim_inputs_including_global_cliquey_kwargs("cpu", torch.float32, info):
        options = {"lr": 0.01, **given.kwargs}
        try:
            _Setup(info, options, True)
            bias = True
        except Exception:
            bias = False
        kinds: list[tuple[str, Program]] = (
            [("update", update)] if not info.step_requires_closure else []
        )
        if not options.get("differentiable"):
            kinds.append(("train", train))
        for kind, program in kinds:
            row = Row("", f"{kind} {given.kwargs}")
            try:
                expected = _observe(_Setup(info, options, bias), kind, program)
            except Exception as error:
                row.verdict, row.detail = "skipped", f"eager: {error}"
                yield row
                continue
            capture.reset()
            counter = GraphCounter()
            compiled = capture.compile(program, backend=counter)
            actual = _observe(_Setup(info, options, bias), kind, compiled)
            found = disagreement(expected, actual, True)
            if isinstance(actual.error, capture.errors.InternalError):
                row.verdict, found = "internal error", repr(actual.error.__cause__)
            elif found:
                row.verdict = "differs"
            row.detail = found
            breaks = counters.snapshot().breaks
            row.graphs = counter.graph_count
            row.breaks = sorted({f"{b.reason_id} {b.detail or b.title}" for b in breaks})
            if kind == "train":  # the backward ends the graph, as it should
                row.breaks = [b for b in row.breaks if not b.startswith("CAP0018")]
            # lazily made state: the first step may be another graph than the later ones
            row.whole = not row.breaks and (kind == "train" or 1 <= row.graphs <= 2)
            yield row


def entries() -> list[tuple[str, Any]]:
    """Name and entry of all optimizers."""
    return [(info.name, info) for info in optim_db]


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep."""
    options = parser(__doc__).parse_args(arguments)
    return sweep("Optimizers (OptimizerInfo)", entries(), cases, options)


if __name__ == "__main__":
    sys.exit(main())
