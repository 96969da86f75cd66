"""Holds the guard kinds on Python values: predicates that check and explain themselves.

Each is plain data with its source first. They must not know variables, nor the native tree:
how they are lowered stands in ``lower.py``. Tensor and global-state guards stand in
``torch_kinds.py``.
"""

# ruff: noqa: D102 - what overrides do is what the base class says

from __future__ import annotations

import collections
import struct
import types
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capture.guards.guard import ConditionGuard, Guard, Reference, SourceGuard, shorten
from capture.guards.torch_kinds import StateIs, TensorFacts, TensorMatch
from capture.sources import Scope, Source, UnreadableError, dict_keys, has_type, type_has

__all__ = [
    "AllDistinct",
    "BoundCell",
    "DictHas",
    "DictKeysAre",
    "DictLacks",
    "Equals",
    "ExprHolds",
    "Guard",
    "IdIs",
    "IsEmpty",
    "IsNotSame",
    "IsSame",
    "LenIs",
    "StateIs",
    "StoragesAre",
    "TensorFacts",
    "TensorMatch",
    "TypeAttrAbsent",
    "TypeIs",
    "UnboundCell",
    "constant_key",
    "storage_groups",
]

_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, str, bytes)


@dataclass(frozen=True, init=False)
class TypeIs(SourceGuard):
    """The exact type of the value."""

    __slots__ = ("reference",)
    reference: Reference

    def __init__(self, source: Source, type: type) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "reference", Reference(type))

    @property
    def type(self) -> Any:
        """The type, or None once it is dead."""
        return self.reference.get()

    def holds(self, value: object) -> bool:
        return self.reference.refers_to(type(value))

    def difference(self, value: object) -> str:
        return f"`{self.source}` changed from type {self.reference.text} to {shorten(type(value))}"

    def describe(self) -> str:
        return f"type({self.source}) is {self.reference.text}"


@dataclass(frozen=True, init=False)
class IdIs(SourceGuard):
    """The value is this very object, which is not kept alive if it can be referenced weakly."""

    __slots__ = ("reference",)
    reference: Reference

    def __init__(self, source: Source, obj: object) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "reference", Reference(obj))

    @property
    def obj(self) -> object:
        """The object, or None once it is dead."""
        return self.reference.get()

    def holds(self, value: object) -> bool:
        return self.reference.refers_to(value)

    def difference(self, value: object) -> str:
        if not self.reference.alive:
            return f"`{self.source}` was {self.reference.text}, which no longer exists"
        new = shorten(value)
        other = "another object, " if new == self.reference.text else ""
        return f"`{self.source}` changed from {self.reference.text} to {other}{new}"

    def describe(self) -> str:
        return f"{self.source} is {self.reference.text}"


@dataclass(frozen=True, eq=False)
class Equals(SourceGuard):
    """The value is this constant: same types throughout, nan equals nan, -0.0 differs from 0.0."""

    __slots__ = ("_key", "value")
    value: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", constant_key(self.value))

    def holds(self, value: object) -> bool:
        return _is_constant(value) and constant_key(value) == self._key  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.source, self._key))  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Equals):
            return NotImplemented
        same: bool = self._key == other._key  # type: ignore[attr-defined]
        return same and self.source == other.source

    def difference(self, value: object) -> str:
        return f"`{self.source}` changed from {shorten(self.value)} to {shorten(value)}"

    def describe(self) -> str:
        return f"{self.source} == {shorten(self.value)}"


@dataclass(frozen=True)
class LenIs(SourceGuard):
    """The length of a list, tuple, dict, set, frozenset, deque, str or bytes (or a subclass)."""

    __slots__ = ("length",)
    length: int

    def holds(self, value: object) -> bool:
        return _length(value) == self.length

    def difference(self, value: object) -> str:
        return f"the length of `{self.source}` changed from {self.length} to {_length(value)}"

    def describe(self) -> str:
        return f"len({self.source}) == {self.length}"


@dataclass(frozen=True)
class IsEmpty(SourceGuard):
    """Whether the container is empty: the truth of it, for containers that do not override it."""

    __slots__ = ("empty",)
    empty: bool

    def holds(self, value: object) -> bool:
        length = _length(value)
        return length is not None and (length == 0) is self.empty

    def difference(self, value: object) -> str:
        if self.empty:
            return f"`{self.source}` was empty and now has {_length(value)} items"
        return f"`{self.source}` was not empty and now is"

    def describe(self) -> str:
        return f"{'not ' if self.empty else ''}{self.source}"


