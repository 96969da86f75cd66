"""Graphs of symbolic sizes with Inductor: one serves all sizes, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import capture
from capture.backends import GraphCounter


def test_a_convolution_is_trained_on_images_of_all_sizes() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2))
    counter = GraphCounter("inductor")
    compiled: Any = capture.compile(model, backend=counter, dynamic=True)
    for batch, height, width in [(2, 9, 8), (5, 12, 15), (17, 8, 8)]:
        x = torch.randn(batch, 3, height, width)
        outcomes = []
        for fn in (model, compiled):
            y: Any = fn(x)
            y.square().mean().backward()
            outcomes.append((y.detach(), [p.grad for p in model.parameters()]))
            model.zero_grad(set_to_none=True)
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-5)
    assert counter.graph_count == 1
    capture.reset()


def test_selections_of_unknown_length() -> None:
    def program(x: Tensor) -> Any:
        kept = x[x > 0]
        return kept * 2, kept.sum() + kept.shape[0]

    counter = GraphCounter("inductor")
    compiled: Any = capture.compile(program, backend=counter)
    for x in (torch.arange(-3.0, 5), -torch.ones(8), torch.arange(8.0), torch.arange(-6.0, 2)):
        torch.testing.assert_close(compiled(x), program(x))
    assert counter.graph_count <= 2
    capture.reset()


def test_places_in_a_cache_that_change() -> None:
    def step(cache: Tensor, new: Tensor, place: int) -> Tensor:
        cache[:, place] = new
        return (cache[:, place] * 2).sin() + cache.sum(1)

    counter = GraphCounter("inductor")
    compiled: Any = capture.compile(step, backend=counter)
    cache, expected = torch.zeros(2, 16, 3), torch.zeros(2, 16, 3)
    for place in (0, 1, 2, 15, 7):
        new = torch.randn(2, 3)
        actual = compiled(cache, new, place)
        torch.testing.assert_close(actual, step(expected, new, place))
        assert torch.equal(cache, expected)
    assert counter.graph_count <= 2
    capture.reset()
