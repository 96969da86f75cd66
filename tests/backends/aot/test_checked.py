"""Checks of data that torch leaves out of a trace are made all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import Check

pytest.importorskip("capture._native")

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
_X = torch.tensor([1.0, 2.0, 3.0])
_CASES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "one_hot": (lambda i: F.one_hot(i, 3) + 1, [[0, 2], [3, 1], [1, -1], []]),
    "quantile": (lambda q: torch.quantile(_X, q), [0.5, 1.5, -0.1, 1.0]),
    "nanquantile": (lambda q: torch.nanquantile(_X, q), [0.5, 1.5, -0.1, 0.0]),
    "method": (lambda q: _X.nanquantile(q=q, dim=0), [0.5, 1.5, -0.1, float("nan")]),
}


@BACKENDS
@pytest.mark.parametrize("name", _CASES)
def test_values_that_are_refused(check: Check, backend: str, name: str) -> None:
    fn, values = _CASES[name]
    dtype = torch.int64 if name == "one_hot" else torch.float32
    calls = [(torch.tensor(value, dtype=dtype),) for value in values]
    check.inner = backend
    check(fn, *calls)


@BACKENDS
def test_a_check_without_a_text(check: Check, backend: str) -> None:
    def fn(x: Any) -> Any:
        torch._assert_async((x > 0).all())
        return x + 1

    check.inner = backend
    check(fn, (torch.ones(2),), (-torch.ones(2),), (torch.ones(2),))


def _found(table: Any, i: Any) -> Any:
    try:
        table[i]
    except IndexError as error:
        return table - 1, str(error)
    return table + 1, table[0].sin()


def _solvable(a: Any, x: Any) -> Any:
    try:
        torch.linalg.inv(a) * 2
    except RuntimeError:
        return x * 0
    return x * 3


@BACKENDS
def test_a_result_that_only_shows_whether_it_can_be_made(check: Check, backend: str) -> None:
    check.inner = backend
    table = torch.ones(3, requires_grad=True)
    places = [torch.tensor([2]), torch.tensor([3]), torch.tensor([0])]
    report = check(_found, *[(table, i) for i in places])
    assert report.graphs <= 2
    x = torch.ones(2, requires_grad=True)
    check(_solvable, (torch.eye(2), x), (torch.zeros(2, 2), x), (torch.eye(2) * 2, x))
