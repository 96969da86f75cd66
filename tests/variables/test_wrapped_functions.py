"""``functools.wraps`` in captured code, and the attributes that it copies."""

# mypy: ignore-errors

from __future__ import annotations

import functools

import torch


def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    """Scale."""
    return x * by


scaled.marker = "original"


def attributes(fn):
    return (
        fn.__name__, fn.__qualname__, fn.__doc__, fn.__module__, dict(fn.__annotations__),
        dict(fn.__dict__).get("marker"), fn.__wrapped__ is scaled,
    )  # fmt: skip


def wrapping(x):
    @functools.wraps(scaled)
    def inner(*args):
        return scaled(*args) + 1

    return inner(x), attributes(inner)


def test_attributes_are_copied(check):
    report = check(wrapping, (torch.ones(2),))
    assert not report.breaks


def escaping(x):
    @functools.wraps(scaled)
    def inner(*args):
        return scaled(*args) + 1

    return inner, x + 1


def escape(decorate):
    inner, _ = decorate(escaping)(torch.ones(2))
    return attributes(inner), inner(torch.ones(2))


def test_a_wrapper_that_escapes_has_them(check):
    check.script(escape)


def made_here(x):
    def plain(y: int, z: "str") -> float:
        """A text."""
        return y

    def bare():
        return x

    bare.__name__ = "named"
    return (
        x + 1, plain.__doc__, plain.__annotations__, bare.__doc__, bare.__annotations__,
        bare.__name__, plain.__module__,
    )  # fmt: skip


def test_functions_made_here_have_texts_of_their_own(check):
    report = check(made_here, (torch.ones(2),))
    assert not report.breaks


def with_grad_mode(x):
    @torch.no_grad()
    def inner(y):
        return y * 2

    return inner(x), torch.is_grad_enabled()


def test_a_grad_mode_as_decorator_of_a_function_made_here(check):
    report = check(with_grad_mode, (torch.ones(2, requires_grad=True),))
    assert not report.breaks
