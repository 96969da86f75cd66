"""Holds attribute look-up and assignment in CPython's order; must not know the interpreter.

Source: ``Objects/object.c`` (``_PyObject_GenericGetAttrWithDict``), ``Objects/typeobject.c``
(``type_getattro``, ``super_getattro``).
"""

from __future__ import annotations

import enum
import functools
import types
from typing import TYPE_CHECKING, Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import DictHas, DictLacks
from capture.sources import (
    AttrSource,
    FunctionDefaultsSource,
    InstanceDictSource,
    PropertySource,
    Source,
    TypeAttrSource,
    WrappedSource,
)
from capture.variables.base import DELETED, MISSING, Variable, unsupported
from capture.variables.constant import NONE, ConstantVariable, ScalarVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.functions import (
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    IteratorVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    ModuleVariable,
    ObjectVariable,
    SuperVariable,
    is_static_type,
    lookup_mro,
    type_attribute,
)
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.variables.base import Tracer

_PLAIN_MODULES = frozenset({"builtins", "collections", "functools", "types"})
_FOLDABLE = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, tuple,
)  # fmt: skip
MODULE_STORES = ("_parameters", "_buffers", "_modules")
_NN_GETATTR = torch.nn.Module.__getattr__
_NN_SETATTR = torch.nn.Module.__setattr__
_TUPLEGETTER = type(__import__("collections").namedtuple("_P", "x").x)


class InstanceDictVariable(DictVariable):
    """``obj.__dict__`` as a dict: reads and writes go to the object's attributes."""

    __slots__ = ("owner",)

    def __init__(self, owner: ObjectVariable) -> None:
        super().__init__(dict)
        self.owner = owner

    def _sync(self, tracer: Tracer) -> None:
        owner = self.owner
        real = owner.real_dict()
        if real is not None:
            assert owner.source is not None
            holder = tracer.wrap(real, InstanceDictSource(owner.source))
            entries = dict(holder.load(tracer))
        else:
            entries = {}
        for name, value in (owner.attrs or {}).items():
            if value is DELETED:
                entries.pop(name, None)
            else:
                entries[name] = (ConstantVariable(name), value)
        self.entries = entries

    def load(self, tracer: Tracer) -> dict[Any, tuple[Variable, Variable]]:
        self._sync(tracer)
        return self.entries

    def get_hashed(self, tracer: Tracer, hashed: Any, key: Variable | None = None) -> Variable | None:
        if type(hashed) is not str:
            return None
        return self.owner.dict_get(tracer, hashed)

    def set(self, tracer: Tracer, key: Variable, item: Variable) -> None:
        key = key.realize(tracer)
        if not isinstance(key, ConstantVariable) or type(key.value) is not str:
            unsupported(reasons.SIDE_EFFECT, "a key of an instance dict that is not a string")
        tracer.effects.set_attr(self.owner, key.value, item)

    def delete_hashed(self, tracer: Tracer, hashed: Any, key: Variable) -> None:
        tracer.effects.set_attr(self.owner, hashed, DELETED)

    def clear(self, tracer: Tracer) -> None:
        for name in self.owner.dict_names(tracer):
            tracer.effects.set_attr(self.owner, name, DELETED)


def load_attr(tracer: Tracer, obj: Variable, name: str) -> Variable:
    """``obj.name``; raises the traced program's AttributeError as an observed exception."""
    obj = obj.realize(tracer)
    handler = _GETATTR.get(type(obj))
    if handler is not None:
        found: Variable = handler(tracer, obj, name)
        return found
    return generic_getattr(tracer, obj, name)


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
    type_source = type_source_of(tracer, obj)
    getattribute, where = type_attribute(tracer, cls, type_source, "__getattribute__")
    if not is_plain_getattribute(getattribute):
        if isinstance(getattribute, types.FunctionType):
            fn = tracer.wrap_static(getattribute, where)
            return tracer.call(fn, [obj, ConstantVariable(name)], {})
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    return object_getattr(tracer, obj, name, cls, type_source)


def is_plain_getattribute(raw: Any) -> bool:
    """True if a class looks attributes up as ``object`` does (built-in types repeat the slot)."""
    if raw is object.__getattribute__:
        return True
    if type(raw) is not types.WrapperDescriptorType:
        return False
    owner = raw.__objclass__
    return owner.__module__ in _PLAIN_MODULES and owner is not super


