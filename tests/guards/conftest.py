"""Holds the fixture that compares the native guard tree with the Python oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from capture.guards import GuardSet
from capture.guards.guard import Guard
from capture.sources import Scope, Source

pytest.importorskip("capture._native")

Agree = Callable[..., bool]


def _frame_function() -> None:
    """Stand in for a frame's function."""


@pytest.fixture
def agree() -> Agree:
    """Check guards in Python and natively, three times; they must say the same; return it."""

    def agree(
        guards: Guard | Sequence[Guard],
        values: Sequence[object],
        func: Any = _frame_function,
        captures: Sequence[Source] = (),
        tree: Any = None,
    ) -> bool:
        guard_set = GuardSet()
        for guard in [guards] if isinstance(guards, Guard) else guards:
            guard_set.add(guard)
        scope = Scope(values, func)
        expected = guard_set.read_captures(scope, captures)
        holds = guard_set.check(scope) and expected is not None
        if tree is None:
            tree = guard_set.compile(captures)
        for _ in range(3):
            got = tree.check(values, func)
            assert (got is not None) == holds, guard_set.first_failure(scope)
            if got is not None:
                assert expected is not None
                assert all(a is b for a, b in zip(got, expected, strict=True))
        return holds

    return agree
