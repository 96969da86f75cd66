"""Exceptions whose traceback the program takes away, and what is being handled."""

# mypy: ignore-errors
# ruff: noqa: PT017, PT027

from __future__ import annotations

import functools
import re
import sys
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import capture


@pytest.fixture(autouse=True)
def _forced() -> Iterator[None]:
    with capture.config.patch(capture_without_tensors=True, suppress_errors=False):
        yield


def breaks(fn: Callable[[], Any]) -> list[Any]:
    """Compare two captured calls with a plain one; the breaks of both."""
    expected = fn()
    capture.reset()
    compiled = capture.compile(fn, backend="eager")
    assert compiled() == expected
    assert compiled() == expected
    return list(capture.stats().breaks)


def test_assert_raises_is_captured() -> None:
    case = unittest.TestCase()

    def fn() -> Any:
        def fails() -> None:
            raise KeyError("x")

        with case.assertRaises(ValueError) as caught:
            raise ValueError(3)
        case.assertRaises(KeyError, fails)
        with case.assertRaisesRegex(KeyError, "^.x"):
            fails()
        return caught.exception.args, caught.exception.__traceback__, str(caught.exception)

    assert not breaks(fn)


def test_exception_without_traceback_outlives_the_piece() -> None:
    def fn() -> Any:
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise ValueError(2) from None
        except ValueError as error:
            kept = error.with_traceback(None)
        capture.graph_break()
        return type(kept), kept.args, repr(kept.__context__), kept.__suppress_context__

    breaks(fn)


def test_context_is_what_the_caller_handles() -> None:
    def inner() -> Any:
        try:
            raise KeyError(1)
        except KeyError as error:
            return error.with_traceback(None)

    compiled = capture.compile(inner, backend="eager")
    assert compiled().__context__ is None
    try:
        raise ValueError
    except ValueError as outer:
        assert compiled().__context__ is outer
    assert compiled().__context__ is None


def test_raised_again_it_has_a_traceback_again() -> None:
    def fn() -> Any:
        try:
            raise KeyError(1)
        except KeyError as error:
            kept = error.with_traceback(None)
        try:
            raise kept
        except KeyError as error:
            return error.__traceback__ is not None

    breaks(fn)


def test_exc_info_in_and_out_of_handlers() -> None:
    def fn() -> Any:
        seen = [sys.exc_info(), sys.exception()]
        try:
            raise KeyError(1)
        except KeyError as error:
            seen.append(sys.exc_info()[0])
            seen.append(sys.exception() is error)
        return [*seen, sys.exc_info()]

    assert not breaks(fn)


def test_exc_info_of_a_caller() -> None:
    def fn() -> Any:
        return sys.exc_info()[0]

    compiled = capture.compile(fn, backend="eager")
    assert compiled() is None
    try:
        raise KeyError
    except KeyError:
        assert compiled() is KeyError
    assert compiled() is None


@pytest.mark.parametrize("args", [(), (1,), ("a",), (1, "b"), ((),)])
@pytest.mark.parametrize("cls", [KeyError, ValueError])
def test_text_of_exceptions(cls: type[Exception], args: tuple[Any, ...]) -> None:
    def fn() -> Any:
        return str(cls(*args)), repr(cls(*args)), f"{cls(*args)}"

    assert not breaks(fn)


def test_wrapped_functions_keep_their_names() -> None:
    def outer(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inner(*args: Any) -> Any:
            """Text of inner."""
            return fn(*args)

        return inner

    def fn() -> Any:
        @outer
        def add(x: int) -> int:
            """Text of add."""
            return x + 1

        return add(3), add.__name__, add.__doc__, add.__module__, add.__wrapped__(1)

    assert not breaks(fn)

    def gives() -> Any:
        @outer
        def add(x: int) -> int:
            """Text of add."""
            return x + 1

        return add

    plain, made = gives(), capture.compile(gives, backend="eager")()
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        assert getattr(made, name) == getattr(plain, name)


def test_regular_expressions_on_constants() -> None:
    def fn() -> Any:
        pattern = re.compile(r"(\w)(\d)?")
        found = pattern.search("  a1")
        return found.groups(), found.span(), bool(pattern.match("!")), re.findall("a", "aba")

    assert not breaks(fn)


def test_exception_thrown_into_a_handler_of_a_generator_has_its_context() -> None:
    def numbers() -> Iterator[int]:
        try:
            raise KeyError("a")
        except KeyError:
            yield 1

    def fn() -> Any:
        made = numbers()
        next(made)
        with unittest.TestCase().assertRaises(ValueError) as caught:
            made.throw(ValueError)
        return type(caught.exception.__context__)

    breaks(fn)
