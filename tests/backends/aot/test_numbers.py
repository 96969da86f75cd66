"""Graphs that read Python numbers out of tensors, through the AOT stage."""

# mypy: ignore-errors

from __future__ import annotations

import math

import pytest
import torch
from torch import fx

from capture.backends.aot import aot_eager
from capture.backends.aot.numbers import for_symbols, reads_numbers
from capture.backends.aot.stage import Stage


@pytest.fixture
def reasons(monkeypatch):
    """Why graphs were run eagerly."""
    found = []
    original = Stage._run_eagerly

    def record(self, reason):
        found.append(reason)
        return original(self, reason)

    monkeypatch.setattr(Stage, "_run_eagerly", record)
    return found


def bias_correction():
    """``step`` is counted up and read; its root scales ``x``, which is written to."""
    graph = fx.Graph()
    step, x = graph.placeholder("step"), graph.placeholder("x")
    graph.call_method("add_", (step, 1))
    number = graph.call_method("item", (step,))
    decay = graph.call_function(pow, (0.9, number))
    rest = graph.call_function(math.pow, (graph.call_function(abs, (decay,)), 0.5))
    graph.call_method("addcdiv_", (x, x, x), {"value": rest})
    graph.output((graph.call_method("mul", (x, number)),))
    return fx.GraphModule({}, graph)


def test_number_is_read_anew_in_each_call(reasons):
    compiled = aot_eager(bias_correction(), [torch.tensor(0.0), torch.ones(3)])
    step, x = torch.tensor(0.0), torch.ones(3)
    other_step, other = step.clone(), x.clone()
    for _ in range(4):
        (have,) = compiled([step, x])
        (want,) = bias_correction()(other_step, other)
        assert torch.equal(have, want)
        assert torch.equal(x, other)
        assert torch.equal(step, other_step)
    assert reasons == []


def test_decision_on_a_number_runs_eagerly(reasons):
    graph = fx.Graph()
    x = graph.placeholder("x")
    number = graph.call_method("item", (x,))
    graph.output((graph.call_method("mul", (x, graph.call_function(bool, (number,)))),))
    compiled = aot_eager(fx.GraphModule({}, graph), [torch.tensor(3.0)])
    assert compiled([torch.tensor(3.0)])[0] == 3
    assert compiled([torch.tensor(0.0)])[0] == 0
    assert len(reasons) == 1


def test_number_beside_a_backward_runs_eagerly(reasons):
    graph = fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    graph.output((graph.call_method("mul", (w, graph.call_method("item", (x,)))),))
    w = torch.ones(3, requires_grad=True)
    compiled = aot_eager(fx.GraphModule({}, graph), [torch.tensor(3.0), w])
    for n in (2.0, 5.0):
        compiled([torch.tensor(n), w])[0].sum().backward()
    assert torch.equal(w.grad, torch.full((3,), 7.0))
    assert reasons


def test_graph_without_numbers_is_left_alone():
    gm = fx.symbolic_trace(lambda x: x + 1)
    assert not reads_numbers(gm)
    assert for_symbols(gm) is gm


def scaled(scale):
    graph = fx.Graph()
    x, factor = graph.placeholder("x"), graph.placeholder("factor")
    graph.call_method("mul_", (x, scale(graph, factor)))
    graph.output((graph.call_method("add", (x, factor)),))
    return fx.GraphModule({}, graph)


def test_float_among_the_inputs_needs_one_trace(reasons, monkeypatch):
    traces = []
    original = Stage._traced
    monkeypatch.setattr(
        Stage, "_traced", lambda self, *args: traces.append(1) or original(self, *args)
    )
    gm = scaled(lambda graph, factor: graph.call_function(pow, (factor, 2)))
    compiled = aot_eager(gm, [torch.ones(3), 0.1])
    for factor in (0.1, 0.3, 1e-9, float("inf"), -2.5):
        x, other = torch.ones(3), torch.ones(3)
        assert torch.equal(compiled([x, factor])[0], gm(other, factor)[0])
        assert torch.equal(x, other)
    assert len(traces) == 1
    assert reasons == []


def test_float_that_decides_is_traced_by_value():
    gm = scaled(lambda graph, factor: graph.call_function(bool, (factor,)))
    compiled = aot_eager(gm, [torch.ones(3), 0.1])
    for factor in (0.1, 0.0, 3.0):
        assert torch.equal(compiled([torch.ones(3), factor])[0], gm(torch.ones(3), factor)[0])


def test_float_beside_a_backward_is_traced_by_value():
    gm = scaled(lambda graph, factor: factor)
    w = torch.ones(3, requires_grad=True)
    compiled = aot_eager(gm, [w * 1, 0.5])
    for factor in (0.5, 2.0):
        x, other = w * 1, w * 1
        have = torch.autograd.grad(compiled([x, factor])[0].sum(), w)
        want = torch.autograd.grad(gm(other, factor)[0].sum(), w)
        assert torch.equal(have[0], want[0])
