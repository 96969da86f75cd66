"""Conditions on sizes: the native evaluator against Python, and what is left to Python."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from capture.guards.guard_set import GuardSet
from capture.guards.size_program import NumbersHold, programs_of, without_implied
from capture.sources import LocalSource, Scope, SizeSource, StrideSource

pytest.importorskip("capture._native")

X, N, M = LocalSource(0, "x"), LocalSource(1, "n"), LocalSource(2, "m")
SIZES = (SizeSource(X, 0), SizeSource(X, 1), StrideSource(X, 0), N, M)


def holds(guards: list[NumbersHold], values: list[Any]) -> bool:
    """What the native tree says; the Python oracle must agree."""
    found = GuardSet()
    for guard in guards:
        found.add(guard)
    native = found.compile([]).check(values) is not None
    assert native == found.check(Scope(values, None))
    return native


def expression(generator: random.Random, depth: int) -> str:
    """A random integer expression."""
    if depth == 0 or generator.random() < 0.2:
        kind = generator.random()
        if kind < 0.7:
            return f"a{generator.randrange(len(SIZES))}"
        return str(generator.choice([0, 1, 2, 3, 7, -1, -5, 1 << 40, (1 << 63) - 1]))
    left, right = (expression(generator, depth - 1) for _ in range(2))
    op = generator.choice(["+", "-", "*", "//", "%", "max", "min", "neg"])
    if op == "neg":
        return f"(-{left})"
    return f"{op}({left}, {right})" if op in ("max", "min") else f"({left} {op} {right})"


def condition(generator: random.Random) -> str:
    """A random condition."""
    left, right = expression(generator, 3), expression(generator, 2)
    text = f"({left} {generator.choice(['==', '!=', '<', '<=', '>', '>='])} {right})"
    form = generator.choice(["plain", "is", "not", "and", "or", "bool"])
    if form == "is":
        return f"{text} is {generator.choice([True, False])}"
    if form == "not":
        return f"(not {text})"
    if form in ("and", "or"):
        return f"({text} {form} ({expression(generator, 1)} < {expression(generator, 1)}))"
    return f"bool({left}) is {generator.choice([True, False])}" if form == "bool" else text


@pytest.mark.parametrize("seed", range(40))
def test_random_conditions_are_python_s(seed: int) -> None:
    generator = random.Random(seed)
    seen = set()
    for _ in range(50):
        guards = [NumbersHold(SIZES, condition(generator)) for _ in range(generator.randint(1, 3))]
        x = torch.empty(generator.randint(0, 9), generator.randint(1, 9))
        numbers = [generator.choice([0, 1, 2, -3, 12, 1 << 62, -(1 << 63), 1 << 70]) for _ in "nm"]
        seen.add(holds(guards, [x, *numbers]))
    assert seen == {True, False}


def test_plain_integer_arithmetic_is_native() -> None:
    programs, others = programs_of([NumbersHold(SIZES, "(a0 * 2 + a1) % 3 == a2 // 4")])
    assert (len(programs), others) == (1, [])


@pytest.mark.parametrize(
    "text", ["a0 / 2 > 1", "a0 ** 2 > 1", "abs(a0) > 1", "math.sqrt(a0) > 2", "repr(a0) == '3'"]
)
def test_everything_else_is_left_to_python(text: str) -> None:
    guard = NumbersHold((N,), text)
    assert programs_of([guard]) == ([], [guard])
    holds([guard], [None, 3])
    holds([guard], [None, 9])


def test_floats_in_the_place_of_ints_are_python_s() -> None:
    assert holds([NumbersHold((N,), "a0 > 2")], [None, 2.5])
    assert not holds([NumbersHold((N,), "a0 > 2")], [None, 1.5])


def test_many_conditions_are_split_into_programs() -> None:
    sources = [SizeSource(LocalSource(i, f"x{i}"), 0) for i in range(150)]
    guards = [NumbersHold((s,), "a0 >= 2") for s in sources]
    programs, others = programs_of(guards)
    assert len(programs) == 3
    assert not others
    values: list[Any] = [torch.empty(2) for _ in sources]
    assert holds(guards, values)
    values[140] = torch.empty(1)
    assert not holds(guards, values)


def test_a_condition_explains_itself() -> None:
    guard = NumbersHold((SizeSource(X, 0), N), "(a0 % 2) == a1")
    assert guard.explain(Scope([torch.empty(3), 0], None)) == (
        "`(x.shape[0] % n) == n` no longer holds (x.shape[0] = 3, n = 0)".replace(" % n", " % 2")
    )


def test_malformed_programs_are_refused() -> None:
    native: Any = pytest.importorskip("capture._native")
    spec = ((0, 0, (), (), (), 0),)
    for code in [(99,), (0,), (1, 3), (2,), (0, 1), (19,)]:
        with pytest.raises(ValueError, match="malformed"):
            native.GuardTree(spec, 0, ((5, (), (((0, 2, 0),), code, bool)),), None, 1)


@pytest.mark.parametrize("x", [2.5, 3.5, float("nan"), float("inf"), 1e300])
def test_an_expression_that_is_compared_is_not_evaluated_twice(x: float) -> None:
    raises_nothing = NumbersHold((N,), "(math.floor(a0)) is not None")
    compared = NumbersHold((N,), "(math.floor(a0)) == 2")
    other = NumbersHold((N,), "(math.ceil(a0)) is not None")
    assert without_implied([raises_nothing, compared, other]) == [compared, other]
    assert without_implied([raises_nothing, other]) == [raises_nothing, other]
    values = [None, x, None]
    assert holds([raises_nothing, compared], values) == (x == 2.5)
