"""Tests of sources: each reads, prints, compares, and is read natively as in Python."""

from __future__ import annotations

import collections
import functools
import pickle
import types
import weakref
from typing import Any

import pytest

from capture.sources import (
    AttrSource,
    BuiltinsSource,
    CellContentsSource,
    ClosureCellSource,
    DictItemSource,
    DictKeySource,
    DictLookupSource,
    DictValueSource,
    FunctionClosureSource,
    FunctionCodeSource,
    FunctionDefaultsSource,
    FunctionGlobalsSource,
    FunctionKwDefaultsSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    MethodFuncSource,
    MethodSelfSource,
    MroItemSource,
    PartialSource,
    PropertySource,
    ReferentSource,
    Scope,
    SlotMemberSource,
    Source,
    TypeAttrSource,
    TypeSource,
    UnreadableError,
    WrappedSource,
)

X = LocalSource(0, "x")
Y = LocalSource(1, "y")


def make_closure(value: object) -> types.FunctionType:
    def inner(a: int = 3, *, b: int = 4) -> object:
        return value, a, b

    assert isinstance(inner, types.FunctionType)
    return inner


class Slotted:
    __slots__ = ("a", "unset")

    def __init__(self, a: object) -> None:
        self.a = a


class Holder:
    constant = "class value"

    def __init__(self, w: object) -> None:
        self.w = w

    def method(self) -> None: ...

    @property
    def prop(self) -> object:
        return None

    @staticmethod
    def static() -> None: ...

    @classmethod
    def of_class(cls) -> None: ...


class Hiding:
    """Says that it has no attributes at all."""

    def __init__(self) -> None:
        object.__setattr__(self, "w", 7)

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("user code ran")


closure = make_closure([1, 2])
holder = Holder("w value")
slotted = Slotted("slot value")
ordered = collections.OrderedDict([("a", 1), ("b", 2)])
ordered.move_to_end("a")
partial = functools.partial(max, 1, key=abs)

CASES: list[tuple[Source, tuple[object, ...], object, str]] = [
    (X, (5,), 5, "x"),
    (ItemSource(X, 1), ([3, 4],), 4, "x[1]"),
    (ItemSource(X, 0), ((3, 4),), 3, "x[0]"),
    (DictItemSource(X, "k"), ({"k": 1},), 1, "x['k']"),
    (DictItemSource(X, int), ({int: 1},), 1, "x[int]"),
    (DictLookupSource(X, Y), ({holder: 1}, holder), 1, "x[y]"),
    (DictKeySource(X, 1), ({"k": 1, "l": 2},), "l", "list(x)[1]"),
    (DictKeySource(X, 1), (ordered,), "a", "list(x)[1]"),
    (DictValueSource(X, 1), ({"k": 1, "l": 2},), 2, "list(x.values())[1]"),
    (InstanceDictSource(X), (holder,), holder.__dict__, "x.__dict__"),
    (DictItemSource(InstanceDictSource(X), "w"), (holder,), "w value", "x.w"),
    (DictItemSource(InstanceDictSource(X), "w"), (Hiding(),), 7, "x.w"),
    (AttrSource(X, "real"), (5,), 5, "x.real"),
    (SlotMemberSource(X, "a"), (slotted,), "slot value", "x.a"),
    (TypeSource(X), (holder,), Holder, "type(x)"),
    (TypeAttrSource(TypeSource(X), "constant"), (holder,), "class value", "type(x).constant"),
    (MroItemSource(X, 1), (bool,), int, "x.__mro__[1]"),
    (FunctionGlobalsSource(X), (closure,), globals(), "x.__globals__"),
    (FunctionCodeSource(X), (closure,), closure.__code__, "x.__code__"),
    (FunctionDefaultsSource(X), (closure,), closure.__defaults__, "x.__defaults__"),
    (FunctionDefaultsSource(X), (make_closure,), None, "x.__defaults__"),
    (FunctionKwDefaultsSource(X), (closure,), closure.__kwdefaults__, "x.__kwdefaults__"),
    (
        CellContentsSource(FunctionClosureSource(X, 0)),
        (closure,),
        closure.__closure__[0].cell_contents,  # type: ignore[index]
        "x.__closure__[0].cell_contents",
    ),
    (ReferentSource(X), (weakref.ref(holder),), holder, "x()"),
    (MethodSelfSource(X), (holder.method,), holder, "x.__self__"),
    (MethodFuncSource(X), (holder.method,), Holder.method, "x.__func__"),
    (
        PropertySource(X, "fget"),
        (Holder.__dict__["prop"],),
        Holder.__dict__["prop"].fget,
        "x.fget",
    ),
    (PropertySource(X, "fset"), (Holder.__dict__["prop"],), None, "x.fset"),
    (WrappedSource(X), (Holder.__dict__["static"],), Holder.static, "x.__func__"),
    (
        WrappedSource(X),
        (Holder.__dict__["of_class"],),
        Holder.__dict__["of_class"].__func__,
        "x.__func__",
    ),
    (PartialSource(X, "func"), (partial,), max, "x.func"),
    (PartialSource(X, "args"), (partial,), partial.args, "x.args"),
    (PartialSource(X, "keywords"), (partial,), partial.keywords, "x.keywords"),
]


