"""Texts of numbers that change: eager's text each time, no compilation for each number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import capture
from capture.backends import GraphCounter

_SHAPES = [(3, 5), (4, 6), (6, 6), (5, 7), (7, 4), (2, 2)]
_NUMBERS = [(3, 0.5), (4, -0.25), (1 << 40, 1e30), (-7, float("nan")), (12, -0.0), (5, 2.0)]


def formatted(x: Tensor) -> Any:
    """Fields with and without a format, and joined parts."""
    n = x.shape[0]
    text = f"{n} x {x.shape[1]:>4}" + "," + f"{n / 3:.2f}"
    text += f" {text}"
    return x * 2, text, ";".join([f"{n}", "end"])


def converted(x: Tensor) -> Any:
    """The text of a size, and what is made of it later."""
    return x + 1, str(x.shape[0]), repr(x.shape[1]), f"{x.shape[0]!r}|{str(x.shape[1])}"


def templates(x: Tensor) -> Any:
    """Methods and operators of templates."""
    a, b = x.shape
    return (
        x * 2, "%d rows" % a, "%s of %i%%, %.1f" % (a, b, a / 2),
        "{} and {:03d} {{}}".format(a, b), "{1} {0} {n!r}".format(a, "x", n=b),
    )  # fmt: skip


def stored(x: Tensor) -> Any:
    """Texts in containers."""
    names = {"rows": f"{x.shape[0]}"}
    return x * 2, names, [names["rows"]]


@pytest.mark.parametrize("program", [formatted, converted, templates, stored])
def test_a_text_of_sizes_compiles_twice(program: Callable[..., Any]) -> None:
    counter = GraphCounter()
    compiled: Any = capture.compile(program, backend=counter)
    for shape in _SHAPES:
        x = torch.randn(shape)
        expected, actual = program(x), compiled(x)
        assert torch.equal(actual[0], expected[0])
        assert actual[1:] == expected[1:]
    assert counter.graph_count == 2, capture.stats().recompiles
    capture.reset()


def test_a_text_of_numbers_compiles_twice() -> None:
    def program(x: Tensor, n: int, f: float) -> Any:
        return x * 2, f"{n} {f:.3f} {f}", str(f), "%s %.2f" % (n, f)

    counter = GraphCounter()
    compiled: Any = capture.compile(program, backend=counter)
    for n, f in [*_NUMBERS, (1 << 70, 1.0)]:
        assert compiled(torch.ones(3), n, f)[1:] == program(torch.ones(3), n, f)[1:]
    assert counter.graph_count <= 4  # one for the number of more than 64 bits
    capture.reset()


def test_a_text_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        print(f"rows: {x.shape[0]}", x.shape[1])
        return y + 1

    counter = GraphCounter()
    compiled: Any = capture.compile(program, backend=counter)
    for shape in _SHAPES:
        compiled(torch.ones(shape))
    assert capsys.readouterr().out == "".join(f"rows: {a} {b}\n" for a, b in _SHAPES)
    assert counter.graph_count <= 4  # two pieces
    capture.reset()


def test_a_text_that_decides_is_a_constant() -> None:
    def program(x: Tensor) -> Any:
        text = f"{x.shape[0]}"
        table = {text: 1}
        return (x + 1 if text == "4" else x + 2), table, text.zfill(3), len(text)

    compiled: Any = capture.compile(program, backend="eager")
    for n in (3, 4, 12, 4, 100, 5):
        expected, actual = program(torch.ones(n, 2)), compiled(torch.ones(n, 2))
        assert torch.equal(actual[0], expected[0])
        assert actual[1:] == expected[1:]
    capture.reset()


def test_a_text_in_an_error() -> None:
    def program(x: Tensor) -> Tensor:
        if x.shape[0] > 4:
            raise ValueError(f"{x.shape[0]} rows")
        return x * 2

    compiled: Any = capture.compile(program, backend="eager")
    for n in (3, 5, 6, 4, 9):
        try:
            program(torch.ones(n, 2))
        except ValueError as error:
            with pytest.raises(ValueError, match=f"^{error}$"):
                compiled(torch.ones(n, 2))
        else:
            assert torch.equal(compiled(torch.ones(n, 2)), torch.full((n, 2), 2.0))
    capture.reset()
