"""The watching backends: what they count, and that results stay the same."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import fx

from capture.backends import BoxedCodeGen, GraphCounter, lookup_backend, takes_boxed_graph


def _double() -> fx.Graph:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.add, (x, x)),))
    return graph


def test_counter_counts_graphs_operators_and_calls() -> None:
    counter = GraphCounter()
    assert takes_boxed_graph(counter)
    graph = _double()
    graph.set_codegen(BoxedCodeGen())
    compiled = counter(fx.GraphModule({}, graph), [])
    for _ in range(3):
        (result,) = compiled([torch.ones(2)])
    assert torch.equal(result, torch.full((2,), 2.0))  # type: ignore[arg-type]
    assert (counter.graph_count, counter.op_counts, counter.calls) == (1, [1], 3)
    counter.clear()
    assert (counter.graph_count, counter.calls) == (0, 0)


def test_counter_passes_the_inner_convention_on() -> None:
    counter = GraphCounter(inner=lambda gm, inputs: gm.forward)
    assert not takes_boxed_graph(counter)
    compiled = counter(fx.GraphModule({}, _double()), [])
    assert not compiled._boxed_call  # type: ignore[attr-defined]
    assert torch.equal(compiled(torch.ones(2))[0], torch.full((2,), 2.0))  # type: ignore[arg-type]


def test_debug_runs_node_by_node_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="capture.graph")
    compiled = lookup_backend("debug")(fx.GraphModule({}, _double()), [torch.ones(2)])
    assert torch.equal(compiled(torch.ones(2))[0], torch.full((2,), 2.0))  # type: ignore[arg-type]
    assert "1 operators, 1 inputs" in caplog.text