@dataclass(frozen=True, init=False)
class DictKeysAre(SourceGuard):
    """The keys of a dict and their order: constants by value, anything else by identity.

    Keys that are tensors or other mortal objects of the user are better guarded by ``LenIs`` and
    ``IsSame`` on ``DictKeySource``.
    """

    __slots__ = ("keys",)
    keys: tuple[Hashable, ...]

    def __init__(self, source: Source, keys: tuple[object, ...]) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "keys", tuple(_constant_or_reference(key) for key in keys))

    def holds(self, value: object) -> bool:
        if not has_type(value, dict):
            return False
        if dict.__len__(value) != len(self.keys):
            return False
        return all(
            _matches(expected, key)
            for expected, key in zip(self.keys, dict_keys(value), strict=True)
        )

    def difference(self, value: object) -> str:
        if not has_type(value, dict):
            return f"`{self.source}` is no longer a dict"
        old = [_key_text(key) for key in self.keys]
        new = [shorten(key) for key in dict_keys(value)]
        if sorted(old) == sorted(new):
            return f"the order of the keys of `{self.source}` changed"
        gone = ", ".join(key for key in old if key not in new)
        come = ", ".join(key for key in new if key not in old)
        parts = [f"lost {gone}"] * bool(gone) + [f"got {come}"] * bool(come)
        return f"the keys of `{self.source}` changed: it {' and '.join(parts)}"

    def describe(self) -> str:
        return f"list({self.source}) == [{', '.join(_key_text(key) for key in self.keys)}]"


@dataclass(frozen=True)
class DictHas(SourceGuard):
    """The dict has the key."""

    __slots__ = ("key",)
    key: object

    def holds(self, value: object) -> bool:
        return has_type(value, dict) and dict.__contains__(value, self.key)

    def difference(self, value: object) -> str:
        return f"`{self.source}` no longer has the key {shorten(self.key)}"

    def describe(self) -> str:
        return f"{shorten(self.key)} in {self.source}"


@dataclass(frozen=True)
class DictLacks(SourceGuard):
    """The dict lacks the key."""

    __slots__ = ("key",)
    key: object

    def holds(self, value: object) -> bool:
        return has_type(value, dict) and not dict.__contains__(value, self.key)

    def difference(self, value: object) -> str:
        return f"`{self.source}` now has the key {shorten(self.key)}"

    def describe(self) -> str:
        return f"{shorten(self.key)} not in {self.source}"


@dataclass(frozen=True)
class TypeAttrAbsent(SourceGuard):
    """The type object that ``source`` names has no such attribute along its MRO."""

    __slots__ = ("attr",)
    attr: str

    def holds(self, value: object) -> bool:
        return has_type(value, type) and not type_has(value, self.attr)

    def difference(self, value: object) -> str:
        return f"`{self.source}` now has the attribute {self.attr!r}"

    def describe(self) -> str:
        return f"no {self.attr!r} along {self.source}.__mro__"


@dataclass(frozen=True)
class IsSame(SourceGuard):
    """Two sources give the same object."""

    __slots__ = ("other",)
    other: Source
    wanted = True

    def check(self, scope: Scope) -> bool:
        try:
            same = self.source.read(scope) is self.other.read(scope)
        except UnreadableError:
            return False
        return same is self.wanted

    def difference(self, value: object) -> str:
        return f"`{self.source}` and `{self.other}` are no longer the same object"

    def describe(self) -> str:
        return f"{self.source} is {self.other}"


@dataclass(frozen=True)
class IsNotSame(IsSame):
    """Two sources give different objects."""

    __slots__ = ()
    wanted = False

    def difference(self, value: object) -> str:
        return f"`{self.source}` and `{self.other}` are now the same object"

    def describe(self) -> str:
        return f"{self.source} is not {self.other}"


@dataclass(frozen=True)
class AllDistinct(Guard):
    """The sources give objects no two of which are the same."""

    __slots__ = ("sources",)
    sources: tuple[Source, ...]

    def check(self, scope: Scope) -> bool:
        try:
            return len({id(value) for value in self._values(scope)}) == len(self.sources)
        except UnreadableError:
            return False

    def explain(self, scope: Scope) -> str:
        seen: dict[int, Source] = {}
        for source in self.sources:
            try:
                value = source.read(scope)
            except UnreadableError:
                return f"`{source}` is no longer there"
            first = seen.setdefault(id(value), source)
            if first is not source:
                return f"`{first}` and `{source}` are now the same object"
        return "all are different objects"

    def describe(self) -> str:
        return f"no two the same of {', '.join(source.name for source in self.sources)}"

    def _values(self, scope: Scope) -> list[object]:
        return [source.read(scope) for source in self.sources]


