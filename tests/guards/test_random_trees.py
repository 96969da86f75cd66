"""Tests random guards on random values, before and after random writes, against the oracle."""

from __future__ import annotations

import collections
import random
import types
from typing import Any

import pytest
import torch

from capture.guards import (
    AllDistinct,
    DictHas,
    DictKeysAre,
    DictLacks,
    Equals,
    Guard,
    GuardSet,
    IdIs,
    IsEmpty,
    IsNotSame,
    IsSame,
    LenIs,
    TensorMatch,
    TypeAttrAbsent,
    TypeIs,
)
from capture.guards.kinds import constant_key
from capture.sources import (
    AttrSource,
    CellContentsSource,
    DictItemSource,
    DictKeySource,
    DictValueSource,
    FunctionClosureSource,
    FunctionDefaultsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    MethodFuncSource,
    MethodSelfSource,
    Scope,
    SlotMemberSource,
    Source,
    TypeAttrSource,
    TypeSource,
)

NAMES = ("a", "b", "c", "d")


class Thing:
    shared: Any = 1

    def method(self) -> int:
        return 1


class Other(Thing):
    pass


class Slotted:
    __slots__ = NAMES
    a: Any
    b: Any


class World:
    """Makes values, tells how to go on from one, and writes to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pool: list[Any] = [
            None,
            True,
            1,
            2,
            1.0,
            -0.0,
            "a",
            "ab",
            (1, 2),
            (1.0, 2),
            len,
            Thing,
        ]
        self.mutable: list[Any] = []

    def value(self, depth: int) -> Any:
        choose = self.random.choice
        if depth <= 0 or self.random.random() < 0.2:
            return choose(self.pool)
        if self.mutable and self.random.random() < 0.15:
            return choose(self.mutable)
        makers = [self.make_list, self.make_dict, self.make_ordered, self.make_thing]
        makers += [self.make_slotted, self.make_thing, self.make_function, self.make_tensor]
        made = choose([*makers, self.make_method])(depth - 1)
        self.mutable.append(made)
        return made

    def make_list(self, depth: int) -> Any:
        return [self.value(depth) for _ in range(self.random.randrange(4))]

    def make_dict(self, depth: int) -> Any:
        keys = self.random.sample([*NAMES, 1, None, int], self.random.randrange(5))
        return {key: self.value(depth) for key in keys}

    def make_ordered(self, depth: int) -> Any:
        return collections.OrderedDict(self.make_dict(depth))

    def make_thing(self, depth: int) -> Any:
        thing = self.random.choice((Thing, Other))()
        for name in self.random.sample(NAMES, self.random.randrange(5)):
            setattr(thing, name, self.value(depth))
        return thing

    def make_slotted(self, depth: int) -> Any:
        made = Slotted()
        made.a = self.value(depth)
        return made

    def make_function(self, depth: int) -> Any:
        held = self.value(depth)
        default = self.value(depth)

        def function(x: Any = default) -> Any:
            return held, x

        return function

    def make_method(self, depth: int) -> Any:
        return self.make_thing(depth).method

    def make_tensor(self, depth: int) -> Any:
        shape = [self.random.randrange(1, 4) for _ in range(self.random.randrange(4))]
        return torch.zeros(shape, requires_grad=self.random.random() < 0.5)

    def steps(self, source: Source, value: Any) -> list[Source]:
        """Sources that go on from this one."""
        kind = type(value)
        found: list[Source] = [TypeSource(source)]
        if kind is list or kind is tuple:
            found += [ItemSource(source, i) for i in range(len(value))]
        elif kind is dict or kind is collections.OrderedDict:
            found += [DictItemSource(source, key) for key in value]
            found += [DictKeySource(source, i) for i in range(len(value))]
            if not isinstance(value, collections.OrderedDict):
                found += [DictValueSource(source, i) for i in range(len(value))]
        elif isinstance(value, Thing):
            found += [InstanceDictSource(source)] * 3
        elif kind is Slotted:
            found += [SlotMemberSource(source, name) for name in NAMES]
        elif kind is types.FunctionType:
            found.append(FunctionDefaultsSource(source))
            found += [
                CellContentsSource(FunctionClosureSource(source, i))
                for i in range(len(value.__closure__ or ()))
            ]
        elif kind is types.MethodType:
            found += [MethodSelfSource(source), MethodFuncSource(source)]
        elif isinstance(value, type):
            found += [TypeAttrSource(source, name) for name in ("shared", "method", "__doc__")]
        elif kind is torch.Tensor:
            found.append(AttrSource(source, "grad"))
        return found

    def guard(self, source: Source, value: Any, others: list[Source]) -> Guard:
        """A guard that most likely holds."""
        options: list[Guard] = [TypeIs(source, type(value)), IdIs(source, value)]
        try:
            constant_key(value)
            options += [Equals(source, value)] * 2
        except TypeError:
            pass
        if isinstance(value, (list, dict, tuple, str)):
            options += [LenIs(source, len(value)), IsEmpty(source, not value)]
        if isinstance(value, dict):
            options += [DictKeysAre(source, tuple(value))] * 2
            name = self.random.choice(NAMES)
            options.append(DictHas(source, name) if name in value else DictLacks(source, name))
        if isinstance(value, type):
            options.append(TypeAttrAbsent(source, "absent"))
        if isinstance(value, torch.Tensor):
            options += [TensorMatch.of(source, value)] * 3
        if others and self.random.random() < 0.1:
            other = self.random.choice(others)
            pair = (source, other)
            return self.random.choice((IsSame(*pair), IsNotSame(*pair), AllDistinct(pair)))
        return self.random.choice(options)

    def write(self) -> None:
        """Change one of the mutable values."""
        target = self.random.choice(self.mutable)
        name, value = self.random.choice(NAMES), self.value(1)
        kind = type(target)
        if kind is list:
            self.random.choice((target.append, target.__init__, target.extend))([value])
        elif isinstance(target, dict) and target:
            key = self.random.choice(list(target))
            action = self.random.randrange(5)
            if action == 0:
                target[key] = value
            elif action == 1:
                target[key] = target.pop(key)
            elif action == 2:
                del target[key]
            elif action == 3:
                target[name] = value
            elif isinstance(target, collections.OrderedDict):
                target.move_to_end(key, last=self.random.random() < 0.5)
        elif isinstance(target, Thing):
            action = self.random.randrange(5)
            if action == 0:
                target.__class__ = self.random.choice((Thing, Other))
            elif action == 1:
                target.__dict__ = dict(target.__dict__)
            elif action == 2 and hasattr(target, name):
                target.__dict__.pop(name, None)
            else:
                setattr(target, name, value)
        elif kind is Slotted:
            setattr(target, name, value)
        elif kind is types.FunctionType:
            if self.random.random() < 0.5:
                target.__defaults__ = (value,)
            else:
                target.__closure__[0].cell_contents = value
        elif kind is torch.Tensor and target.is_leaf:
            target.requires_grad_(self.random.random() < 0.5)
            if self.random.random() < 0.3:
                target.grad = torch.zeros_like(target)
        elif self.random.random() < 0.3:
            Thing.shared = value


def check_world(agree: Any, seed: int) -> list[bool]:
    world = World(seed)
    values = [world.make_thing(3), world.value(4), world.value(4)]
    world.mutable.append(values[0])
    scope = Scope(values, world.make_function(0))
    reached: list[Source] = [LocalSource(i, f"v{i}") for i in range(3)]
    guards: list[Guard] = []
    for _ in range(world.random.randrange(1, 30)):
        source = world.random.choice(reached)
        value = source.read(scope)
        for step in world.random.sample(world.steps(source, value), 1):
            try:
                step.read(scope)
            except LookupError:
                continue
            reached.append(step)
        guards.append(world.guard(source, value, reached[-3:]))
    captures = world.random.sample(reached, min(len(reached), 3))
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    single: list[tuple[Guard, Any]] = []
    for guard in guards:
        alone = GuardSet()
        alone.add(guard)
        single.append((guard, alone.compile(captures)))
    tree = guard_set.compile(captures)
    answers = [agree(guards, values, scope.func, captures, tree)]
    for _ in range(12):
        world.write()
        answers.append(agree(guards, values, scope.func, captures, tree))
        for guard, alone_tree in single:
            agree(guard, values, scope.func, captures, alone_tree)
        if world.random.random() < 0.2:
            values[world.random.randrange(3)] = world.value(2)
    return answers


@pytest.fixture(autouse=True)
def _restore_shared() -> Any:
    yield
    Thing.shared = 1


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_random_guards_agree_with_the_oracle(agree: Any, start: int) -> None:
    held = 0
    for seed in range(start, start + 50):
        held += sum(check_world(agree, seed))
    assert held > 20  # the guards are not all nonsense


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 11000, 1000))
def test_many_random_guards_agree_with_the_oracle(agree: Any, start: int) -> None:
    for seed in range(start, start + 1000):
        check_world(agree, seed)
