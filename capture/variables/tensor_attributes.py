"""Holds the attributes of tensors; must not know the interpreter."""

from __future__ import annotations

import types
from collections.abc import Callable

import torch

from capture import break_reasons as reasons
from capture.graph.op_rules import RuleKind, classify_attribute
from capture.guards.kinds import DictHas, DictLacks
from capture.sources import DictItemSource, InstanceDictSource
from capture.variables.attributes import bind, object_getattr, register_getattr
from capture.variables.base import (
    MISSING,
    LazyVariable,
    ObservedException,
    Tracer,
    Variable,
    unsupported,
)
from capture.variables.constant import FALSE, NONE, ConstantVariable, boolean
from capture.variables.functions import BuiltinVariable, MethodVariable
from capture.variables.gradients import read_grad
from capture.variables.objects import lookup_mro, module_name
from capture.variables.sizes import size_of, size_tuple
from capture.variables.tensor import TensorVariable


def tensor_getattr(tracer: Tracer, obj: TensorVariable, name: str) -> Variable:
    """``tensor.name``."""
    meta = obj.meta
    reader = _READERS.get(name)
    if reader is not None and (name != "retains_grad" or obj.source is None):
        found: Variable = reader(obj)
        return found
    if name == "shape":
        return size_tuple(tracer, meta.shape, torch.Size)
    if name == "nbytes":
        return size_of(tracer, tracer.graph.product((*meta.shape, meta.dtype.itemsize)))
    if obj.attrs and name in obj.attrs:
        return obj.attrs[name]
    rule = classify_attribute(name)
    if rule.kind is RuleKind.NODE:
        return tracer.graph_call("call_function", getattr, [obj, ConstantVariable(name)], {})
    if name == "grad":
        return read_grad(tracer, obj)
    if name == "grad_fn" and obj.grad_node is not None and meta.has_grad_fn:
        return obj.grad_node
    if name == "grad_fn" and not meta.has_grad_fn:
        return NONE
    if name == "grad_fn" and (not meta.requires_grad or (obj.source is None and meta.is_leaf)):
        return NONE
    cls = meta.cls
    raw, holder = lookup_mro(cls, name)
    if raw is MISSING:
        return object_attr(tracer, obj, name)
    kind = type(raw)
    if kind is types.MethodDescriptorType or kind is types.WrapperDescriptorType:
        return MethodVariable(BuiltinVariable(raw), obj)
    if (
        kind is types.FunctionType
        and holder is not None
        and module_name(holder).startswith("torch")
    ):
        return MethodVariable(BuiltinVariable(raw), obj)
    if name == "__class__":
        return tracer.class_variable(cls, obj.source)
    if kind is property or kind is types.GetSetDescriptorType:
        try:
            if rule.kind is RuleKind.CONSTANT:
                return tracer.wrap_result(getattr(torch.empty(0, dtype=meta.dtype), name))
        except (AttributeError, RuntimeError):
            pass
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"Tensor.{name}")
    return bind(tracer, raw, None, obj, cls, name)


def object_attr(tracer: Tracer, obj: TensorVariable, name: str) -> Variable:
    """An attribute that the program itself put on a tensor, or an AttributeError."""
    if obj.source is not None:
        real = tracer.real_value(obj)
        if real is not MISSING:
            attrs = getattr(real, "__dict__", {})
            holder = InstanceDictSource(obj.source)
            if name in attrs:
                tracer.guard(DictHas(holder, name))
                return LazyVariable(attrs[name], DictItemSource(holder, name))
            tracer.guard(DictLacks(holder, name))
    return object_getattr(tracer, obj, name, obj.python_type(), None, hook=False)


def tensor_has_attr(tracer: Tracer, obj: TensorVariable, name: str) -> bool:
    """``hasattr(tensor, name)``."""
    if hasattr(obj.python_type(), name) or (obj.attrs and name in obj.attrs):
        return True
    try:
        object_attr(tracer, obj, name)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), AttributeError):
            return False
        raise
    return True


def _device_flag(kind: str) -> Callable[[TensorVariable], Variable]:
    return lambda obj: boolean(obj.meta.device.type == kind)


_READERS: dict[str, Callable[[TensorVariable], Variable]] = {
    "dtype": lambda obj: ConstantVariable(obj.meta.dtype),
    "device": lambda obj: ConstantVariable(obj.meta.device),
    "layout": lambda obj: ConstantVariable(obj.meta.layout),
    "ndim": lambda obj: ConstantVariable(len(obj.meta.shape)),
    "requires_grad": lambda obj: boolean(obj.meta.requires_grad),
    "retains_grad": lambda obj: boolean(obj.retains_grad),
    "is_leaf": lambda obj: boolean(obj.meta.is_leaf),
    "is_cuda": _device_flag("cuda"),
    "is_cpu": _device_flag("cpu"),
    "is_meta": _device_flag("meta"),
    "is_mps": _device_flag("mps"),
    "is_xpu": _device_flag("xpu"),
    "itemsize": lambda obj: ConstantVariable(obj.meta.dtype.itemsize),
    "is_sparse": lambda obj: boolean(obj.meta.is_sparse),
    "is_quantized": lambda obj: FALSE,
    "is_nested": lambda obj: FALSE,
    "is_mkldnn": lambda obj: FALSE,
}

register_getattr(TensorVariable, tensor_getattr)
