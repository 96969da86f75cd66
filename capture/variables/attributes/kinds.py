"""Holds the attributes of built-in kinds of values: modules, functions, exceptions, ..."""

from __future__ import annotations

import collections
import types
import warnings
from typing import Any

from torch.utils._config_module import ConfigModule

from capture import break_reasons as reasons
from capture.guards.kinds import DictHas, DictLacks
from capture.sources import AttrSource, FunctionDefaultsSource, InstanceDictSource
from capture.variables.attributes.instance_dict import instance_dict
from capture.variables.attributes.lookup import (
    FOLDABLE,
    generic_getattr,
    is_data_descriptor,
    load_attr,
    register_getattr,
)
from capture.variables.base import MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.constant import NONE, ConstantVariable, ScalarVariable
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    RangeVariable,
    SliceVariable,
    TupleVariable,
    key_of,
)
from capture.variables.exceptions import field_of, stop_value, traceback_of
from capture.variables.functions import (
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.handling import guard_caller_handles_nothing
from capture.variables.objects import ExceptionVariable, ModuleVariable, lookup_mro


def _setting(module: ConfigModule, name: str) -> Any:
    """Return one of torch's settings; a deprecated one warns at each read, so Python reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return getattr(module, name)
        except Warning:
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{module.__name__}.{name}, which is deprecated")


def module_getattr(tracer: Tracer, obj: ModuleVariable, name: str) -> Variable:
    """Attribute of an imported module: its dict, then its ``__getattr__``."""
    assert obj.source is not None
    if isinstance(lookup_mro(type(obj.value), "__getattribute__")[0], types.FunctionType):
        return generic_getattr(tracer, obj, name)
    if lookup_mro(type(obj.value), "__dict__")[1] is not types.ModuleType:
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{obj.describe()}.{name}")
    real = obj.value.__dict__
    if name == "__dict__":
        return tracer.wrap(real, InstanceDictSource(obj.source))
    if isinstance(obj.value, ConfigModule) and name in obj.value._config:
        value = _setting(obj.value, name)
        if isinstance(value, FOLDABLE):  # torch's settings: guarded by value, however it is found
            return tracer.wrap(value, AttrSource(obj.source, name))
    raw = lookup_mro(type(obj.value), name)[0]
    if raw is not MISSING and type(obj.value) is not types.ModuleType and is_data_descriptor(raw):
        return generic_getattr(tracer, obj, name)
    holder = tracer.wrap(real, InstanceDictSource(obj.source))
    assert isinstance(holder, DictVariable)
    found = holder.get_hashed(tracer, name)
    if found is None and raw is not MISSING and type(obj.value) is not types.ModuleType:
        return generic_getattr(tracer, obj, name)  # a method of the module's class
    if found is None and type(obj.value) is not types.ModuleType:
        # A lazy module (a subclass of ModuleType) fills its dict on first access.
        getattr(obj.value, name, None)
        if name in real:
            source = InstanceDictSource(obj.source)
            tracer.retract(DictLacks(source, name))
            tracer.guard(DictHas(source, name))
            found = holder.get_hashed(tracer, name)
    if found is not None:
        return found
    if name == "__class__":
        return tracer.class_variable(type(obj.value), None)
    if raw is not MISSING:
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{obj.value.__name__}.{name}")
    if (hook := real.get("__getattr__")) is not None and isinstance(hook, types.FunctionType):
        fn = holder.get_hashed(tracer, "__getattr__")
        assert fn is not None
        return tracer.call(fn, [ConstantVariable(name)], {})
    getter, _ = lookup_mro(type(obj.value), "__getattr__")
    if isinstance(getter, types.FunctionType):
        cls = tracer.class_variable(type(obj.value), obj.source)
        fn = load_attr(tracer, cls, "__getattr__")
        return tracer.call(fn, [obj, ConstantVariable(name)], {})
    if hasattr(obj.value, name):
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{obj.value.__name__}.{name}")
    tracer.raise_error(AttributeError, f"module {real.get('__name__')!r} has no attribute {name!r}")


def function_getattr(tracer: Tracer, fn: FunctionVariable, name: str) -> Variable:
    """Attribute of a Python function."""
    if name in ("__name__", "__qualname__", "__doc__", "__module__") and fn.value is not MISSING:
        known = getattr(fn.value, name)
        if fn.source is not None:
            return tracer.wrap(known, AttrSource(fn.source, name))
        return tracer.wrap_static(known, None)
    if name in ("__name__", "__qualname__"):
        return ConstantVariable(fn.name if name == "__name__" else fn.qualname)
    if name in ("__annotations__", "__type_params__") and fn.source is not None:
        if hasattr(fn.value, name):  # the latter since 3.12
            return tracer.wrap(getattr(fn.value, name), AttrSource(fn.source, name))
    if name == "__type_params__" and fn.value is MISSING and hasattr(function_getattr, name):
        return TupleVariable([])  # functions with type parameters are made by Python
    if fn.value is MISSING and name in ("__doc__", "__module__", "__annotations__"):
        return _made_function_part(tracer, fn, name)
    if name == "__code__":
        return ConstantVariable(fn.code)
    if name == "__globals__":
        return fn.globals
    if name == "__defaults__":
        if fn.value is not MISSING and fn.source is not None:
            return tracer.wrap(fn.value.__defaults__, FunctionDefaultsSource(fn.source))
        return TupleVariable(list(fn.defaults)) if fn.defaults else NONE
    if name == "__class__":
        return tracer.class_variable(types.FunctionType, None)
    if name == "__dict__":
        return instance_dict(fn)
    raw, _ = lookup_mro(types.FunctionType, name)
    if name == "__get__" or (raw is not MISSING and type(raw) is types.WrapperDescriptorType):
        return MethodVariable(BuiltinVariable(raw), fn)
    if raw is not MISSING:
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"function.{name}")
    found = fn.dict_get(tracer, name)
    if found is None:
        tracer.raise_error(AttributeError, f"'function' object has no attribute {name!r}")
    return found


def _made_function_part(tracer: Tracer, fn: FunctionVariable, name: str) -> Variable:
    """What a function made during capture took from its code and globals, or was given."""
    given = (fn.attrs or {}).get(name)
    if isinstance(given, Variable):
        return given
    if name == "__doc__":
        doc = fn.code.co_consts[0] if fn.code.co_consts else None
        return ConstantVariable(doc if isinstance(doc, str) else None)
    if name == "__module__":
        return fn.globals.get_hashed(tracer, "__name__") or NONE
    if isinstance(fn.annotations, DictVariable):
        return fn.annotations
    made = stamp(tracer, DictVariable())
    if isinstance(fn.annotations, TupleVariable):
        items = fn.annotations.items(tracer)
        for key, value in zip(items[::2], items[1::2], strict=True):
            made.entries[key_of(tracer, key)] = (key, value)
    fn.annotations = made
    return made


def method_getattr(tracer: Tracer, method: MethodVariable, name: str) -> Variable:
    """Attribute of a bound method; what it has not itself it takes from its function."""
    if name == "__self__":
        return method.instance
    if name == "__func__":
        return method.fn
    if name == "__class__":
        return tracer.class_variable(method.python_type(), None)
    if name.startswith("__") and lookup_mro(method.python_type(), name)[0] is not MISSING:
        if name not in ("__name__", "__qualname__", "__doc__"):
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"method.{name}")
    return load_attr(tracer, method.fn, name)


def builtin_getattr(tracer: Tracer, fn: BuiltinVariable, name: str) -> Variable:
    """Attribute of a C function or descriptor, folded."""
    try:
        value = getattr(fn.value, name)
    except AttributeError as error:
        tracer.raise_error(AttributeError, *error.args)
    if isinstance(value, FOLDABLE) or callable(value):
        return tracer.wrap_static(value, None)
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{fn.describe()}.{name}")


def exception_getattr(tracer: Tracer, exc: ExceptionVariable, name: str) -> Variable:
    """Attribute of an exception made during capture."""
    if name == "args":
        return TupleVariable(list(exc.args))
    if name == "__cause__":
        return exc.cause or NONE
    if name == "__context__":
        if exc.context is None and exc.raised_at >= 0:
            guard_caller_handles_nothing(tracer)
        return exc.context or NONE
    if name == "__suppress_context__":
        return ConstantVariable(exc.suppress_context)
    if name == "value" and issubclass(exc.cls, StopIteration):
        return stop_value(exc)
    if name == "__traceback__":
        return traceback_of(exc) or NONE
    found = field_of(tracer, exc, name)
    if found is not None:
        return found
    return generic_getattr(tracer, exc, name)


def partial_getattr(tracer: Tracer, obj: PartialVariable, name: str) -> Variable:
    """Attribute of a ``functools.partial``."""
    if name == "func":
        return obj.fn
    if name == "args":
        return TupleVariable(list(obj.args))
    if name == "keywords":
        result = DictVariable()
        for key, value in obj.keywords.items():
            result.entries[key] = (ConstantVariable(key), value)
        return result
    return generic_getattr(tracer, obj, name)


def deque_getattr(tracer: Tracer, obj: ListVariable, name: str) -> Variable:
    """Lists have no attributes of their own; a deque knows its ``maxlen``."""
    if name == "maxlen" and obj.is_deque:
        return ConstantVariable(obj.maxlen)
    return generic_getattr(tracer, obj, name)


def cell_getattr(tracer: Tracer, cell: CellVariable, name: str) -> Variable:
    """``cell.cell_contents``."""
    if name == "cell_contents":
        found = cell.get(tracer)
        if found is None:
            tracer.raise_error(ValueError, "Cell is empty")
        return found
    return generic_getattr(tracer, cell, name)


def dict_getattr(tracer: Tracer, obj: DictVariable, name: str) -> Variable:
    """Attribute of a dict; a defaultdict knows its factory."""
    if name == "default_factory" and issubclass(obj.cls, collections.defaultdict):
        return default_factory(tracer, obj)
    return generic_getattr(tracer, obj, name)


def default_factory(tracer: Tracer, obj: DictVariable) -> Variable:
    """The factory of a defaultdict."""
    if obj.default_factory is None:
        if obj.source is None:
            return NONE
        value = obj.value.default_factory
        obj.default_factory = tracer.wrap(value, AttrSource(obj.source, "default_factory"))
    return obj.default_factory


def scalar_getattr(tracer: Tracer, obj: ScalarVariable, name: str) -> Variable:
    """Attribute of a number of the graph: methods decide on its value, so it is specialised."""
    return generic_getattr(tracer, obj.specialize(tracer), name)


def slice_getattr(tracer: Tracer, obj: Any, name: str) -> Variable:
    """``slice.start`` and so on; ``range`` likewise."""
    if name in ("start", "stop", "step"):
        if hasattr(obj, "parts"):
            part: Variable = obj.parts[("start", "stop", "step").index(name)]
            return part
        return ConstantVariable(getattr(obj.value, name))
    return generic_getattr(tracer, obj, name)


register_getattr(ModuleVariable, module_getattr)
register_getattr(FunctionVariable, function_getattr)
register_getattr(MethodVariable, method_getattr)
register_getattr(BuiltinVariable, builtin_getattr)
register_getattr(ExceptionVariable, exception_getattr)
register_getattr(PartialVariable, partial_getattr)
register_getattr(ListVariable, deque_getattr)
register_getattr(CellVariable, cell_getattr)
register_getattr(DictVariable, dict_getattr)
register_getattr(ScalarVariable, scalar_getattr)
register_getattr(SliceVariable, slice_getattr)
register_getattr(RangeVariable, slice_getattr)
