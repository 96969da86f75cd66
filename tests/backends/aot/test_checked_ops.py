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


BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
X = torch.tensor([1.0, 2.0, 3.0])
CASES = {
    "one_hot": (lambda i: F.one_hot(i, 3) + 1, [[0, 2], [3, 1], [1, -1], []]),
    "quantile": (lambda q: torch.quantile(X, q), [0.5, 1.5, -0.1, 1.0]),
    "nanquantile": (lambda q: torch.nanquantile(X, q), [0.5, 1.5, -0.1, 0.0]),
    "method": (lambda q: X.nanquantile(q=q, dim=0), [0.5, 1.5, -0.1, float("nan")]),
}


@BACKENDS
@pytest.mark.parametrize("name", CASES)
def test_values_that_are_refused(check, backend, name):
    fn, values = CASES[name]
    dtype = torch.int64 if name == "one_hot" else torch.float32
    calls = [(torch.tensor(value, dtype=dtype),) for value in values]
    check.inner = backend
    check(fn, *calls)


@BACKENDS
def test_a_check_without_a_text(check, backend):
    def fn(x):
        torch._assert_async((x > 0).all())
        return x + 1

    check.inner = backend
    check(fn, (torch.ones(2),), (-torch.ones(2),), (torch.ones(2),))
