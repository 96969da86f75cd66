"""Types written in the middle of code: unions and generic aliases, as ``cast`` takes them."""

# mypy: ignore-errors
# ruff: noqa: TC006 - the expressions are what is tested

from __future__ import annotations

from typing import cast

import torch

Number = int | float


def casts(x, n):
    y = cast(list[int | torch.Tensor], [n, x])
    z = cast(tuple[float, ...], (1.0,))
    return y[1] * z[0], isinstance(n, int | None), isinstance(x, float | torch.Tensor)


def test_casts_to_generic_types(check):
    report = check(casts, (torch.ones(2), 3))
    assert not report.breaks


def of_global(x, n):
    return x + 1 if isinstance(n, Number) else x - 1


def test_a_union_of_the_module_is_guarded(check):
    report = check(of_global, (torch.ones(2), 3), (torch.ones(2), "a"))
    assert not report.breaks


def rebound(decorate):
    global Number
    f = decorate(of_global)
    results = [f(torch.ones(2), 3)]
    before, Number = Number, str | bytes
    try:
        results.append(f(torch.ones(2), 3))
    finally:
        Number = before
    return results


def test_a_union_that_is_bound_anew_is_seen(check):
    check.script(rebound)
