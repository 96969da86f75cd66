"""Tests say which backend they mean: the default one takes seconds of a C++ compiler a graph."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import capture

TESTS = Path(__file__).resolve().parent


def _nameless(path: Path) -> Iterator[int]:
    """Yield the lines where ``capture.compile`` is used without a backend."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(k.arg == "backend" for k in node.keywords):
            named.add(id(node.func))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "compile" and id(node) not in named:
            if isinstance(node.value, ast.Name) and node.value.id == "capture":
                yield node.lineno


def test_default_is_inductor() -> None:
    assert inspect.signature(capture.compile).parameters["backend"].default == "inductor"


def test_every_test_names_its_backend() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in _nameless(path)
        if path != Path(__file__).resolve()
    ]
    assert not found, 'write backend="eager" unless the test is about another one'
