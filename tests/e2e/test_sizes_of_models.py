"""Models over fifty random sizes: results and gradients are eager's, compiled at most twice."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

import capture
from capture.backends import GraphCounter
from tests.e2e.test_dynamic_sizes import MODELS, _tensors

_SIZES = 50


def _run(model: Any, call: Any, args: tuple[Any, ...]) -> tuple[list[Tensor], list[Any]]:
    results = _tensors(call(*args))
    sum(r.square().sum() for r in results).backward()  # type: ignore[union-attr]
    grads = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return [r.detach() for r in results], grads


def _check(name: str, backend: str, vary: str, dynamic: bool | None) -> None:
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model = make()
    counter = GraphCounter(backend)
    compiled: Any = capture.compile(model, backend=counter, dynamic=dynamic)
    generator = random.Random(5)
    with capture.config.patch(suppress_errors=False):
        for _ in range(_SIZES):
            batch = 4 if vary == "length" else generator.randint(2, 20)
            length = 7 if vary == "batch" else generator.randint(3, 40)
            args = inputs(batch, length)
            expected, actual = _run(model, model, args), _run(model, compiled, args)
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    stats = capture.stats()
    assert not stats.breaks
    assert counter.graph_count <= (1 if dynamic else 2), stats.recompiles
    capture.reset()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("vary", ["batch", "length", "both"])
@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
def test_fifty_sizes(name: str, backend: str, vary: str, dynamic: bool | None) -> None:
    _check(name, backend, vary, dynamic)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "block", "conv"])
@pytest.mark.parametrize("vary", ["batch", "both"])
def test_fifty_sizes_with_inductor(name: str, vary: str) -> None:
    _check(name, "inductor", vary, None)


def test_a_convolution_serves_batches_on_both_sides_of_sixteen() -> None:
    model = torch.nn.Conv2d(3, 4, 3)
    counter = GraphCounter()
    compiled: Any = capture.compile(model, backend=counter, dynamic=True)
    for batch in (2, 15, 16, 40):
        for memory_format in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(batch, 3, 9, 8).contiguous(memory_format=memory_format)
            expected, actual = model(x), compiled(x)
            assert torch.equal(actual, expected)
            assert actual.stride() == expected.stride()
    assert counter.graph_count == 2  # one for each memory format
    capture.reset()


def test_a_loss_of_tensors_with_sizes_of_their_own() -> None:
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.view(-1))

    counter = GraphCounter()
    compiled: Any = capture.compile(loss, backend=counter, dynamic=True)
    for b, t in [(2, 3), (3, 2), (5, 9), (4, 4)]:
        logits, targets = torch.randn(b, t, 7), torch.randint(0, 7, (b, t))
        assert torch.equal(compiled(logits, targets), loss(logits, targets))
    assert counter.graph_count == 1
    with pytest.raises(ValueError, match="to match"):
        compiled(torch.randn(2, 3, 7), torch.randint(0, 7, (4, 3)))
    capture.reset()


def test_sums_of_tensors_with_sizes_of_their_own() -> None:
    def add(x: Tensor, y: Tensor) -> Tensor:
        return (x + y) * y.t().contiguous().t()

    counter = GraphCounter()
    compiled: Any = capture.compile(add, backend=counter, dynamic=True)
    for b, t in [(4, 3), (3, 4), (5, 9)]:
        for y in (torch.randn(b, t), torch.randn(t), torch.randn(1, t)):
            if y.dim() == 1:
                y = y.expand(b, t)
            x = torch.randn(b, t)
            expected, actual = add(x, y), compiled(x, y)
            assert torch.equal(actual, expected)
            assert actual.stride() == expected.stride()
    with pytest.raises(RuntimeError, match="must match"):
        compiled(torch.randn(4, 3), torch.randn(5, 3))
    capture.reset()
