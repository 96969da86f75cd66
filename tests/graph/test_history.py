"""What autograd will know of the tensors of a graph."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

from capture.graph.history import History, is_rewritten, leaves_behind, release
from capture.graph.output_graph import OutputGraph
from capture.graph.tensor_meta import CannotPropagate


@pytest.fixture
def graph():
    return OutputGraph("g")


def given(graph, name, tensor=None):
    tensor = torch.ones(3, requires_grad=True) if tensor is None else tensor
    return graph.add_input(name, tensor, name)


def mul(graph, *args):
    return graph.call("call_function", torch.mul, args)


def test_leaves_are_found_through_operators(graph):
    a, b, c = given(graph, "a"), given(graph, "b"), given(graph, "c", torch.ones(3))
    result = mul(graph, mul(graph, a, c), 2.0)
    assert leaves_behind([result.history]) == [a]
    assert set(leaves_behind([mul(graph, result, b).history])) == {a, b}
    assert c.history is None


def test_call_that_is_remembered_has_the_same_links(graph):
    a, b = given(graph, "a"), given(graph, "b")
    assert leaves_behind([mul(graph, a, 2.0).history]) == [a]
    assert leaves_behind([mul(graph, b, 2.0).history]) == [b]


def test_in_place_operator_adds_to_the_history(graph):
    a, b = given(graph, "a"), given(graph, "b")
    inner = mul(graph, a, 2.0)
    part = graph.call("call_method", "view", (inner, 3, 1))
    first = inner.history
    graph.call("call_method", "mul_", (inner, b))
    assert set(leaves_behind([inner.history])) == {a, b}
    assert set(leaves_behind([part.history])) == {a, b}
    assert leaves_behind([first]) == [a]


def test_writing_to_what_was_recorded_is_noted(graph):
    a = given(graph, "a")
    fresh = graph.call("call_function", torch.zeros, (3,))
    graph.call("call_method", "add_", (fresh, 1))
    other, inner = mul(graph, a, fresh), mul(graph, a, 2.0)
    assert not is_rewritten([other.history, inner.history])
    graph.call("call_method", "add_", (inner, 1))
    assert is_rewritten([inner.history])
    assert not is_rewritten([other.history])


def test_detached_tensor_that_asks_for_grad_is_a_leaf(graph):
    inner = mul(graph, given(graph, "a"), 2.0)
    cut = graph.call("call_method", "detach", (inner,))
    assert cut.history is None
    graph.call("call_method", "requires_grad_", (cut,))
    assert leaves_behind([mul(graph, cut, 2.0).history]) == [cut]


def test_tensor_from_outside_cannot_be_foretold(graph):
    outside = given(graph, "a", torch.ones(3, requires_grad=True) * 2)
    with pytest.raises(CannotPropagate, match="before the graph"):
        leaves_behind([mul(graph, outside, 2.0).history])


def test_freed_part_cannot_be_used_again(graph):
    a, b = given(graph, "a"), given(graph, "b")
    shared = mul(graph, a, 2.0)
    first, second = mul(graph, shared, 3.0), mul(graph, shared, b)
    release([first.history])
    with pytest.raises(CannotPropagate, match="freed"):
        leaves_behind([second.history])
    assert set(leaves_behind([mul(graph, a, b).history])) == {a, b}


def test_long_histories_need_no_recursion():
    end = History(leaf="leaf")
    for _ in range(50_000):
        end = History((end,))
    assert leaves_behind([end]) == ["leaf"]
