"""Holds objects with identity: instances, modules, classes; must not know the interpreter.

An object that existed before carries its real value and answers attribute reads from it, guarded
one by one; what the captured code writes lies in ``attrs`` until it is replayed.
"""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from capture.guards.kinds import DictHas, DictLacks, ExprHolds, IdIs, TypeAttrAbsent
from capture.sources import (
    DictItemSource,
    InstanceDictSource,
    SlotMemberSource,
    Source,
    TypeAttrSource,
    TypeSource,
)
from capture.variables.base import DELETED, MISSING, LazyVariable, Tracer, Variable, births

_HEAPTYPE = 1 << 9
_IMMUTABLETYPE = 1 << 8


def is_static_type(cls: type) -> bool:
    """True if no attribute of the class can change, so that none needs a guard."""
    return not cls.__flags__ & _HEAPTYPE or bool(cls.__flags__ & _IMMUTABLETYPE)


class ObjectVariable(Variable):
    """An object with identity, mutable attributes, or a type implemented elsewhere."""

    __slots__ = ("attrs", "born", "cls", "cls_var", "dict_view", "reborn", "value")

    def __init__(
        self,
        cls: type,
        value: Any = MISSING,
        source: Source | None = None,
        cls_var: Variable | None = None,
    ) -> None:
        self.source = source
        self.created_at = -1
        self.born = next(births)
        self.cls = cls
        self.value = value
        self.cls_var = cls_var
        self.attrs: dict[str, Any] | None = None
        self.dict_view: ObjectVariable | None = None  # its ``__dict__``, once asked for
        self.reborn: set[str] | None = None  # deleted and set again: no longer where they were

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return self.cls

    def type_source(self) -> Source | None:
        """Where the object's class can be reached, if anywhere."""
        if self.source is not None:
            return TypeSource(self.source)
        return self.cls_var.source if self.cls_var is not None else None

    def real_dict(self) -> dict[str, Any] | None:
        """The instance dict of the real object, or None."""
        if self.value is MISSING:
            return None
        return _instance_dict(self.value)

    def dict_get(self, tracer: Tracer, name: str) -> Variable | None:
        """The attribute in the instance dict, guarded, or None."""
        attrs = self.attrs
        if attrs is not None:
            found = attrs.get(name)
            if found is not None:
                return None if found is DELETED else found
        if self.value is MISSING:
            return None
        real = _instance_dict(self.value)
        if real is None:
            return None
        if self.source is None:  # a constant object
            return tracer.wrap_static(real[name], None) if name in real else None
        holder = InstanceDictSource(self.source)
        if name in real:
            tracer.guard(DictHas(holder, name))
            return LazyVariable(real[name], DictItemSource(holder, name))
        tracer.guard(DictLacks(holder, name))
        return None

    def slot_get(self, tracer: Tracer, name: str) -> Variable | None:
        """The value of a ``__slots__`` member, or None if it is unset."""
        if self.attrs is not None:
            found = self.attrs.get(name)
            if found is not None:
                return None if found is DELETED else found
        if self.value is MISSING:
            return None
        assert self.source is not None
        try:
            value = object.__getattribute__(self.value, name)
        except AttributeError:
            tracer.guard(
                ExprHolds((self.source,), SlotIsUnset(name), f"no {self.source.name}.{name}")
            )
            return None
        return LazyVariable(value, SlotMemberSource(self.source, name))

    def dict_names(self, tracer: Tracer) -> list[str]:
        """The names in the instance dict, in order (the caller guards the real dict's keys)."""
        real = self.real_dict()
        names = dict.fromkeys(real) if real else {}
        for name, value in self.dict_writes():
            if value is DELETED or (self.reborn and name in self.reborn):
                names.pop(name, None)
            if value is not DELETED:
                names[name] = None
        return list(names)

    def dict_writes(self) -> list[tuple[str, Any]]:
        """What the captured code wrote to the instance dict, in order; slots left out."""
        return [
            (name, value)
            for name, value in (self.attrs or {}).items()
            if type(lookup_mro(self.cls, name)[0]) is not types.MemberDescriptorType
        ]


@dataclass(frozen=True, slots=True)
class SlotIsUnset:
    """Says if a ``__slots__`` member has no value; equal instances make equal guards."""

    name: str

    def __call__(self, value: object) -> bool:
        """Look past any ``__getattr__``."""
        try:
            object.__getattribute__(value, self.name)
        except AttributeError:
            return True
        return False


def _instance_dict(value: object) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


class ModuleVariable(ObjectVariable):
    """An imported Python module; guarded by identity."""

    __slots__ = ()

    def __init__(self, value: types.ModuleType, source: Source | None) -> None:
        super().__init__(type(value), value, source)


class ClassVariable(ObjectVariable):
    """A class; guarded by identity."""

    __slots__ = ("args",)

    def __init__(self, value: type, source: Source | None) -> None:
        super().__init__(type(value), value, source)
        self.args: tuple[Variable, ...] = ()

    value: type

    def describe(self) -> str:
        """A short text for messages."""
        return self.value.__qualname__


