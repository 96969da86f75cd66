"""Tests that a signature taken by ``inspect`` follows what it is made of."""

# mypy: ignore-errors

from __future__ import annotations

import inspect

import pytest

import capture


def changed(given):
    given.__defaults__ = (5,)


def renamed(given):
    given.__text_signature__ = "($self, a, b=1, /)"


def annotated(given):
    given.__annotations__["x"] = int


def keyword_default(given):
    given.__kwdefaults__["y"] = 7


def replaced(given):
    given.__signature__ = inspect.Signature()


@pytest.mark.parametrize("change", [changed, renamed, annotated, keyword_default, replaced])
def test_signature_follows_its_function(change):
    def given(x: float, z=1, *, y=2): ...

    def fn():
        return str(inspect.signature(given))

    with capture.config.patch(capture_without_tensors=True, suppress_errors=False):
        compiled = capture.compile(fn, backend="eager")
        for _ in range(2):
            assert compiled() == fn()
        change(given)
        for _ in range(2):
            assert compiled() == fn()
