"""Operators that fake tensors know no rule for are described by a run on real ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("capture._native")

from tests.conftest import Check


def test_operator_without_a_rule_for_metadata(check: Check) -> None:
    def fn(x: Any) -> Any:
        a, tau = torch.geqrf(x)
        return a + 1, tau

    report = check(fn, (torch.randn(3, 3),))
    assert report.graphs == 1
    assert not report.breaks


def test_autograd_function_of_such_an_operator(check: Check) -> None:
    def mixup(x: Any, target: Any) -> Any:
        weight = torch.distributions.Beta(0.4, 0.4).sample()
        order = torch.randperm(len(x))
        return weight * x + (1 - weight) * x[order], target[order]

    report = check(mixup, (torch.randn(4, 3), torch.arange(4)))
    assert report.graphs == 1
    assert not report.breaks


def test_function_that_takes_a_callable_is_inlined(check: Check) -> None:
    def distance(a: Any, b: Any) -> Any:
        return (a - b).abs().sum(1)

    def fn(a: Any, b: Any, c: Any) -> Any:
        return torch.nn.functional.triplet_margin_with_distance_loss(
            a, b, c, distance_function=distance
        )

    report = check(fn, (torch.randn(3, 3), torch.randn(3, 3), torch.randn(3, 3)))
    assert not report.breaks


def test_zip_strict_is_captured(check: Check) -> None:
    def fn(x: Any) -> Any:
        return [a * b for a, b in zip(x, (1, 2), strict=True)]

    report = check(fn, (torch.randn(2),))
    assert report.graphs == 1
    assert not report.breaks
