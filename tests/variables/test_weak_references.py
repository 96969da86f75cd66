"""Weak references of the program are followed while they live."""

from __future__ import annotations

import weakref
from typing import Any

import torch

import capture
from tests.conftest import Check


class Holder:
    def __init__(self, scale: float) -> None:
        self.scale = scale


def test_referent_is_followed() -> None:
    holder = Holder(2.0)
    reference = weakref.ref(holder)

    def fn(x: Any, ref: Any) -> Any:
        return x * ref().scale, ref() is holder

    x = torch.ones(2)
    counter = capture.backends.GraphCounter()
    compiled = capture.compile(fn, backend=counter)
    for _ in range(2):
        value, same = compiled(x, reference)
        assert torch.equal(value, x * 2)
        assert same
    assert counter.graph_count == 1
    holder.scale = 3.0
    assert torch.equal(compiled(x, reference)[0], x * 3)


def test_dead_reference_gives_none() -> None:
    def fn(x: Any, ref: Any) -> Any:
        return x + 1 if ref() is None else x - 1

    x = torch.ones(2)
    compiled = capture.compile(fn, backend="eager")
    holder = Holder(1.0)
    reference = weakref.ref(holder)
    assert torch.equal(compiled(x, reference), x - 1)
    del holder
    assert torch.equal(compiled(x, reference), x + 1)
    holder = Holder(1.0)
    assert torch.equal(compiled(x, weakref.ref(holder)), x - 1)


def test_lstm_is_one_graph(check: Check) -> None:
    lstm = torch.nn.LSTM(3, 4)

    def fn(module: Any, x: Any) -> Any:
        return module(x)

    report = check(fn, (lstm, torch.randn(2, 1, 3)))
    assert report.graphs == 1
    assert not report.breaks
