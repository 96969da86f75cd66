"""Numbers among the inputs of a graph that is costly to compile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from capture.backends.aot import default_partition, run_graph
from capture.backends.aot.stage import Stage
from capture.backends.aot.toolchain import SeparateCompilers


class Costly(SeparateCompilers):
    """Counts what it compiles."""

    costly = True

    def __init__(self) -> None:
        self.graphs = 0

        def compiler(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            self.graphs += 1
            return run_graph(gm, inputs)

        super().__init__(compiler, compiler, default_partition, None)


def _compile(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Costly]:
    toolchain = Costly()
    return Stage(fx.symbolic_trace(function), toolchain).compile(list(inputs)), toolchain


@pytest.mark.parametrize("values", [[0.5, -2.0, math.inf, 1e-300, 0.1], [1, 7, -3, 2**40]])
def test_one_compile_serves_all_values(values: list[Any]) -> None:
    def function(x: Tensor, n: Any) -> tuple[Tensor, ...]:
        return x * n, x.add(x, alpha=n), x / (n + 3)

    x = torch.randn(4)
    compiled, toolchain = _compile(function, x, values[0])
    for value in values:
        expected = function(x, value)
        for ours, eagers in zip(compiled([x, value]), expected, strict=True):
            assert ours.dtype == eagers.dtype
            assert torch.equal(ours, eagers)
    assert toolchain.graphs == 1


def test_value_of_another_type_runs_eagerly() -> None:
    compiled, toolchain = _compile(lambda x, n: (x * n,), torch.ones(2, dtype=torch.int64), 2)
    assert compiled([torch.ones(2, dtype=torch.int64), 2])[0].dtype == torch.int64
    assert compiled([torch.ones(2, dtype=torch.int64), 2.5])[0].dtype == torch.float32
    with pytest.raises(OverflowError):
        compiled([torch.ones(2, dtype=torch.int64), 2**70])
    assert toolchain.graphs == 1


def test_number_that_decides_a_shape_is_compiled_for_two_values_only() -> None:
    x = torch.arange(12.0)
    compiled, toolchain = _compile(lambda x, n: (x.reshape(n, -1),), x, 2)
    for n in (2, 3, 4, 6, 2):
        assert compiled([x, n])[0].shape[0] == n
    assert toolchain.graphs <= 2


def test_arithmetic_of_numbers_runs_before_the_graph() -> None:
    def function(x: Tensor, n: Any, m: Any) -> tuple[Any, ...]:
        rate = m * 0.5 + n
        return x * rate, n + 1, x + m, 3

    x = torch.randn(4)
    compiled, toolchain = _compile(function, x, 1, 0.5)
    for n, m in ((1, 0.5), (2, 0.25), (30, -1.0)):
        ours, expected = compiled([x, n, m]), function(x, n, m)
        assert ours[1] == expected[1]
        assert ours[3] == 3
        assert torch.equal(ours[0], expected[0])
        assert torch.equal(ours[2], expected[2])
    assert toolchain.graphs == 1


def test_graph_of_numbers_alone_is_not_compiled() -> None:
    compiled, toolchain = _compile(lambda n, m: (n + m, n * 2), 1, 2)
    assert compiled([5, 6]) == (11, 10)
    assert toolchain.graphs == 0
