"""Holds keys for our own dicts that are equal where the traced program's keys would be."""

from __future__ import annotations

import enum
import types
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import IdIs
from capture.polyfills.arguments import type_name
from capture.variables.attributes import type_source_of
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    ObjectKey,
    SetVariable,
    TupleVariable,
)
from capture.variables.functions import BuiltinVariable, MethodVariable
from capture.variables.identities import AddressKey, IdentityVariable
from capture.variables.objects import (
    MODELS,
    ClassVariable,
    ModuleVariable,
    ObjectVariable,
    lookup_mro,
    type_attribute,
)
from capture.variables.tensor import TensorVariable
from capture.variables.weak import RefKey, WeakVariable, referent


def hash_key(tracer: Tracer, v: Variable) -> Any:
    """A key for our own dicts that is equal where the traced program's key would be."""
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable):
        return v.value
    if isinstance(v, ScalarVariable):
        return v.specialize(tracer).value
    if isinstance(v, BuiltinVariable):
        return v.value
    if isinstance(v, IdentityVariable):
        return _address(tracer, v)
    if isinstance(v, WeakVariable) and not v.is_proxy:
        return RefKey(tracer, v, hash_key(tracer, referent(tracer, v)))
    if isinstance(v, TensorVariable):
        return _by_identity(tracer, v)
    if isinstance(v, (ClassVariable, ModuleVariable)) and v.value is not MISSING:
        kind = type(v.value)
        if kind.__hash__ is None:
            tracer.raise_error(TypeError, f"unhashable type: {type_name(kind)!r}")
        if kind.__eq__ is not object.__eq__ or isinstance(kind.__hash__, types.FunctionType):
            _unhashable(v)
        return v.value
    if isinstance(v, TupleVariable) and not isinstance(
        lookup_mro(v.cls, "__hash__")[0], types.FunctionType
    ):
        return tuple(hash_key(tracer, item) for item in v.items(tracer))
    if isinstance(v, (ListVariable, DictVariable)) or (isinstance(v, SetVariable) and v.cls is set):
        if lookup_mro(v.cls, "__hash__")[0] is None:
            tracer.raise_error(TypeError, f"unhashable type: {type_name(v.cls)!r}")
    if isinstance(v, SetVariable):
        return frozenset(v.entries(tracer))
    if isinstance(v, MethodVariable):
        bound = v.instance.realize(tracer)
        by_kind = isinstance(bound, (ClassVariable, ModuleVariable, TensorVariable))
        if not by_kind and not isinstance(bound, ObjectVariable):
            _unhashable(v)
        place = hash_key(tracer, bound) if by_kind else _by_identity(tracer, bound)
        return ("bound method", hash_key(tracer, v.fn), place)
    if isinstance(v, ObjectVariable):
        if issubclass(type(v.value), (enum.Enum, torch.Generator)):
            return v.value
        raw, where = type_attribute(tracer, v.cls, type_source_of(tracer, v), "__hash__")
        if raw is object.__hash__ or (
            type(raw) is types.WrapperDescriptorType and raw in _IDENTITY_HASH
        ):
            return _by_identity(tracer, v)
        if raw is None:
            tracer.raise_error(TypeError, f"unhashable type: {type_name(v.cls)!r}")
        if isinstance(raw, types.FunctionType):
            with tracer.effects.undisturbed(f"{v.cls.__name__}.__hash__ with side effects"):
                result = tracer.call(tracer.wrap_static(raw, where), [v], {})
            tracer.effects.note_hashed(v)
            eq, _ = lookup_mro(v.cls, "__eq__")
            plain = eq is object.__eq__
            if plain:
                _note_key(tracer, v)
            if isinstance(result, ConstantVariable):
                return ObjectKey(v, hash(result.value), None if plain else tracer)
            return _by_identity(tracer, v) if raw is torch.nn.Module.__hash__ else _unhashable(v)
    return _unhashable(v)


def _by_identity(tracer: Tracer, v: Variable) -> ObjectKey:
    _note_key(tracer, v)
    return ObjectKey(v, id(v), None)


def _note_key(tracer: Tracer, v: Variable) -> None:
    """Remember an object that differs from the other keys by what it is: so it must stay."""
    if v.source is not None:
        tracer.keys_used[v.source] = None


def _address(tracer: Tracer, v: IdentityVariable) -> Any:
    """The ``id`` of an object of the program as a key: it is this one's, so the object is guarded.

    A registry of what belongs to each object is kept like this.
    """
    target = v.target.realize(tracer)
    if isinstance(target, ConstantVariable):
        return AddressKey(tracer, v)
    if isinstance(target, BuiltinVariable) or (
        isinstance(target, ClassVariable) and target.value not in MODELS
    ):
        return id(target.value)  # guarded by identity
    if not isinstance(target, ObjectVariable):
        return _unhashable(v)
    if (target.value is MISSING and target.source is None) or isinstance(target, ClassVariable):
        return AddressKey(tracer, v)
    if target.value is MISSING or target.source is None:
        return _unhashable(v)
    tracer.guard(IdIs(target.source, target.value))
    return id(target.value)


def _unhashable(v: Variable) -> Any:
    unsupported(reasons.UNKNOWN_OPERATION, f"hash() of {v.describe()}")


_IDENTITY_HASH = frozenset(
    {object.__hash__, type.__hash__, types.FunctionType.__hash__, BaseException.__hash__}
)
