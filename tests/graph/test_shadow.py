"""The run of a graph on fake tensors that tells what ``autograd.grad`` gives."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

from capture.graph.output_graph import OutputGraph
from capture.graph.shadow import Shadow
from capture.graph.tensor_meta import CannotPropagate

OPTIONS = {"retain_graph": False, "create_graph": False, "materialize_grads": False}


@pytest.fixture
def graph():
    return OutputGraph("g")


def given(graph, name, shape=(3,), requires_grad=True):
    return graph.add_input(name, torch.ones(shape, requires_grad=requires_grad), name)


def test_gradients_have_shape_and_strides(graph):
    w, x = given(graph, "w", (4, 3)), given(graph, "x", (5, 3), False)
    y = graph.call("call_function", torch.nn.functional.linear, (x, w))
    loss = graph.call("call_method", "sum", (y,))
    (gradient,) = graph.add_gradients([loss], [None], [w], OPTIONS)
    assert gradient.meta.shape == (4, 3)
    assert not gradient.meta.requires_grad
    assert gradient.history is None


def test_unused_input_gives_none(graph):
    w, v = given(graph, "w"), given(graph, "v")
    loss = graph.call("call_method", "sum", (w,))
    assert graph.add_gradients([loss], [None], [v], OPTIONS) == [None]


def test_run_goes_on_behind_a_call(graph):
    w = given(graph, "w")
    for _ in range(3):
        loss = graph.call("call_method", "sum", (graph.call("call_method", "exp", (w,)),))
        (gradient,) = graph.add_gradients([loss], [None], [w], OPTIONS)
        w = graph.call(
            "call_method", "requires_grad_", (graph.call("call_method", "mul", (gradient, 2)),)
        )
    assert graph.backward_calls == 3


def test_call_that_would_raise_adds_nothing(graph):
    w = given(graph, "w")
    y = graph.call("call_method", "exp", (w,))
    loss = graph.call("call_method", "sum", (y,))
    graph.call("call_method", "add_", (y, 1))
    nodes = len(graph.graph.nodes)
    with pytest.raises(CannotPropagate, match="inplace"):
        graph.add_gradients([loss], [None], [w], OPTIONS)
    assert len(graph.graph.nodes) == nodes


def test_state_is_followed_and_put_back(graph):
    w = given(graph, "w")
    graph.call("call_function", torch._C._set_grad_enabled, (False,))
    y = graph.call("call_method", "mul", (w, 2))
    shadow = Shadow(graph.graph, graph._initial_state)
    shadow.catch_up({})
    assert not shadow.env[y.node].requires_grad
    assert torch.is_grad_enabled()


def test_history_of_a_gradient_ends_at_the_leaves_it_needs(graph):
    w, b = given(graph, "w"), given(graph, "b")
    y = graph.call("call_method", "add", (graph.call("call_method", "exp", (w,)), b))
    loss = graph.call("call_method", "sum", (y,))
    options = {**OPTIONS, "retain_graph": True, "create_graph": True}
    (gradient,) = graph.add_gradients([loss], [None], [w], options)
    assert gradient.meta.has_grad_fn
    assert [parent.leaf for parent in gradient.history.parents] == [w]
