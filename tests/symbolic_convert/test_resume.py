"""Codes that break and resume frames: every instruction of many functions, against a plain call."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import pytest

from capture.errors import InternalError
from capture.instructions.decode import decode
from capture.instructions.ops import Op
from capture.symbolic_convert import resume
from capture.symbolic_convert.resume import Layout, Slot
from tests.symbolic_convert.stepping import Box, Stepper, outcome_of
from tests.symbolic_convert.subjects import (
    FUNCTIONS,
    Derived,
    Token,
    awaits,
    drops,
    fails,
    keyword_only,
    log,
    no_arguments,
    sees_locals,
)


def run_logged(call: Callable[[], object]) -> tuple[object, list[object]]:
    log.clear()
    result = outcome_of(call)
    return result, list(log)


def check_everywhere(function: Any, *args: object) -> None:
    """Step k instructions and resume, for every k; also step through to the end."""
    expected = run_logged(lambda: function(*args))
    stepper = Stepper(function)
    assert run_logged(lambda: stepper.run(args, -1)) == expected
    total = stepper.made
    assert total > 3
    for steps in range(total + 1):
        resumed = run_logged(partial(stepper.run, args, steps))
        assert resumed == expected, f"resumed after {steps} steps"


@pytest.mark.parametrize("args", [(4, 3), (2, 0), (3, 5)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_resuming_anywhere_changes_nothing(function: Callable[..., object], args: Any) -> None:
    check_everywhere(function, *args)


@pytest.mark.parametrize("name", ["scale", "captured", "rebound", "named"])
def test_super_works_in_resumed_code(name: str) -> None:
    check_everywhere(getattr(Derived, name), Derived(), 3)


def test_traceback_shows_the_users_lines() -> None:
    def frames(call: Callable[[], object]) -> list[traceback.FrameSummary]:
        with pytest.raises(ZeroDivisionError) as caught:
            call()
        return [
            frame
            for frame in traceback.extract_tb(caught.value.__traceback__)
            if frame.name == "fails"
        ]

    expected = frames(partial(fails, 1, 0))
    stepper = Stepper(fails)  # type: ignore[arg-type]
    for steps in (-1, 0, 3):
        assert frames(partial(stepper.run, (1, 0), steps)) == expected


def test_locals_are_those_of_the_original() -> None:
    check_everywhere(sees_locals, 1, 2)


def test_codes_keep_the_originals_names() -> None:
    def function(a: int, *, b: int, **rest: int) -> int:
        """Say something."""
        return a + b + len(rest)

    code = function.__code__
    layout = Layout(("a", "b", "rest"))
    made = [
        resume.make_break_code(code, 0, layout).code,
        resume.make_resume_code(code, 0, layout),
        resume.make_await_code(code, 3, layout, False).code,
    ]
    for new in made:
        assert new.co_name == code.co_name
        assert new.co_qualname == code.co_qualname
        assert new.co_filename == code.co_filename
        assert new.co_firstlineno == code.co_firstlineno
        assert new.co_varnames[:2] == ("a", ".box")
        assert new.co_argcount == 2
        assert new.co_kwonlyargcount == 0


def test_slot0_is_taken_only_where_there_is_one() -> None:
    assert not resume.takes_slot0(no_arguments.__code__)
    assert resume.takes_slot0(keyword_only.__code__)
    code = resume.make_resume_code(no_arguments.__code__, 0, Layout(()))
    assert FunctionType(code, globals())(Box([])) == 2
    code = resume.make_resume_code(keyword_only.__code__, 0, Layout(("key",)))
    assert FunctionType(code, globals())(7, Box([])) == [7]


def test_values_are_freed_as_in_eager() -> None:
    token, seen = Token(), []
    alive = weakref.ref(token)
    stepper = Stepper(drops)  # type: ignore[arg-type]

    class Probe(list[int]):
        def append(self, item: int) -> None:
            seen.append(alive() is None)

    for steps in (0, 1, 2, 3, 4):
        state, cells = stepper.start(token, Probe())
        del token
        for _ in range(steps):
            state = stepper.step(state, cells)
        stepper.resume(state, cells)
        del state
        token = Token()
        alive = weakref.ref(token)
    assert seen == [True] * 5


def test_a_caught_exception_is_in_no_cycle() -> None:
    def catches(a: Any, b: int) -> int:
        try:
            a(b)
        except ValueError:
            return 1
        return 2

    caught: list[Any] = []

    class Marked(ValueError):
        def __init__(self) -> None:
            caught.append(weakref.ref(self))

    def raises(b: int) -> None:
        raise Marked

    gc.disable()
    try:
        stepper = Stepper(catches)  # type: ignore[arg-type]
        for steps in (-1, 0, 3, 5):
            assert stepper.run((raises, 1), steps) == 1
    finally:
        gc.enable()
    assert len(caught) == 4
    assert all(reference() is None for reference in caught)


def index_of(function: Any, op: Op, skip: int = 0) -> int:
    places = [inst.index for inst in decode(function.__code__).instructions if inst.op is op]
    return places[skip]


def run_await(function: Any, callee: Callable[[], object], discard: bool) -> object:
    code = function.__code__
    index = index_of(function, Op.CALL)
    layout = Layout(("a", "b"), (Slot.VALUE,))
    made = resume.make_await_code(code, index, layout, discard)
    call = FunctionType(made.code, globals())
    number, *values = call(1, Box(["bb", 1, callee]))
    outcome = made.outcomes[number]
    if discard:
        assert outcome.layout == layout
        return values
    resumed = resume.make_resume_code(code, outcome.index, outcome.layout)
    return FunctionType(resumed, globals())(values[0], Box(values[1:]))


def test_await_code_goes_on_behind_the_call() -> None:
    assert run_await(awaits, lambda: 41, False) == 42
    assert run_await(awaits, lambda: 41, True) == [1, "bb", 1]


def test_await_code_leads_into_the_handler() -> None:
    def raises() -> None:
        raise ValueError("from the callee")

    assert run_await(awaits, raises, False) == "from the callee"


def test_an_unbound_slot0_stays_unbound() -> None:
    def function(a: int) -> int:
        return a

    code = resume.make_resume_code(function.__code__, 0, Layout(()))
    with pytest.raises(UnboundLocalError, match="'a'"):
        FunctionType(code, globals())(None, Box([]))


def test_an_outcome_for_each_way() -> None:
    def function(a: Any) -> Any:
        try:
            for i in a:
                print(i)
        except ValueError:
            pass

    index = index_of(function, Op.FOR_ITER)
    layout = Layout(("a",), (Slot.VALUE,))
    outcomes = resume.make_break_code(function.__code__, index, layout).outcomes
    target = decode(function.__code__).instructions[index].target
    handler = decode(function.__code__).handler_at(index)
    assert handler is not None
    assert [outcome.index for outcome in outcomes] == [index + 1, target, handler.target]
    assert [len(outcome.layout.stack) for outcome in outcomes] == [2, 0, 1]


def test_generators_and_returns_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(InternalError, match="generator"):
        resume.make_resume_code(generator.__code__, 3, Layout(()))
    index = index_of(awaits, Op.RETURN_VALUE)
    with pytest.raises(InternalError, match="cannot run on its own"):
        resume.make_break_code(awaits.__code__, index, Layout((), (Slot.VALUE,)))


def test_a_layout_that_does_not_fit_is_refused() -> None:
    index = index_of(awaits, Op.CALL)
    with pytest.raises(InternalError, match="does not fit"):
        resume.make_break_code(awaits.__code__, index, Layout(("a", "b"), (Slot.VALUE,)))
