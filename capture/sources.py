"""Holds the sources: where a value came from, and how a guard reaches it from a frame's values.

A source is plain immutable data. It must not know variables, graphs or guards. ``read`` is the
Python oracle of what the native guard tree does; neither runs user code, ``AttrSource`` excepted.
"""

# ruff: noqa: D102 - what overrides do is what the base class says

from __future__ import annotations

import collections
import functools
import inspect
import math
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, TypeGuard, TypeVar

__all__ = [
    "RANGE_ITERATOR",
    "AttrSource",
    "BuiltinsSource",
    "CellContentsSource",
    "ClosureCellSource",
    "DictItemSource",
    "DictKeySource",
    "DictLookupSource",
    "DictValueSource",
    "ExpressionSource",
    "FunctionClosureSource",
    "FunctionCodeSource",
    "FunctionDefaultsSource",
    "FunctionGlobalsSource",
    "FunctionKwDefaultsSource",
    "GlobalsSource",
    "InstanceDictSource",
    "ItemSource",
    "LocalSource",
    "MethodFuncSource",
    "MethodSelfSource",
    "ModulesSource",
    "MroItemSource",
    "PartialSource",
    "PropertySource",
    "RangeIteratorSource",
    "ReferentSource",
    "Scope",
    "SizeSource",
    "SlotMemberSource",
    "Source",
    "StrideSource",
    "TypeAttrSource",
    "TypeSource",
    "UnreadableError",
    "WrappedSource",
    "dict_keys",
    "function_of",
    "has_type",
    "instance_dict",
    "type_has",
    "type_lookup",
]


