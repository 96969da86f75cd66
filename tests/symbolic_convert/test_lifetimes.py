"""Which weak references can tell that a piece dropped an object."""

from __future__ import annotations

import weakref
from typing import Any

from capture.guards import GuardSet, IdIs
from capture.sources import LocalSource
from capture.symbolic_convert.lifetimes import is_unwatched


class Thing:
    """Something that can be watched."""


def test_a_guards_own_watch_does_not_count() -> None:
    thing = Thing()
    guards = GuardSet()
    guards.add(IdIs(LocalSource(0, "x"), thing))
    tree = guards.compile()
    assert any(r.__callback__ is not None for r in weakref.getweakrefs(thing))
    assert is_unwatched(thing)
    assert tree.alive


def test_a_silent_reference_does_not_count() -> None:
    thing = Thing()
    reference = weakref.ref(thing)
    assert is_unwatched(thing)
    assert reference() is thing


def test_callbacks_and_proxies_of_the_program_count() -> None:
    calls: list[Any] = []
    for watch in (
        lambda t: weakref.ref(t, calls.append),
        lambda t: weakref.ref(t, lambda reference: None),
        weakref.proxy,
        lambda t: weakref.finalize(t, print),
    ):
        thing = Thing()
        kept = watch(thing)
        assert not is_unwatched(thing)
        del thing, kept
