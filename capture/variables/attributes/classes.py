"""Holds attribute look-up on classes and through ``super``.

Source: ``Objects/typeobject.c`` (``type_getattro``, ``super_getattro``).
"""

from __future__ import annotations

import enum
import types
from typing import Any

from capture import break_reasons as reasons
from capture.guards.kinds import IdIs
from capture.polyfills.arguments import type_name
from capture.sources import (
    AttrSource,
    PropertySource,
    Source,
    TypeAttrSource,
    TypeSource,
)
from capture.variables.attributes.lookup import (
    TUPLE_GETTER,
    bind,
    bind_class_level,
    generic_getattr,
    get_descriptor,
    is_data_descriptor,
    register_getattr,
    wrapped_source,
)
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import TupleVariable
from capture.variables.functions import BuiltinVariable, MethodVariable
from capture.variables.made_classes import DescriptorVariable, MadeClassVariable
from capture.variables.objects import (
    MODELS,
    ClassVariable,
    SuperVariable,
    class_dict,
    is_static_type,
    lookup_mro,
    module_name,
    pin_native,
    type_attribute,
)

# descriptors that a class gives as they are
_THEMSELVES = frozenset(
    {
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        property,
        TUPLE_GETTER,
    }
)


_SETTLED_METACLASSES = ("abc", "enum", "typing", "torch")


def meta_attribute(tracer: Tracer, obj: ClassVariable, name: str) -> tuple[Any, Source | None]:
    """Look up a raw attribute of the metaclass, guarded if the program may change it."""
    meta = type(obj.value)
    if (
        obj.source is None
        or is_static_type(meta)
        or (
            module_name(meta).partition(".")[0] in _SETTLED_METACLASSES
            # ``group.WORLD`` reads what ``init_process_group`` sets.
            and not module_name(meta).startswith("torch.distributed")
        )
    ):
        return lookup_mro(meta, name)[0], None
    return type_attribute(tracer, meta, TypeSource(obj.source), name)


def class_getattr(tracer: Tracer, obj: ClassVariable, name: str) -> Variable:
    """Attribute look-up on a class, in the order of ``type.__getattribute__``."""
    cls = obj.value
    meta = type(cls)
    if name == "__dict__":
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.__dict__")
    if name in ("__mro__", "__bases__"):
        classes = cls.__mro__ if name == "__mro__" else cls.__bases__
        if obj.source is not None and not is_static_type(cls):
            tracer.guard(IdIs(AttrSource(obj.source, name), classes))
        return TupleVariable([tracer.class_variable(k, None) for k in classes])
    if name in ("__name__", "__qualname__", "__module__", "__doc__", "__flags__"):
        if obj.source is not None and not is_static_type(cls) and name != "__flags__":
            return tracer.wrap(getattr(cls, name), AttrSource(obj.source, name))
        return ConstantVariable(getattr(cls, name))
    if name == "__class__":
        return tracer.class_variable(meta, None)
    meta_raw, meta_source = meta_attribute(tracer, obj, name)
    if meta is not type and isinstance(
        meta_attribute(tracer, obj, "__getattribute__")[0], types.FunctionType
    ):
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    raw, _ = lookup_mro(cls, name)
    source = tracer.class_source(cls, obj.source, obj)
    raw_source: Source | None = None
    if (source is not None and not is_static_type(cls)) or cls in MODELS:
        raw, raw_source = type_attribute(tracer, cls, source, name)
    if meta_raw is not MISSING and is_data_descriptor(meta_raw):
        if type(meta_raw) is property or isinstance(meta_raw, types.DynamicClassAttribute):
            if meta is enum.EnumMeta and name == "__members__":
                unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
            if isinstance(meta_raw, property) and isinstance(meta_raw.fget, types.FunctionType):
                getter = None if meta_source is None else PropertySource(meta_source, "fget")
                return tracer.call(tracer.wrap_static(meta_raw.fget, getter), [obj], {})
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    if raw is not MISSING:
        kind = type(raw)
        if kind is types.FunctionType:
            return tracer.wrap_static(raw, raw_source)
        if kind in _THEMSELVES:
            return tracer.wrap_static(raw, raw_source)
        if isinstance(cls, enum.EnumMeta) and isinstance(
            raw, (cls, types.DynamicClassAttribute, enum.property)
        ):
            member = cls.__members__.get(name)
            if member is not None:
                return tracer.wrap_static(member, None)
        return bind_class_level(tracer, raw, raw_source, None, cls, name)
    if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
        return tracer.wrap_static(cls.__members__[name], None)
    if meta_raw is not MISSING:
        if type(meta_raw) is types.FunctionType:
            return MethodVariable(tracer.wrap_static(meta_raw, meta_source), obj)
        if type(meta_raw) in (types.MethodDescriptorType, types.WrapperDescriptorType):
            return MethodVariable(BuiltinVariable(meta_raw), obj)
        if meta_source is None:
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
        return bind_class_level(tracer, meta_raw, meta_source, obj, meta, name)
    hook, where = meta_attribute(tracer, obj, "__getattr__")
    if isinstance(hook, types.FunctionType):
        return tracer.call(tracer.wrap_static(hook, where), [obj, ConstantVariable(name)], {})
    tracer.raise_error(AttributeError, f"type object {type_name(cls)!r} has no attribute {name!r}")


