"""Holds attribute look-up on instances, and descriptors.

Source: ``Objects/object.c`` (``_PyObject_GenericGetAttrWithDict``).
"""

from __future__ import annotations

import collections
import inspect
import types
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import IdIs, TypeIs
from capture.polyfills.arguments import type_name
from capture.sources import AttrSource, PropertySource, Source, WrappedSource
from capture.variables.attributes.instance_dict import instance_dict
from capture.variables.base import MISSING, ObservedException, Tracer, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import DictVariable, TupleVariable
from capture.variables.functions import BuiltinVariable, MethodVariable
from capture.variables.objects import (
    ObjectVariable,
    is_static_type,
    lookup_mro,
    module_name,
    type_attribute,
)
from capture.variables.tensor import TensorVariable

_PLAIN_MODULES = frozenset({"builtins", "collections", "functools", "types"})
FOLDABLE = (
    bool, int, float, complex, str, bytes, type(None), tuple,
    torch.dtype, torch.device, torch.layout,
)  # fmt: skip
MODULE_STORES = ("_parameters", "_buffers", "_modules")
_NN_GETATTR = torch.nn.Module.__getattr__
TUPLE_GETTER: Any = type(collections.namedtuple("_P", "x").__dict__["x"])
_IMMUTABLE = (inspect.Signature, inspect.Parameter)
# What tracebacks and their frames tell without asking the interpreter for more.
_TRACE_FIELDS = ("tb_next", "tb_frame", "tb_lineno", "tb_lasti", "f_code", "f_globals")


def load_attr(tracer: Tracer, obj: Variable, name: str) -> Variable:
    """``obj.name``; raises the traced program's AttributeError as an observed exception."""
    obj = obj.realize(tracer)
    handler = _GETATTR.get(type(obj))
    if handler is not None:
        found: Variable = handler(tracer, obj, name)
        return found
    return generic_getattr(tracer, obj, name)


def load_special(tracer: Tracer, obj: Variable, name: str) -> Variable:
    """A special method, bound: looked up on the type, as Python does when it calls one."""
    cls = obj.python_type()
    raw, where = type_attribute(tracer, cls, type_source_of(tracer, obj), name)
    if isinstance(raw, types.FunctionType):
        return MethodVariable(tracer.wrap_static(raw, where), obj)
    if isinstance(obj, ObjectVariable) and obj.dict_get(tracer, name) is not None:
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    return load_attr(tracer, obj, name)


def type_source_of(tracer: Tracer, obj: Variable) -> Source | None:
    """Where the guards on attributes of the object's class start from."""
    cls = obj.python_type()
    if is_static_type(cls):
        return None
    cls_var = obj.cls_var if isinstance(obj, ObjectVariable) else None
    return tracer.class_source(cls, obj.source, cls_var)


def generic_getattr(tracer: Tracer, obj: Variable, name: str) -> Variable:
    """Attribute look-up on an instance, in the order of ``object.__getattribute__``."""
    cls = obj.python_type()
    if isinstance(obj, ObjectVariable) and obj.source is None and isinstance(obj.value, _IMMUTABLE):
        value = getattr(obj.value, name, MISSING)
        if value is not MISSING and not callable(value):
            return tracer.wrap_static(value, None)
    type_source = type_source_of(tracer, obj)
    getattribute, where = type_attribute(tracer, cls, type_source, "__getattribute__")
    if is_plain_getattribute(getattribute):
        pin(tracer, where, getattribute)
    else:
        if isinstance(getattribute, types.FunctionType):
            fn = tracer.wrap_static(getattribute, where)
            try:
                return tracer.call(fn, [obj, ConstantVariable(name)], {})
            except ObservedException as signal:
                if not issubclass(signal.exception.python_type(), AttributeError):
                    raise
                hook, where = type_attribute(tracer, cls, type_source, "__getattr__")
                if hook is MISSING:
                    raise
            return tracer.call(tracer.wrap_static(hook, where), [obj, ConstantVariable(name)], {})
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    return object_getattr(tracer, obj, name, cls, type_source)


def pin(tracer: Tracer, where: Source | None, raw: Any) -> None:
    """Guard that a class attribute which decided something stays the same object."""
    if where is not None:
        tracer.guard(IdIs(where, raw))


def is_plain_getattribute(raw: Any) -> bool:
    """True if a class looks attributes up as ``object`` does (built-in types repeat the slot)."""
    if raw is object.__getattribute__:
        return True
    if type(raw) is not types.WrapperDescriptorType:
        return False
    owner = raw.__objclass__
    return module_name(owner) in _PLAIN_MODULES and owner is not super


