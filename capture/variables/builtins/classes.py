"""Holds the rules of making instances and of asking for classes."""

from __future__ import annotations

import abc
import builtins
import collections
import types
import typing
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds
from capture.sources import Source
from capture.variables import operators
from capture.variables.attributes import load_attr, type_of, type_source_of
from capture.variables.attributes.classes import meta_attribute
from capture.variables.base import ObservedException, Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.builtins.sets import new_set
from capture.variables.constant import NONE, ConstantVariable, boolean
from capture.variables.containers import DictVariable, ListVariable, SetVariable, TupleVariable
from capture.variables.exceptions import EXCEPTIONS, new_exception
from capture.variables.functions import FunctionVariable
from capture.variables.iteration import listed
from capture.variables.made_classes import make_class
from capture.variables.objects import (
    ClassVariable,
    ObjectVariable,
    SuperVariable,
    is_static_type,
    lookup_mro,
    module_name,
)
from capture.variables.tensor import TensorVariable


def native_new(
    tracer: Tracer,
    new: Any,
    cls_var: ClassVariable,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> Variable | None:
    """``cls.__new__`` implemented in C: an empty instance of the right kind, or None."""
    cls = cls_var.value
    if cls.__flags__ & (1 << 20):
        return None
    if issubclass(cls, BaseException):
        owner = getattr(new, "__self__", None)
        return new_exception(tracer, cls_var, args, kwargs) if type(owner) is type else None
    if new is object.__new__:
        base = _c_base(cls)
        return stamp(tracer, ObjectVariable(cls, cls_var=cls_var)) if base is object else None
    if new is list.__new__:
        return stamp(tracer, ListVariable([], cls, cls_var=cls_var))
    if new is collections.deque.__new__:
        return stamp(tracer, ListVariable([], cls, cls_var=cls_var))
    if new in (dict.__new__, collections.OrderedDict.__new__, collections.defaultdict.__new__):
        return stamp(tracer, DictVariable(cls, cls_var=cls_var))
    if new is set.__new__:
        return stamp(tracer, SetVariable({}, cls, cls_var=cls_var))
    if kwargs and not isinstance(lookup_mro(cls, "__init__")[0], types.FunctionType):
        return None  # tuples and frozensets take no keywords but those of a subclass's __init__
    if new is frozenset.__new__ and len(args) <= 1:
        return new_set(tracer, cls, args[0] if args else None, cls_var)
    if new is tuple.__new__ and len(args) <= 1:
        items = listed(tracer, args[0]) if args else []
        return stamp(tracer, TupleVariable(items, cls, cls_var=cls_var))
    return None


def _c_base(cls: type) -> type:
    """The nearest base whose memory layout is defined in C."""
    for klass in cls.__mro__:
        if klass is object or is_static_type(klass):
            return klass
    return object


@rule(object.__new__)
def _object_new(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    cls = args[0]
    assert isinstance(cls, ClassVariable)
    if len(args) > 1 or kwargs:
        new = lookup_mro(cls.value, "__new__")[0]
        init = lookup_mro(cls.value, "__init__")[0]
        if new is not object.__new__ or init is object.__init__:
            return None  # a TypeError
    return native_new(tracer, object.__new__, cls, [], {})


@rule(
    tuple.__new__, list.__new__, dict.__new__, set.__new__,
    *{c.__dict__["__new__"] for c in EXCEPTIONS if "__new__" in c.__dict__},
)  # fmt: skip
def _base_new(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    cls = args[0]
    assert isinstance(cls, ClassVariable)
    raw = lookup_mro(cls.value, "__new__")[0]
    for base in (tuple, list, dict, set, BaseException):
        if issubclass(cls.value, base):
            new = base.__new__ if isinstance(raw, (types.FunctionType, staticmethod)) else raw
            if base is tuple:
                new = tuple.__new__
            return native_new(tracer, new, cls, args[1:], kwargs)
    return None


@rule(object.__init__)
def _object_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return NONE if len(args) == 1 and not kwargs else None


@rule(object.__init_subclass__, object.__subclasshook__)
def _nothing(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return NONE


@rule(type)
def _type(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return type_of(tracer, args[0]) if len(args) == 1 and not kwargs else None


@rule(super)
def _super(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) == 2:
        holder, obj = args
        if not isinstance(holder, ClassVariable) or not (
            issubclass(obj.python_type(), holder.value)
            or (isinstance(obj, ClassVariable) and issubclass(obj.value, holder.value))
        ):
            return None  # a TypeError, or an object that lies about its class
        return SuperVariable(holder, obj)
    if not args:
        return tracer.zero_argument_super()
    return None


@rule(builtins.__build_class__)
def _build_class(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    fn, name, *bases = args
    if kwargs or not isinstance(fn, FunctionVariable) or not isinstance(name, ConstantVariable):
        unsupported(reasons.CLASS_DEFINITION, name.describe())
    if not set(fn.code.co_cellvars).isdisjoint(fn.code.co_freevars):
        unsupported(reasons.CLASS_DEFINITION, name.value)  # two cells of one name
    body = DictVariable()
    tracer.run_class_body(fn, body)
    return make_class(tracer, name.value, bases, body)


# Where torch has the metaclass of its opaque types, by version.
_OPAQUE = frozenset({"torch._opaque_base", "torch._custom_class_base"})


@rule(isinstance)
def _isinstance(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    obj, classes = args
    cls = obj.python_type()
    return boolean(any(_instance_of(tracer, obj, cls, k) for k in class_list(tracer, classes)))


@rule(type.__instancecheck__)
def _is_real_instance(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    klass, obj = (v.realize(tracer) for v in args)
    if not isinstance(klass, ClassVariable):
        return None
    cls = obj.python_type()
    if klass.value in cls.__mro__:
        return boolean(True)
    stated = _stated_class(tracer, obj, cls)
    return boolean(stated is not None and klass.value in stated.__mro__)


def class_list(tracer: Tracer, v: Variable) -> list[Any]:
    """The classes of the second argument of ``isinstance``, flattened."""
    v = v.realize(tracer)
    if isinstance(v, TupleVariable):
        return [k for item in v.items(tracer) for k in class_list(tracer, item)]
    if isinstance(v, ClassVariable):
        return [v.value]
    if isinstance(v, ObjectVariable) and type(v.value) is types.UnionType:
        return list(v.value.__args__)
    if isinstance(v, ConstantVariable) and isinstance(v.value, types.UnionType):
        return list(v.value.__args__)
    if isinstance(v, ObjectVariable) and type(v.value).__name__ == "_SpecialGenericAlias":
        origin = getattr(v.value, "__origin__", None)
        if isinstance(origin, type):
            return [origin]
    unsupported(reasons.UNKNOWN_OPERATION, f"isinstance() with {v.describe()}")


def _instance_of(tracer: Tracer, obj: Variable, cls: type, klass: Any) -> bool:
    if klass is None:
        klass = type(None)
    if klass is cls:
        return True
    if cls in weakref.ProxyTypes:
        unsupported(reasons.UNKNOWN_OPERATION, "isinstance() of a weak proxy")
    meta = type(klass)
    hook, hook_source = meta_attribute(
        tracer, tracer.class_variable(klass, None), "__instancecheck__"
    )
    stated = None if klass in cls.__mro__ else _stated_class(tracer, obj, cls)
    if hook is type.__instancecheck__ or _is_opaque_of_torch(klass):
        return klass in cls.__mro__ or (stated is not None and klass in stated.__mro__)
    if isinstance(obj, TensorVariable) and module_name(klass).startswith("torch"):
        if klass in _TENSOR_TYPES:
            return str(obj.meta.dtype) in _TENSOR_TYPES[klass]
        if klass not in _MARKING or issubclass(cls, klass):
            return issubclass(cls, klass)
    settled = _known_abc(meta) and klass not in _MARKING
    if settled and klass in cls.__mro__ and _has_no_subclass_hook(klass):
        return True
    if isinstance(hook, types.FunctionType) and not settled:
        result = tracer.call(
            tracer.wrap_static(hook, hook_source), [tracer.class_variable(klass, None), obj], {}
        )
        return operators.truth(tracer, result)
    if stated is not None:
        unsupported(reasons.UNKNOWN_OPERATION, f"isinstance() of {obj.describe()}, a proxy")
    return _ask_abstract(tracer, cls, klass, type_source_of(tracer, obj))


# Classes of which an attribute of the tensor makes it an instance, too.
_MARKING = (torch.nn.Parameter, torch.nn.Buffer)


def _is_opaque_of_torch(klass: type) -> bool:
    """True for process groups and the like: only stand-ins in traces of torch's need more."""
    home = module_name(type(klass))
    return home in _OPAQUE and home != module_name(klass)


def _ask_abstract(tracer: Tracer, cls: type, klass: type, where: Source | None) -> bool:
    """``issubclass(cls, klass)`` of an abstract class; ``where`` is the source of ``cls``."""
    text = f"issubclass({cls.__name__}, {klass.__name__})"
    module = module_name(klass)
    if module in _SETTLED:
        if module != "torch.nn.parameter" and not (where is None and is_static_type(cls)):
            what = "no class was registered with an abstract class"
            tracer.guard(ExprHolds((), RegistryIs(abc.get_cache_token()), what))
        return issubclass(cls, klass)
    hook = lookup_mro(klass, "__subclasshook__")
    if hook[1] is not None and not is_static_type(hook[1]) and module_name(hook[1]) not in _SETTLED:
        unsupported(reasons.UNKNOWN_OPERATION, f"{text}: the class has a hook")
    try:
        found = issubclass(cls, klass)
    except Exception as error:  # of ``__subclasses__``, say
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"{type(error).__name__} of {text}")
    if where is not None:
        tracer.guard(ExprHolds((where,), SubclassIs(weakref.ref(klass), found), text))
        return found
    where = tracer.class_source(klass, None, None)
    if where is None:
        unsupported(reasons.UNKNOWN_OPERATION, text)
    tracer.guard(ExprHolds((where,), SuperclassIs(weakref.ref(cls), found), text))
    return found


def _has_no_subclass_hook(klass: type) -> bool:
    return lookup_mro(klass, "__subclasshook__")[1] is object


def _stated_class(tracer: Tracer, obj: Variable, cls: type) -> type | None:
    """The class that an object's ``__class__`` gives if that is not its type, else None.

    Source: ``Objects/abstract.c`` (``object_isinstance``).
    """
    if isinstance(obj, ClassVariable) or is_static_type(cls):
        return None
    getter = lookup_mro(cls, "__getattribute__")[0]
    if lookup_mro(cls, "__class__")[1] is object and not isinstance(getter, types.FunctionType):
        return None
    try:
        stated = load_attr(tracer, obj, "__class__").realize(tracer)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), AttributeError):
            return None
        raise
    if isinstance(stated, ClassVariable):
        return None if stated.value is cls else stated.value
    return None


# Whose hooks answer by what a class has, unless it is registered.
_SETTLED = ("abc", "collections.abc", "typing", "numbers", "torch.nn.parameter")


@dataclass(frozen=True)
class RegistryIs:
    """Whether any class was registered with any abstract class meanwhile."""

    token: object

    def __call__(self) -> bool:
        """True if none was."""
        return abc.get_cache_token() == self.token


@dataclass(frozen=True)
class SubclassIs:
    """Ask an abstract class again: classes may be registered with it at any time."""

    klass: weakref.ref[type]
    expected: bool

    def __call__(self, cls: type) -> bool:
        """True if the answer is the same."""
        klass = self.klass()
        return klass is not None and issubclass(cls, klass) is self.expected


@dataclass(frozen=True)
class SuperclassIs:
    """Ask an abstract class that the guard reads about a class that cannot change."""

    cls: weakref.ref[type]
    expected: bool

    def __call__(self, klass: type) -> bool:
        """True if the answer is the same."""
        cls = self.cls()
        return cls is not None and issubclass(cls, klass) is self.expected


# modules whose metaclasses answer ``isinstance`` as ABCMeta does
_PLAIN_CHECKS = ("typing", "typing_extensions", "torch.nn.parameter", "enum")


def _known_abc(meta: type) -> bool:
    if meta is type(typing.Any):
        return False  # it refuses to answer
    return meta is abc.ABCMeta or module_name(meta) in _PLAIN_CHECKS


_TENSOR_TYPES = {
    torch.FloatTensor: ("torch.float32",),
    torch.LongTensor: ("torch.int64",),
    torch.DoubleTensor: ("torch.float64",),
    torch.IntTensor: ("torch.int32",),
    torch.HalfTensor: ("torch.float16",),
    torch.BoolTensor: ("torch.bool",),
}


@rule(issubclass)
def _issubclass(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    cls = args[0]
    if not isinstance(cls, ClassVariable):
        return None
    classes = tuple(class_list(tracer, args[1]))
    if any(
        isinstance(lookup_mro(type(k), "__subclasscheck__")[0], types.FunctionType)
        and not _known_abc(type(k))
        for k in classes
    ):
        return None
    if not all(isinstance(k, type) for k in classes):
        return None
    return boolean(any(_subclass_of(tracer, cls, k) for k in classes))


def _subclass_of(tracer: Tracer, cls: ClassVariable, klass: type) -> bool:
    abstract = _known_abc(type(klass))
    if klass in cls.value.__mro__ and (not abstract or _has_no_subclass_hook(klass)):
        return True
    return abstract and _ask_abstract(tracer, cls.value, klass, cls.source)
