"""What guards say of values."""

# mypy: ignore-errors

from __future__ import annotations

from capture.guards.guard import shorten

HUGE = 10**5000


def test_number_too_long_for_text_has_a_short_one():
    assert len(shorten(HUGE)) <= 80
    assert shorten(HUGE).startswith("0x")
    assert shorten((1, HUGE)) == "a tuple of huge numbers"


def test_guard_on_a_huge_number_may_fail(check):
    def f(n):
        return n // 10**4990 + 1

    check(f, (HUGE,), (HUGE * 2,), (3,))
