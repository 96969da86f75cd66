"""Graphs with a backward call inside, through the AOT stage."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import capture
from capture.backends.aot import aot_autograd, run_graph
from capture.backends.aot.stage import Stage

FREED = "backward through the graph a second time"


@pytest.fixture(autouse=True)
def never_eagerly(monkeypatch):
    """No graph here may be one that the stage leaves alone."""

    def fail(self, reason):
        raise AssertionError(reason)

    monkeypatch.setattr(Stage, "_run_eagerly", fail)
    yield
    capture.reset()


@pytest.fixture
def compiled():
    """Compile with the stage; the graphs that were compiled are in ``graphs``."""

    def compile(fn):
        return capture.compile(fn, backend=backend, fullgraph=True)

    def keep(gm, inputs):
        compile.graphs.append(gm)
        return run_graph(gm, inputs)

    compile.graphs = []
    backend = aot_autograd(fw_compiler=keep)
    return compile


def leaf(seed=0):
    torch.manual_seed(seed)
    return torch.randn(4, 3, requires_grad=True)


X = torch.linspace(-1, 1, 15).reshape(5, 3)


def step(w, x):
    loss = F.linear(x, w).tanh().sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return loss


def test_step_is_one_graph_without_a_backward_of_its_own(compiled):
    w, v = leaf(), leaf()
    f = compiled(step)
    for _ in range(3):
        assert torch.equal(f(w, X), step(v, X))
        assert torch.equal(w, v)
        assert torch.equal(w.grad, v.grad)
        w.grad = v.grad = None
    assert len(compiled.graphs) == 1


def test_loss_that_is_returned_has_a_freed_history(compiled):
    loss = compiled(step)(leaf(), X)
    assert loss.requires_grad
    assert loss.grad_fn is not None
    assert not loss._is_view()
    with pytest.raises(RuntimeError, match=FREED):
        loss.backward()


def test_loss_and_its_detached_twin_share_memory(compiled):
    def f(w, x):
        loss = step(w, x)
        return loss, loss.detach()

    loss, twin = compiled(f)(leaf(), X)
    assert loss.requires_grad
    assert not twin.requires_grad
    assert loss.data_ptr() == twin.data_ptr()
    with pytest.raises(RuntimeError, match=FREED):
        loss.backward()


def test_history_that_is_retained_can_be_used_again(compiled):
    def f(w, x):
        loss = F.linear(x, w).tanh().sum()
        loss.backward(retain_graph=True)
        return loss

    results = []
    for fn in (f, compiled(f)):
        w = leaf()
        fn(w, X).backward()
        results.append(w.grad)
    assert torch.equal(*results)


def test_what_has_another_history_still_goes_backward(compiled):
    def f(w, v, x):
        F.linear(x, w).tanh().sum().backward()
        return F.linear(x, v).tanh()

    results = []
    for fn in (f, compiled(f)):
        w, v = leaf(), leaf(1)
        fn(w, v, X).sum().backward()
        results.append((w.grad, v.grad))
    for have, want in zip(*results, strict=True):
        assert torch.equal(have, want)


def test_gradients_are_no_views(compiled):
    w = leaf()
    compiled(step)(w, X)
    assert not w.grad._is_view()
    assert w.grad.stride() == (3, 1)


def test_gradient_that_nobody_keeps_is_no_output(compiled):
    def f(w, x):
        loss = step(w, x)
        w.grad = None
        return loss.detach()

    w = leaf()
    compiled(f)(w, X)
    (graph,) = compiled.graphs
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    assert len(output.args[0]) == 2  # the parameter and the loss
    assert w.grad is None


def test_gradients_are_added_to_those_there(compiled):
    def f(w, x):
        for part in x.split(2):
            F.linear(part, w).tanh().sum().backward()

    results = []
    for fn in (f, compiled(f)):
        w = leaf()
        w.grad = torch.ones_like(w)
        before = w.grad
        fn(w, X)
        assert w.grad is before
        results.append(w.grad)
    assert torch.equal(*results)
