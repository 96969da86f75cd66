"""Runs on generic sizes say what runs on fake tensors with symbolic sizes say."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from capture.graph import generic
from capture.graph.output_graph import OutputGraph
from capture.graph.tensor_meta import CannotPropagate

CALLS: list[tuple[Any, ...]] = [
    (F.linear, "x", "w"), (operator.matmul, "x", "w2"), (operator.add, "x", "x"),
    (operator.mul, "x", 2), ("view", "x", "b", "t", 2, 4), ("reshape", "x", -1, 8),
    ("transpose", "x", 1, 2), ("contiguous", "x"), (F.gelu, "x"), (F.layer_norm, "x", (8,)),
    (torch.softmax, "x", -1), ("split", "x", 3, 2), (operator.getitem, "x", (slice(None), -1)),
    (torch.sum, "x", 1), ("permute", "x", 2, 0, 1), (torch.zeros, "b", "t"), (torch.arange, "t"),
    ("expand", "x", 3, -1, -1, -1), (torch.where, "m", "x", 0.5), ("flatten", "x"),
    (torch.cat, ["x", "x"], 1), ("unsqueeze", "x", 0), (operator.matmul, "x", "x"),
    (F.scaled_dot_product_attention, "x", "x", "x"), ("to", "x", torch.float64),
]  # fmt: skip


def outcome(call: tuple[Any, ...]) -> str:
    """What the graph says of the results of a call."""
    graph = OutputGraph("test")
    shapes = graph.symbolic()
    b, t = shapes.size("b", "b", 6), shapes.size("t", "t", 9)
    strides = (graph.product((t, 8)), 8, 1)
    real = torch.randn(6, 9, 8)
    values: dict[str, Any] = {
        "x": graph.add_input("x", real, "x", (b, t, 8), strides),
        "m": graph.add_input("m", real > 0, "m", (b, t, 8), strides),
        "w": graph.add_input("w", torch.randn(5, 8, requires_grad=True), "w"),
        "w2": graph.add_input("w2", torch.randn(8, 4), "w2"),
        "b": graph.size_value(b),
        "t": graph.size_value(t),
    }

    def fill(arg: Any) -> Any:
        if isinstance(arg, list):
            return [fill(item) for item in arg]
        return values.get(arg, arg) if isinstance(arg, str) else arg

    kind = "call_method" if isinstance(call[0], str) else "call_function"
    try:
        result = graph.call(kind, call[0], tuple(map(fill, call[1:])))
    except CannotPropagate as error:
        return type(error).__name__
    results = result if isinstance(result, (tuple, list)) else [result]
    return str([value.meta for value in results]) + str([str(g.expr) for g in shapes.env.guards])


@pytest.mark.parametrize("call", CALLS, ids=lambda call: getattr(call[0], "__name__", call[0]))
def test_both_ways_agree(call: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(call)
    monkeypatch.setattr(generic, "point_for", lambda *args: None)
    assert found == outcome(call)