class UnreadableError(LookupError):
    """The value a source names is not there (any more), or its parent is of another kind."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What sources are read from: the array of values and the frame's function."""

    values: Sequence[object]
    func: Any


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Base of all sources. Equal by kind and fields, with the hash computed once."""

    _key: tuple[object, ...] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)
    _fields: ClassVar[Callable[[Any], Any]]
    _single: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        names = [name for name in inspect.get_annotations(cls) if name[0] != "_"]
        cls._single = len(names) == 1
        cls._fields = staticmethod(attrgetter(*names)) if names else staticmethod(lambda self: ())

    def __post_init__(self) -> None:
        values = type(self)._fields(self)
        key = (type(self).__name__, values)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Source):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key

    def __reduce__(self) -> tuple[object, ...]:
        # the cached hash depends on the process, so a copy is built anew
        values = type(self)._fields(self)
        return (type(self), (values,) if type(self)._single else values)

    def __str__(self) -> str:
        return self.name

    @property
    def parent(self) -> Source | None:
        """The source this one is read from, or None for a root."""
        return getattr(self, "base", None)

    @property
    def name(self) -> str:
        """The readable form for users, such as ``self.layers[3].weight``."""
        raise NotImplementedError

    def read(self, scope: Scope) -> object:
        """Return the value; raise ``UnreadableError`` if it cannot be reached."""
        raise NotImplementedError

    def chain(self) -> list[Source]:
        """The sources from the root to this one."""
        chain: list[Source] = []
        source: Source | None = self
        while source is not None:
            chain.append(source)
            source = source.parent
        chain.reverse()
        return chain


@dataclass(frozen=True, slots=True, eq=False)
class LocalSource(Source):
    """Slot ``index`` of the array of values."""

    index: int
    local_name: str

    @property
    def name(self) -> str:
        return self.local_name

    def read(self, scope: Scope) -> object:
        if self.index >= len(scope.values):
            raise UnreadableError(self.local_name)
        return scope.values[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class ClosureCellSource(Source):
    """Cell ``index`` of the frame function's closure: the cell object itself."""

    index: int
    cell_name: str

    @property
    def name(self) -> str:
        return f"<cell {self.cell_name}>"

    def read(self, scope: Scope) -> object:
        closure = scope.func.__closure__ or ()
        if self.index >= len(closure):
            raise UnreadableError(self.cell_name)
        return closure[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class GlobalsSource(Source):
    """The globals of the frame's function."""

    @property
    def name(self) -> str:
        return "G"

    def read(self, scope: Scope) -> object:
        return scope.func.__globals__


@dataclass(frozen=True, slots=True, eq=False)
class ModulesSource(Source):
    """``sys.modules``, what an import statement looks at first."""

    @property
    def name(self) -> str:
        return "sys.modules"

    def read(self, scope: Scope) -> object:
        return sys.modules


@dataclass(frozen=True, slots=True, eq=False)
class BuiltinsSource(Source):
    """The builtins of the frame's function."""

    @property
    def name(self) -> str:
        return "B"

    def read(self, scope: Scope) -> object:
        return getattr(scope.func, "__builtins__")  # noqa: B009


@dataclass(frozen=True, slots=True, eq=False)
class CellContentsSource(Source):
    """What a cell holds."""

    base: Source

    @property
    def name(self) -> str:
        base = self.base
        if isinstance(base, ClosureCellSource):
            return base.cell_name
        if isinstance(base, LocalSource):
            return base.local_name
        return f"{base.name}.cell_contents"

    def read(self, scope: Scope) -> object:
        cell = self.base.read(scope)
        if type(cell) is not types.CellType:
            raise UnreadableError(self.name)
        try:
            return cell.cell_contents
        except ValueError:
            raise UnreadableError(self.name) from None


@dataclass(frozen=True, slots=True, eq=False)
class DictItemSource(Source):
    """``dict.__getitem__(base, key)`` without ``__missing__``; ``key`` is kept alive."""

    base: Source
    key: object

    @property
    def name(self) -> str:
        return _dict_item_name(self.base, self.key)

    def read(self, scope: Scope) -> object:
        return _dict_get(self.base.read(scope), self.key, self)


@dataclass(frozen=True, slots=True, eq=False)
class DictLookupSource(Source):
    """The item of dict ``base`` whose key is read from a source (``optimizer.state[p]``).

    The key is an atom, or an object that hashes by identity, as tensors do.
    """

    base: Source
    key: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}[{self.key.name}]"

    def read(self, scope: Scope) -> object:
        table, wanted = self.base.read(scope), self.key.read(scope)
        if type(wanted) in (str, int, float, complex, bool, bytes, type(None)):
            return _dict_get(table, wanted, self)
        if has_type(table, dict) and type(wanted) not in (tuple, frozenset):
            for key, value in dict.items(table):
                if key is wanted:
                    return value
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class DictKeySource(Source):
    """The key at place ``index`` in the order of the dict."""

    base: Source
    index: int

    @property
    def name(self) -> str:
        return f"list({self.base.name})[{self.index}]"

    def read(self, scope: Scope) -> object:
        for place, key in enumerate(dict_keys(self.base.read(scope))):
            if place == self.index:
                return key
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class DictValueSource(Source):
    """The value at place ``index`` in the order of the dict. Not for an ``OrderedDict``."""

    base: Source
    index: int

    @property
    def name(self) -> str:
        return f"list({self.base.name}.values())[{self.index}]"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        if has_type(value, dict) and not has_type(value, collections.OrderedDict):
            for place, item in enumerate(dict.values(value)):
                if place == self.index:
                    return item
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class InstanceDictSource(Source):
    """The instance's real ``__dict__``, whatever its class says of attributes. Not for types."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__dict__"

    def read(self, scope: Scope) -> object:
        return instance_dict(self.base.read(scope))


@dataclass(frozen=True, slots=True, eq=False)
class AttrSource(Source):
    """Plain ``getattr``; may run user code, so only for C attributes such as ``tensor.grad``."""

    base: Source
    attr: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.attr}"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        try:
            return getattr(value, self.attr)
        except Exception as error:
            raise UnreadableError(self.name) from error


@dataclass(frozen=True, slots=True, eq=False)
class SlotMemberSource(Source):
    """A ``__slots__`` member (or another C member) of the type, read through its descriptor."""

    base: Source
    member: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.member}"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        member = type_lookup(type(value), self.member)
        if type(member) is not types.MemberDescriptorType:
            raise UnreadableError(self.name)
        try:
            return member.__get__(value, type(value))
        except AttributeError:
            raise UnreadableError(self.name) from None


@dataclass(frozen=True, slots=True, eq=False)
class TypeSource(Source):
    """``type(base)``."""

    base: Source

    @property
    def name(self) -> str:
        return f"type({self.base.name})"

    def read(self, scope: Scope) -> object:
        return type(self.base.read(scope))


@dataclass(frozen=True, slots=True, eq=False)
class TypeAttrSource(Source):
    """An attribute of the type object ``base``, raw, from the dicts along its MRO; not bound."""

    base: Source
    attr: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.attr}"

    def read(self, scope: Scope) -> object:
        owner = self.base.read(scope)
        if not has_type(owner, type):
            raise UnreadableError(self.name)
        value = type_lookup(owner, self.attr)
        if value is _ABSENT:
            raise UnreadableError(self.name)
        return value


@dataclass(frozen=True, slots=True, eq=False)
class MroItemSource(Source):
    """Entry ``index`` of the MRO of the type object ``base``."""

    base: Source
    index: int

    @property
    def name(self) -> str:
        return f"{self.base.name}.__mro__[{self.index}]"

    def read(self, scope: Scope) -> object:
        owner = self.base.read(scope)
        if not has_type(owner, type):
            raise UnreadableError(self.name)
        mro = type.__dict__["__mro__"].__get__(owner)
        if self.index >= len(mro):
            raise UnreadableError(self.name)
        return mro[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class ItemSource(Source):
    """Item ``index`` (>= 0) of a list or tuple or a subclass of these, read below any override."""

    base: Source
    index: int

    @property
    def name(self) -> str:
        return f"{self.base.name}[{self.index}]"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        try:
            if has_type(value, tuple):
                return tuple.__getitem__(value, self.index)
            if has_type(value, list):
                return list.__getitem__(value, self.index)
        except IndexError:
            pass
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionGlobalsSource(Source):
    """``base.__globals__`` of a Python function."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__globals__"

    def read(self, scope: Scope) -> object:
        return _function(self, scope).__globals__


