"""Equivalents of the functions of ``bisect``."""

from __future__ import annotations

import bisect

import pytest

from capture.polyfills import bisection

PAIRS = [
    (bisect.bisect_left, bisection.bisect_left),
    (bisect.bisect_right, bisection.bisect_right),
]


@pytest.mark.parametrize(("original", "ours"), PAIRS)
def test_places_are_those_of_the_original(original, ours) -> None:  # type: ignore[no-untyped-def]
    for items in ([], [1], [1, 1, 2, 5], [0.5, 3, 3, 3, 9]):
        for x in (-1, 0.5, 1, 2, 3, 10):
            assert ours(items, x) == original(items, x)
            assert ours(items, x, 0, len(items) // 2) == original(items, x, 0, len(items) // 2)
            assert ours(items, -x, key=lambda i: -i) == original(items, -x, key=lambda i: -i)


@pytest.mark.parametrize(("original", "ours"), PAIRS)
def test_errors_are_those_of_the_original(original, ours) -> None:  # type: ignore[no-untyped-def]
    for arguments in (([1], 1, -1), ([1], "a"), (3, 1)):
        with pytest.raises(Exception) as expected:
            original(*arguments)
        with pytest.raises(type(expected.value)) as actual:
            ours(*arguments)
        assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize(
    ("original", "ours"),
    [(bisect.insort_left, bisection.insort_left), (bisect.insort_right, bisection.insort_right)],
)
def test_insertions_are_those_of_the_original(original, ours) -> None:  # type: ignore[no-untyped-def]
    for items in ([], [1], [1, 1.0, 2, 5]):
        for x in (True, 1, 2.0, 7):
            expected, actual = [*items], [*items]
            original(expected, x)
            ours(actual, x)
            assert list(map(repr, actual)) == list(map(repr, expected))
            original(expected, x, 0, 1, key=lambda i: i)
            ours(actual, x, 0, 1, key=lambda i: i)
            assert list(map(repr, actual)) == list(map(repr, expected))
