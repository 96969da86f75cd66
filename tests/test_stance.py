"""The stance: what a call does that nothing compiled fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import capture
from capture.backends import GraphCounter

X, Y = torch.ones(3), torch.ones(2, 2)


@pytest.fixture
def counter() -> Iterator[GraphCounter]:
    yield GraphCounter()
    capture.set_stance("default")


def test_eager_on_recompile_uses_what_is_compiled(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter)
    f(X)
    with capture.set_stance("eager_on_recompile"):
        assert torch.equal(f(Y), Y + 1)
        assert counter.graph_count == 1
        f(X)
        assert counter.calls == 2
    f(Y)
    assert counter.graph_count == 2


def test_fail_on_recompile_raises(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter)
    f(X)
    with capture.set_stance("fail_on_recompile"):
        f(X)
        with pytest.raises(capture.RecompileError, match="rank changed"):
            f(Y)


def test_force_eager_runs_nothing_compiled(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter)
    f(X)
    with capture.set_stance("force_eager"):
        assert torch.equal(f(X), X + 1)
        g: Any = capture.compile(lambda x: x + 2, backend=counter)
        g(X)
    assert (counter.graph_count, counter.calls) == (1, 1)
    f(X)
    assert counter.calls == 2


def test_as_a_decorator_it_holds_inside_only(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter)

    @capture.set_stance("force_eager")
    def eager() -> None:
        f(X)

    eager()
    assert counter.calls == 0
    f(X)
    assert counter.calls == 1


def test_as_a_function_it_holds_from_then_on(counter: GraphCounter) -> None:
    f: Any = capture.compile(lambda x: x + 1, backend=counter)
    capture.set_stance("force_eager")
    f(X)
    assert counter.calls == 0


def test_unknown_stances_are_refused() -> None:
    with pytest.raises(capture.UserError, match="eager_on_recompile"):
        capture.set_stance("eager")
