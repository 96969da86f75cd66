"""Holds the assignment and deletion of attributes.

Source: ``Objects/object.c`` (``_PyObject_GenericSetAttrWithDict``).
"""

from __future__ import annotations

import types
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import TypeIs
from capture.polyfills.arguments import type_name
from capture.sources import InstanceDictSource, PropertySource
from capture.variables.attributes.lookup import (
    MODULE_STORES,
    bind,
    is_borrowed,
    is_data_descriptor,
    load_attr,
    pin,
    type_source_of,
)
from capture.variables.base import DELETED, MISSING, Tracer, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable, boolean
from capture.variables.containers import DictVariable, TupleVariable
from capture.variables.exceptions import set_field, set_traceback
from capture.variables.functions import CellVariable, FunctionVariable
from capture.variables.gradients import store_grad
from capture.variables.made_classes import MadeClassVariable, set_member
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    ModuleVariable,
    ObjectVariable,
    is_static_type,
    lookup_mro,
    type_attribute,
)
from capture.variables.tensor import TensorVariable

_MODULE_SETATTR = types.ModuleType.__setattr__
_NN_SETATTR = torch.nn.Module.__setattr__


def _set_requires_grad(tracer: Tracer, tensor: TensorVariable, value: Variable) -> None:
    """``tensor.requires_grad = flag``: what the method of that name does."""
    flag = tracer.as_python(value)
    if type(flag) is not bool or tensor.python_type() not in _PLAIN_TENSORS:
        unsupported(reasons.SIDE_EFFECT, f"assignment to {tensor.describe()}.requires_grad")
    tracer.graph_call("call_method", "requires_grad_", [tensor, boolean(flag)], {})


_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


def store_attr(tracer: Tracer, obj: Variable, name: str, value: Variable) -> None:
    """``obj.name = value``."""
    obj = obj.realize(tracer)
    if isinstance(obj, ModuleVariable):
        assert obj.source is not None
        if not _stores_plainly(tracer, obj, name):
            unsupported(reasons.SIDE_EFFECT, f"assignment to {obj.describe()}.{name}")
        holder = tracer.wrap(obj.value.__dict__, InstanceDictSource(obj.source))
        assert isinstance(holder, DictVariable)
        holder.set(tracer, ConstantVariable(name), value)
        return
    if isinstance(obj, CellVariable) and name == "cell_contents":
        obj.set(tracer, value)
        return
    if isinstance(obj, TensorVariable) and name == "grad":
        store_grad(tracer, obj, value)
        return
    if isinstance(obj, TensorVariable) and name == "requires_grad":
        _set_requires_grad(tracer, obj, value)
        return
    if isinstance(obj, FunctionVariable) and obj.value is MISSING:
        if store_function_part(tracer, obj, name, value):
            return
    if isinstance(obj, MadeClassVariable):
        set_member(tracer, obj, name, value)
        return
    if not isinstance(obj, ObjectVariable) or isinstance(obj, ClassVariable):
        unsupported(reasons.SIDE_EFFECT, f"assignment to {obj.describe()}.{name}")
    cls = obj.cls
    type_source = type_source_of(tracer, obj)
    setter, where = type_attribute(tracer, cls, type_source, "__setattr__")
    if setter is _NN_SETATTR and module_plain_store(tracer, obj, name, value):
        pin(tracer, where, setter)
        object_setattr(tracer, obj, name, value)
    elif isinstance(setter, types.FunctionType):
        tracer.call(tracer.wrap_static(setter, where), [obj, ConstantVariable(name), value], {})
    elif setter is object.__setattr__ or _plain_setattr(setter):
        pin(tracer, where, setter)
        object_setattr(tracer, obj, name, value)
    elif is_borrowed(setter, "__setattr__"):
        pin(tracer, where, setter)
        fn = bind(tracer, setter, where, obj, cls, "__setattr__")
        tracer.call(fn, [ConstantVariable(name), value], {})
    else:
        unsupported(reasons.SIDE_EFFECT, f"assignment to {cls.__name__}.{name}")


def _stores_plainly(tracer: Tracer, module: ModuleVariable, name: str) -> bool:
    """True if an attribute set on a module goes to its dict."""
    where = type_source_of(tracer, module)
    if type_attribute(tracer, module.cls, where, "__setattr__")[0] is not _MODULE_SETATTR:
        return False
    if lookup_mro(module.cls, "__dict__")[1] is not types.ModuleType:
        return False
    raw = type_attribute(tracer, module.cls, where, name)[0]
    return raw is MISSING or not is_data_descriptor(raw)


def _plain_setattr(setter: Any) -> bool:
    return setter in (BaseException.__setattr__, types.FunctionType.__setattr__)


def module_plain_store(tracer: Tracer, obj: ObjectVariable, name: str, value: Variable) -> bool:
    """True if ``nn.Module.__setattr__`` would just store the attribute.

    It does more for modules and parameters, and for names that are a module's or parameter's.
    """
    kind = value.python_type()
    if issubclass(kind, (torch.nn.Module, torch.nn.Parameter)):
        return False
    for store in MODULE_STORES:
        holder = obj.dict_get(tracer, store)
        if holder is None:
            return False
        holder = holder.realize(tracer)
        if not isinstance(holder, DictVariable) or holder.get_hashed(tracer, name) is not None:
            return False
    return True