def object_getattr(
    tracer: Tracer,
    obj: Variable,
    name: str,
    cls: type,
    type_source: Source | None,
    *,
    hook: bool = True,
) -> Variable:
    """``object.__getattribute__`` and then, if ``hook``, the class's ``__getattr__``."""
    raw, raw_source = type_attribute(tracer, cls, type_source, name)
    if raw is not MISSING:
        kind = type(raw)
        if kind is not types.FunctionType and is_data_descriptor(raw):
            return get_descriptor(tracer, raw, raw_source, obj, cls, name)
    if isinstance(obj, ObjectVariable):
        found = obj.dict_get(tracer, name)
        if found is not None:
            if raw_source is not None:
                tracer.guard(TypeIs(raw_source, type(raw)))  # a data descriptor would precede
            return found
    elif isinstance(obj, TensorVariable) and obj.attrs and name in obj.attrs:
        return obj.attrs[name]
    if raw is not MISSING:
        return bind(tracer, raw, raw_source, obj, cls, name)
    if hook:
        getattr_, where = type_attribute(tracer, cls, type_source, "__getattr__")
        if getattr_ is _NN_GETATTR and isinstance(obj, ObjectVariable):
            pin(tracer, where, getattr_)
            found = module_member(tracer, obj, name)
            if found is not None:
                return found
        elif isinstance(getattr_, types.FunctionType):
            fn = tracer.wrap_static(getattr_, where)
            return tracer.call(fn, [obj, ConstantVariable(name)], {})
        elif is_borrowed(getattr_, "__getattr__"):
            pin(tracer, where, getattr_)
            fn = bind(tracer, getattr_, where, obj, cls, "__getattr__")
            return tracer.call(fn, [ConstantVariable(name)], {})
        elif getattr_ is not MISSING:
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    tracer.raise_error(AttributeError, f"{type_name(cls)!r} object has no attribute {name!r}")


def is_borrowed(raw: Any, name: str) -> bool:
    """True for a method in C under another name: ``__getattr__ = dict.__getitem__``."""
    kinds = (types.MethodDescriptorType, types.WrapperDescriptorType)
    return type(raw) in kinds and raw.__name__ != name


def module_member(tracer: Tracer, obj: ObjectVariable, name: str) -> Variable | None:
    """``nn.Module.__getattr__``: a parameter, buffer or submodule."""
    for store in MODULE_STORES:
        holder = obj.dict_get(tracer, store)
        if holder is None:
            continue
        holder = holder.realize(tracer)
        if not isinstance(holder, DictVariable):
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"nn.Module.{store}")
        found = holder.get_hashed(tracer, name)
        if found is not None:
            return found
    return None


def is_data_descriptor(raw: Any) -> bool:
    """True if the class attribute takes part in assignment and so precedes the instance dict."""
    kind = type(raw)
    return kind is property or hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def get_descriptor(
    tracer: Tracer, raw: Any, raw_source: Source | None, obj: Variable, cls: type, name: str
) -> Variable:
    """The value of a data descriptor."""
    kind = type(raw)
    if isinstance(raw, property):
        if kind is not property and isinstance(lookup_mro(kind, "__get__")[0], types.FunctionType):
            return call_get(tracer, raw, raw_source, obj, cls, name)
        if raw.fget is None:
            pin(tracer, raw_source, raw)
            tracer.raise_error(
                AttributeError, f"property {name!r} of {cls.__qualname__!r} object has no getter"
            )
        source = None
        if raw_source is not None:
            tracer.guard(TypeIs(raw_source, kind))
            source = PropertySource(raw_source, "fget")
        return tracer.call(tracer.wrap_static(raw.fget, source), [obj], {})
    if kind is types.GetSetDescriptorType or kind is types.MemberDescriptorType:
        return native_member(tracer, raw, obj, cls, name)
    return call_get(tracer, raw, raw_source, obj, cls, name)