@pytest.mark.parametrize(("source", "values", "expected", "name"), CASES, ids=str)
def test_reads_and_names(
    source: Source, values: tuple[object, ...], expected: object, name: str
) -> None:
    found = source.read(Scope(values, closure))
    assert found is expected
    assert source.name == name


@pytest.mark.parametrize(("source", "values", "expected", "name"), CASES, ids=str)
def test_native_tree_reads_the_same(
    source: Source, values: tuple[object, ...], expected: object, name: str
) -> None:
    pytest.importorskip("capture._native")
    from capture.guards import GuardSet

    tree = GuardSet().compile([source, source])
    for _ in range(3):
        assert tree.check(values, closure) == (expected, expected)
    for wrong in (object(), 5, [], {}, (), int, closure, Slotted(1), None):
        others = (wrong, wrong)
        oracle = GuardSet.read_captures(Scope(others, closure), [source])
        got = tree.check(others, closure)
        assert (got is None) == (oracle is None), wrong
        if oracle is not None and got is not None:
            assert got[0] is oracle[0]


def test_roots_of_the_function() -> None:
    scope = Scope((), closure)
    assert GlobalsSource().read(scope) is globals()
    assert DictItemSource(GlobalsSource(), "pickle").read(scope) is pickle
    assert DictItemSource(GlobalsSource(), "pickle").name == "G['pickle']"
    assert DictItemSource(BuiltinsSource(), "len").read(scope) is len
    cell = ClosureCellSource(0, "value")
    assert CellContentsSource(cell).read(scope) == [1, 2]
    assert CellContentsSource(cell).name == "value"


def test_native_roots_of_the_function() -> None:
    pytest.importorskip("capture._native")
    from capture.guards import GuardSet

    sources = [
        GlobalsSource(),
        BuiltinsSource(),
        ClosureCellSource(0, "value"),
        CellContentsSource(ClosureCellSource(0, "value")),
    ]
    tree = GuardSet().compile(sources)
    got = tree.check((), closure)
    assert got is not None
    expected = [source.read(Scope((), closure)) for source in sources]
    assert all(a is b for a, b in zip(got, expected, strict=True))
    assert tree.check((), make_closure.__code__) is None


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (X, ()),
        (ItemSource(X, 2), ([1, 2],)),
        (DictItemSource(X, "k"), ({},)),
        (DictKeySource(X, 1), ({1: 1},)),
        (InstanceDictSource(X), (5,)),
        (InstanceDictSource(X), (Holder,)),
        (AttrSource(X, "nothing"), (5,)),
        (SlotMemberSource(X, "unset"), (slotted,)),
        (TypeAttrSource(X, "nothing"), (int,)),
        (MroItemSource(X, 2), (int,)),
        (CellContentsSource(X), (types.CellType(),)),
        (FunctionClosureSource(X, 1), (closure,)),
    ],
    ids=str,
)
def test_missing_values_are_unreadable(source: Source, values: tuple[object, ...]) -> None:
    with pytest.raises(UnreadableError):
        source.read(Scope(values, closure))


def test_missing_key_does_not_call_missing() -> None:
    table: collections.defaultdict[str, int] = collections.defaultdict(int)
    with pytest.raises(UnreadableError):
        DictItemSource(X, "k").read(Scope((table,), closure))
    assert not table


def test_equality_and_hash_follow_kind_and_fields() -> None:
    assert ItemSource(X, 0) == ItemSource(LocalSource(0, "x"), 0)
    assert hash(ItemSource(X, 0)) == hash(ItemSource(LocalSource(0, "x"), 0))
    assert ItemSource(X, 0) != DictKeySource(X, 0)
    assert ItemSource(X, 0) != ItemSource(X, 1)
    assert AttrSource(X, "a") != SlotMemberSource(X, "a")


@pytest.mark.parametrize("source", [case[0] for case in CASES] + [GlobalsSource()], ids=str)
def test_pickles(source: Source) -> None:
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert hash(copy) == hash(source)


def test_module_names_read_as_the_user_writes_them() -> None:
    layers = DictItemSource(DictItemSource(InstanceDictSource(X), "_modules"), "layers")
    layer = DictItemSource(DictItemSource(InstanceDictSource(layers), "_modules"), "3")
    weight = DictItemSource(DictItemSource(InstanceDictSource(layer), "_parameters"), "weight")
    assert weight.name == "x.layers[3].weight"
    assert weight.chain()[0] is X
    assert weight.chain()[-1] is weight
