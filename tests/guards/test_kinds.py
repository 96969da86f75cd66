"""Tests of the guard kinds: each has a value that passes, one that fails, and a sentence."""

from __future__ import annotations

import collections
import types
from typing import Any

import pytest
import torch

from capture.guards import (
    AllDistinct,
    BoundCell,
    DictHas,
    DictKeysAre,
    DictLacks,
    Equals,
    ExprHolds,
    Guard,
    GuardSet,
    IdIs,
    IsEmpty,
    IsNotSame,
    IsSame,
    LenIs,
    StoragesAre,
    TypeAttrAbsent,
    TypeIs,
    UnboundCell,
)
from capture.guards.kinds import constant_key
from capture.sources import LocalSource, Scope, TypeSource

X = LocalSource(0, "x")
Y = LocalSource(1, "y")
NAN = float("nan")


class User:
    """A class of the user's."""


class ListSubclass(list[int]):
    def __len__(self) -> int:
        raise AssertionError("user code ran")


class DictSubclass(dict[str, int]):
    def __getitem__(self, key: str) -> int:
        raise AssertionError("user code ran")

    def __contains__(self, key: object) -> bool:
        raise AssertionError("user code ran")


class Impostor:
    """Equal to everything, and says that it is an int."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("user code ran")

    def __hash__(self) -> int:
        return hash("k")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise AssertionError("user code ran")


user = User()
base = torch.ones(6)


def ordered(*keys: str) -> collections.OrderedDict[str, int]:
    return collections.OrderedDict((key, 0) for key in keys)


def moved(*keys: str) -> collections.OrderedDict[str, int]:
    result = ordered(*keys)
    result.move_to_end(keys[0])
    return result


# guard, values that pass, values that fail, the sentence then
CASES: list[tuple[Guard, tuple[object, ...], tuple[object, ...], str]] = [
    (TypeIs(X, list), ([],), (ListSubclass(),), "`x` changed from type list to"),
    (TypeIs(X, User), (user,), (User,), "`x` changed from type"),
    (TypeIs(X, int), (1,), (True,), "`x` changed from type int to bool"),
    (TypeIs(X, int), (1,), (Impostor(),), "`x` changed from type int to"),
    (IdIs(X, user), (user,), (User(),), "`x` changed from a "),
    (IdIs(X, None), (None,), (0,), "`x` changed from None to 0"),
    (IdIs(X, len), (len,), (max,), "`x` changed from len (builtin_function_or_method) to max"),
    (Equals(X, 2.0), (2.0,), (3.0,), "`x` changed from 2.0 to 3.0"),
    (Equals(X, 1), (1,), (True,), "`x` changed from 1 to True"),
    (Equals(X, 1), (1,), (1.0,), "`x` changed from 1 to 1.0"),
    (Equals(X, 10**30), (10**30,), (10**30 + 1,), "`x` changed from 1000"),
    (Equals(X, True), (True,), (1,), "`x` changed from True to 1"),
    (Equals(X, 0.0), (0.0,), (-0.0,), "`x` changed from 0.0 to -0.0"),
    (Equals(X, NAN), (float("nan"),), (0.0,), "`x` changed from nan to 0.0"),
    (Equals(X, complex(0, NAN)), (complex(0, NAN),), (0j,), "`x` changed from nanj to 0j"),
    (Equals(X, "ab"), ("".join(["a", "b"]),), ("ac",), "`x` changed from 'ab' to 'ac'"),
    (Equals(X, b"ab"), (b"ab",), ("ab",), "`x` changed from b'ab' to 'ab'"),
    (Equals(X, ...), (...,), (None,), "`x` changed from Ellipsis to None"),
    (Equals(X, (1, (2.0, "a"))), ((1, (2.0, "a")),), ((1, (2, "a")),), "`x` changed from (1, "),
    (Equals(X, (1, 2)), ((1, 2),), ([1, 2],), "`x` changed from (1, 2) to a list"),
    (Equals(X, ()), ((),), ((0,),), "`x` changed from () to (0,)"),
    (Equals(X, frozenset({1, 2})), (frozenset({2, 1}),), (frozenset({1, 2.0}),), "`x` changed"),
    (
        Equals(X, range(0, 6, 2)),
        (range(0, 6, 2),),
        (range(0, 5, 2),),
        "`x` changed from range(0, 6, 2)",
    ),
    (Equals(X, slice(1, None)), (slice(1, None),), (slice(1, 2),), "`x` changed from a slice"),
    (
        Equals(X, torch.Size([2, 3])),
        (torch.Size([2, 3]),),
        ((2, 3),),
        "`x` changed from torch.Size([2, 3])",
    ),
    (Equals(X, torch.device("cpu")), (torch.device("cpu"),), (torch.device("meta"),), "`x` change"),
    (Equals(X, "k"), ("k",), (Impostor(),), "`x` changed from 'k' to a "),
    (LenIs(X, 2), ([1, 2],), ([1],), "the length of `x` changed from 2 to 1"),
    (LenIs(X, 2), ((1, 2),), (5,), "the length of `x` changed from 2 to None"),
    (LenIs(X, 2), ({1: 1, 2: 2},), ({},), "the length of `x` changed"),
    (LenIs(X, 2), ({1, 2},), ({1},), "the length of `x` changed"),
    (LenIs(X, 2), (frozenset({1, 2}),), (frozenset({1}),), "the length of `x` changed"),
    (LenIs(X, 2), (collections.deque([1, 2]),), (collections.deque([1]),), "the length of `x`"),
    (LenIs(X, 2), ("ab",), (b"abc",), "the length of `x` changed from 2 to 3"),
    (LenIs(X, 1), (ListSubclass([1]),), (ListSubclass(),), "the length of `x` changed"),
    (IsEmpty(X, True), ([],), ([1],), "`x` was empty and now has 1 items"),
    (IsEmpty(X, False), (ordered("a"),), (ordered(),), "`x` was not empty and now is"),
    (
        DictKeysAre(X, ("a", "b")),
        ({"a": 1, "b": 2},),
        ({"b": 1, "a": 2},),
        "the order of the keys of `x` changed",
    ),
    (
        DictKeysAre(X, ("a", "b")),
        ({"a": 1, "b": 2},),
        ({"a": 1, "c": 2},),
        "the keys of `x` changed: it lost 'b' and got 'c'",
    ),
    (DictKeysAre(X, ("a", "b")), (ordered("a", "b"),), (moved("a", "b"),), "the order of the k"),
    (DictKeysAre(X, ("b", "a")), (moved("a", "b"),), (ordered("a", "b"),), "the order of the k"),
    (DictKeysAre(X, (1,)), ({1: 0},), ({True: 0},), "the keys of `x` changed: it lost 1 and got"),
    (DictKeysAre(X, (int, user)), ({int: 0, user: 1},), ({int: 0, User(): 1},), "the "),
    (DictKeysAre(X, ("a",)), (DictSubclass(a=1),), (5,), "`x` is no longer a dict"),
    (DictHas(X, "a"), ({"a": 1},), ({},), "`x` no longer has the key 'a'"),
    (DictHas(X, "a"), (DictSubclass(a=1),), (DictSubclass(),), "`x` no longer has the key 'a'"),
    (DictLacks(X, "a"), ({"b": 1},), ({"a": 1},), "`x` now has the key 'a'"),
    (
        TypeAttrAbsent(TypeSource(X), "missing"),
        (user,),
        (type("Child", (User,), {"missing": 1})(),),
        "`type(x)` now has the attribute 'missing'",
    ),
    (IsSame(X, Y), (user, user), (user, User()), "`x` and `y` are no longer the same object"),
    (IsNotSame(X, Y), (user, User()), (user, user), "`x` and `y` are now the same object"),
    (AllDistinct((X, Y)), (user, User()), (user, user), "`x` and `y` are now the same object"),
    (
        StoragesAre.of((X, Y), (base[:2], base[2:])),
        (base[1:], base),
        (base, torch.ones(2)),
        "`x` and `y` no longer share storage",
    ),
    (
        StoragesAre((X, Y), (0, 1)),
        (base, torch.ones(2)),
        (base[1:], base),
        "`x` and `y` now share storage",
    ),
    (BoundCell(X), (types.CellType(1),), (types.CellType(),), "`x` is now empty"),
    (UnboundCell(X), (types.CellType(),), (types.CellType(1),), "`x` is now bound"),
    (
        ExprHolds((X, Y), lambda x, y: x < y, "x < y"),
        (1, 2),
        (2, 1),
        "`x < y` no longer holds (x = 2, y = 1)",
    ),
    (
        ExprHolds((X,), lambda x: x.missing or True, "x"),
        (types.SimpleNamespace(missing=1),),
        (1,),
        "",
    ),
]


@pytest.mark.parametrize(("guard", "passing", "failing", "sentence"), CASES, ids=lambda c: "")
def test_oracle_passes_fails_and_explains(
    guard: Guard, passing: tuple[object, ...], failing: tuple[object, ...], sentence: str
) -> None:
    def func() -> None: ...

    assert isinstance(func, types.FunctionType)
    assert guard.check(Scope(passing, func))
    assert not guard.check(Scope(failing, func))
    assert guard.explain(Scope(failing, func)).startswith(sentence)
    assert guard.describe()
    assert hash(guard) == hash(guard)
    assert guard == guard


@pytest.mark.parametrize(("guard", "passing", "failing", "sentence"), CASES, ids=lambda c: "")
def test_native_tree_agrees(
    agree: Any,
    guard: Guard,
    passing: tuple[object, ...],
    failing: tuple[object, ...],
    sentence: str,
) -> None:
    assert agree(guard, passing)
    assert not agree(guard, failing)
    assert not agree(guard, ())


@pytest.mark.parametrize("guard", [case[0] for case in CASES], ids=lambda c: "")
def test_native_tree_agrees_on_odd_values(agree: Any, guard: Guard) -> None:
    odd_values: list[Any] = [None, 0, 1.5, "", [], {}, set(), int, user, Impostor(), base]
    for odd in [*odd_values, types.CellType()]:
        agree(guard, (odd, odd))


def test_constants_are_told_apart_by_type_and_sign() -> None:
    values = [1, 1.0, True, 1 + 0j, -0.0, 0.0, NAN, "1", b"1", None, (1,), (1.0,), (True,), ...]
    keys = [constant_key(value) for value in values]
    for i, first in enumerate(keys):
        assert [j for j, second in enumerate(keys) if first == second] == [i]


def test_equals_refuses_what_it_cannot_compare() -> None:
    with pytest.raises(TypeError, match="cannot compare a list"):
        Equals(X, [1])
    with pytest.raises(TypeError, match="cannot compare a User"):
        Equals(X, (1, user))


def test_guards_are_equal_by_what_they_demand() -> None:
    assert Equals(X, 1) == Equals(X, 1)
    assert Equals(X, 1) != Equals(X, True)
    assert Equals(X, NAN) == Equals(X, float("nan"))
    assert IdIs(X, user) == IdIs(X, user)
    assert IdIs(X, user) != IdIs(X, User())
    assert IdIs(X, user) != IdIs(Y, user)
    assert TypeIs(X, int) != TypeIs(X, bool)
    assert IsSame(X, Y) != IsNotSame(X, Y)


def test_an_expression_of_many_values() -> None:
    sources = tuple(LocalSource(i, f"x{i}") for i in range(40))
    guards = GuardSet()
    guards.add(ExprHolds(sources, lambda *values: sum(values) == 780, "sum == 780"))
    tree = guards.compile([])
    assert tree.check(list(range(40)), None) is not None
    assert tree.check([1, *range(1, 40)], None) is None
