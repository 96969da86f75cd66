"""Checks of data that eager does and a trace would leave out."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import capture


def loss(w, labels):
    hits = F.one_hot(labels, 4)
    found = (w.log_softmax(-1) * hits).sum()
    (grad,) = torch.autograd.grad(found, w)
    return found.detach(), grad, hits


def outcome(fn, *arguments):
    try:
        return fn(*arguments)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("first", [[0, 3], [0, 4]])
def test_a_class_that_there_is_not_raises_as_in_eager(first):
    compiled = capture.compile(loss, backend="aot_eager")
    for labels in (first, [1, 1], [0, 4], [-1, 2], [3, 0, 2], [3, 0, 4], [3, 3]):
        w = torch.randn(len(labels), 4, requires_grad=True)
        expected = outcome(loss, w, torch.tensor(labels))
        actual = outcome(compiled, w, torch.tensor(labels))
        if isinstance(expected, str):
            assert actual == expected
        else:
            torch.testing.assert_close(actual, expected)
            assert actual[2].dtype is expected[2].dtype
