"""Tests of guard sets and of what they say about a failure."""

from __future__ import annotations

from capture.guards import Equals, GuardSet, LenIs, TypeIs
from capture.guards.explain import all_failures, describe, first_failure
from capture.sources import AttrSource, LocalSource, Scope

X = LocalSource(0, "x")


def frame() -> None:
    """Stand in for a frame's function."""


def make_guards() -> GuardSet:
    guards = GuardSet()
    guards.add(TypeIs(X, str), "model.py:40")
    guards.add(Equals(X, "ab"), "model.py:41")
    guards.add(LenIs(X, 2))
    return guards


def test_guards_are_kept_once_and_in_order() -> None:
    guards = make_guards()
    guards.add(TypeIs(X, str), "model.py:99")
    assert [type(guard) for guard in guards] == [TypeIs, Equals, LenIs]
    assert guards.user_frame(TypeIs(X, str)) == "model.py:40"
    assert len(guards) == 3
    assert LenIs(X, 2) in guards


def test_first_failure_names_the_users_line() -> None:
    failure = first_failure(make_guards(), Scope(("abc",), frame))
    assert str(failure) == "`x` changed from 'ab' to 'abc', model.py:41"
    assert first_failure(make_guards(), Scope(("ab",), frame)) is None


def test_all_failures() -> None:
    failures = all_failures(make_guards(), Scope((b"abc",), frame))
    assert [str(failure) for failure in failures] == [
        "`x` changed from type str to bytes, model.py:40",
        "`x` changed from 'ab' to b'abc', model.py:41",
        "the length of `x` changed from 2 to 3",
    ]


def test_a_vanished_value_is_said_to_be_gone() -> None:
    guards = GuardSet()
    guards.add(Equals(AttrSource(X, "scale"), 2.0))
    assert str(first_failure(guards, Scope((5,), frame))) == "`x.scale` is no longer there"


def test_describe_lists_every_guard() -> None:
    assert describe(make_guards()).splitlines() == [
        "TypeIs: type(x) is str  (model.py:40)",
        "Equals: x == 'ab'  (model.py:41)",
        "LenIs: len(x) == 2",
    ]


def test_copies_are_independent() -> None:
    guards = make_guards()
    twin = guards.copy()
    twin.add(LenIs(X, 3))
    assert len(guards) == 3
    guards.update(twin)
    assert len(guards) == 4
