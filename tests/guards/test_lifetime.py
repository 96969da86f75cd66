"""Tests that a tree keeps no user object alive, and never takes a new object for a dead one."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import torch

from capture.guards import (
    DictKeysAre,
    Equals,
    ExprHolds,
    GuardSet,
    IdIs,
    StateIs,
    TensorMatch,
    TypeIs,
)
from capture.sources import AttrSource, DictItemSource, ItemSource, LocalSource

X = LocalSource(0, "x")


class Thing:
    """Something that can die."""


def compile_one(guard: Any) -> Any:
    guards = GuardSet()
    guards.add(guard)
    return guards.compile()


def test_identity_does_not_keep_alive_and_death_ends_the_tree() -> None:
    thing = Thing()
    alive = weakref.ref(thing)
    tree = compile_one(IdIs(X, thing))
    assert tree.check((thing,)) is not None
    assert tree.alive
    del thing
    assert alive() is None
    assert not tree.alive
    assert tree.check((Thing(),)) is None


def test_a_dead_type_ends_the_tree() -> None:
    kind = type("Passing", (), {})
    tree = compile_one(TypeIs(X, kind))
    assert tree.check((kind(),)) is not None
    del kind
    gc.collect()
    assert not tree.alive


def test_dead_dict_keys_end_the_tree() -> None:
    thing = Thing()
    table = {thing: 1}
    tree = compile_one(DictKeysAre(X, (thing,)))
    assert tree.check((table,)) is not None
    table.clear()
    del thing
    assert not tree.alive


def test_guards_on_the_dead_do_not_hold(agree: Any) -> None:
    guard = IdIs(X, Thing())
    assert not agree(guard, (Thing(),))
    kind_guard = TypeIs(X, type("Passing", (), {}))
    gc.collect()
    assert not agree(kind_guard, (Thing(),))


def test_tensors_are_not_kept_alive() -> None:
    tensor = torch.ones(2)
    alive = weakref.ref(tensor)
    tree = compile_one(TensorMatch.of(X, tensor))
    assert tree.check((tensor,)) is not None
    del tensor
    gc.collect()
    assert alive() is None
    assert tree.alive


def test_a_tree_dies_with_its_last_reference_and_takes_its_weak_references_along() -> None:
    thing = Thing()
    tree = compile_one(IdIs(X, thing))
    dead = weakref.ref(tree)
    assert weakref.getweakrefcount(thing) == 1
    del tree
    assert dead() is None
    assert weakref.getweakrefcount(thing) == 0


def test_a_cycle_through_an_expression_is_collected() -> None:
    def make_cycle() -> weakref.ref[Any]:
        holder: list[Any] = []
        guards = GuardSet()
        guards.add(ExprHolds((X,), lambda x: bool(holder), "holder"))
        holder.append(guards.compile())
        return weakref.ref(holder[0])

    dead = make_cycle()
    gc.collect()
    assert dead() is None


def test_many_checks_leak_nothing() -> None:
    thing = Thing()
    thing.__dict__.update(a=1.5, b=[1, 2, 3], c=torch.ones(2))
    guards = GuardSet()
    guards.add(StateIs.now())
    guards.add(Equals(AttrSource(X, "a"), 1.5))
    guards.add(Equals(DictItemSource(AttrSource(X, "__dict__"), "a"), 1.5))
    guards.add(TensorMatch.of(AttrSource(X, "c"), thing.__dict__["c"]))
    tree = guards.compile([ItemSource(AttrSource(X, "b"), 1), AttrSource(X, "c")])
    broken = Thing()
    broken.__dict__.update(thing.__dict__, c=None)

    def run() -> None:
        for _ in range(500):
            assert tree.check((thing,)) is not None
            assert tree.check((broken,)) is None
            assert tree.check((5,)) is None

    run()
    gc.collect()
    before = sys.getallocatedblocks()
    counts = [sys.getrefcount(value) for value in thing.__dict__.values()]
    run()
    gc.collect()
    assert sys.getallocatedblocks() - before < 50
    assert [sys.getrefcount(value) for value in thing.__dict__.values()] == counts


def test_an_exception_being_handled_survives_a_check() -> None:
    tree = compile_one(Equals(AttrSource(X, "missing"), 1))
    try:
        raise KeyError("mine")
    except KeyError:
        assert tree.check((5,)) is None
        assert isinstance(sys.exc_info()[1], KeyError)
    assert sys.exc_info()[1] is None


def test_malformed_specs_are_refused() -> None:
    import pytest

    from capture._native import GuardTree

    node: Any = (0, 0, (), (), (), -1)
    specs: tuple[Any, ...] = (
        ((99, 0, (), (), (), -1),),
        ((0, -1, (), (), (), -1),),
        ((0, 0, ((77, 1),), (), (), -1),),
        ((0, 0, ((0, 5),), (), (), -1),),
        ((0, 0, ((2, []),), (), (), -1),),
        ((0, 0, (), (), (3,), -1),),
        ((0, 0, (), (), (), 4),),
        (((0, 0, (), ((5, [], (), (), (), -1),), (), -1)),),
        (5,),
        ((0, 0, ((10, ()),), (), (), -1),),
    )
    for bad in specs:
        with pytest.raises((ValueError, TypeError)):
            GuardTree(bad, 1, (), None)
    with pytest.raises(ValueError, match="snapshot"):
        GuardTree((node,), 1, (), 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a slot"):
        GuardTree((node,), 1, ((0, (0, 1), None),), None)
