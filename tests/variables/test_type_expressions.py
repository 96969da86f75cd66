"""Types written in the middle of code: unions and generic aliases, as ``cast`` takes them."""

# mypy: ignore-errors
# ruff: noqa: TC006, UP006, UP035, UP045 - the expressions are what is tested

from __future__ import annotations

from typing import Dict, List, Optional, cast

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


def annotated(x):
    parts = torch.jit.annotate(List[torch.Tensor], [])
    named = torch.jit.annotate(Dict[str, Optional[int]], {})
    named["a"] = 2
    parts.append(x * named["a"])
    return parts, named, List[int] == List[int]


def test_annotations_for_scripts(check):
    report = check(annotated, (torch.ones(2),), fullgraph=True)
    assert (report.graphs, report.breaks) == (1, [])


Alias = List


def of_alias(x):
    return x, Alias[int]


def rebound_alias(decorate):
    global Alias
    f = decorate(of_alias)
    results = [f(torch.ones(2))[1]]
    before, Alias = Alias, Optional
    try:
        results.append(f(torch.ones(2))[1])
    finally:
        Alias = before
    return results


def test_an_alias_that_is_bound_anew_is_seen(check):
    check.script(rebound_alias)