def object_getattr(
    tracer: Tracer, obj: Variable, name: str, cls: type, type_source: Source | None, *, hook: bool = True
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
            return found
    elif isinstance(obj, TensorVariable) and obj.attrs and name in obj.attrs:
        return obj.attrs[name]
    if raw is not MISSING:
        return bind(tracer, raw, raw_source, obj, cls, name)
    if hook:
        getattr_, where = type_attribute(tracer, cls, type_source, "__getattr__")
        if getattr_ is _NN_GETATTR and isinstance(obj, ObjectVariable):
            found = module_member(tracer, obj, name)
            if found is not None:
                return found
        elif isinstance(getattr_, types.FunctionType):
            fn = tracer.wrap_static(getattr_, where)
            return tracer.call(fn, [obj, ConstantVariable(name)], {})
        elif getattr_ is not MISSING:
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    tracer.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")


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
    if kind is property or (kind is types.DynamicClassAttribute) or isinstance(raw, property):
        if kind is not property and isinstance(lookup_mro(kind, "__get__")[0], types.FunctionType):
            return call_get(tracer, raw, raw_source, obj, cls, name)
        if raw.fget is None:
            tracer.raise_error(AttributeError, f"property {name!r} of {cls.__name__!r} object has no getter")
        source = None if raw_source is None else PropertySource(raw_source, "fget")
        return tracer.call(tracer.wrap_static(raw.fget, source), [obj], {})
    if kind is types.GetSetDescriptorType or kind is types.MemberDescriptorType:
        return native_member(tracer, raw, obj, cls, name)
    return call_get(tracer, raw, raw_source, obj, cls, name)


def native_member(tracer: Tracer, raw: Any, obj: Variable, cls: type, name: str) -> Variable:
    """An attribute that C code computes: ``__class__``, ``__dict__``, slots, fields of C structs."""
    if name == "__class__":
        return type_of(tracer, obj)
    if name == "__dict__" and isinstance(obj, ObjectVariable):
        return InstanceDictVariable(obj)
    if isinstance(obj, ConstantVariable):
        value = getattr(obj.value, name)
        if isinstance(value, _FOLDABLE):
            return ConstantVariable(value)
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    if isinstance(obj, ObjectVariable):
        if type(raw) is types.MemberDescriptorType and not is_static_type(raw.__objclass__):
            found = obj.slot_get(name)
            if found is None:
                tracer.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
            return found
        if obj.attrs and name in obj.attrs:
            return obj.attrs[name]  # type: ignore[no-any-return]
        if isinstance(obj.value, BaseException) and name in ("args", "__cause__", "__context__", "value"):
            assert obj.source is not None
            return tracer.wrap(getattr(obj.value, name), AttrSource(obj.source, name))
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")


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
    if type(raw) is _TUPLEGETTER and isinstance(obj, TupleVariable):
        index = raw.__reduce__()[1][0]
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
        source = None if raw_source is None else WrappedSource(raw_source)
        return tracer.wrap_static(raw.__func__, source)
    if kind is classmethod:
        source = None if raw_source is None else WrappedSource(raw_source)
        owner = tracer.class_variable(cls, obj.source if obj is not None else None)
        inner = tracer.wrap_static(raw.__func__, source)
        return MethodVariable(inner, owner)
    if kind is types.ClassMethodDescriptorType:
        return MethodVariable(
            BuiltinVariable(raw), tracer.class_variable(cls, obj.source if obj is not None else None)
        )
    if kind is types.BuiltinFunctionType or isinstance(raw, type):
        return tracer.wrap_static(raw, raw_source)
    if hasattr(kind, "__get__") and kind is not types.FunctionType:
        return call_get(tracer, raw, raw_source, obj, cls, name)
    return tracer.wrap_static(raw, raw_source)


def class_getattr(tracer: Tracer, obj: ClassVariable, name: str) -> Variable:
    """Attribute look-up on a class, in the order of ``type.__getattribute__``."""
    cls = obj.value
    meta = type(cls)
    if name == "__dict__" or name == "__mro__" or name == "__bases__":
        if name == "__dict__":
            unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.__dict__")
        classes = cls.__mro__ if name == "__mro__" else cls.__bases__
        return TupleVariable([tracer.class_variable(k, None) for k in classes])
    if name in ("__name__", "__qualname__", "__module__", "__doc__", "__flags__"):
        return ConstantVariable(getattr(cls, name))
    if name == "__class__":
        return tracer.class_variable(meta, None)
    meta_raw, _ = lookup_mro(meta, name)
    if meta is not type and isinstance(lookup_mro(meta, "__getattribute__")[0], types.FunctionType):
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    raw, holder = lookup_mro(cls, name)
    source = tracer.class_source(cls, obj.source, obj)
    raw_source: Source | None = None
    if source is not None and not is_static_type(cls):
        raw, raw_source = type_attribute(tracer, cls, source, name)
    if meta_raw is not MISSING and is_data_descriptor(meta_raw):
        if type(meta_raw) is property or isinstance(meta_raw, types.DynamicClassAttribute):
            if meta is enum.EnumMeta and name == "__members__":
                unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
            if isinstance(meta_raw, property) and isinstance(meta_raw.fget, types.FunctionType):
                fn = tracer.wrap_static(meta_raw.fget, None)
                return tracer.call(fn, [obj], {})
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    if raw is not MISSING:
        kind = type(raw)
        if kind is types.FunctionType:
            return tracer.wrap_static(raw, raw_source)
        if kind in (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
                    types.MemberDescriptorType, property, _TUPLEGETTER):  # fmt: skip
            return tracer.wrap_static(raw, raw_source)
        if isinstance(cls, enum.EnumMeta) and isinstance(raw, (cls, types.DynamicClassAttribute, enum.property)):
            member = cls.__members__.get(name)
            if member is not None:
                return tracer.wrap_static(member, None)
        return bind_class_level(tracer, raw, raw_source, None, cls, name)
    if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
        return tracer.wrap_static(cls.__members__[name], None)
    if meta_raw is not MISSING:
        if type(meta_raw) is types.FunctionType:
            return MethodVariable(tracer.wrap_static(meta_raw, None), obj)
        if type(meta_raw) in (types.MethodDescriptorType, types.WrapperDescriptorType):
            return MethodVariable(BuiltinVariable(meta_raw), obj)
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{cls.__name__}.{name}")
    hook, _ = lookup_mro(meta, "__getattr__")
    if isinstance(hook, types.FunctionType):
        return tracer.call(tracer.wrap_static(hook, None), [obj, ConstantVariable(name)], {})
    tracer.raise_error(AttributeError, f"type object {cls.__name__!r} has no attribute {name!r}")


def module_getattr(tracer: Tracer, obj: ModuleVariable, name: str) -> Variable:
    """Attribute of an imported module: its dict, then its ``__getattr__``."""
    assert obj.source is not None
    real = obj.value.__dict__  # type: ignore[attr-defined]
    if name == "__dict__":
        return tracer.wrap(real, InstanceDictSource(obj.source))
    holder = tracer.wrap(real, InstanceDictSource(obj.source))
    assert isinstance(holder, DictVariable)
    found = holder.get_hashed(tracer, name)
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
    if (hook := real.get("__getattr__")) is not None and isinstance(hook, types.FunctionType):
        fn = holder.get_hashed(tracer, "__getattr__")
        assert fn is not None
        return tracer.call(fn, [ConstantVariable(name)], {})
    if hasattr(obj.value, name):
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{obj.value.__name__}.{name}")  # type: ignore[attr-defined]
    tracer.raise_error(
        AttributeError, f"module {real.get('__name__')!r} has no attribute {name!r}"
    )


def function_getattr(tracer: Tracer, fn: FunctionVariable, name: str) -> Variable:
    """Attribute of a Python function."""
    if name == "__name__":
        return ConstantVariable(fn.name)
    if name == "__qualname__":
        return ConstantVariable(fn.qualname)
    if name == "__code__":
        return ConstantVariable(fn.code)
    if name == "__globals__":
        return fn.globals
    if name == "__defaults__":
        if fn.value is not MISSING and fn.source is not None:
            return tracer.wrap(fn.value.__defaults__, FunctionDefaultsSource(fn.source))
        return TupleVariable(list(fn.defaults)) if fn.defaults else NONE
    if name in ("__doc__", "__module__") and fn.value is not MISSING:
        return ConstantVariable(getattr(fn.value, name))
    if name == "__class__":
        return tracer.class_variable(types.FunctionType, None)
    if name == "__dict__":
        return InstanceDictVariable(fn)
    raw, _ = lookup_mro(types.FunctionType, name)
    if name == "__get__" or (raw is not MISSING and type(raw) is types.WrapperDescriptorType):
        return MethodVariable(BuiltinVariable(raw), fn)
    if raw is not MISSING:
        unsupported(reasons.UNKNOWN_ATTRIBUTE, f"function.{name}")
    found = fn.dict_get(tracer, name)
    if found is None:
        tracer.raise_error(AttributeError, f"'function' object has no attribute {name!r}")
    return found


def method_getattr(tracer: Tracer, method: MethodVariable, name: str) -> Variable:
    """Attribute of a bound method; what it has not itself it takes from its function."""
    if name == "__self__":
        return method.instance
    if name == "__func__":
        return method.fn
    if name == "__class__":
        return tracer.class_variable(method.python_type(), None)
    return load_attr(tracer, method.fn, name)


def builtin_getattr(tracer: Tracer, fn: BuiltinVariable, name: str) -> Variable:
    """Attribute of a C function or descriptor, folded."""
    try:
        value = getattr(fn.value, name)
    except AttributeError as error:
        tracer.raise_error(AttributeError, *error.args)
    if isinstance(value, _FOLDABLE) or callable(value):
        return tracer.wrap_static(value, None)
    unsupported(reasons.UNKNOWN_ATTRIBUTE, f"{fn.describe()}.{name}")


def super_getattr(tracer: Tracer, sup: SuperVariable, name: str) -> Variable:
    """``super().name``: look-up behind the class in the instance's MRO, then bound."""
    start = sup.cls.realize(tracer)
    instance = sup.instance.realize(tracer)
    assert isinstance(start, ClassVariable)
    on_class = isinstance(instance, ClassVariable) and start.value in instance.value.__mro__
    cls: type = instance.value if on_class else instance.python_type()  # type: ignore[attr-defined]
    if name == "__class__":
        return tracer.class_variable(super, None)
    mro = cls.__mro__
    for klass in mro[mro.index(start.value) + 1 :]:
        raw = klass.__dict__.get(name, MISSING)
        if raw is MISSING:
            if not is_static_type(klass):
                source = tracer.class_source(klass, None, None)
                if source is not None:
                    tracer.guard_class_lacks(source, name)
            continue
        raw_source: Source | None = None
        if not is_static_type(klass):
            source = tracer.class_variable(klass, None).source
            raw_source = TypeAttrSource(source, name) if source is not None else None
        if on_class:
            if type(raw) is classmethod:
                inner = tracer.wrap_static(raw.__func__, raw_source and WrappedSource(raw_source))
                return MethodVariable(inner, instance)
            if type(raw) is types.FunctionType:
                return tracer.wrap_static(raw, raw_source)
            return bind_class_level(tracer, raw, raw_source, None, cls, name)
        if is_data_descriptor(raw):
            return get_descriptor(tracer, raw, raw_source, instance, cls, name)
        if type(raw) is classmethod:
            owner = tracer.class_variable(cls, instance.source)
            inner = tracer.wrap_static(raw.__func__, raw_source and WrappedSource(raw_source))
            return MethodVariable(inner, owner)
        return bind(tracer, raw, raw_source, instance, cls, name)
    tracer.raise_error(AttributeError, f"'super' object has no attribute {name!r}")


def exception_getattr(tracer: Tracer, exc: ExceptionVariable, name: str) -> Variable:
    """Attribute of an exception made during capture."""
    if name == "args":
        return TupleVariable(list(exc.args))
    if name == "__cause__":
        return exc.cause or NONE
    if name == "__context__":
        return exc.context or NONE
    if name == "__suppress_context__":
        return ConstantVariable(exc.suppress_context)
    if name == "value" and issubclass(exc.cls, StopIteration):
        return exc.args[0] if exc.args else NONE
    if name == "__traceback__":
        unsupported(reasons.FRAME_INSPECTION, "__traceback__")
    if name in ("name", "obj") and issubclass(exc.cls, (AttributeError, NameError)):
        unsupported(reasons.UNKNOWN_ATTRIBUTE, name)
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
    import collections

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


def generic_iterator_getattr(tracer: Tracer, obj: IteratorVariable, name: str) -> Variable:
    """Methods of iterators."""
    return generic_getattr(tracer, obj, name)


def type_of(tracer: Tracer, obj: Variable) -> Variable:
    """``type(obj)``."""
    obj = obj.realize(tracer)
    if isinstance(obj, ObjectVariable) and obj.cls_var is not None and obj.source is None:
        return obj.cls_var
    return tracer.class_variable(obj.python_type(), obj.source)


def store_attr(tracer: Tracer, obj: Variable, name: str, value: Variable) -> None:
    """``obj.name = value``."""
    obj = obj.realize(tracer)
    if isinstance(obj, ModuleVariable):
        assert obj.source is not None
        holder = tracer.wrap(obj.value.__dict__, InstanceDictSource(obj.source))
        assert isinstance(holder, DictVariable)
        holder.set(tracer, ConstantVariable(name), value)
        return
    if isinstance(obj, CellVariable) and name == "cell_contents":
        obj.set(tracer, value)
        return
    if not isinstance(obj, ObjectVariable) or isinstance(obj, ClassVariable):
        unsupported(reasons.SIDE_EFFECT, f"assignment to {obj.describe()}.{name}")
    cls = obj.cls
    type_source = type_source_of(tracer, obj)
    setter, where = type_attribute(tracer, cls, type_source, "__setattr__")
    if setter is _NN_SETATTR and module_plain_store(tracer, obj, name, value):
        object_setattr(tracer, obj, name, value)
    elif isinstance(setter, types.FunctionType):
        tracer.call(tracer.wrap_static(setter, where), [obj, ConstantVariable(name), value], {})
    elif setter is object.__setattr__ or _plain_setattr(setter):
        object_setattr(tracer, obj, name, value)
    else:
        unsupported(reasons.SIDE_EFFECT, f"assignment to {cls.__name__}.{name}")


def _plain_setattr(setter: Any) -> bool:
    return setter in (BaseException.__setattr__, types.FunctionType.__setattr__)


def module_plain_store(tracer: Tracer, obj: ObjectVariable, name: str, value: Variable) -> bool:
    """True if ``nn.Module.__setattr__`` would just store the attribute (no module, no parameter)."""
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
                    AttributeError, f"property {name!r} of {cls.__name__!r} object has no {word}"
                )
            source = None if raw_source is None else PropertySource(raw_source, which)
            args = [obj] if value is DELETED else [obj, value]
            tracer.call(tracer.wrap_static(accessor, source), args, {})
            return
        if kind is types.MemberDescriptorType and not is_static_type(raw.__objclass__):
            if value is DELETED and obj.slot_get(name) is None:
                tracer.raise_error(AttributeError, name)
            tracer.effects.set_attr(obj, name, value)
            return
        method = "__delete__" if value is DELETED else "__set__"
        if isinstance(lookup_mro(kind, method)[0], types.FunctionType):
            fn = load_attr(tracer, tracer.wrap_static(raw, raw_source), method)
            tracer.call(fn, [obj] if value is DELETED else [obj, value], {})
            return
        if isinstance(obj, ExceptionVariable) and store_exception_attr(obj, name, value):
            tracer.mutations += 1
            return
        unsupported(reasons.SIDE_EFFECT, f"assignment to {cls.__name__}.{name}")
    if not has_instance_dict(obj):
        tracer.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
    if value is DELETED and obj.dict_get(tracer, name) is None:
        tracer.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
    tracer.effects.set_attr(obj, name, value)