@dataclass(frozen=True, slots=True, eq=False)
class FunctionClosureSource(Source):
    """Cell ``index`` of ``base.__closure__``: the cell object."""

    base: Source
    index: int

    @property
    def name(self) -> str:
        return f"{self.base.name}.__closure__[{self.index}]"

    def read(self, scope: Scope) -> object:
        closure = _function(self, scope).__closure__ or ()
        if self.index >= len(closure):
            raise UnreadableError(self.name)
        return closure[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDefaultsSource(Source):
    """``base.__defaults__``: a tuple, or None."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__defaults__"

    def read(self, scope: Scope) -> object:
        return _function(self, scope).__defaults__


@dataclass(frozen=True, slots=True, eq=False)
class FunctionKwDefaultsSource(Source):
    """``base.__kwdefaults__``: a dict, or None."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__kwdefaults__"

    def read(self, scope: Scope) -> object:
        return _function(self, scope).__kwdefaults__


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCodeSource(Source):
    """``base.__code__``."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__code__"

    def read(self, scope: Scope) -> object:
        return _function(self, scope).__code__


@dataclass(frozen=True, slots=True, eq=False)
class MethodSelfSource(Source):
    """``base.__self__`` of a bound method or a bound builtin."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__self__"

    def read(self, scope: Scope) -> object:
        method = self.base.read(scope)
        if type(method) is types.MethodType or type(method) is types.BuiltinMethodType:
            return method.__self__
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class MethodFuncSource(Source):
    """``base.__func__`` of a bound method."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__func__"

    def read(self, scope: Scope) -> object:
        method = self.base.read(scope)
        if type(method) is types.MethodType:
            return method.__func__
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class PropertySource(Source):
    """``fget``, ``fset`` or ``fdel`` of a property; None when it has none."""

    base: Source
    part: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.part}"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        if has_type(value, property) and self.part in ("fget", "fset", "fdel"):
            member: Any = property.__dict__[self.part]
            return member.__get__(value)
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class ReferentSource(Source):
    """What a weak reference refers to, while it lives."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}()"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        if isinstance(value, weakref.ref):
            found: object = weakref.ref.__call__(value)
            if found is not None:
                return found
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class SizeSource(Source):
    """Size ``dim`` (>= 0) of a plain tensor."""

    base: Source
    dim: int

    @property
    def name(self) -> str:
        return f"{self.base.name}.shape[{self.dim}]"

    def read(self, scope: Scope) -> object:
        value: Any = self.base.read(scope)
        try:
            return value.shape[self.dim]
        except (AttributeError, IndexError):
            raise UnreadableError(self.name) from None


@dataclass(frozen=True, slots=True, eq=False)
class StrideSource(Source):
    """Stride ``dim`` (>= 0) of a plain tensor."""

    base: Source
    dim: int

    @property
    def name(self) -> str:
        return f"{self.base.name}.stride({self.dim})"

    def read(self, scope: Scope) -> object:
        value: Any = self.base.read(scope)
        try:
            return value.stride()[self.dim]
        except (AttributeError, IndexError):
            raise UnreadableError(self.name) from None


_NAMES: dict[str, Any] = {
    "__builtins__": {},
    "abs": abs,
    "bool": bool,
    "divmod": divmod,
    "float": float,
    "int": int,
    "max": max,
    "min": min,
    "round": round,
    "repr": repr,
    "math": math,
}
_PLACE = re.compile(r"\ba(\d+)\b")


@functools.lru_cache(maxsize=1024)
def function_of(count: int, text: str) -> Callable[..., Any]:
    """Return the Python expression ``text`` as a function of ``a0``, ``a1``, ... ``count`` numbers.

    It knows the functions on numbers, and the module ``math``.
    """
    names = ", ".join(f"a{i}" for i in range(count))
    found: Callable[..., Any] = eval(f"lambda {names}: {text}", dict(_NAMES))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionSource(Source):
    """A number computed from others: ``text`` is a Python expression over ``a0``, ``a1``, ...

    No guard reaches it: guards and inputs of a graph are over its ``sources``.
    """

    text: str
    sources: tuple[Source, ...]

    @property
    def name(self) -> str:
        return _PLACE.sub(lambda found: self.sources[int(found[1])].name, self.text)

    def read(self, scope: Scope) -> object:
        values = [source.read(scope) for source in self.sources]
        try:
            return function_of(len(values), self.text)(*values)
        except Exception:
            raise UnreadableError(self.name) from None


@dataclass(frozen=True, slots=True, eq=False)
class WrappedSource(Source):
    """``__func__`` of a ``staticmethod`` or ``classmethod`` object."""

    base: Source

    @property
    def name(self) -> str:
        return f"{self.base.name}.__func__"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        kind = type(value)
        if kind is staticmethod or kind is classmethod:
            member: Any = kind.__dict__["__func__"]
            return member.__get__(value)
        raise UnreadableError(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class PartialSource(Source):
    """``func``, ``args`` or ``keywords`` of a ``functools.partial``."""

    base: Source
    part: str

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.part}"

    def read(self, scope: Scope) -> object:
        value = self.base.read(scope)
        if has_type(value, functools.partial) and self.part in ("func", "args", "keywords"):
            member: Any = functools.partial.__dict__[self.part]
            return member.__get__(value)
        raise UnreadableError(self.name)


RANGE_ITERATOR = type(iter(range(0)))


@dataclass(frozen=True, slots=True, eq=False)
class RangeIteratorSource(Source):
    """Where an iterator of a range stands.

    Args:
        part: ``next``, the number that comes next if one does, ``step``, or ``left``, how many are
            still to come.
    """

    base: Source
    part: str

    PARTS = ("next", "step", "left")

    @property
    def name(self) -> str:
        return f"{self.base.name}.{self.part}"

    def read(self, scope: Scope) -> object:
        value: Any = self.base.read(scope)
        if type(value) is not RANGE_ITERATOR:
            raise UnreadableError(self.name)
        reduced: Any = value.__reduce__()
        numbers, position = reduced[1][0], reduced[2] or 0  # from 3.12 on there is no position
        begin, left = numbers.start + position * numbers.step, len(numbers) - position
        found: int = {"next": begin, "step": numbers.step, "left": left}[self.part]
        return found


_ABSENT: Any = object()
_Kind = TypeVar("_Kind")


def has_type(value: object, kind: type[_Kind]) -> TypeGuard[_Kind]:
    """``isinstance`` by the real type: an object's own ``__class__`` is not asked."""
    return issubclass(type(value), kind)


_MODULE_TABLES = ("_parameters", "_buffers", "_modules")


def instance_dict(value: object) -> dict[str, object]:
    """Return the real ``__dict__`` of an instance; raise ``UnreadableError`` if it has none."""
    if has_type(value, type):
        raise UnreadableError("__dict__")
    for owner in type(value).__mro__:
        member: Any = owner.__dict__.get("__dict__")
        if type(member) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            result = member.__get__(value)
            if isinstance(result, dict):
                return result
    raise UnreadableError("__dict__")


def type_lookup(owner: type, attr: str) -> object:
    """Return the raw attribute along ``owner``'s MRO, or a marker that is no attribute's value."""
    for base in type.__dict__["__mro__"].__get__(owner):
        found = type.__dict__["__dict__"].__get__(base).get(attr, _ABSENT)
        if found is not _ABSENT:
            return found
    return _ABSENT


def type_has(owner: type, attr: str) -> bool:
    """Whether ``type_lookup`` finds anything."""
    return type_lookup(owner, attr) is not _ABSENT


def dict_keys(value: object) -> Iterator[object]:
    """Iterate a dict's keys in its order (an ``OrderedDict``'s own order), below any override.

    The elements of a set serve as keys too.
    """
    if has_type(value, collections.OrderedDict):
        return collections.OrderedDict.__iter__(value)
    if has_type(value, dict):
        return dict.__iter__(value)
    for kind in (set, frozenset):
        if has_type(value, kind):
            return kind.__iter__(value)  # type: ignore[arg-type]
    raise UnreadableError("not a dict")


def _dict_get(value: object, key: object, source: Source) -> object:
    if not has_type(value, dict):
        raise UnreadableError(source.name)
    found = dict.get(value, key, _ABSENT)
    if found is _ABSENT:
        raise UnreadableError(source.name)
    return found


def _function(source: Any, scope: Scope) -> types.FunctionType:
    value = source.base.read(scope)
    if type(value) is not types.FunctionType:
        raise UnreadableError(source.name)
    return value


def _dict_item_name(base: Source, key: object) -> str:
    if isinstance(base, InstanceDictSource):
        return f"{base.base.name}.{key}"
    inside_module = (
        isinstance(base, DictItemSource)
        and base.key in _MODULE_TABLES
        and isinstance(base.base, InstanceDictSource)
        and isinstance(key, str)
    )
    if inside_module:
        owner = base.parent.parent.name  # type: ignore[union-attr]
        return f"{owner}[{key}]" if key.isdigit() else f"{owner}.{key}"  # type: ignore[attr-defined]
    shown = key.__qualname__ if isinstance(key, type) else repr(key)
    return f"{base.name}[{shown}]"
