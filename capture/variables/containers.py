"""Holds lists, tuples, dicts, sets and deques; must not know the interpreter.

A container that existed before is loaded as late as possible: appending to a list or storing one
key of a dict depends on nothing, so it costs no guard.
"""

from __future__ import annotations

import collections
import weakref
from dataclasses import dataclass
from typing import Any

from capture import break_reasons as reasons
from capture.guards.kinds import (
    DictHas,
    DictKeysAre,
    DictLacks,
    ExprHolds,
    LenIs,
    constant_key,
)
from capture.sources import (
    DictItemSource,
    DictKeySource,
    DictLookupSource,
    DictValueSource,
    ItemSource,
    Source,
)
from capture.variables.base import (
    DELETED,
    MISSING,
    LazyVariable,
    Tracer,
    Variable,
    unsupported,
)
from capture.variables.constant import ConstantVariable
from capture.variables.objects import ClassVariable, ObjectVariable
from capture.variables.tensor import TensorVariable

# Containers from outside with more items than this are left to Python: each item is a variable.
_LOAD_LIMIT = 1 << 16


def is_finalized(v: Variable) -> bool:
    """True if dropping the last reference to a value runs code."""
    return hasattr(v.python_type(), "__del__") and not isinstance(v, ClassVariable)


_CONTAINERS: Any = (
    list, tuple, collections.OrderedDict, dict, collections.deque, set, frozenset,
)  # fmt: skip


def _native_iter(value: Any) -> Any:
    """Iterate over a container past what its class overrides."""
    for base in _CONTAINERS:
        if isinstance(value, base):
            return base.__iter__(value)
    return iter(value)


class SequenceVariable(ObjectVariable):
    """What lists, tuples and deques share: items, loaded on demand."""

    __slots__ = ("_items",)

    def __init__(
        self,
        items: list[Variable] | None,
        cls: type,
        value: Any = MISSING,
        source: Source | None = None,
        cls_var: Variable | None = None,
    ) -> None:
        super().__init__(cls, value, source, cls_var)
        self._items = items

    def items(self, tracer: Tracer) -> list[Variable]:
        """The items as of now; the length of a list from outside is guarded from here on."""
        items = self._items
        if items is None:
            source, value = self.source, self.value
            assert source is not None
            if len(value) > _LOAD_LIMIT:
                unsupported(reasons.UNKNOWN_OPERATION, f"{len(value)} items of {source.name}")
            held = list(_native_iter(value))
            tracer.guard(LenIs(source, len(held)))
            loaded: list[Variable] = [
                LazyVariable(item, ItemSource(source, i)) for i, item in enumerate(held)
            ]
            items = self._items = self._loaded(loaded)
        return items

    def _loaded(self, items: list[Variable]) -> list[Variable]:
        return items


class ListVariable(SequenceVariable):
    """A list, or an instance of a subclass, or a deque.

    ``tail`` is what was appended to a list that is not loaded.
    """

    __slots__ = ("maxlen", "moves", "tail", "touched")

    def __init__(
        self,
        items: list[Variable] | None,
        cls: type = list,
        value: Any = MISSING,
        source: Source | None = None,
        cls_var: Variable | None = None,
        maxlen: int | None = None,
    ) -> None:
        super().__init__(items, cls, value, source, cls_var)
        self.tail: list[Variable] = []
        self.touched = False
        self.maxlen = maxlen
        self.moves = 0  # how often a deque's iterators became invalid

    def _loaded(self, items: list[Variable]) -> list[Variable]:
        if self.tail:
            items = items + self.tail
        return items

    def change(self, tracer: Tracer, moves: bool = True) -> list[Variable]:
        """The items, about to be changed in place by the caller.

        ``moves`` is False if items are replaced only: the iterators of a deque stay valid.
        """
        items = self.items(tracer)
        self.touched = True
        self.moves += moves
        tracer.effects.list_changed(self)
        return items

    def append(self, tracer: Tracer, item: Variable) -> None:
        """``list.append``; does not load the list."""
        if self._items is None and self.maxlen is None:
            tracer.effects.list_changed(self)
            self.tail.append(item)
            self.moves += 1
            return
        items = self._items
        if (
            self.source is not None
            and not self.touched
            and self.maxlen is None
            and items is not None
        ):
            tracer.effects.list_changed(self)
            self.tail.append(item)
            items.append(item)
            self.moves += 1
            return
        items = self.change(tracer)
        items.append(item)
        if self.maxlen is not None and len(items) > self.maxlen:
            del items[0]

    @property
    def is_deque(self) -> bool:
        """True for ``collections.deque`` and its subclasses."""
        return issubclass(self.cls, collections.deque)


