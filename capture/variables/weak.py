"""Holds weak references and proxies made during capture; must not know rules.

A piece knows that an object lives: something that runs refers to it, or it came from outside and
nothing was dropped. It never knows that one is dead, so who asks then breaks the graph.
"""

from __future__ import annotations

import weakref
from typing import Any

from capture import break_reasons as reasons
from capture.variables.attributes import load_attr, register_getattr
from capture.variables.base import (
    MISSING,
    CallableVariable,
    FrameRequest,
    Tracer,
    Variable,
    stamp,
    unsupported,
)
from capture.variables.constant import NONE, is_none
from capture.variables.objects import MODELS, ClassVariable, ObjectVariable, lookup_mro

__all__ = ["RefKey", "WeakVariable", "make_weak", "referent", "through_proxy"]

_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)


class WeakVariable(CallableVariable):
    """A weak reference or proxy. ``callback`` is None if there is none."""

    __slots__ = ("callback", "cls", "target")

    def __init__(self, cls: type, target: ObjectVariable, callback: Variable | None) -> None:
        super().__init__(None)
        self.cls = cls
        self.target = target
        self.callback = callback

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return self.cls

    @property
    def is_proxy(self) -> bool:
        """True for what acts as the object itself."""
        return self.cls in _PROXIES

    def call(
        self, tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable | FrameRequest:
        """The object, or what calling it gives through a proxy."""
        target = referent(tracer, self)
        if self.is_proxy:
            return tracer.start_call(target, args, kwargs)
        if args or kwargs:
            unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError about a weak reference")
        return target


def make_weak(tracer: Tracer, cls: type, args: list[Variable]) -> Variable:
    """``weakref.ref(target, callback)``, or a proxy; without a callback each object has one."""
    target = args[0]
    callback = args[1] if len(args) > 1 and not is_none(args[1]) else None
    if isinstance(target, WeakVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "a weak reference to another one")
    if not target.python_type().__weakrefoffset__:
        name = target.python_type().__name__
        tracer.raise_error(TypeError, f"cannot create weak reference to {name!r} object")
    if not isinstance(target, ObjectVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "a weak reference made here")
    if cls is weakref.ProxyType and lookup_mro(target.python_type(), "__call__")[0] is not MISSING:
        cls = weakref.CallableProxyType
    if callback is None:
        for known in tracer.weak_references:
            if known.target is target and known.cls is cls and known.callback is None:
                return known
    elif target.source is not None and not isinstance(target, ClassVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "a weak reference with a callback")
    made = stamp(tracer, WeakVariable(cls, target, callback))
    tracer.weak_references.append(made)
    tracer.mutations += 1
    return made


def is_alive(tracer: Tracer, target: ObjectVariable) -> bool:
    """True if the object surely lives."""
    if isinstance(target, ClassVariable) and target.value not in MODELS:
        return True  # classes are in cycles: only the collector ends them
    if target.source is not None or target.value is not MISSING:
        return target.source is None or not tracer.may_have_ended()
    return tracer.is_held(target)


def referent(tracer: Tracer, v: WeakVariable) -> ObjectVariable:
    """What a weak reference leads to; break if that may be dead."""
    if not is_alive(tracer, v.target):
        unsupported(reasons.SIDE_EFFECT, "A weak reference to an object that may be dead by now")
    return v.target


def through_proxy(tracer: Tracer, v: Variable) -> Variable:
    """The object behind a proxy; other values as they are."""
    return referent(tracer, v) if isinstance(v, WeakVariable) and v.is_proxy else v


class RefKey:
    """A weak reference as a key of our own dicts: equal where the objects are, while they live."""

    __slots__ = ("key", "reference", "tracer")

    def __init__(self, tracer: Tracer, reference: WeakVariable, key: Any) -> None:
        self.tracer = tracer
        self.reference = reference
        self.key = key

    def __hash__(self) -> int:
        """As that of the object."""
        return hash((RefKey, self.key))

    def __eq__(self, other: object) -> bool:
        """Compare the objects."""
        if not isinstance(other, RefKey):
            return False
        if self.reference is other.reference:
            return True
        for reference in (self.reference, other.reference):
            referent(self.tracer, reference)
        return bool(self.key == other.key)


def weak_getattr(tracer: Tracer, v: WeakVariable, name: str) -> Variable:
    """An attribute of the object behind a proxy, or of a reference itself."""
    if v.is_proxy:
        return load_attr(tracer, referent(tracer, v), name)
    if name == "__callback__" and is_alive(tracer, v.target):
        return v.callback or NONE
    if name == "__class__":
        return tracer.class_variable(v.cls, None)
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{v.cls.__name__}.{name}")


register_getattr(WeakVariable, weak_getattr)