def native_member(tracer: Tracer, raw: Any, obj: Variable, cls: type, name: str) -> Variable:
    """An attribute that C code computes: ``__class__``, ``__dict__``, slots, C fields."""
    if name == "__class__":
        return type_of(tracer, obj)
    if name == "__dict__" and isinstance(obj, ObjectVariable):
        return instance_dict(obj)
    if isinstance(obj, ConstantVariable):
        value = getattr(obj.value, name)
        if isinstance(value, FOLDABLE):
            return tracer.wrap_result(value)
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    if isinstance(obj, ObjectVariable):
        if obj.source is None and obj.value is not MISSING:
            return tracer.wrap_static(getattr(obj.value, name), None)
        if type(raw) is types.MemberDescriptorType and not is_static_type(raw.__objclass__):
            found = obj.slot_get(tracer, name)
            if found is None:
                tracer.raise_error(
                    AttributeError, f"{type_name(cls)!r} object has no attribute {name!r}"
                )
            return found
        found = (obj.attrs or {}).get(name)
        if isinstance(found, Variable):
            return found
        fields: tuple[str, ...] = getattr(cls, "__match_args__", ())
        if isinstance(obj, TupleVariable) and name in fields:
            return obj.items(tracer)[fields.index(name)]  # a struct sequence
        if (
            obj.source is not None
            and raw.__objclass__ in type(obj.value).__mro__
            and _is_readable(raw, type(obj.value))
        ):
            value = raw.__get__(obj.value)
            return tracer.wrap(value, AttrSource(obj.source, name))
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")


def _is_readable(raw: Any, cls: type) -> bool:
    """True for fields in C that always read the same until somebody sets them."""
    if issubclass(cls, (types.TracebackType, types.FrameType)):
        return raw.__name__ in _TRACE_FIELDS
    return issubclass(cls, BaseException) and issubclass(raw.__objclass__, BaseException)


def call_get(
    tracer: Tracer, raw: Any, raw_source: Source | None, obj: Variable | None, cls: type, name: str
) -> Variable:
    """Call a descriptor's own ``__get__``."""
    getter, _ = lookup_mro(type(raw), "__get__")
    if isinstance(getter, types.FunctionType):
        descriptor = tracer.wrap_static(raw, raw_source)
        owner = tracer.class_variable(cls, obj.source if obj is not None else None)
        fn = load_attr(tracer, descriptor, "__get__")
        return tracer.call(fn, [obj if obj is not None else NONE, owner], {})
    if type(raw) is TUPLE_GETTER and isinstance(obj, TupleVariable):
        index: int = raw.__reduce__()[1][0]
        return obj.items(tracer)[index]
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")


def bind(
    tracer: Tracer, raw: Any, raw_source: Source | None, obj: Variable, cls: type, name: str
) -> Variable:
    """Bind a class attribute that is no data descriptor to an instance."""
    kind = type(raw)
    if kind is types.FunctionType:
        return MethodVariable(tracer.wrap_static(raw, raw_source), obj)
    if kind is types.MethodDescriptorType or kind is types.WrapperDescriptorType:
        return MethodVariable(BuiltinVariable(raw), obj)
    return bind_class_level(tracer, raw, raw_source, obj, cls, name)


def bind_class_level(
    tracer: Tracer, raw: Any, raw_source: Source | None, obj: Variable | None, cls: type, name: str
) -> Variable:
    """What static methods, class methods and plain values give, on an instance or on the class."""
    kind = type(raw)
    if kind is staticmethod:
        source = wrapped_source(tracer, raw, raw_source)
        return tracer.wrap_static(raw.__func__, source)
    if kind is classmethod:
        source = wrapped_source(tracer, raw, raw_source)
        owner = tracer.class_variable(cls, obj.source if obj is not None else None)
        inner = tracer.wrap_static(raw.__func__, source)
        return MethodVariable(inner, owner)
    if kind is types.ClassMethodDescriptorType:
        if not issubclass(cls, raw.__objclass__):
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
        return MethodVariable(
            BuiltinVariable(raw),
            tracer.class_variable(cls, obj.source if obj is not None else None),
        )
    if kind is types.BuiltinFunctionType or isinstance(raw, type):
        return tracer.wrap_static(raw, raw_source)
    if hasattr(kind, "__get__") and kind is not types.FunctionType:
        return call_get(tracer, raw, raw_source, obj, cls, name)
    return tracer.wrap_static(raw, raw_source)


def wrapped_source(tracer: Tracer, raw: Any, raw_source: Source | None) -> Source | None:
    """The source of what a static or class method wraps: the other kind wraps just so."""
    if raw_source is None:
        return None
    tracer.guard(TypeIs(raw_source, type(raw)))
    return WrappedSource(raw_source)


def type_of(tracer: Tracer, obj: Variable) -> Variable:
    """``type(obj)``."""
    obj = obj.realize(tracer)
    if isinstance(obj, ObjectVariable) and obj.cls_var is not None and obj.source is None:
        return obj.cls_var
    return tracer.class_variable(obj.python_type(), obj.source)


_GETATTR: dict[type, Any] = {}


def register_getattr(kind: type, handler: Any) -> None:
    """Give a variable class its own attribute look-up."""
    _GETATTR[kind] = handler