class TupleVariable(SequenceVariable):
    """A tuple, or an instance of a subclass (namedtuple, torch.Size, structseq)."""

    __slots__ = ()

    def __init__(
        self,
        items: list[Variable] | None,
        cls: type = tuple,
        value: Any = MISSING,
        source: Source | None = None,
        cls_var: Variable | None = None,
    ) -> None:
        super().__init__(items, cls, value, source, cls_var)


class ObjectKey:
    """Stands for a variable as a key of a Python dict of ours: equal by identity or by ``eq``."""

    __slots__ = ("hash", "tracer", "variable")

    def __init__(self, variable: Variable, hash_: int, tracer: Tracer | None) -> None:
        self.variable = variable
        self.hash = hash_
        self.tracer = tracer

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectKey):
            if self.tracer is not None:
                unsupported(reasons.UNKNOWN_OPERATION, "a key that may equal one of another type")
            return False
        if self.variable is other.variable:
            return True
        if self.tracer is None:
            return False
        return self.tracer.equal(self.variable, other.variable)


def _resolved(v: Variable) -> Variable | None:
    """The variable proper, if something has depended on it."""
    return v.real if isinstance(v, LazyVariable) else v


class DictVariable(ObjectVariable):
    """A dict or an instance of a subclass: keys to (key variable, value variable)."""

    __slots__ = ("default_factory", "entries", "iterators", "loaded")

    def __init__(
        self,
        cls: type = dict,
        value: Any = MISSING,
        source: Source | None = None,
        cls_var: Variable | None = None,
    ) -> None:
        super().__init__(cls, value, source, cls_var)
        self.entries: dict[Any, Any] = {}
        self.loaded = value is MISSING
        self.default_factory: Variable | None = None
        self.iterators: list[weakref.ref[Any]] = []

    def load(self, tracer: Tracer) -> dict[Any, tuple[Variable, Variable]]:
        """All entries in order; the keys of a dict from outside are guarded from here on."""
        if self.loaded:
            return self.entries
        source, value = self.source, self.value
        assert source is not None
        if len(value) > _LOAD_LIMIT:
            unsupported(reasons.UNKNOWN_OPERATION, f"{len(value)} items of {source.name}")
        overlay = self.entries
        try:
            keys = list(_native_iter(value))
            values = {id(key): item for key, item in dict.items(value)}  # no look-up: it runs code
            held = [values[id(key)] for key in keys]
        except (KeyError, RuntimeError):  # an ordered dict that was changed behind its back
            unsupported(reasons.UNKNOWN_OPERATION, f"the keys of {source.name}")
        if all(is_constant_key(k) for k in keys):
            tracer.guard(DictKeysAre(source, tuple(keys)))
            real: dict[Any, Any] = {
                k: (
                    ConstantVariable(k),
                    LazyVariable(item, DictItemSource(source, k)),
                )
                for k, item in zip(keys, held, strict=True)
            }
        else:
            tracer.guard(LenIs(source, len(keys)))
            real = {}
            for i, key in enumerate(keys):
                variable = tracer.wrap(key, DictKeySource(source, i))
                hashed = key_of(tracer, variable)
                item = LazyVariable(held[i], self._place_of(source, i, key))
                real[hashed] = (variable, item)
        for key, entry in overlay.items():
            if entry is DELETED:
                real.pop(key, None)
            elif key in real:
                real[key] = (real[key][0], entry[1])  # a dict keeps its first key object
            else:
                real[key] = entry
        self.entries = real
        self.loaded = True
        return real

    def _place_of(self, source: Source, place: int, key: Any) -> Source:
        """Where a value is found: by its key only if that keeps nothing alive."""
        if is_constant_key(key) or issubclass(self.cls, collections.OrderedDict):
            return DictItemSource(source, key)
        return DictValueSource(source, place)

    def get(self, tracer: Tracer, key: Variable) -> Variable | None:
        """The value stored under a key, or None; guards only what this look-up depends on."""
        key = key.realize(tracer)
        return self.get_hashed(tracer, key_of(tracer, key), key)

    def get_hashed(
        self, tracer: Tracer, hashed: Any, key: Variable | None = None
    ) -> Variable | None:
        """As ``get``, for a key that was hashed before."""
        entry = self.entries.get(hashed)
        if entry is not None:
            return None if entry is DELETED else entry[1]
        if self.loaded:
            return None
        if not is_constant_key(hashed):
            if isinstance(key, TensorVariable):
                known, found = self._by_tensor(tracer, key)
                if known:
                    return found
            entry = self.load(tracer).get(hashed)
            return None if entry is None else entry[1]
        source = self.source
        assert source is not None
        if dict.__contains__(self.value, hashed):
            tracer.guard(DictHas(source, hashed))
            return LazyVariable(
                dict.__getitem__(self.value, hashed), DictItemSource(source, hashed)
            )
        tracer.guard(DictLacks(source, hashed))
        return None

    def _by_tensor(self, tracer: Tracer, key: TensorVariable) -> tuple[bool, Variable | None]:
        """The value under a tensor, which hashes by identity: no other key matters.

        Returns:
            Whether the answer is known without a look at all keys, and the answer.
        """
        source, real = self.source, tracer.real_value(key)
        if real is MISSING:
            return key.source is None, None  # it is younger than the dict
        assert source is not None
        assert key.source is not None
        if dict.__contains__(self.value, real):
            value = dict.__getitem__(self.value, real)
            return True, LazyVariable(value, DictLookupSource(source, key.source))
        if self.value:
            return False, None
        tracer.guard(LenIs(source, 0))
        return True, None

    def _holds(self, tracer: Tracer, hashed: Any, item: Variable) -> bool:
        """True if a tensor is stored where it is already: nothing happens."""
        known = _resolved(item)
        if not isinstance(known, TensorVariable):
            return False
        entry = self.entries.get(hashed)
        if entry is not None:
            return entry is not DELETED and _resolved(entry[1]) is known
        if self.loaded or self.source is None or not is_constant_key(hashed):
            return False
        return known.source == DictItemSource(self.source, hashed)

    def set(self, tracer: Tracer, key: Variable, item: Variable) -> None:
        """Store a value under a key and journal it."""
        key = key.realize(tracer)
        hashed = key_of(tracer, key)
        if self._holds(tracer, hashed, item):
            return
        if not self.loaded and not is_constant_key(hashed) and not isinstance(key, TensorVariable):
            self.load(tracer)
        entry = self.entries.get(hashed)
        if entry is not None and entry is not DELETED and is_finalized(entry[1]):
            unsupported(reasons.SIDE_EFFECT, "replacing an object that has __del__")
        tracer.effects.dict_op(self, "set", hashed, (key, item))
        if entry is not None and entry is not DELETED:
            key = entry[0]
        elif entry is DELETED:
            self.load(tracer)  # the key goes to the end now
        self.entries[hashed] = (key, item)

    def delete(self, tracer: Tracer, key: Variable) -> bool:
        """Remove a key; False if it was not there."""
        hashed = key_of(tracer, key)
        if self.get_hashed(tracer, hashed, key) is None:
            return False
        self.delete_hashed(tracer, hashed, key)
        return True

    def _shrinks(self) -> None:
        """Leave to Python what an iterator finds where keys were removed."""
        for reference in self.iterators:
            iterator = reference()
            if iterator is not None and not iterator.done:
                unsupported(reasons.SIDE_EFFECT, "removing from a dict while it is iterated over")

    def delete_hashed(self, tracer: Tracer, hashed: Any, key: Variable) -> None:
        """Remove a key that is there."""
        self._shrinks()
        tracer.effects.dict_op(self, "del", hashed, (key, None))
        if self.loaded:
            del self.entries[hashed]
        else:
            self.entries[hashed] = DELETED

    def clear(self, tracer: Tracer) -> None:
        """``dict.clear``."""
        self._shrinks()
        tracer.effects.dict_op(self, "clear", None)
        self.entries = {}
        self.loaded = True

    def move_to_end(self, tracer: Tracer, key: Variable, last: bool) -> bool:
        """``OrderedDict.move_to_end``; False if the key is not there."""
        entries = self.load(tracer)
        hashed = key_of(tracer, key)
        if hashed not in entries:
            return False
        self._shrinks()
        tracer.effects.dict_op(self, "move", hashed, (key, ConstantVariable(last)))
        entry = entries.pop(hashed)
        if last:
            entries[hashed] = entry
        else:
            self.entries = {hashed: entry, **entries}
        return True


