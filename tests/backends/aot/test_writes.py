"""Writes to inputs that the forward graph does itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from capture.backends.aot import min_cut_partition, run_graph
from capture.backends.aot.stage import Stage
from capture.backends.aot.toolchain import SeparateCompilers


class Writing(SeparateCompilers):
    """Runs the graphs as they are, writes included."""

    writes_inputs = True

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []

        def compiler(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            self.graphs.append(gm)
            return run_graph(gm, inputs)

        super().__init__(compiler, compiler, min_cut_partition, None)

    @property
    def copies(self) -> int:
        """How many writes the forward ends with."""
        graph = self.graphs[0].graph
        return sum(node.target is torch.ops.aten.copy_.default for node in graph.nodes)


def _run(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Writing]:
    toolchain = Writing()
    compiled = Stage(fx.symbolic_trace(function), toolchain).compile(list(inputs))
    return compiled(list(inputs)), toolchain


def test_value_reaches_the_input_and_its_version_moves() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.add_(y)
        return x * 2, x.view(2, 2)

    x, y = torch.ones(4), torch.ones(4)
    version = x._version
    (z, view), toolchain = _run(function, x, y)
    assert toolchain.copies == 1
    assert x.tolist() == [2] * 4
    assert z.tolist() == [4] * 4
    assert x._version > version
    assert view._base is x


def test_forward_does_not_return_what_it_wrote() -> None:
    _, toolchain = _run(lambda x: (x.add_(1) is None or x.sum(),), torch.ones(3))
    (output,) = (node for node in toolchain.graphs[0].graph.nodes if node.op == "output")
    assert len(output.args[0]) == 1


def test_backward_sees_the_value_before_the_write() -> None:
    def function(p: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        y = p.exp() * x  # cheap enough to compute p.exp() again in the backward
        p.mul_(3)
        return (y.sum(),)

    x = torch.randn(3, requires_grad=True)
    p = torch.ones(3)
    (y,), toolchain = _run(function, p, x)
    assert toolchain.copies == 1
    y.backward()
    assert p.tolist() == [3] * 3
    torch.testing.assert_close(x.grad, torch.ones(3).exp())


def test_write_that_autograd_sees_stays_outside() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (x.copy_(y * 2),)

    x, y = torch.zeros(3), torch.randn(3, requires_grad=True)
    _, toolchain = _run(function, x, y)
    assert toolchain.copies == 0
    x.sum().backward()  # type: ignore[no-untyped-call]
    assert y.grad is not None
    assert y.grad.tolist() == [2] * 3


def test_write_to_overlapping_memory_is_eagers_error() -> None:
    with pytest.raises(RuntimeError, match="more than one element"):
        _run(lambda x: (x.add_(1),), torch.zeros(1).expand(3))


def test_tensor_of_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(3)
        _run(lambda x: (x.add_(1),), x)
    assert x.tolist() == [2] * 3
