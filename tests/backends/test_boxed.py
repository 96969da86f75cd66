"""Boxed forwards: the list is emptied, and operators are called directly and yet as always."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode

import capture
from capture.backends import lookup_backend
from capture.backends.boxed import EitherWay, boxed_forward


def traced(*targets: Any) -> fx.GraphModule:
    graph = fx.Graph()
    value = graph.placeholder("x")
    for target in targets:
        value = graph.call_function(target, (value, 2))
    graph.output((value,))
    return fx.GraphModule(torch.nn.Module(), graph)


def run(gm: fx.GraphModule, x: Tensor) -> Any:
    inputs = [x]
    result = boxed_forward(gm)(gm, inputs)
    assert inputs == []
    return result[0]


@pytest.fixture
def double() -> Iterator[Any]:
    library = torch.library.Library("capture_boxed", "DEF")
    library.define("times(Tensor x, int n) -> Tensor")
    library.impl("times", lambda x, n: x * n, "CompositeImplicitAutograd")
    yield torch.ops.capture_boxed.times.default
    library._destroy()


def test_operators_of_aten() -> None:
    aten = torch.ops.aten
    gm = traced(aten.mul.Scalar, aten.add.Scalar, aten.add.Scalar, torch.sub)
    assert torch.equal(run(gm, torch.ones(3)), torch.full((3,), 4.0))


def test_a_python_operator_with_a_gradient(double: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    run(traced(double, double), x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 4.0))


def test_a_dispatch_mode_sees_each_call() -> None:
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    aten = torch.ops.aten
    x = torch.ones(3)
    with Mode():
        run(traced(aten.mul.Scalar, aten.add.Scalar), x)
    assert seen == [aten.mul.Scalar, aten.add.Scalar]


def test_the_module_keeps_its_own_code() -> None:
    gm = traced(torch.ops.aten.mul.Scalar)
    run(gm, torch.ones(3))
    assert "torch.ops.aten.mul.Scalar" in gm.code
    assert torch.equal(gm(torch.ones(3))[0], torch.full((3,), 2.0))


@pytest.mark.parametrize("name", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_a_backend_may_call_what_another_one_compiled(name: str) -> None:
    calls = []

    def watching(gm: fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        inner = lookup_backend(name)(gm, example_inputs)

        def run(*inputs: Any) -> Any:
            calls.append(len(inputs))
            return inner(*inputs)

        return run

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).sin() + y

    compiled = capture.compile(fn, backend=watching)
    for _ in range(3):
        grads = []
        for run in (fn, compiled):
            x, y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
            out = run(x, y)
            out.sum().backward()
            grads.append((out.detach(), x.grad))
        torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=0)
    assert calls == [2, 2, 2]


def test_either_way_takes_a_list_and_empties_it() -> None:
    def boxed(inputs: list[Any]) -> list[Any]:
        taken = list(inputs)
        inputs.clear()
        return taken

    function = EitherWay(boxed)
    given = [1, 2]
    assert function(given) == [1, 2]
    assert given == []
    assert function(1, 2) == [1, 2]
    assert function(3) == [3]
    assert function() == []
