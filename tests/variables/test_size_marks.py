"""Marked dimensions, bounds, patterns of sources, and errors about what cannot vary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import capture
from capture.backends import GraphCounter


@pytest.fixture
def counter() -> Iterator[GraphCounter]:
    with capture.config.patch(suppress_errors=False):
        yield GraphCounter()
    capture.reset()


def test_a_marked_dimension_is_symbolic_at_once(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x * 2, backend=counter)
    for n in (3, 4, 5):
        x = torch.ones(n, 2)
        if n == 3:
            capture.mark_dynamic(x, 0)
        assert torch.equal(f(x), x * 2)
    assert counter.graph_count == 1


def test_a_marked_tensor_may_be_empty_in_another_dimension(counter: GraphCounter) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + 1
        return y.shape, y.stride(), x.stride(), y.T.shape

    f: Any = capture.compile(program, backend=counter)
    for n in (3, 5):
        x = torch.ones(n, 0)
        capture.mark_dynamic(x, 0)
        assert f(x) == program(x)


def test_marks_of_torch_are_honoured(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x * 2, backend=counter)
    x = torch.ones(3, 2)
    marks: Any = torch._dynamo
    marks.mark_dynamic(x, -2)
    f(x)
    f(torch.ones(7, 2))
    assert counter.graph_count == 1


def test_a_size_out_of_bounds_has_a_graph_of_its_own(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x * 2, backend=counter)
    x = torch.ones(4)
    capture.mark_dynamic(x, 0, min=3, max=6)
    f(x)
    f(torch.ones(6))
    assert counter.graph_count == 1
    assert torch.equal(f(torch.ones(7)), torch.full((7,), 2.0))
    assert counter.graph_count == 2


def test_a_program_that_pins_a_marked_size_is_an_error_with_its_line(counter: GraphCounter) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 4:
            return x + 1
        return x

    f: Any = capture.compile(program, backend=counter)
    x = torch.ones(4)
    capture.mark_dynamic(x, 0)
    with pytest.raises(capture.UserError) as caught:
        f(x)
    line = program.__code__.co_firstlineno + 1
    assert f"test_size_marks.py:{line}" in str(caught.value)
    assert "x.shape[0]" in str(caught.value)


def test_maybe_marked_sizes_may_be_pinned(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + torch.ones(4), backend=counter)
    x = torch.ones(4)
    capture.maybe_mark_dynamic(x, 0)
    assert torch.equal(f(x), x + 1)


def test_sizes_one_and_zero_cannot_be_marked(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter)
    x = torch.ones(1)
    capture.mark_dynamic(x, 0)
    with pytest.raises(capture.UserError, match="0 and 1"):
        f(x)


def test_static_dimensions_stay_static(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter, dynamic=True)
    for n in (3, 4, 5):
        x = torch.ones(n, 2)
        capture.mark_static(x, 0)
        f(x)
    assert counter.graph_count == 3


def test_dynamic_false_is_static(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter, dynamic=False)
    for n in (3, 4, 5):
        f(torch.ones(n, 2))
    assert counter.graph_count == 3


def test_a_backend_may_ask_for_static_sizes(counter: GraphCounter) -> None:
    asking: Any = counter
    asking.static_shapes = True
    f: Any = capture.compile(lambda x: x + 1, backend=counter, dynamic=True)
    for n in (3, 4, 5):
        f(torch.ones(n, 2))
    assert counter.graph_count == 3


def test_a_pattern_names_inputs(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x, y: x.sum() + y.sum(), backend=counter)
    with capture.config.patch(dynamic_sources="y,z*"):
        for n in (3, 4, 5):
            f(torch.ones(2), torch.ones(n))
    assert counter.graph_count == 1


def test_checks_of_torch_decide(counter: GraphCounter) -> None:
    check: Any = torch._check
    check_size: Any = torch._check_is_size

    @capture.compile(backend=counter, dynamic=True, fullgraph=True)
    def f(x: torch.Tensor) -> torch.Tensor:
        check(x.shape[0] > 2)
        check_size(x.shape[0])
        assert x.shape[0] < 100
        return x * x.shape[0]

    for n in (5, 3, 99):
        assert torch.equal(f(torch.ones(n)), torch.full((n,), float(n)))
    assert counter.graph_count == 1


def test_unknown_dimensions_are_refused() -> None:
    with pytest.raises(capture.UserError, match="no dimension 2"):
        capture.mark_dynamic(torch.ones(2, 2), 2)
