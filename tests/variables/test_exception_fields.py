"""Exceptions made during capture: what C keeps in them, tracebacks, throwing into generators."""

# mypy: ignore-errors

from __future__ import annotations

import contextlib
import sys

import pytest
import torch

X = torch.tensor([1.0, -2.0, 3.0])

FIELDS = ("args", "errno", "strerror", "filename", "name", "obj", "path", "msg", "code", "value",
          "start", "end", "reason", "encoding", "object", "lineno", "text")  # fmt: skip


def shown(exc):
    found = [(n, getattr(exc, n)) for n in FIELDS if hasattr(exc, n)]
    return type(exc).__name__, str(exc), repr(exc), found


class MissingFile(OSError):
    pass


class Renamed(ImportError):
    def __init__(self, text, extra=None):
        super().__init__(text, name="module")
        self.extra = extra


MAKERS = [
    lambda: OSError(2, "text", "file"),
    lambda: OSError("only text"),
    lambda: MissingFile(13, "text"),
    lambda: ImportError("text", name="n", path="p"),
    lambda: Renamed("text", extra=4),
    lambda: AttributeError("text", name="n"),
    lambda: NameError("text", name="n"),
    lambda: StopIteration(5),
    lambda: SystemExit(6),
    lambda: UnicodeDecodeError("utf8", b"abc", 1, 2, "reason"),
    lambda: SyntaxError("msg", ("file", 1, 2, "text")),
    lambda: KeyError("k"),
]


@pytest.mark.parametrize("maker", MAKERS)
def test_fields_of_a_made_exception(check, maker):
    def f(x):
        return x + 1, shown(maker())

    assert not check(f, (X,)).breaks


@pytest.mark.parametrize("maker", MAKERS)
def test_a_made_exception_leaves_with_its_fields(check, maker):
    def f(x):
        return x + 1, maker()

    made = check(f, (X,)).values[-1][1]
    assert shown(made) == shown(maker())


@pytest.mark.parametrize("maker", MAKERS)
def test_a_raised_exception_is_caught_with_its_fields(check, maker):
    def f(x):
        try:
            raise maker()
        except BaseException as error:
            return x + 1, str(error), repr(error), error.args

    assert not check(f, (X,)).breaks


def test_fields_are_set_and_deleted(check):
    def f(x):
        error = ImportError("text", name="n")
        error.name = "other"
        error.path = x.shape[0]
        del error.msg
        error.args = (1, 2)
        return x, error, error.name, error.path, error.msg, error.args

    made = check(f, (X,)).values[-1][1]
    assert (made.name, made.path, made.msg, made.args) == ("other", 3, None, (1, 2))


def test_wrong_parts_are_refused(check):
    def f(x):
        seen = []
        error = ValueError("v")
        for name, value in [
            ("__cause__", 1),
            ("__context__", 1),
            ("__traceback__", 1),
            ("args", 1),
        ]:
            try:
                setattr(error, name, value)
            except TypeError as refused:
                seen.append(str(refused))
        return x + 1, seen

    check(f, (X,))


def test_keywords_that_no_exception_takes(check):
    def f(x):
        try:
            ValueError(1, a=2)
        except TypeError as error:
            return x + 1, str(error)

    assert not check(f, (X,)).breaks


def test_a_look_up_names_what_it_missed(check):
    class Hooked:
        def __getattr__(self, name):
            raise AttributeError("none")

    def f(x):
        try:
            Hooked().missing  # noqa: B018
        except AttributeError as error:
            return x + 1, error.name

    check(f, (X,))


def test_init_gets_the_arguments_behind_a_new_of_the_program(check):
    class Doubled(ValueError):
        def __new__(cls, value):
            return super().__new__(cls, value * 2)

    def f(x):
        return x + 1, Doubled(4).args

    assert not check(f, (X,)).breaks


def test_a_traceback_is_kept_and_put_back(check):
    def f(x):
        try:
            raise ValueError(1)
        except ValueError as error:
            trace = error.__traceback__
            error.__traceback__ = None
            gone = error.__traceback__ is None
            error.__traceback__ = trace
            return x + 1, gone, error.__traceback__ is trace

    assert not check(f, (X,)).breaks


def test_raising_again_keeps_a_traceback_and_raising_anew_does_not(check):
    def f(x):
        seen = []
        try:
            try:
                raise ValueError(1)
            except ValueError as error:
                trace = error.__traceback__
                raise
        except ValueError as error:
            seen.append(error.__traceback__ is trace)
            try:
                raise error
            except ValueError as other:
                seen.append(other.__traceback__ is trace)
        return x + 1, seen

    assert not check(f, (X,)).breaks


@contextlib.contextmanager
def managed(log, swallow):
    try:
        yield 5
    except ValueError:
        log.append("caught")
        if not swallow:
            raise
    finally:
        log.append("left")


def test_a_context_manager_swallows_or_passes_on_an_exception(check):
    def f(x, swallow):
        log = []
        try:
            with managed(log, swallow) as number:
                x = x + number
                raise ValueError("in the block")
        except ValueError as error:
            log.append(str(error))
        return x, log

    assert not check(f, (X, True), (X, False)).breaks


def test_stop_iteration_in_a_block_of_a_context_manager(check):
    def f(x):
        log = []
        try:
            with managed(log, False):
                raise StopIteration("s")
        except StopIteration as error:
            log.append(error.value)
        return x + 1, log

    assert not check(f, (X,)).breaks


def echo():
    while True:
        try:
            yield 0
        except ValueError as error:
            yield error.args


def test_throwing_a_class_an_instance_and_nonsense(check):
    def f(x):
        seen = []
        for thrown in (ValueError, ValueError(3), "text"):
            generator = echo()
            next(generator)
            try:
                seen.append(generator.throw(thrown))
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    check(f, (X,))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="throw() warns of its parts since 3.12")
def test_throwing_a_class_with_its_instance_or_arguments(check):
    def f(x):
        error = ValueError(1)
        seen = []
        for value in (error, (1, 2), 7, None):
            generator = echo()
            next(generator)
            seen.append(generator.throw(ValueError, value))
        return x + 1, seen

    check(f, (X,))


class Odd:
    def __repr__(self):
        return "odd"


def test_the_text_of_containers_of_objects(check):
    def f(x):
        error = KeyError("k")
        return x + 1, repr([Odd(), (Odd(),), {1: Odd()}, error]), ascii(("\xe9", Odd()))

    assert not check(f, (X,)).breaks
