"""Calls that ask about data on their way: a node if the answer decides only whether they raise."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from capture.graph import OutputGraph
from capture.graph.recording import Decisions
from capture.graph.tensor_meta import CannotPropagate
from tests.graph.pairs import Pair


def test_all_ways_to_answer_are_gone_through() -> None:
    decisions = Decisions()
    seen = []
    while True:
        first = decisions.ask()
        seen.append((first, decisions.ask()) if first else (first,))
        if not decisions.another():
            break
    assert seen == [(True, True), (True, False), (False,)]


def test_a_check_of_values_is_a_node_that_may_raise() -> None:
    pair = Pair()
    x, target, variance = (pair.input(torch.ones(3)) for _ in range(3))
    pair.call(F.gaussian_nll_loss, x, target, variance)
    assert pair.graph.may_raise


def test_a_question_asked_by_native_code_is_answered() -> None:
    pair = Pair()
    x = pair.input(torch.rand(3, 5))
    weights = pair.input(torch.ones(5, dtype=torch.int64))
    pair.call(torch.cov, x, fweights=weights)


def test_what_data_decides_is_no_node() -> None:
    def shape_of_data(x: torch.Tensor) -> torch.Tensor:
        return x.sum() if bool((x > 0).all()) else x

    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2), 0)
    with pytest.raises(CannotPropagate):
        graph.call("call_function", shape_of_data, (x,))
    assert graph.num_ops == 0


def test_a_loop_over_answers_ends() -> None:
    def endless(x: torch.Tensor) -> torch.Tensor:
        while bool((x > 0).all()):
            x = x - 1
        return x

    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2), 0)
    with pytest.raises(CannotPropagate):
        graph.call("call_function", endless, (x,))


def test_an_unknown_part_of_a_result_may_be_dropped() -> None:
    pair = Pair()
    log_probs = pair.input(torch.randn(5, 2, 4).log_softmax(2))
    targets = pair.input(torch.tensor([[1, 2], [3, 1]]))
    lengths = pair.input(torch.tensor([5, 5]))
    pair.call(F.ctc_loss, log_probs, targets, lengths, pair.input(torch.tensor([2, 2])))


def test_dropout_cannot_raise() -> None:
    pair = Pair()
    x = pair.input(torch.ones(3, requires_grad=True))
    pair.graph.call("call_function", F.dropout, (x, 0.5, True))
    assert pair.graph.uses_rng
    assert not pair.graph.may_raise
    pair.graph.call("call_method", "bernoulli_", (pair.input(torch.ones(3)), x))
    assert pair.graph.may_raise