def lookup_mro(cls: type, name: str) -> tuple[Any, type | None]:
    """The raw attribute that ``type.__mro__`` gives for a name, and the class that holds it."""
    for klass in cls.__mro__:
        found = class_dict(klass).get(name, MISSING)
        if found is not MISSING:
            return found, klass
    return MISSING, None


# The real dict of a class: its metaclass may have its own idea of ``__dict__``.
class_dict: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__


_MODULE = type.__dict__["__module__"]


def module_name(value: Any) -> str:
    """``__module__`` of a class or function, "" where it is no text; runs no code of theirs."""
    try:
        found = _MODULE.__get__(value) if isinstance(value, type) else value.__module__
    except AttributeError:
        return ""
    return found if type(found) is str else ""


class _Models:
    """A set of classes by identity: a metaclass may have any ``__hash__`` and ``__eq__``."""

    def __init__(self) -> None:
        self.known: dict[int, weakref.ref[type]] = {}

    def add(self, cls: type) -> None:
        """Add a class; it is forgotten when it dies."""
        key, known = id(cls), self.known
        known[key] = weakref.ref(cls, lambda _: known.pop(key, None))

    def __contains__(self, cls: type) -> bool:
        return id(cls) in self.known


MODELS = _Models()
"""Classes that stand for the ones that a piece makes (see ``made_classes``)."""


_DECIDE_ALONE = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ClassMethodDescriptorType,
    type(collections.namedtuple("_", "x").x),  # type: ignore[attr-defined]
)  # fmt: skip


def type_attribute(
    tracer: Tracer, cls: type, type_source: Source | None, name: str
) -> tuple[Any, Source | None]:
    """Look up a raw class attribute; the look-up's outcome is guarded unless it cannot change."""
    found, holder = lookup_mro(cls, name)
    if type_source is None and cls in MODELS:
        return _model_attribute(tracer, cls, name)
    if type_source is None or is_static_type(cls):
        return found, None
    if found is MISSING:
        tracer.guard(TypeAttrAbsent(type_source, name))
        return found, None
    assert holder is not None
    source = TypeAttrSource(type_source, name)
    if is_static_type(holder):
        if _only_static(cls, holder, name):
            return found, None
        tracer.guard(IdIs(source, found))  # a class of the program precedes it and may shadow it
    else:
        pin_native(tracer, source, found)
    return found, source


def pin_native(tracer: Tracer, source: Source, found: Any) -> None:
    """Guard a class attribute that nobody looks into: it decides by what it is."""
    if found is None or isinstance(found, _DECIDE_ALONE):
        tracer.guard(IdIs(source, found))


def _model_attribute(tracer: Tracer, cls: type, name: str) -> tuple[Any, Source | None]:
    """A raw attribute of a class made in this piece; what its bases say is guarded."""
    for klass in cls.__mro__:
        raw = class_dict(klass).get(name, MISSING)
        if klass in MODELS or is_static_type(klass):
            if raw is not MISSING:
                return raw, None
            continue
        source = tracer.class_source(klass, None, None)
        if raw is not MISSING:
            return raw, None if source is None else TypeAttrSource(source, name)
        if source is not None:
            tracer.guard_class_lacks(klass, source, name)
    return MISSING, None


def _only_static(cls: type, holder: type, name: str) -> bool:
    """True if no mutable class precedes the holder: nothing could shadow the attribute."""
    return all(is_static_type(k) for k in cls.__mro__[: cls.__mro__.index(holder)])


class TokenVariable(Variable):
    """What a call that changes torch's state returned, for the call that undoes it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        super().__init__(None)
        self.value = value

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return type(self.value)


class SuperVariable(Variable):
    """``super(cls, self)``."""

    __slots__ = ("cls", "instance")

    def __init__(self, cls: Variable, instance: Variable) -> None:
        super().__init__(None)
        self.cls = cls
        self.instance = instance

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return super


class ExceptionVariable(ObjectVariable):
    """An exception instance made during capture.

    Attributes:
        args: its ``args``.
        bare: it was raised, and the program took its traceback away.
        changed: what the program set (or deleted) of the fields later.
        fields: what C keeps in it beside ``args`` (``errno``, ``name``), if that was set.
        given: what its constructor in C was given, where that is more than ``args``.
        trace: its traceback, if the program has asked for it.
    """

    __slots__ = (
        "args", "bare", "cause", "changed", "context", "fields", "given", "raised_at",
        "suppress_context", "trace",
    )  # fmt: skip

    def __init__(self, cls: type, args: list[Variable], cls_var: Variable | None = None) -> None:
        super().__init__(cls, cls_var=cls_var)
        self.args = args
        self.fields: dict[str, Variable] | None = None
        self.changed: dict[str, Any] = {}
        self.given: tuple[list[Variable], dict[str, Variable]] | None = None
        self.trace: TracebackVariable | None = None
        self.cause: Variable | None = None
        self.context: Variable | None = None
        self.suppress_context = False
        self.raised_at = -1  # the ordinal of the instruction that raised it first
        self.bare = False


class TracebackVariable(Variable):
    """The traceback of an exception raised during capture: there is none, so who uses it breaks."""

    __slots__ = ("raised_at",)

    def __init__(self, raised_at: int) -> None:
        super().__init__(None)
        self.created_at = self.raised_at = raised_at

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return types.TracebackType
