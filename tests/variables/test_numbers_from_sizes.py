"""Numbers computed from sizes: eager's exact values, two compilations for all sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import capture
from capture.backends import GraphCounter
from tests.comparison import difference

SIZES = (5, 7, 9, 12, 31, 64, 6, 100)
Program = Callable[[Tensor], Any]


def compiles(program: Program, backend: str = "eager", sizes: tuple[int, ...] = SIZES) -> int:
    """Run a program on vectors of several sizes beside eager; the number of its graphs."""
    counter = GraphCounter(backend)
    compiled: Any = capture.compile(program, backend=counter)
    with capture.config.patch(suppress_errors=False, verify=True):
        for n in sizes:
            x = torch.randn(n)
            expected, actual = program(x.clone()), compiled(x.clone())
            assert difference(expected, actual) is None
            assert type(actual) is type(expected)
    capture.reset()
    return counter.graph_count


def _scaled(x: Tensor) -> Any:
    n = x.shape[0]
    return x / math.sqrt(n), x * (1 / n), x * math.log2(n), x * n**-0.5, x * n**2


def _lengths(x: Tensor) -> Any:
    n = x.shape[0]
    return x[: int(n * 0.5)], x[: math.ceil(n / 2)], x[math.floor(n / 3) :], x[: round(n * 0.3)]


def _made(x: Tensor) -> Any:
    n = x.shape[0]
    return torch.zeros(int(n * 0.75) + 1), x.new_ones(2 ** math.ceil(math.log2(n)))


def _integers(x: Tensor) -> Any:
    n = x.shape[0]
    q, r = divmod(n, 3)
    return x * q + r, x * (n >> 1), x * (n << 1), x * (n & 3), x * math.isqrt(n), x * math.gcd(n, 4)


def _returned(x: Tensor) -> Any:
    n = x.shape[0]
    return x + 1, n / 2, int(n * 0.5), math.sqrt(n), {"n": [float(n), round(n / 7, 2)]}


def _extremes(x: Tensor) -> Any:
    n = x.shape[0]
    return x * max(n / 2, 3.5), x * min(1.0, n / 100)


def _product(x: Tensor) -> Any:
    return x.view(-1, 1).expand(-1, 3).reshape(math.prod((x.shape[0], 3)))


def _decided(x: Tensor) -> Any:
    return x * 2 if x.shape[0] / 2 > 0.5 else x


PROGRAMS = [_scaled, _lengths, _made, _integers, _returned, _extremes, _product, _decided]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_compilations_serve_all_sizes(program: Program, backend: str) -> None:
    assert compiles(program, backend) <= 2


def test_a_condition_on_a_computed_length_is_guarded() -> None:
    def program(x: Tensor) -> Any:
        half = int(x.shape[0] * 0.5)
        return x[:half] + 1 if half > 10 else x[:half] - 1

    assert compiles(program) <= 3


def test_a_length_that_becomes_one_or_zero_is_right() -> None:
    assert compiles(lambda x: x[: int(x.shape[0] * 0.2)], sizes=(20, 30, 9, 5, 4, 3, 2, 25)) <= 5


def test_what_a_number_raises_is_eagers() -> None:
    def program(x: Tensor) -> Any:
        return x * math.sqrt(x.shape[0] - 5)

    compiled: Any = capture.compile(program, backend="eager")
    for n in (8, 9, 10):
        x = torch.ones(n)
        assert torch.equal(compiled(x), program(x))
    with pytest.raises(ValueError, match="math domain error"):
        compiled(torch.ones(3))
    with pytest.raises(ZeroDivisionError):
        capture.compile(lambda x: x * (1 / (x.shape[0] - 5)), backend="eager", dynamic=True)(
            torch.ones(5)
        )
    capture.reset()


def test_numbers_from_sizes_and_arguments() -> None:
    def program(x: Tensor, k: float, m: int) -> Any:
        n = x.shape[0]
        return x * (n * k), x[: int(n * k)], x * (m * n / 7), x + m**0.5, x.new_zeros(m + n // 2)

    counter = GraphCounter()
    compiled: Any = capture.compile(program, backend=counter)
    with capture.config.patch(suppress_errors=False):
        for n, k, m in [(9, 0.5, 3), (12, 0.25, 4), (31, 0.75, 5), (40, 0.1, 6), (8, 0.9, 70)]:
            x = torch.randn(n)
            assert difference(program(x, k, m), compiled(x, k, m)) is None
    assert counter.graph_count <= 2
    capture.reset()


def test_gradients_flow_past_computed_numbers() -> None:
    def program(x: Tensor) -> Any:
        return (x[: int(x.shape[0] * 0.5)] / math.sqrt(x.shape[0])).square().sum()

    for backend in ("eager", "aot_eager"):
        counter = GraphCounter(backend)
        compiled: Any = capture.compile(program, backend=counter)
        for n in SIZES:
            x = torch.randn(n, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            program(x).backward()
            compiled(y).backward()
            assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]
        assert counter.graph_count <= 2
        capture.reset()


def test_a_learning_rate_schedule_of_powers_and_extremes_compiles_twice() -> None:
    def program(x: Tensor, step: int) -> Any:
        return x * min(float(step) ** -0.5, step * 4000**-1.5) * max(0.1, 1.0 - step / 50)

    counter = GraphCounter()
    compiled: Any = capture.compile(program, backend=counter)
    x = torch.randn(3)
    for step in range(1, 40):
        assert torch.equal(compiled(x, step), program(x, step))
    assert counter.graph_count <= 2
    capture.reset()
