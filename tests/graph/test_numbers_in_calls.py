"""A number that the graph takes as an input must not decide what a call does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("capture._native")

from tests.conftest import Check

X = torch.randn(2, 3, 4, 4, requires_grad=True)


@pytest.mark.parametrize("name", ["dropout", "feature_alpha_dropout", "alpha_dropout"])
def test_probability_that_becomes_zero(check: Check, name: str) -> None:
    function = getattr(torch.nn.functional, name)

    def fn(x: Any, p: Any) -> Any:
        y = function(x, p=p, training=True)
        return y, y is x

    check(fn, (X, 0.5), (X, 0.25), (X, 0.0), (X, 1.0))
    check(fn, (X, 0.0), (X, 0.5), (X, 0.25))


def test_number_that_makes_a_call_raise(check: Check) -> None:
    def fn(x: Any, p: Any) -> Any:
        return torch.nn.functional.dropout(x, p=p) * 0

    check(fn, (X, 0.5), (X, 2.0), (X, 0.25), (X, 3.0))
    check(fn, (X, 2.0), (X, 3.0), (X, 0.25))
