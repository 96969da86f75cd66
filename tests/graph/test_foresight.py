"""Decisions on numbers of the graph, told ahead of it."""

from __future__ import annotations

import operator

import pytest
import torch

from capture.graph.foresight import Foresight, Undecidable
from capture.graph.output_graph import OutputGraph
from capture.graph.values import ScalarValue


def counted(count: float = 3.0) -> tuple[OutputGraph, ScalarValue]:
    """A graph that counts an input up and asks whether it is beyond 5."""
    graph = OutputGraph("test")
    step = graph.add_input("step", torch.tensor(count), "step")
    graph.call("call_function", operator.iadd, (step, 1))
    number = graph.item(step)
    found = graph.call("call_function", operator.gt, (number, 5.0))
    assert isinstance(found, ScalarValue)
    return graph, found


def test_the_outcome_is_that_of_the_graph() -> None:
    for count, outcome in ((3.0, False), (4.0, False), (5.0, True)):
        graph, found = counted(count)
        assert Foresight(graph, lambda key: True).outcome(found.node) is outcome


def test_inputs_are_left_alone() -> None:
    graph, found = counted()
    Foresight(graph, lambda key: True).outcome(found.node)
    assert graph.examples[0].item() == 3.0


def test_the_check_says_whether_the_outcome_repeats() -> None:
    graph, found = counted()
    foresight = Foresight(graph, lambda key: True)
    foresight.outcome(found.node)
    result = foresight.check()
    assert result is not None
    check, keys, _ = result
    assert keys == ["step"]
    assert check(torch.tensor(4.0))
    assert not check(torch.tensor(5.0))


def test_without_decisions_there_is_no_check() -> None:
    assert Foresight(counted()[0], lambda key: True).check() is None


def test_what_depends_on_no_input_needs_no_check() -> None:
    graph = OutputGraph("test")
    number = graph.item(graph.call("call_function", torch.ones, ((),)))
    foresight = Foresight(graph, lambda key: True)
    assert foresight.outcome(number.node)
    assert foresight.check() is None


def test_values_that_were_passed_in_are_not_tied_to() -> None:
    graph, found = counted()
    with pytest.raises(Undecidable):
        Foresight(graph, lambda key: False).outcome(found.node)


def test_large_tensors_are_not_computed_twice() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(100), "x")
    number = graph.item(graph.call("call_method", "sum", (x,)))
    with pytest.raises(Undecidable):
        Foresight(graph, lambda key: True).outcome(number.node)


def test_a_number_drawn_at_random_is_not_told() -> None:
    graph = OutputGraph("test")
    number = graph.item(graph.call("call_function", torch.rand, (1,)))
    with pytest.raises(Undecidable):
        Foresight(graph, lambda key: True).outcome(number.node)


def test_a_loop_that_counts_is_not_unrolled() -> None:
    graph = OutputGraph("test")
    step = graph.add_input("step", torch.tensor(0), "step")
    for _ in range(3):
        graph.call("call_function", operator.iadd, (step, 1))
    with pytest.raises(Undecidable):
        Foresight(graph, lambda key: True).outcome(graph.item(step).node)


def test_inputs_that_share_memory_are_refused() -> None:
    graph = OutputGraph("test")
    base = torch.zeros(1)
    one = graph.add_input("one", base, "one")
    other = graph.add_input("other", base.view(()), "other")
    graph.call("call_function", operator.iadd, (one, 1))
    total = graph.call("call_function", operator.add, (one, other))
    with pytest.raises(Undecidable):
        Foresight(graph, lambda key: True).outcome(graph.item(total).node)


def test_a_check_takes_any_number_of_inputs() -> None:
    graph = OutputGraph("test")
    foresight = Foresight(graph, lambda key: True)
    for n in range(40):
        counter = graph.add_input(f"n{n}", torch.tensor(float(n)), n)
        foresight.outcome(graph.item(counter).node)
    result = foresight.check()
    assert result is not None
    check, keys, examples = result
    assert len(keys) == 40
    assert check(*examples)
    assert not check(torch.tensor(1.0), *examples[1:])