@dataclass(frozen=True, slots=True)
class SetIs:
    """Compare a set with a remembered one, types included; equal instances make equal guards."""

    keys: Any

    @staticmethod
    def of(value: Any) -> SetIs:
        """For a set: the same elements in any order."""
        return SetIs(frozenset(map(constant_key, _native_iter(value))))

    @staticmethod
    def in_order(value: Any) -> SetIs:
        """For a set: the same elements, iterated in the same order."""
        return SetIs(tuple(map(constant_key, _native_iter(value))))

    def __call__(self, value: Any) -> bool:
        """True if a set has these elements."""
        try:
            return bool(type(self.keys)(map(constant_key, _native_iter(value))) == self.keys)
        except TypeError:  # an element that is no constant
            return False


def set_has_constants(value: Any) -> bool:
    """True for a real set, or frozenset, of nothing but constants."""
    return all(map(is_constant_key, _native_iter(value)))


class SetVariable(ObjectVariable):
    """A set or frozenset of variables.

    ``table`` is a real set that went through the same operations, so that it iterates in the order
    that the program's set would; None if that cannot be known (elements that are no constants).
    """

    __slots__ = ("_entries", "changed", "lent", "popped", "table")

    def __init__(
        self,
        entries: dict[Any, Variable] | None,
        cls: type = set,
        value: Any = MISSING,
        source: Source | None = None,
        cls_var: Variable | None = None,
        table: Any = None,
    ) -> None:
        super().__init__(cls, value, source, cls_var)
        self._entries = entries
        self.changed = False
        self.lent = False  # an entry of the journal refers to it as it is now
        self.popped = False
        self.table = set() if table is None and entries == {} else table

    @property
    def is_new(self) -> bool:
        """True for a set made during capture: its writes need no journal."""
        return self.source is None and self.value is MISSING

    def entries(self, tracer: Tracer) -> dict[Any, Variable]:
        """Hashed key to element; a set from outside that holds objects is guarded from here on."""
        entries = self._entries
        if entries is None:
            value, source = self.value, self.source
            if set_has_constants(value):
                entries = {k: ConstantVariable(k) for k in _native_iter(value)}
            else:
                held = list(_native_iter(value))
                if source is None or len(held) > _LOAD_LIMIT:
                    unsupported(reasons.UNKNOWN_OPERATION, f"the elements of {self.describe()}")
                entries = {}
                for i, item in enumerate(held):
                    variable = tracer.wrap(item, DictKeySource(source, i))
                    entries[key_of(tracer, variable)] = variable
            self._entries = entries
        return entries

    def order(self, tracer: Tracer) -> list[Variable] | None:
        """The elements in the order in which Python would give them, guarded; None if unknown."""
        entries = self.entries(tracer)
        if len(entries) <= 1:
            return list(entries.values())
        if self.value is not MISSING and not self.changed:
            if not set_has_constants(self.value):
                return list(entries.values())  # each was reached by its place
            if self.source is not None:
                check = SetIs.in_order(self.value)
                what = f"the order of {self.source.name}"
                tracer.guard(ExprHolds((self.source,), check, what))
            return [entries[k] for k in _native_iter(self.value)]
        return None if self.table is None else [entries[k] for k in self.table]

    def real(self, tracer: Tracer) -> Any:
        """A real set that iterates as this one does, not to be changed, or None."""
        if self.value is MISSING or self.changed:
            return self.table
        if not set_has_constants(self.value):
            return None
        self.order(tracer)
        return self.value

    def add(self, tracer: Tracer, item: Variable, hashed: Any = MISSING) -> None:
        """``set.add``."""
        if hashed is MISSING:
            hashed = key_of(tracer, item)
        entries = self.entries(tracer)
        if hashed not in entries:
            self._change(tracer, "add", item)
            entries[hashed] = item
            if not is_constant_key(hashed):
                self.table = None
            if self.table is not None:
                self.table.add(hashed)

    def discard(self, tracer: Tracer, hashed: Any) -> bool:
        """``set.discard`` of a hashed key; False if it was not there."""
        entries = self.entries(tracer)
        item = entries.get(hashed)
        if item is None:
            return False
        self._change(tracer, "discard", item)
        del entries[hashed]
        if self.table is not None:
            self.table.discard(hashed)
        return True

    def pop(self, tracer: Tracer) -> Variable | None:
        """``set.pop`` of a set that is not empty; None if Python alone knows what it gives."""
        entries = self.entries(tracer)
        if len(entries) > 1:
            if not self.is_new or self.table is None:
                return None
            key = self.table.pop()
        else:
            key = next(iter(entries))
            if self.table is not None:
                self.table.discard(key)
        self._change(tracer, "pop")
        self.popped = True
        return entries.pop(key)

    def clear(self, tracer: Tracer) -> None:
        """``set.clear``: the table is a new one then."""
        self._change(tracer, "clear")
        self._entries = {}
        self.table = set()

    def _change(self, tracer: Tracer, op: str, operand: Variable | None = None) -> None:
        if self.lent:
            unsupported(reasons.SIDE_EFFECT, f"changing {self.describe()}, which is yet to be read")
        tracer.effects.set_op(self, op, operand)
        self.changed = True

    def assign(
        self,
        tracer: Tracer,
        entries: dict[Any, Variable],
        table: Any,
        op: str = "update",
        operand: Variable | None = None,
    ) -> None:
        """Set the whole content, as in-place operators do; ``op`` of ``operand`` replays it."""
        assert self.is_new or operand is not None
        self._change(tracer, op, operand)
        self._entries = entries
        self.table = table
        self.popped = False


