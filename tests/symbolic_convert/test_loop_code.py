"""Codes that run the rest of a loop: from many places of many functions, against a plain call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import pytest

from capture.instructions.decode import decode
from capture.instructions.ops import Op
from capture.symbolic_convert.loop_code import make_loop_code
from capture.symbolic_convert.resume import Layout, Slot
from tests.symbolic_convert.stepping import Stepper, outcome_of
from tests.symbolic_convert.subjects import FUNCTIONS, log


def leaves_early(a: int, b: int) -> list[int]:
    """Leaves by ``break``, ``return`` and the end."""
    out: list[int] = []
    for i in range(a):
        for j in range(b):
            if j == 2:
                break
            if i == 3:
                return [*out, -1]
            out.append(i * j)
        else:
            out.append(100)
    return out


def handles(a: int, b: int) -> list[object]:
    """Handles what is raised in the loop, in it and around it."""
    out: list[object] = []
    try:
        for i in range(a):
            try:
                out.append(10 // (i - 1))
            except ZeroDivisionError as error:
                out.append(str(error))
                continue
            finally:
                out.append(i)
            out.append([i * k for k in range(b)])
            out.append({"x": 1}["x" if i < 3 else "y"])
    except KeyError as error:
        out.append(error.args)
    return out


def shares_cells(a: int, b: int) -> list[object]:
    """Makes closures over what the loop binds, and over slot 0."""
    made: list[Callable[[], object]] = []
    for i in range(b):
        a += i

        def add(k: int = i) -> int:
            return a + i + k

        made.append(add)
    return [f() for f in made]


OWN = [leaves_early, handles, shares_cells]


def logged(call: Callable[[], object]) -> tuple[object, list[object]]:
    log.clear()
    return outcome_of(call), list(log)


@pytest.mark.parametrize("args", [(4, 3), (2, 0), (3, 5)], ids=str)
@pytest.mark.parametrize("function", [*FUNCTIONS, *OWN], ids=lambda f: f.__name__)
def test_running_loops_at_once_changes_nothing(function: Any, args: Any) -> None:
    expected = logged(lambda: function(*args))
    stepper = Stepper(function)
    assert logged(partial(stepper.run_loops, args, 100_000)) == expected
    for after in range(0, stepper.made + 1, 3):
        assert logged(partial(stepper.run_loops, args, after)) == expected


@pytest.mark.parametrize("function", OWN, ids=lambda f: f.__name__)
def test_loops_with_all_names_bound_are_run_at_once(function: Any) -> None:
    stepper = Stepper(function)
    ran = set()
    for after in range(0, 60, 5):
        stepper.run_loops((4, 3), after)
        ran.add(stepper.loops > 0)
    assert True in ran


def heads(function: Callable[..., object]) -> list[int]:
    assert isinstance(function, FunctionType)
    return [i.index for i in decode(function.__code__).instructions if i.op is Op.FOR_ITER]


def test_a_name_first_bound_in_the_loop_is_bound_in_all_rounds_from_the_body_on() -> None:
    def binds(items: list[int]) -> int:
        total = 0
        for item in items:
            total += item
        return total

    (head,) = heads(binds)
    code = binds.__code__
    unbound = Layout(("items", "total"), (Slot.VALUE,))
    assert make_loop_code(code, head, unbound) is None  # it may be empty
    body = Layout(("items", "total"), (Slot.VALUE, Slot.VALUE))
    made = make_loop_code(code, head + 1, body)
    assert made is not None
    assert [outcome.layout for outcome in made.outcomes] == [Layout(("items", "total", "item"))]


def test_code_behind_a_loop_has_no_loop_code() -> None:
    def binds(items: list[int]) -> int:
        total = 0
        for item in items:
            total += item
        return total

    (head,) = heads(binds)
    end = decode(binds.__code__).instructions[head].target
    assert make_loop_code(binds.__code__, end, Layout(("items", "total"), ())) is None


def test_a_name_deleted_in_some_rounds_has_no_loop_code() -> None:
    def drops(items: list[int], last: int) -> None:
        for item in items:
            if item:
                del last

    (head,) = heads(drops)
    layout = Layout(("items", "last", "item"), (Slot.VALUE,))
    assert make_loop_code(drops.__code__, head, layout) is None
