"""Packed sequences: sizes that lengths decide, and the recurrent networks that run on them."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    unpack_sequence,
)

import capture
from capture.backends import GraphCounter


def network(kind, **options):
    torch.manual_seed(0)
    return kind(4, 5, **options)


def step(module, x, lengths, batch_first=False, total_length=None, enforce_sorted=False):
    module.zero_grad()
    packed = pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
    output, state = module(packed)
    padded, told = pad_packed_sequence(output, batch_first, total_length=total_length)
    loss = padded.tanh().sum()
    loss.backward()
    shapes = packed.data.shape, packed.batch_sizes.shape, padded.shape
    state = state if isinstance(state, tuple) else (state,)
    values = [t.detach() for t in (loss, padded, told, *state, *packed)]
    return values, shapes, [p.grad for p in module.parameters()]


NETWORKS = {
    "lstm": lambda: network(nn.LSTM, num_layers=2, bidirectional=True),
    "lstm with projections": lambda: network(nn.LSTM, proj_size=3),
    "gru with dropout": lambda: network(nn.GRU, num_layers=2, dropout=0.4),
    "rnn": lambda: network(nn.RNN, nonlinearity="relu", bias=False),
}
LENGTHS = ([7, 3, 5], [2, 7, 7], [1, 1, 1], [6, 2, 1])


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_training_step_is_one_graph_for_all_lengths(kind, check):
    inputs = [(NETWORKS[kind](), torch.randn(7, 3, 4), torch.tensor(n)) for n in LENGTHS]
    report = check(step, *inputs)
    assert report.graphs == 1
    assert not report.breaks


def test_the_batch_may_come_first_and_be_padded_to_a_length(check):
    inputs = [
        (NETWORKS["rnn"](), torch.randn(3, 7, 4), torch.tensor(n), True, 7) for n in LENGTHS[1:]
    ]
    inputs = [(network(nn.LSTM, batch_first=True), *rest) for _, *rest in inputs]
    report = check(step, *inputs)
    assert report.graphs == 1


def test_lengths_that_are_refused_raise_as_in_eager(check):
    for lengths in ([2, 0, 7], [1, 2], [3, 2, 9]):
        check(
            step,
            (NETWORKS["rnn"](), torch.randn(7, 3, 4), torch.tensor([7, 3, 5]), False, 8),
            (NETWORKS["rnn"](), torch.randn(7, 3, 4), torch.tensor(lengths), False, 8),
        )


def test_lengths_that_should_be_sorted_raise_as_in_eager(check):
    check(
        step,
        (NETWORKS["rnn"](), torch.randn(7, 3, 4), torch.tensor([7, 5, 3]), False, None, True),
        (NETWORKS["rnn"](), torch.randn(7, 3, 4), torch.tensor([3, 7, 5]), False, None, True),
    )


def test_what_is_packed_may_be_of_any_type(check):
    def packed(labels, mask, lengths):
        both = [pack_padded_sequence(t, lengths, batch_first=True) for t in (labels, mask)]
        return both, [pad_packed_sequence(t, True, 1)[0] for t in both], both[0].data.shape

    inputs = [
        (torch.randint(0, 3, (2, 4)), torch.rand(2, 4) > 0.5, torch.tensor([4, n]))
        for n in (1, 4, 2)
    ]
    assert check(packed, *inputs).graphs == 1


def test_a_list_of_sequences_goes_through_a_network_and_back(check):
    def through(module, sequences):
        output, state = module(pack_sequence(sequences, enforce_sorted=False))
        return unpack_sequence(output), state

    check(
        through,
        (network(nn.GRU), [torch.randn(n, 4) for n in (4, 2, 3)]),
        (network(nn.GRU), [torch.randn(n, 4) for n in (1, 2, 5)]),
    )


def test_a_state_of_another_batch_raises_as_in_eager(check):
    def run(module, x, lengths, state):
        return module(pack_padded_sequence(x, lengths, enforce_sorted=False), state)

    x, lengths = torch.randn(7, 3, 4), torch.tensor([2, 7, 3])
    check(
        run,
        (network(nn.GRU), x, lengths, torch.randn(1, 3, 5)),
        (network(nn.GRU), x, lengths, torch.randn(1, 2, 5)),
    )


def test_the_aot_stage_gives_what_eager_does():
    x = torch.randn(7, 3, 4)
    for kind in ("lstm", "rnn"):
        compiled = capture.compile(step, backend="aot_eager")
        for lengths in LENGTHS:
            expected = step(NETWORKS[kind](), x, torch.tensor(lengths))
            actual = compiled(NETWORKS[kind](), x, torch.tensor(lengths))
            assert actual[1] == expected[1]
            torch.testing.assert_close(actual[0], expected[0])
            torch.testing.assert_close(actual[2], expected[2])


def test_a_number_that_is_read_twice_is_one_number():
    counter = GraphCounter()

    @capture.compile(backend=counter)
    def same(counts, x):
        if int(counts[0]) != int(counts[0]):
            return x
        return x + 1

    assert same(torch.tensor([3, 2]), torch.zeros(2)).tolist() == [1.0, 1.0]
    assert counter.graph_count == 1


def test_a_number_that_is_written_between_two_readings_is_another(check):
    def counted(count):
        before = count.item()
        count.add_(1)
        return before, count.item(), count.item() - before

    check(counted, (torch.tensor(3),), (torch.tensor(5),))
