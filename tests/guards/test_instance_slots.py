"""Tests guards on instances under random writes of every form, against the Python oracle."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import pytest

from capture.guards import DictHas, DictLacks, Equals, Guard, GuardSet, TypeIs
from capture.guards.native_setup import readers
from capture.sources import DictItemSource, InstanceDictSource, LocalSource, Scope

X = LocalSource(0, "x")
D = InstanceDictSource(X)
NAMES = ("a", "b", "c", "d", "e")
VALUES: tuple[Callable[[], object], ...] = (
    lambda: 1,
    lambda: 1.0,
    lambda: float("1.0"),
    lambda: "".join(["o", "n", "e"]),
    lambda: 12345678901234567890 + len(NAMES),
    lambda: (1, 2.5),
    lambda: None,
    lambda: True,
    lambda: [1],
    lambda: {"k": 1},
    lambda: object(),
)


def fresh_class() -> type:
    def init(self: Any) -> None:
        self.a, self.b, self.c = 1, 2.0, "three"

    return type("Instance", (), {"__init__": init})


def copied(name: str) -> str:
    """An equal string that is not the interned one."""
    return "".join(list(name + " "))[:-1]


def store_a(obj: Any, value: object) -> None:
    obj.a = value


def store_b(obj: Any, value: object) -> None:
    obj.b = value


def write(rng: random.Random, obj: Any, other: Any) -> None:
    name, value = rng.choice(NAMES), rng.choice(VALUES)()
    form = rng.randrange(16)
    held = obj.__dict__
    if form < 4:
        setattr(obj, name, value)
    elif form == 4:
        if name in held:
            delattr(obj, name)
    elif form == 5:
        held[copied(name)] = value
    elif form == 6:
        held.pop(name, None)
    elif form == 7:
        if name in held:  # a new object, perhaps where the old one was
            kind = type(held[name])
            del held[name]
            setattr(obj, name, kind() if kind is not object else rng.choice(VALUES)())
    elif form == 8:
        obj.__dict__ = dict(held)
    elif form == 9:
        obj.__dict__ = held.copy()
    elif form == 10:
        setattr(other, name, value)  # the class's shared keys grow
    elif form == 11:
        setattr(other, f"more_{rng.randrange(30)}", value)
    elif form > 13:  # by an instruction that has specialized itself to instances of the class
        store = store_a if form == 14 else store_b
        for _ in range(30):
            store(other, value)
        store(obj, value)
    elif form == 12:
        held.update({name: value})
    else:
        gc.collect(0)


def some_guards(rng: random.Random, obj: Any) -> list[Guard]:
    guards: list[Guard] = [TypeIs(X, type(obj))]
    for name in NAMES:
        choice = rng.randrange(4)
        source = DictItemSource(D, name)
        if name not in obj.__dict__:
            if choice:
                guards.append(DictLacks(D, name))
            continue
        value = obj.__dict__[name]
        if choice == 0:
            guards.append(DictHas(D, name))
        elif choice == 1:
            guards.append(TypeIs(source, type(value)))
        elif choice == 2 and type(value) in (int, float, str, tuple, bool, type(None)):
            guards.append(Equals(source, value))
    return guards


@pytest.mark.parametrize("seed", range(60))
def test_random_writes(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        cls = fresh_class()
        obj, other = cls(), cls()
        for _ in range(rng.randrange(6)):
            write(rng, obj, other)
        guard_set = GuardSet()
        for guard in some_guards(rng, obj):
            guard_set.add(guard)
        captures = [DictItemSource(D, name) for name in NAMES if name in obj.__dict__][:2]
        tree = guard_set.compile(captures)
        for step in range(60):
            target = other if rng.randrange(8) == 0 else obj
            scope = Scope([target], write)
            expected = guard_set.read_captures(scope, captures)
            holds = guard_set.check(scope) and expected is not None
            found = tree.check([target], write)
            assert (found is not None) == holds, (seed, step)
            if found is not None and expected is not None:
                assert [id(v) for v in found] == [id(v) for v in expected]
            del expected, found
            if rng.randrange(3):
                write(rng, obj, other)


def test_new_object_at_an_old_address() -> None:
    assert readers().shortcuts
    obj = fresh_class()()
    obj.a = float("1.5")
    guard_set = GuardSet()
    guard_set.add(Equals(DictItemSource(D, "a"), 1.5))
    tree = guard_set.compile([])
    reused = 0
    for _ in range(20):
        obj.a = float("1.5")  # equal, but not the guard's own
        assert tree.check([obj], write) is not None
        address = id(obj.a)
        del obj.a
        obj.a = float("2.5")
        reused += id(obj.a) == address
        assert tree.check([obj], write) is None
    assert reused
