"""Handlers that pass over what an operator raises because of data do not end a graph."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch


def updated(cache, count, place, x):
    count.add_(1)
    try:
        cache.index_copy_(0, place, x)
    except NotImplementedError:
        cache[place] = x
    except (KeyError, AttributeError):
        cache.zero_()
    return cache * 2


def arguments(place):
    return torch.zeros(4), torch.zeros(1), torch.tensor([place]), torch.ones(1)


def test_a_write_under_a_handler_of_other_errors_stays_in_the_graph(check):
    report = check(updated, arguments(1), arguments(3))
    assert report.graphs == 1
    assert not report.breaks


def test_what_goes_through_the_handler_leaves_the_frame_as_in_eager(check):
    check(updated, arguments(1), arguments(7))


@pytest.mark.parametrize("caught", [IndexError, RuntimeError, Exception])
def test_a_handler_of_such_an_error_is_entered_as_in_eager(caught, check):
    def handled(cache, count, place, x):
        count.add_(1)
        try:
            cache.index_copy_(0, place, x)
        except caught:
            return cache - count
        return cache + count

    check(handled, arguments(1), arguments(7))


def other_name(cache, count, place, x):
    count.add_(1)
    try:
        cache.index_copy_(0, place, x)
    except KeyError:
        return cache - count
    return cache + count


def test_a_name_that_is_assigned_later_is_noticed(check, monkeypatch):
    check(other_name, arguments(1))
    monkeypatch.setitem(other_name.__globals__, "KeyError", IndexError)
    check(other_name, arguments(1), arguments(7))


def test_a_name_that_is_assigned_after_compilation_is_noticed(monkeypatch):
    import capture

    compiled = capture.compile(other_name, backend="eager")
    assert compiled(*arguments(1)).tolist() == [1.0, 2.0, 1.0, 1.0]
    monkeypatch.setitem(other_name.__globals__, "KeyError", IndexError)
    assert compiled(*arguments(7)).tolist() == [-1.0] * 4


def test_code_of_the_program_may_raise_anything(check):
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if x.sum() > 3:
                raise KeyError("too large")
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def run(count, x):
        count.add_(1)
        try:
            return Custom.apply(x)
        except KeyError:
            return x - count

    check(run, (torch.zeros(1), torch.ones(2)), (torch.zeros(1), torch.ones(5)))
