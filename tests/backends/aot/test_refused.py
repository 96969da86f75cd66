"""Results that nobody needs but to see whether they can be made are made all the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.conftest import Check

pytest.importorskip("capture._native")

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


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
