"""The demo itself: the comparison, the table, and the exit status."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

import capture
from capture.counters import Event, Stats
from capture.demo import data, run
from capture.demo.model import CharTransformer, ModelConfig
from capture.demo.train import make_optimizer, train


@pytest.fixture(scope="module")
def text() -> str:
    return data.standard_library_text(20_000)


def test_model_predicts_a_character_at_every_position_and_looks_only_back() -> None:
    model = CharTransformer(ModelConfig(vocabulary=11, context=6, width=8, heads=2, layers=2))
    model.eval()
    characters = torch.randint(11, (2, 6))
    logits = model(characters)
    assert logits.shape == (2, 6, 11)
    changed = characters.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 11
    torch.testing.assert_close(model(changed)[:, :-1], logits[:, :-1])
    with pytest.raises(ValueError, match="the context is 6"):
        model(torch.zeros(1, 7, dtype=torch.int64))


def test_two_eager_runs_are_equal_and_the_loss_falls(text: str) -> None:
    first = run.run_training(train, text, steps=12)
    second = run.run_training(train, text, steps=12)
    assert run.equal_steps(first, second) == 12
    assert first.losses[-1] < first.losses[0]
    assert first.step_ms > 0


def test_captured_run_is_bitwise_equal_to_eager(text: str) -> None:
    capture.reset()
    eager = run.run_training(train, text, steps=8)
    captured = run.run_training(capture.compile(train, backend="eager"), text, steps=8)
    assert run.equal_steps(eager, captured) == len(captured.losses) == 8
    stats = capture.stats()
    assert stats.graphs > 0
    assert run.compiled_step(captured, stats, kinds=("graph",)) <= 3


def test_equal_steps_is_bitwise() -> None:
    left = run.Run(losses=[1.0, 0.0, 2.0])
    assert run.equal_steps(left, run.Run(losses=[1.0, -0.0, 2.0])) == 1
    assert run.equal_steps(left, run.Run(losses=[1.0, 0.0])) == 2


def test_compiled_step_is_found_by_time() -> None:
    timed = run.Run(ended_s=[1.0, 2.0, 3.0])
    stats = Stats(
        events=[Event(0.5, "graph", ""), Event(1.5, "graph", ""), Event(9.0, "break", "")]
    )
    assert run.compiled_step(timed, stats) == 2
    assert run.compiled_step(timed, Stats()) == 0


def test_exit_status_tells_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> list[Tensor]:
        losses = train(*arguments)
        losses[2] = losses[2] + 1
        return losses

    monkeypatch.setattr(capture, "compile", lambda fn, backend: wrong)
    output = io.StringIO()
    assert run.main(steps=4, backend="eager", console=Console(file=output, width=100)) == 1
    assert "The losses differ from step 3 on" in output.getvalue()
    assert "2 of 4" in output.getvalue()


def test_small_differences_are_allowed_to_backends_that_add_up_in_another_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def close(*arguments: Any) -> list[Tensor]:
        return [loss * 1.0001 for loss in train(*arguments)]

    monkeypatch.setattr(capture, "compile", lambda fn, backend: close)
    for backend, status in (("inductor", 0), ("eager", 1)):
        output = io.StringIO()
        console = Console(file=output, width=100)
        assert run.main(steps=3, backend=backend, console=console) == status
    assert "1.0e-04" in output.getvalue()


def test_schedule_warms_up_and_decays() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer, scheduler = make_optimizer(model, steps=30, learning_rate=1.0, warm_up=5)
    rates = []
    for _ in range(30):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[0] < 0.2
    top = rates.index(max(rates))
    assert 3 < top < 15
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 0.1 < rates[-1] < 0.2
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
