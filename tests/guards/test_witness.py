"""Tests the recorded words of memory that stand for checks: what they cover, and when they go."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from capture.guards import (
    DictHas,
    DictKeysAre,
    Equals,
    Guard,
    GuardSet,
    IdIs,
    IsEmpty,
    LenIs,
    TensorMatch,
    TypeIs,
)
from capture.guards.native_setup import readers
from capture.sources import (
    AttrSource,
    CellContentsSource,
    DictItemSource,
    FunctionClosureSource,
    FunctionDefaultsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    ReferentSource,
    Source,
)

X = LocalSource(0, "x")


def compiled(guards: list[Guard], captures: tuple[Source, ...] = ()) -> Any:
    guard_set = GuardSet()
    for guard in guards:
        guard_set.add(guard)
    return guard_set.compile(captures)


def chain(*keys: str) -> Source:
    source: Source = InstanceDictSource(X)
    for key in keys:
        source = DictItemSource(source, key)
    return source


def linear_guards(model: nn.Linear) -> list[Guard]:
    return [
        TypeIs(X, nn.Linear),
        IsEmpty(chain("_forward_hooks"), True),
        TypeIs(chain("_parameters"), dict),
        DictHas(chain("_parameters"), "weight"),
        TensorMatch.of(chain("_parameters", "weight"), model.weight),
        TensorMatch.of(chain("_parameters", "bias"), model.bias),
    ]


def test_a_module_is_all_words_after_two_checks() -> None:
    if not readers().words:
        pytest.skip("the self-test found that this torch's tensors have no words to compare")
    model = nn.Linear(2, 3)
    captures = (chain("_parameters", "weight"), chain("_parameters", "bias"))
    tree = compiled(linear_guards(model), captures)
    for _ in range(4):
        assert tree.check((model,)) == (model.weight, model.bias)
    assert tree.words > 20


def test_captures_are_those_of_the_value_at_hand() -> None:
    models = [nn.Linear(2, 3), nn.Linear(2, 3)]
    tree = compiled(linear_guards(models[0]), (chain("_parameters", "weight"),))
    for which in [0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0]:
        (weight,) = tree.check((models[which],))
        assert weight is models[which].weight


TENSOR_CHANGES: dict[str, Callable[[nn.Linear], object]] = {
    "frozen": lambda m: m.weight.requires_grad_(False),
    "data of another dtype": lambda m: setattr(m.weight, "data", m.weight.data.double()),
    "data of another shape": lambda m: setattr(m.weight, "data", torch.ones(3, 5)),
    "data of other strides": lambda m: setattr(m.weight, "data", torch.ones(2, 3).t()),
    "data of more dimensions": lambda m: setattr(m.weight, "data", torch.ones(3, 2, 1, 1, 1, 1)),
    "class": lambda m: setattr(m.weight, "__class__", torch.Tensor),
    "another parameter": lambda m: setattr(m, "weight", nn.Parameter(torch.ones(4, 4))),
    "through the dict": lambda m: m._parameters.update(weight=nn.Parameter(torch.ones(4))),
    "a hook": lambda m: m.register_forward_hook(lambda *args: None),
    "no parameter": lambda m: delattr(m, "weight"),
}


@pytest.mark.parametrize("change", TENSOR_CHANGES.values(), ids=TENSOR_CHANGES)
def test_a_change_is_seen_behind_the_words(change: Callable[[nn.Linear], object]) -> None:
    model = nn.Linear(2, 3)
    tree = compiled(linear_guards(model))
    for _ in range(4):
        assert tree.check((model,)) is not None
    change(model)
    assert tree.check((model,)) is None


def test_the_gradient_and_the_data_are_free_to_change() -> None:
    model = nn.Linear(2, 3)
    tree = compiled(linear_guards(model))
    for step in range(6):
        assert tree.check((model,)) is not None
        with torch.no_grad():
            model.weight.add_(1)
        model.weight.data = torch.full((3, 2), float(step))
        model(torch.ones(2)).sum().backward()
    assert tree.check((model,)) is not None


@pytest.mark.parametrize("rank", range(8))
def test_tensors_of_any_rank_that_wanted_a_gradient_once(rank: int) -> None:
    tensor = torch.ones([2] * rank, requires_grad=True)
    holder = types.SimpleNamespace(t=tensor)
    tree = compiled([TensorMatch.of(chain("t"), tensor)])
    for _ in range(4):
        assert tree.check((holder,)) is not None
    tensor.requires_grad_(False)
    assert tree.check((holder,)) is None
    tensor.requires_grad_()
    assert tree.check((holder,)) is not None
    tensor.data = torch.ones([2] * (rank + 1))
    assert tree.check((holder,)) is None


def test_a_view_that_gets_its_flag_from_its_base() -> None:
    base = torch.ones(4)
    holder = types.SimpleNamespace(t=base[:2])
    tree = compiled([TensorMatch.of(chain("t"), holder.t)])
    for _ in range(4):
        assert tree.check((holder,)) is not None
    base.mul_(torch.ones((), requires_grad=True))
    assert holder.t.requires_grad
    assert tree.check((holder,)) is None


def test_a_dict_written_to_before_each_check() -> None:
    model = nn.Linear(2, 3)
    guards = [*linear_guards(model), Equals(chain("step"), 1)]
    model.step = 1  # type: ignore[assignment]
    tree = compiled(guards, (chain("_parameters", "weight"), chain("count")))
    for count in range(60):
        model.count = count  # type: ignore[assignment]
        assert tree.check((model,)) == (model.weight, count)
    model.step = 2  # type: ignore[assignment]
    assert tree.check((model,)) is None
    model.step = 1  # type: ignore[assignment]
    model.weight.requires_grad_(False)
    assert tree.check((model,)) is None


def test_what_lies_below_a_dict_written_to_has_words_of_its_own() -> None:
    if not readers().words:
        pytest.skip("the self-test found that this torch's tensors have no words to compare")
    model = nn.Linear(2, 3)
    tree = compiled(linear_guards(model))
    for count in range(40):
        model.count = count  # type: ignore[assignment]
        assert tree.check((model,)) is not None
    assert tree.words > 0


def reused(
    make: Callable[[int], Any], place: Callable[[Any], None], check: Callable[[], Any]
) -> int:
    """Put new objects in the place of freed ones; return how often the address was the same."""
    same = 0
    address = 0
    for round_ in range(100):
        value = make(round_)
        same += id(value) == address
        address = id(value)
        place(value)
        del value
        for _ in range(4):
            assert (check() is not None) == (round_ % 2 == 0), round_
        place(None)
        gc.collect(0)
    return same


class One:
    kind = 1


class Two:
    kind = 2


REUSED: dict[str, tuple[Callable[[int], Any], Callable[[Source], Guard]]] = {
    "type": (lambda i: (One if i % 2 == 0 else Two)(), lambda s: TypeIs(s, One)),
    "number": (lambda i: 1e300 + i % 2 * 1e299, lambda s: Equals(s, 1e300)),
    "text": (lambda i: "".join(["ab", "cd"[i % 2]]), lambda s: Equals(s, "abc")),
    "tuple": (lambda i: (i % 2, i % 2), lambda s: Equals(ItemSource(s, 0), 0)),
    "length": (lambda i: [0] * (1 + i % 2), lambda s: LenIs(s, 1)),
    "keys": (lambda i: {"ab"[i % 2]: 1}, lambda s: DictKeysAre(s, ("a",))),
    "class of an item": (
        lambda i: [One() if i % 2 == 0 else Two()],
        lambda s: TypeIs(ItemSource(s, 0), One),
    ),
    "tensor": (
        lambda i: torch.empty(2, dtype=(torch.float32, torch.int32)[i % 2]),
        lambda s: TensorMatch.of(s, torch.empty(2)),
    ),
}


@pytest.mark.parametrize("kind", REUSED)
def test_another_object_at_an_old_address_in_a_list(kind: str) -> None:
    make, guard = REUSED[kind]
    holder: list[Any] = [None]
    tree = compiled([guard(ItemSource(X, 0))])
    reused(make, lambda value: holder.__setitem__(0, value), lambda: tree.check((holder,)))


@pytest.mark.parametrize("kind", REUSED)
def test_another_object_at_an_old_address_in_an_attribute(kind: str) -> None:
    make, guard = REUSED[kind]
    holder = types.SimpleNamespace(v=None)
    tree = compiled([guard(chain("v"))])
    reused(make, lambda value: setattr(holder, "v", value), lambda: tree.check((holder,)))


@pytest.mark.parametrize("kind", REUSED)
def test_another_object_at_an_old_address_in_a_cell(kind: str) -> None:
    make, guard = REUSED[kind]
    cell = types.CellType(None)
    tree = compiled([guard(CellContentsSource(X))])
    reused(make, lambda v: setattr(cell, "cell_contents", v), lambda: tree.check((cell,)))


@pytest.mark.parametrize("kind", REUSED)
def test_another_object_at_an_old_address_as_the_argument(kind: str) -> None:
    make, guard = REUSED[kind]
    held: list[Any] = [None]
    tree = compiled([guard(X)])
    reused(make, lambda value: held.__setitem__(0, value), lambda: tree.check(tuple(held)))


def test_defaults_and_closures_of_a_function() -> None:
    def make(value: object) -> Any:
        def function(x: object = (1, 2)) -> object:
            return value, x

        return function

    function = make("v")
    guards: list[Guard] = [
        Equals(ItemSource(FunctionDefaultsSource(X), 0), (1, 2)),
        Equals(CellContentsSource(FunctionClosureSource(X, 0)), "v"),
    ]
    tree = compiled(guards)
    for _ in range(4):
        assert tree.check((function,)) is not None
    function.__defaults__ = ((1, 3),)
    assert tree.check((function,)) is None
    function.__defaults__ = ((1, 2),)
    assert tree.check((function,)) is not None
    function.__closure__[0].cell_contents = "w"
    assert tree.check((function,)) is None
    assert tree.check((make("v"),)) is not None


def test_a_weak_reference_whose_object_dies() -> None:
    import weakref

    held = One()
    holder = [weakref.ref(held)]
    tree = compiled([TypeIs(ReferentSource(ItemSource(X, 0)), One)])
    for _ in range(4):
        assert tree.check((holder,)) is not None
    del held
    gc.collect()
    assert tree.check((holder,)) is None


def test_a_tree_that_runs_code_has_no_words() -> None:
    class Counted:
        reads = 0

        @property
        def value(self) -> int:
            self.reads += 1
            return 1

    counted = Counted()
    tree = compiled([Equals(AttrSource(X, "value"), 1)])
    for _ in range(5):
        assert tree.check((counted,)) is not None
    assert counted.reads == 5
    assert tree.words == 0


def test_no_words_without_shortcuts() -> None:
    from capture.guards.native_setup import native

    readers()
    model = nn.Linear(2, 3)
    previous = native().allow_shortcuts(False)
    try:
        tree = compiled(linear_guards(model))
    finally:
        native().allow_shortcuts(previous)
    for _ in range(4):
        assert tree.check((model,)) is not None
    assert tree.words == 0


def test_words_do_not_keep_a_model_alive() -> None:
    import weakref

    model = nn.Linear(2, 3)
    tree = compiled([*linear_guards(model), IdIs(chain("_forward_hooks"), model._forward_hooks)])
    for _ in range(4):
        assert tree.check((model,)) is not None
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
