"""Operators that are not torch's own, in graphs of the AOT stage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import capture
from capture.backends import GraphCounter

_calls: list[str] = []


def _note(x: Tensor) -> Tensor:
    _calls.append("noted")
    return x + 1


@pytest.fixture(autouse=True, scope="module")
def _library() -> Iterator[None]:
    """Operators without an autograd formula: one made of torch's, one that leaves a trace."""
    with torch.library._scoped_library("capture_unknown", "FRAGMENT") as library:
        library.define("composed(Tensor x) -> Tensor")
        library.impl("composed", lambda x: (x * 3).clone(), "CompositeExplicitAutograd")
        library.define("noted(Tensor x) -> Tensor")
        library.impl("noted", _note, "CPU")
        library.impl("noted", lambda x: torch.empty_like(x), "Meta")
        yield


@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")
def test_an_operator_without_a_formula_has_eagers_gradient() -> None:
    def fn(x: Tensor) -> Tensor:
        composed: Tensor = torch.ops.capture_unknown.composed(x * 2)
        return composed + 1

    def gradient(called: object) -> Tensor | None:
        x = torch.ones(3, requires_grad=True)
        result = called(x)  # type: ignore[operator]
        result.sum().backward()
        return x.grad

    counter = GraphCounter("aot_eager")
    expected = gradient(fn)
    assert expected is not None
    for _ in range(2):
        found = gradient(capture.compile(fn, backend=counter))
        assert found is not None
        assert torch.equal(found, expected)
    assert counter.graph_count


def test_an_operator_runs_though_nobody_uses_its_result() -> None:
    def fn(x: Tensor) -> Tensor:
        torch.ops.capture_unknown.noted(x)
        return x * 2

    compiled = capture.compile(fn, backend="aot_eager", fullgraph=True)
    compiled(torch.ones(3))
    _calls.clear()
    compiled(torch.ones(3))
    assert _calls == ["noted"]