@dataclass(frozen=True)
class StoragesAre(Guard):
    """The sources give tensors that share storage as ``groups`` says, and no more than that.

    ``groups[i]`` is the place of the first tensor that has the storage of tensor ``i``.
    """

    __slots__ = ("groups", "sources")
    sources: tuple[Source, ...]
    groups: tuple[int, ...]

    @classmethod
    def of(cls, sources: tuple[Source, ...], tensors: Sequence[torch.Tensor]) -> StoragesAre:
        """The guard that the tensors at hand fulfil."""
        return cls(sources, storage_groups(tensors))

    def check(self, scope: Scope) -> bool:
        try:
            return self.holds_for(*[source.read(scope) for source in self.sources])
        except UnreadableError:
            return False

    def holds_for(self, *values: object) -> bool:
        """Whether these values share storage as demanded."""
        tensors = [value for value in values if has_type(value, torch.Tensor)]
        return len(tensors) == len(self.groups) and storage_groups(tensors) == self.groups

    def explain(self, scope: Scope) -> str:
        try:
            values: list[Any] = [source.read(scope) for source in self.sources]
            groups = storage_groups(values)
        except (UnreadableError, AttributeError):
            return "one of the tensors is no longer there"
        for i, (old, new) in enumerate(zip(self.groups, groups, strict=True)):
            if old != new:
                other, verb = (new, "now share") if new < i else (old, "no longer share")
                return f"`{self.sources[other]}` and `{self.sources[i]}` {verb} storage"
        return "storage is shared as before"

    def describe(self) -> str:
        names = [source.name for source in self.sources]
        shared = [f"{names[i]} with {names[g]}" for i, g in enumerate(self.groups) if i != g]
        return f"of {', '.join(names)} share storage: {', '.join(shared) or 'none'}"


def storage_groups(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return for each tensor the place of the first one that has the same storage."""
    first: dict[int, int] = {}
    with torch._C.DisableTorchFunction():
        return tuple(
            first.setdefault(tensor.untyped_storage()._cdata, place)
            for place, tensor in enumerate(tensors)
        )


@dataclass(frozen=True)
class BoundCell(SourceGuard):
    """The cell holds something."""

    __slots__ = ()
    bound = True

    def holds(self, value: object) -> bool:
        if type(value) is not types.CellType:
            return False
        try:
            value.cell_contents  # noqa: B018
        except ValueError:
            return not self.bound
        return self.bound

    def difference(self, value: object) -> str:
        return f"`{self.source}` is now {'empty' if self.bound else 'bound'}"

    def describe(self) -> str:
        return f"{self.source} is {'bound' if self.bound else 'empty'}"


@dataclass(frozen=True)
class UnboundCell(BoundCell):
    """The cell is empty."""

    __slots__ = ()
    bound = False


@dataclass(frozen=True)
class ExprHolds(ConditionGuard):
    """``fn`` of the sources' values is true: for conditions on sizes and numbers. The slow way."""

    __slots__ = ("fn", "sources", "text")
    sources: tuple[Source, ...]
    fn: Callable[..., object]
    text: str

    @property
    def readable(self) -> str:
        return self.text


def constant_key(value: object) -> Hashable:
    """Return what makes a constant: equal keys mean interchangeable constants.

    Raises TypeError for a value that ``Equals`` cannot compare.
    """
    kind = type(value)
    if kind is float:
        return (float, _float_key(value))
    if kind is complex:
        number: Any = value
        return (complex, _float_key(number.real), _float_key(number.imag))
    if kind in _ATOMS:
        return (kind, value)
    members: Any = value
    if kind is tuple or (kind.__qualname__ == "Size" and issubclass(kind, tuple)):
        return (kind, tuple(constant_key(item) for item in members))
    if kind is frozenset:
        return (kind, frozenset(constant_key(item) for item in members))
    if kind is range or kind is slice:
        parts = (members.start, members.stop, members.step)
        return (kind, tuple(constant_key(part) for part in parts))
    if kind.__module__ == "torch" and kind.__qualname__ == "device":
        return (kind, members.type, members.index)
    raise TypeError(f"Equals cannot compare a {kind.__name__}")


_ATOMS = (int, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))


def _float_key(value: Any) -> bytes | str:
    return "nan" if value != value else struct.pack("d", value)


def _is_constant(value: object) -> bool:
    try:
        constant_key(value)
    except TypeError:
        return False
    return True


def _constant_or_reference(key: object) -> Hashable:
    return ConstantKey(key, constant_key(key)) if _is_constant(key) else Reference(key)


@dataclass(frozen=True)
class ConstantKey:
    """A constant key of a dict, told apart by its exact type too."""

    __slots__ = ("key", "value")
    value: Hashable
    key: Hashable

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantKey) and self.key == other.key


def _matches(expected: Hashable, key: object) -> bool:
    if isinstance(expected, Reference):
        return expected.refers_to(key)
    assert isinstance(expected, ConstantKey)
    return _is_constant(key) and constant_key(key) == expected.key


def _key_text(key: Hashable) -> str:
    return key.text if isinstance(key, Reference) else shorten(getattr(key, "value", key))


def _length(value: object) -> int | None:
    for kind in _CONTAINERS:
        if has_type(value, kind):
            length: int = kind.__len__(value)  # type: ignore[arg-type]
            return length
    return None