def super_getattr(tracer: Tracer, sup: SuperVariable, name: str) -> Variable:
    """``super().name``: look-up behind the class in the instance's MRO, then bound."""
    start = sup.cls.realize(tracer)
    instance = sup.instance.realize(tracer)
    assert isinstance(start, ClassVariable)
    on_class = isinstance(instance, ClassVariable) and start.value in instance.value.__mro__
    cls = instance.python_type()
    if isinstance(instance, ClassVariable) and on_class:
        cls = instance.value
    if name == "__class__":
        return tracer.class_variable(super, None)
    mro = cls.__mro__
    for klass in mro[mro.index(start.value) + 1 :]:
        raw = class_dict(klass).get(name, MISSING)
        if raw is MISSING:
            if not is_static_type(klass):
                source = tracer.class_source(klass, None, None)
                if source is not None:
                    tracer.guard_class_lacks(klass, source, name)
            continue
        raw_source: Source | None = None
        if not is_static_type(klass):
            source = tracer.class_variable(klass, None).source
            if source is not None:
                raw_source = TypeAttrSource(source, name)
                pin_native(tracer, raw_source, raw)
        if on_class:
            if type(raw) is classmethod:
                inner = tracer.wrap_static(raw.__func__, wrapped_source(tracer, raw, raw_source))
                return MethodVariable(inner, instance)
            if type(raw) is types.FunctionType:
                return tracer.wrap_static(raw, raw_source)
            return bind_class_level(tracer, raw, raw_source, None, cls, name)
        if is_data_descriptor(raw):
            return get_descriptor(tracer, raw, raw_source, instance, cls, name)
        if type(raw) is classmethod:
            owner = tracer.class_variable(cls, instance.source)
            inner = tracer.wrap_static(raw.__func__, wrapped_source(tracer, raw, raw_source))
            return MethodVariable(inner, owner)
        return bind(tracer, raw, raw_source, instance, cls, name)
    tracer.raise_error(AttributeError, f"'super' object has no attribute {name!r}")


def descriptor_getattr(tracer: Tracer, obj: DescriptorVariable, name: str) -> Variable:
    """Attribute of a property, static method or class method made during capture."""
    if name in _PARTS:
        place = _PARTS.index(name)
        return obj.parts[place] if place < len(obj.parts) else NONE
    if name == "__func__":
        return obj.parts[0]
    if name in ("getter", "setter", "deleter", "__class__"):
        return generic_getattr(tracer, obj, name)
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{obj.cls.__name__}.{name}")


_PARTS = ("fget", "fset", "fdel")
register_getattr(DescriptorVariable, descriptor_getattr)
register_getattr(ClassVariable, class_getattr)
register_getattr(MadeClassVariable, class_getattr)
register_getattr(SuperVariable, super_getattr)