class LocalsVariable(DictVariable):
    """What ``locals()`` gave. ``is_live``: its frame goes on behind the piece, and may fill it."""

    __slots__ = ("is_live",)

    def __init__(self) -> None:
        super().__init__()
        self.is_live = False


class DictViewVariable(Variable):
    """``dict.keys()``, ``values()`` or ``items()`` of a dict variable."""

    __slots__ = ("kind", "target")

    def __init__(self, target: DictVariable, kind: str) -> None:
        super().__init__(None)
        self.target = target
        self.kind = kind

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}[
            self.kind
        ]


class SliceVariable(Variable):
    """A slice whose parts are variables."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Variable], source: Source | None = None) -> None:
        super().__init__(source)
        self.parts = parts

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return slice


class RangeVariable(Variable):
    """A range with known bounds."""

    __slots__ = ("value",)

    def __init__(self, value: range, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return range


_CONSTANT_KEYS = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis)})


def is_constant_key(key: object) -> bool:
    """True for immutable values (tuples of them too) that mean the same in every run."""
    if type(key) in _CONSTANT_KEYS:
        return True
    return type(key) is tuple and all(is_constant_key(k) for k in key)


def key_of(tracer: Tracer, key: Variable) -> Any:
    """Turn a variable into a key of our own dicts; TypeError is the traced program's."""
    key = key.realize(tracer)
    if isinstance(key, ConstantVariable):
        return key.value
    return tracer.hashed(key)