def object_setattr(tracer: Tracer, obj: ObjectVariable, name: str, value: Any) -> None:
    """``object.__setattr__``; ``value`` may be ``DELETED``."""
    cls = obj.cls
    raw, raw_source = type_attribute(tracer, cls, type_source_of(tracer, obj), name)
    if raw is not MISSING and is_data_descriptor(raw):
        kind = type(raw)
        if isinstance(raw, property):
            which = "fdel" if value is DELETED else "fset"
            accessor = getattr(raw, which)
            if accessor is None:
                word = "deleter" if value is DELETED else "setter"
                tracer.raise_error(
                    AttributeError,
                    f"property {name!r} of {cls.__qualname__!r} object has no {word}",
                )
            source = None if raw_source is None else PropertySource(raw_source, which)
            args = [obj] if value is DELETED else [obj, value]
            tracer.call(tracer.wrap_static(accessor, source), args, {})
            return
        if kind is types.MemberDescriptorType and not is_static_type(raw.__objclass__):
            if value is DELETED and obj.slot_get(tracer, name) is None:
                tracer.raise_error(AttributeError, name)
            tracer.effects.set_attr(obj, name, value)
            return
        method = "__delete__" if value is DELETED else "__set__"
        if isinstance(lookup_mro(kind, method)[0], types.FunctionType):
            fn = load_attr(tracer, tracer.wrap_static(raw, raw_source), method)
            tracer.call(fn, [obj] if value is DELETED else [obj, value], {})
            return
        if isinstance(obj, ExceptionVariable) and store_exception_attr(tracer, obj, name, value):
            tracer.mutations += 1
            return
        unsupported(reasons.SIDE_EFFECT, f"assignment to {cls.__name__}.{name}")
    if raw_source is not None:
        tracer.guard(TypeIs(raw_source, type(raw)))
    if not has_instance_dict(obj):
        tracer.raise_error(AttributeError, f"{type_name(cls)!r} object has no attribute {name!r}")
    if value is DELETED and obj.dict_get(tracer, name) is None:
        tracer.raise_error(AttributeError, f"{type_name(cls)!r} object has no attribute {name!r}")
    tracer.effects.set_attr(obj, name, value)


_FUNCTION_PARTS = frozenset(
    ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__")
)


def store_function_part(tracer: Tracer, fn: FunctionVariable, name: str, value: Variable) -> bool:
    """Name, text or annotations of a function made during capture; False: an ordinary attribute."""
    if name not in _FUNCTION_PARTS:
        return False
    value = value.realize(tracer)
    if name == "__type_params__":  # none, as a function made here has
        return isinstance(value, TupleVariable) and not value.items(tracer)
    if name in ("__name__", "__qualname__"):
        text = tracer.as_python(value)
        if type(text) is not str:
            return False
        if name == "__name__":
            fn.name = text
        else:
            fn.qualname = text
    elif name == "__annotations__":
        if not isinstance(value, DictVariable) or value.cls is not dict:
            return False
        fn.annotations = value
    else:
        tracer.effects.set_attr(fn, name, value)
    tracer.mutations += 1
    return True


def store_exception_attr(tracer: Tracer, exc: ExceptionVariable, name: str, value: Any) -> bool:
    """Assign ``__cause__``, ``args`` and what else C keeps; False if there is no rule."""
    if set_field(tracer, exc, name, value):
        return True
    if name not in _EXCEPTION_PARTS:
        return False
    value = value if value is DELETED else value.realize(tracer)
    if value is DELETED or isinstance(value, ConstantVariable):
        probe = Exception()
        try:
            if value is DELETED:
                delattr(probe, name)
            else:
                setattr(probe, name, value.value)
        except Exception as error:
            tracer.raise_real(error)
    if value is DELETED:
        return False
    if name == "args":
        exc.args = tracer.iterate(value)
    elif name == "__traceback__":
        return set_traceback(exc, value)
    elif name == "__suppress_context__":
        if not isinstance(value, ConstantVariable):
            return False
        exc.suppress_context = bool(value.value)
    elif not issubclass(value.python_type(), (BaseException, type(None))):
        return False
    elif name == "__cause__":
        exc.cause = value
        exc.suppress_context = True
    else:
        exc.context = value
    return True


_EXCEPTION_PARTS = ("args", "__cause__", "__context__", "__suppress_context__", "__traceback__")


def has_instance_dict(obj: ObjectVariable) -> bool:
    """True if instances of the class have a ``__dict__``."""
    if obj.value is not MISSING:
        return obj.real_dict() is not None
    return obj.cls.__dictoffset__ != 0


def delete_attr(tracer: Tracer, obj: Variable, name: str) -> None:
    """``del obj.name``."""
    obj = obj.realize(tracer)
    if isinstance(obj, TensorVariable) and name == "grad":
        store_grad(tracer, obj, NONE)
        return
    if not isinstance(obj, ObjectVariable) or isinstance(obj, (ClassVariable, ModuleVariable)):
        unsupported(reasons.SIDE_EFFECT, f"deletion of {obj.describe()}.{name}")
    cls = obj.cls
    deleter, where = type_attribute(tracer, cls, type_source_of(tracer, obj), "__delattr__")
    if isinstance(deleter, types.FunctionType):
        tracer.call(tracer.wrap_static(deleter, where), [obj, ConstantVariable(name)], {})
    elif is_borrowed(deleter, "__delattr__"):
        pin(tracer, where, deleter)
        fn = bind(tracer, deleter, where, obj, cls, "__delattr__")
        tracer.call(fn, [ConstantVariable(name)], {})
    elif deleter in (object.__delattr__, BaseException.__delattr__):
        pin(tracer, where, deleter)
        object_setattr(tracer, obj, name, DELETED)
    else:
        unsupported(reasons.SIDE_EFFECT, f"deletion of {cls.__name__}.{name}")