def store_exception_attr(exc: ExceptionVariable, name: str, value: Any) -> bool:
    """Assign ``__cause__``, ``__context__`` and the like; False if there is no rule."""
    if value is DELETED:
        return False
    if name == "__cause__":
        exc.cause = value
        exc.suppress_context = True
    elif name == "__context__":
        exc.context = value
    elif name == "__suppress_context__" and isinstance(value, ConstantVariable):
        exc.suppress_context = bool(value.value)
    else:
        return False
    return True


def has_instance_dict(obj: ObjectVariable) -> bool:
    """True if instances of the class have a ``__dict__``."""
    if obj.value is not MISSING:
        return obj.real_dict() is not None
    return obj.cls.__dictoffset__ != 0


def delete_attr(tracer: Tracer, obj: Variable, name: str) -> None:
    """``del obj.name``."""
    obj = obj.realize(tracer)
    if not isinstance(obj, ObjectVariable) or isinstance(obj, (ClassVariable, ModuleVariable)):
        unsupported(reasons.SIDE_EFFECT, f"deletion of {obj.describe()}.{name}")
    cls = obj.cls
    deleter, where = type_attribute(tracer, cls, type_source_of(tracer, obj), "__delattr__")
    if isinstance(deleter, types.FunctionType):
        tracer.call(tracer.wrap_static(deleter, where), [obj, ConstantVariable(name)], {})
    else:
        object_setattr(tracer, obj, name, DELETED)


_GETATTR: dict[type, Any] = {
    ClassVariable: class_getattr,
    ModuleVariable: module_getattr,
    FunctionVariable: function_getattr,
    MethodVariable: method_getattr,
    BuiltinVariable: builtin_getattr,
    SuperVariable: super_getattr,
    ExceptionVariable: exception_getattr,
    PartialVariable: partial_getattr,
    ListVariable: deque_getattr,
    CellVariable: cell_getattr,
    DictVariable: dict_getattr,
    ScalarVariable: scalar_getattr,
}


def register_getattr(kind: type, handler: Any) -> None:
    """Give a variable class its own attribute look-up."""
    _GETATTR[kind] = handler


def _install() -> None:
    from capture.variables.containers import RangeVariable, SliceVariable

    register_getattr(SliceVariable, slice_getattr)
    register_getattr(RangeVariable, slice_getattr)


_install()
assert functools
