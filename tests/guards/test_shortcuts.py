"""Tests that no write goes unnoticed behind the version tags that let a check skip look-ups."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from capture.guards import (
    DictHas,
    DictKeysAre,
    DictLacks,
    Equals,
    Guard,
    GuardSet,
    IdIs,
    IsEmpty,
    LenIs,
    TensorMatch,
    TypeAttrAbsent,
    TypeIs,
)
from capture.guards.native_setup import readers
from capture.sources import (
    AttrSource,
    DictItemSource,
    FunctionCodeSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    Source,
    TypeAttrSource,
    TypeSource,
)

X = LocalSource(0, "x")
D = InstanceDictSource(X)


def item(source: Source, *keys: object) -> Source:
    for key in keys:
        source = DictItemSource(source, key)
    return source


class Base:
    inherited = "inherited"

    def method(self) -> int:
        return 1


class Holder(Base):
    constant = 3

    def __init__(self) -> None:
        self.scale = 2.0
        self.name = "name"
        self.items = [1, 2]
        self.table = {"a": 1, "b": 2}
        self.tensor = torch.ones(2)
        self.other = Base()


class Twin(Base):
    constant = 3


def guards_of(holder: Holder) -> list[Guard]:
    return [
        TypeIs(X, Holder),
        DictHas(D, "scale"),
        DictLacks(D, "method"),
        DictKeysAre(D, tuple(holder.__dict__)),
        Equals(item(D, "scale"), 2.0),
        Equals(item(D, "name"), "name"),
        LenIs(item(D, "items"), 2),
        Equals(ItemSource(item(D, "items"), 0), 1),
        TypeIs(item(D, "table"), dict),
        DictKeysAre(item(D, "table"), ("a", "b")),
        Equals(item(D, "table", "a"), 1),
        TensorMatch.of(item(D, "tensor"), holder.tensor),
        TypeIs(item(D, "other"), Base),
        IdIs(TypeAttrSource(TypeSource(X), "constant"), 3),
        IdIs(TypeAttrSource(TypeSource(X), "method"), Base.__dict__["method"]),
        IdIs(FunctionCodeSource(TypeAttrSource(TypeSource(X), "method")), Base.method.__code__),
        Equals(TypeAttrSource(TypeSource(X), "inherited"), "inherited"),
        TypeAttrAbsent(TypeSource(X), "__getattr__"),
    ]


def set_code(holder: Holder) -> Callable[[], None]:
    function: Any = Base.__dict__["method"]
    old = function.__code__
    function.__code__ = (lambda self: 2).__code__

    def undo() -> None:
        function.__code__ = old

    return undo


def set_class(owner: type, name: str, value: object) -> Callable[[Holder], Callable[[], None]]:
    def change(holder: Holder) -> Callable[[], None]:
        missing = object()
        old = owner.__dict__.get(name, missing)
        setattr(owner, name, value)
        return lambda: delattr(owner, name) if old is missing else setattr(owner, name, old)

    return change


def no_undo(change: Callable[[Any], Any]) -> Callable[[Holder], Callable[[], None]]:
    def changed(holder: Holder) -> Callable[[], None]:
        change(holder)
        return lambda: None

    return changed


CHANGES: dict[str, Callable[[Holder], Callable[[], None]]] = {
    "setattr": no_undo(lambda h: setattr(h, "scale", 3.0)),
    "setattr, equal, other type": no_undo(lambda h: setattr(h, "scale", 2)),
    "delattr": no_undo(lambda h: delattr(h, "scale")),
    "new attribute": no_undo(lambda h: setattr(h, "new", 1)),
    "shadowing method": no_undo(lambda h: setattr(h, "method", None)),
    "through __dict__": no_undo(lambda h: h.__dict__.update(name="n")),
    "other order": no_undo(lambda h: h.__dict__.update(scale=h.__dict__.pop("scale"))),
    "new __dict__": no_undo(lambda h: setattr(h, "__dict__", dict(h.__dict__, name="n"))),
    "empty __dict__": no_undo(lambda h: setattr(h, "__dict__", {})),
    "no __dict__": no_undo(lambda h: delattr(h, "__dict__")),
    "vars": no_undo(lambda h: vars(h).__setitem__("name", "n")),
    "object.__setattr__": no_undo(lambda h: object.__setattr__(h, "name", "n")),
    "list append": no_undo(lambda h: h.items.append(3)),
    "list item": no_undo(lambda h: h.items.__setitem__(0, 2)),
    "dict item": no_undo(lambda h: h.table.__setitem__("a", 2)),
    "dict order": no_undo(lambda h: h.table.__setitem__("a", h.table.pop("a"))),
    "dict key": no_undo(lambda h: h.table.setdefault("c", 1)),
    "dict pop": no_undo(lambda h: h.table.popitem()),
    "dict clear": no_undo(lambda h: h.table.clear()),
    "tensor": no_undo(lambda h: setattr(h, "tensor", torch.ones(3))),
    "tensor in place": no_undo(lambda h: h.tensor.resize_(3)),
    "tensor grad": no_undo(lambda h: h.tensor.requires_grad_()),
    "class of a value": no_undo(lambda h: setattr(h.other, "__class__", Twin)),
    "class": no_undo(lambda h: setattr(h, "__class__", Twin)),
    "class attribute": set_class(Holder, "constant", 4),
    "inherited attribute": set_class(Base, "inherited", 4),
    "shadowing class attribute": set_class(Holder, "inherited", 4),
    "method": set_class(Base, "method", lambda self: 3),
    "code of method": set_code,
    "new __getattr__": set_class(Base, "__getattr__", lambda self, name: 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("warm", [0, 1, 3])
def test_writes_are_noticed(agree: Any, change: Any, warm: int) -> None:
    holder = Holder()
    guards = guards_of(holder)
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    tree = guard_set.compile()
    for _ in range(warm):
        assert agree(guards, (holder,), tree=tree)
    undo = change(holder)
    try:
        assert not agree(guards, (holder,), tree=tree)
    finally:
        undo()


@pytest.mark.parametrize("name", CHANGES)
def test_each_write_is_noticed_by_the_guards_it_concerns(agree: Any, name: str) -> None:
    holder = Holder()
    pairs: list[tuple[Guard, Any]] = []
    for guard in guards_of(holder):
        guard_set = GuardSet()
        guard_set.add(guard)
        tree = guard_set.compile()
        assert agree(guard, (holder,), tree=tree)
        pairs.append((guard, tree))
    undo = CHANGES[name](holder)
    try:
        assert not all(agree(guard, (holder,), tree=tree) for guard, tree in pairs)
    finally:
        undo()


def test_another_instance_is_looked_at_anew(agree: Any) -> None:
    first, second = Holder(), Holder()
    second.scale = 5.0
    guard = Equals(item(D, "scale"), 2.0)
    guard_set = GuardSet()
    guard_set.add(guard)
    tree = guard_set.compile()
    for holder, expected in [(first, True), (second, False), (first, True), (second, False)]:
        assert agree(guard, (holder,), tree=tree) == expected


def test_a_dict_at_a_reused_address_is_not_taken_for_the_old_one(agree: Any) -> None:
    guard = Equals(item(X, "a"), 1)
    guard_set = GuardSet()
    guard_set.add(guard)
    tree = guard_set.compile()
    for _ in range(200):
        table = {"a": 1}
        assert tree.check((table,)) is not None
        address = id(table)
        del table
        other = {"a": 2}
        assert tree.check((other,)) is None
        assert address > 0
        del other


def test_globals(agree: Any) -> None:
    namespace: dict[str, Any] = {"np": 1, "helper": len}
    func = types.FunctionType((lambda: None).__code__, namespace)
    guards = [
        Equals(item(GlobalsSource(), "np"), 1),
        IdIs(item(GlobalsSource(), "helper"), len),
        DictLacks(GlobalsSource(), "print"),
    ]
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    tree = guard_set.compile()
    assert agree(guards, (), func, tree=tree)
    exec("def f():\n    global np\n    np = 2", namespace)
    assert agree(guards, (), func, tree=tree)
    namespace["f"]()
    assert not agree(guards, (), func, tree=tree)
    namespace["np"] = 1
    assert agree(guards, (), func, tree=tree)
    namespace["print"] = print
    assert not agree(guards, (), func, tree=tree)
    del namespace["print"]
    del namespace["helper"]
    assert not agree(guards, (), func, tree=tree)


def test_ordered_dict_order_is_always_checked(agree: Any) -> None:
    table = collections.OrderedDict(a=1, b=2, c=3)
    guards = [TypeIs(X, collections.OrderedDict), DictKeysAre(X, ("a", "b", "c"))]
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    tree = guard_set.compile()
    assert agree(guards, (table,), tree=tree)
    table.move_to_end("a")
    assert not agree(guards, (table,), tree=tree)
    table.move_to_end("b")
    table.move_to_end("c")
    assert agree(guards, (table,), tree=tree)


def module_guards(source: Source, module: nn.Module) -> list[Guard]:
    own = InstanceDictSource(source)
    found: list[Guard] = [TypeIs(source, type(module)), DictLacks(own, "forward")]
    for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
        found.append(IsEmpty(item(own, hooks), True))
    found.append(Equals(item(own, "training"), module.training))
    for name, parameter in module._parameters.items():
        if parameter is not None:
            found.append(TensorMatch.of(item(own, "_parameters", name), parameter))
    children = item(own, "_modules")
    found.append(DictKeysAre(children, tuple(module._modules)))
    for name, child in module._modules.items():
        if child is not None:
            found += module_guards(item(children, name), child)
    return found


def quarter(model: nn.Module) -> Any:
    return model.get_submodule("1.0")


MODULE_CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "eval": lambda m: m.eval(),
    "hook": lambda m: quarter(m).register_forward_hook(lambda *a: None),
    "pre-hook": lambda m: quarter(m).register_forward_pre_hook(lambda *a: None),
    "parameter": lambda m: setattr(quarter(m), "weight", nn.Parameter(torch.ones(5, 4))),
    "frozen": lambda m: quarter(m).weight.requires_grad_(False),
    "half": lambda m: m.half(),
    "forward": lambda m: setattr(quarter(m), "forward", lambda x: x),
    "child": lambda m: setattr(m, "2", nn.ReLU()),
    "other child": lambda m: m.__setitem__(0, nn.ReLU()),  # type: ignore[operator]
    "no child": lambda m: m.__delitem__(0),  # type: ignore[operator]
    "class": lambda m: setattr(quarter(m), "__class__", nn.Bilinear),
}


@pytest.mark.parametrize("change", MODULE_CHANGES.values(), ids=MODULE_CHANGES)
def test_module_writes_are_noticed(agree: Any, change: Callable[[nn.Module], object]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.GELU()))
    guards = module_guards(X, model)
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    tree = guard_set.compile()
    twin = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.GELU()))
    for each in (model, twin, model):
        assert agree(guards, (each,), tree=tree)
    change(model)
    assert not agree(guards, (model,), tree=tree)
    assert agree(guards, (twin,), tree=tree)


def test_code_that_changes_what_is_being_checked_does_no_harm() -> None:
    class Trap:
        def __init__(self) -> None:
            self.friend: object = [object() for _ in range(10)]
            self.last = Base()

        @property
        def spring(self) -> int:
            self.friend = None
            self.last = Base()
            self.__dict__ = {"friend": [0], "last": Base()}
            return 1

    guards = GuardSet()
    guards.add(Equals(AttrSource(X, "spring"), 1))
    guards.add(TypeIs(item(D, "last"), Base))
    guards.add(LenIs(item(D, "friend"), 10))
    guards.add(Equals(AttrSource(item(D, "last"), "missing"), 1))
    tree = guards.compile([item(D, "friend"), item(D, "last")])
    assert tree.runs_code
    for _ in range(100):
        assert tree.check((Trap(),)) is None


def test_shortcuts_can_be_switched_off(agree: Any) -> None:
    holder = Holder()
    guards = guards_of(holder)
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    tree = guard_set.compile()
    assert tree.shortcuts == readers().shortcuts
    tree.shortcuts = False
    assert agree(guards, (holder,), tree=tree)
    holder.scale = 3.0
    assert not agree(guards, (holder,), tree=tree)
