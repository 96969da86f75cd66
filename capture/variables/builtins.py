"""Holds the rules for callables implemented in C: one small function each, in a table.

A rule gets (tracer, args, kwargs) with realised positional arguments and returns a variable.
Pure functions of constants need no rule; functions that call back are inlined as polyfills.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import itertools
import types
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from capture import break_reasons as reasons
from capture.polyfills import is_pure, polyfill_for
from capture.variables import operators, torch_calls
from capture.variables.attributes import (
    InstanceDictVariable,
    delete_attr,
    has_instance_dict,
    load_attr,
    object_getattr,
    object_setattr,
    store_attr,
    type_of,
    type_source_of,
)
from capture.variables.base import DELETED, MISSING, ObservedException, Variable, unsupported
from capture.variables.constant import (
    FALSE,
    NONE,
    TRUE,
    ConstantVariable,
    ScalarVariable,
    boolean,
)
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    RangeVariable,
    SequenceVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
)
from capture.variables.functions import (
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    GeneratorVariable,
    IteratorVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.iteration import get_iter, iterate, next_item
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    ModuleVariable,
    ObjectVariable,
    SuperVariable,
    lookup_mro,
)
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.variables.base import Tracer

Rule = Callable[["Tracer", list[Variable], dict[str, Variable]], "Variable | None"]
_RULES: dict[Any, Rule] = {}
_PYTHON_RULES: dict[Any, Rule] = {}


def rule(*callables: Any) -> Callable[[Rule], Rule]:
    """Register the rule of C callables."""

    def register(fn: Rule) -> Rule:
        for c in callables:
            _RULES[c] = fn
        return fn

    return register


def python_rule_for(*functions: Any) -> Callable[[Rule], Rule]:
    """Register the rule of Python functions that are not to be inlined."""

    def register(fn: Rule) -> Rule:
        for f in functions:
            _PYTHON_RULES[f] = fn
        return fn

    return register


def has_rule(callable_: Any) -> bool:
    """True if there is a rule for the C callable."""
    try:
        return callable_ in _RULES
    except TypeError:
        return False


def call_builtin(
    tracer: Tracer, fn: BuiltinVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Any:
    """Call a C callable: its rule, a torch rule, folding, a polyfill, a real method; else break."""
    value = fn.value
    args = [a.realize(tracer) for a in args]
    try:
        handler = _RULES.get(value)
    except TypeError:
        handler = None
    if handler is not None:
        result = handler(tracer, args, kwargs)
        if result is not None:
            return result
    rule_ = torch_calls.call_rule(tracer, value, args, kwargs)
    if rule_ is not None:
        return rule_
    folded = fold_pure(tracer, value, args, kwargs)
    if folded is not None:
        return folded
    polyfill = polyfill_for(value)
    if polyfill is not None:
        return tracer.start_call(tracer.wrap_static(polyfill, None), args, kwargs)
    special = call_slot(tracer, value, args, kwargs)
    if special is not None:
        return special
    unsupported(reasons.UNKNOWN_CALLABLE, fn.describe())


def fold_pure(tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    """Call a pure function whose arguments are all known constants."""
    if not is_pure(value):
        return None
    known = []
    for a in args:
        if isinstance(a, ScalarVariable):
            a = a.specialize(tracer)
        known.append(tracer.as_python(a))
    known_kw = {k: tracer.as_python(v) for k, v in kwargs.items()}
    if MISSING in [*map(_marker, known), *map(_marker, known_kw.values())]:
        return None
    try:
        result = value(*known, **known_kw)
    except Exception as error:
        tracer.raise_real(error)
    return tracer.wrap_result(result)


def _marker(value: Any) -> Any:
    return MISSING if value is MISSING else None


def call_slot(tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    """Slot wrappers and methods of C types called as such (``list.__len__(x)``, ``object.__eq__``)."""
    if type(value) is not types.WrapperDescriptorType or not args:
        return None
    name = value.__name__
    if name in _OPERATOR_SLOTS and len(args) == 2 and not isinstance(args[0], TensorVariable):
        symbol, swap = _OPERATOR_SLOTS[name]
        if isinstance(args[0], (ConstantVariable, SequenceVariable, SetVariable)):
            left, right = (args[1], args[0]) if swap else (args[0], args[1])
            return operators.binary_op(tracer, symbol, left, right)
    if name in _COMPARE_SLOTS and len(args) == 2:
        result = operators.container_compare(
            tracer, _COMPARE_SLOTS[name], operators.COMPARE[_COMPARE_SLOTS[name]][0], args[0], args[1]
        )
        return result
    return None


_OPERATOR_SLOTS = {
    **{entry[1]: (symbol, False) for symbol, entry in operators.BINARY.items()},
    **{entry[2]: (symbol, True) for symbol, entry in operators.BINARY.items()},
}
_COMPARE_SLOTS = {entry[1]: symbol for symbol, entry in operators.COMPARE.items()}


def python_rule(
    tracer: Tracer, fn: FunctionVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Any:
    """The rule of a Python function that is not to be inlined, or None."""
    value = fn.value
    handler = _PYTHON_RULES.get(value)
    if handler is not None:
        return handler(tracer, [a.realize(tracer) for a in args], kwargs)
    marker = tracer.function_marker(value)
    if marker == "disable":
        unsupported(reasons.DISABLED, fn.qualname)
    if marker == "graph":
        return torch_calls.graph_node(tracer, value, args, kwargs)
    module = fn.value.__module__ or ""
    if module.startswith("torch"):
        return torch_calls.call_rule(tracer, value, args, kwargs)
    if module == "importlib" or module.startswith("importlib.") or module in _NATIVE_MODULES:
        unsupported(reasons.UNKNOWN_CALLABLE, f"{module}.{fn.qualname}")
    return None


_NATIVE_MODULES = frozenset(
    {
        "random", "threading", "logging", "warnings", "subprocess", "socket", "inspect", "tempfile",
        "tokenize", "linecache", "traceback", "unittest.mock", "pickle", "asyncio", "concurrent.futures",
        "capture.eval_frame", "capture.api",
    }
)  # fmt: skip


# --- classes ---------------------------------------------------------------------------------------


def class_rule(
    tracer: Tracer, cls_var: ClassVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Any:
    """The rule for calling a class, or None: an ordinary class."""
    cls = cls_var.value
    handler = _RULES.get(cls)
    if handler is not None:
        return handler(tracer, [a.realize(tracer) for a in args], kwargs)
    if cls.__module__ == "torch" or cls.__module__.startswith("torch."):
        found = torch_calls.call_rule(tracer, cls, [a.realize(tracer) for a in args], kwargs)
        if found is not None:
            return found
    import enum

    if isinstance(cls, enum.EnumMeta) and len(args) == 1 and not kwargs:
        value = tracer.as_python(args[0])
        if value is not MISSING:
            try:
                member = cls(value)
            except Exception as error:
                tracer.raise_real(error)
            return tracer.wrap_static(member, None)
        item = args[0].realize(tracer)
        if isinstance(item, ObjectVariable) and isinstance(item.value, cls):
            return item
    folded = fold_pure(tracer, cls, args, kwargs)
    if folded is not None:
        return folded
    polyfill = polyfill_for(cls)
    if polyfill is not None:
        return tracer.start_call(tracer.wrap_static(polyfill, None), args, kwargs)
    return None


def native_new(
    tracer: Tracer, new: Any, cls_var: ClassVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """``cls.__new__`` implemented in C: an empty instance of the right kind, or None."""
    cls = cls_var.value
    if cls.__flags__ & (1 << 20):
        return None
    if issubclass(cls, BaseException):
        owner = getattr(new, "__self__", None)
        if isinstance(owner, type) and not issubclass(owner, _SPECIAL_EXCEPTIONS) and not kwargs:
            return stamp(tracer, ExceptionVariable(cls, list(args), cls_var))
        return None
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
    if new is tuple.__new__ and len(args) <= 1:
        items = iterate(tracer, args[0]) if args else []
        return stamp(tracer, TupleVariable(items, cls, cls_var=cls_var))
    return None


def _c_base(cls: type) -> type:
    """The nearest base whose memory layout is defined in C."""
    for klass in cls.__mro__:
        if klass is object or not klass.__flags__ & (1 << 9):
            return klass
    return object


# what their constructors make of the arguments is more than ``args``
_SPECIAL_EXCEPTIONS = (OSError, BaseExceptionGroup, UnicodeError, SyntaxError, ImportError)


def stamp(tracer: Tracer, v: Variable) -> Any:
    """Note when a variable was made, so that a break can be put there if it cannot be rebuilt."""
    v.created_at = tracer.ordinal
    return v


@rule(object.__new__)
def _object_new(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    cls = args[0]
    assert isinstance(cls, ClassVariable)
    return native_new(tracer, object.__new__, cls, [], {})


@rule(tuple.__new__, list.__new__, dict.__new__, set.__new__, BaseException.__new__)
def _base_new(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
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
def _object_init(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return NONE if len(args) == 1 and not kwargs else None


@rule(object.__init_subclass__, object.__subclasshook__)
def _nothing(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return NONE


@rule(BaseException.__init__)
def _exception_init(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    exc = args[0]
    if isinstance(exc, ExceptionVariable) and not kwargs:
        tracer.mutations += 1
        exc.args = list(args[1:])
        return NONE
    return None


@rule(type)
def _type(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return type_of(tracer, args[0]) if len(args) == 1 else None


@rule(super)
def _super(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if len(args) == 2:
        return SuperVariable(args[0], args[1])
    if not args:
        return tracer.zero_argument_super()
    return None


@rule(list)
def _list(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return stamp(tracer, ListVariable(iterate(tracer, args[0]) if args else []))


@rule(tuple)
def _tuple(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if args and isinstance(args[0], TupleVariable) and args[0].cls is tuple:
        return args[0]
    return TupleVariable(iterate(tracer, args[0]) if args else [])


@rule(torch.Size)
def _size(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return TupleVariable(iterate(tracer, args[0]) if args else [], torch.Size)


@rule(torch.Size.numel)
def _size_numel(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    total = 1
    assert isinstance(args[0], TupleVariable)
    for item in args[0].items(tracer):
        number = operators.index_value(tracer, item)
        if number is None:
            return None
        total *= number
    return ConstantVariable(total)


@rule(set, frozenset)
def _set(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return None


def _make_set(cls: type) -> Rule:
    def make(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
        entries: dict[Any, Variable] = {}
        for item in iterate(tracer, args[0]) if args else []:
            entries.setdefault(tracer.hashed(item), item)
        return stamp(tracer, SetVariable(entries, cls))  # type: ignore[no-any-return]

    return make


_RULES[set] = _make_set(set)
_RULES[frozenset] = _make_set(frozenset)


def _fill_dict(tracer: Tracer, target: DictVariable, args: list[Variable], kwargs: dict[str, Variable]) -> None:
    if args:
        source = args[0].realize(tracer)
        if isinstance(source, DictVariable) and not isinstance(
            lookup_mro(source.cls, "keys")[0], types.FunctionType
        ):
            for key, value in list(source.load(tracer).values()):
                target.set(tracer, key, value)
        elif isinstance(source, ObjectVariable) and lookup_mro(source.cls, "keys")[0] is not MISSING:
            for key in iterate(tracer, tracer.call(load_attr(tracer, source, "keys"), [], {})):
                target.set(tracer, key, operators.getitem(tracer, source, key))
        else:
            for pair in iterate(tracer, source):
                parts = iterate(tracer, pair)
                if len(parts) != 2:
                    tracer.raise_error(ValueError, f"dictionary update sequence element has length {len(parts)}; 2 is required")
                target.set(tracer, parts[0], parts[1])
    for name, value in kwargs.items():
        target.set(tracer, ConstantVariable(name), value)


@rule(dict, collections.OrderedDict)
def _dict(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    result = stamp(tracer, DictVariable())
    _fill_dict(tracer, result, args, kwargs)
    return result  # type: ignore[no-any-return]


def _ordered_dict(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    result = stamp(tracer, DictVariable(collections.OrderedDict))
    _fill_dict(tracer, result, args, kwargs)
    return result  # type: ignore[no-any-return]


_RULES[collections.OrderedDict] = _ordered_dict


@rule(collections.defaultdict)
def _defaultdict(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    result = stamp(tracer, DictVariable(collections.defaultdict))
    result.default_factory = args[0] if args else NONE
    _fill_dict(tracer, result, args[1:], kwargs)
    return result  # type: ignore[no-any-return]


@rule(dict.__init__, collections.OrderedDict.__init__)
def _dict_init(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = args[0]
    if not isinstance(target, DictVariable):
        return None
    _fill_dict(tracer, target, args[1:], kwargs)
    return NONE


@rule(collections.defaultdict.__init__)
def _defaultdict_init(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = args[0]
    if not isinstance(target, DictVariable):
        return None
    target.default_factory = args[1] if len(args) > 1 else NONE
    _fill_dict(tracer, target, args[2:], kwargs)
    return NONE


@rule(list.__init__)
def _list_init(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = args[0]
    if not isinstance(target, ListVariable) or kwargs:
        return None
    items = iterate(tracer, args[1]) if len(args) > 1 else []
    target.change(tracer)[:] = items
    return NONE


@rule(set.__init__)
def _set_init(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = args[0]
    if not isinstance(target, SetVariable) or kwargs:
        return None
    for item in iterate(tracer, args[1]) if len(args) > 1 else []:
        target.add(tracer, item)
    return NONE


@rule(collections.deque)
def _deque(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    items = iterate(tracer, args[0]) if args else []
    limit = args[1] if len(args) > 1 else kwargs.get("maxlen", NONE)
    maxlen = tracer.as_python(limit)
    if maxlen is MISSING:
        return None
    if maxlen is not None:
        items = items[len(items) - maxlen :] if len(items) > maxlen else items
    return stamp(tracer, ListVariable(items, collections.deque, maxlen=maxlen))  # type: ignore[no-any-return]


@rule(range)
def _range(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    bounds = [operators.index_value(tracer, a) for a in args]
    if None in bounds:
        return None
    return operators.fold(tracer, range, *bounds)


@rule(slice)
def _slice(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    parts = [NONE, *args, NONE] if len(args) == 1 else [*args, NONE][:3]
    return SliceVariable(list(parts))


@rule(bool)
def _bool(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return boolean(operators.truth(tracer, args[0])) if args else FALSE


def _number(cls: type, method: str) -> Rule:
    def convert(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
        if len(args) != 1:
            return fold_pure(tracer, cls, args, kwargs)
        value = args[0]
        if isinstance(value, ScalarVariable):
            if value.python_type() is cls:
                return value
            return tracer.scalar_call(cls, [value], f"{cls.__name__}({value.text})", value.sources)
        if isinstance(value, TensorVariable):
            unsupported(reasons.DATA_DEPENDENT, f"{cls.__name__}() of a tensor")
        if isinstance(value, ObjectVariable):
            raw = lookup_mro(value.python_type(), method)[0]
            if isinstance(raw, types.FunctionType):
                return tracer.call(load_attr(tracer, value, method), [], {})
        return fold_pure(tracer, cls, args, kwargs)

    return convert


_RULES[int] = _number(int, "__int__")
_RULES[float] = _number(float, "__float__")


@rule(str)
def _str(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return to_text(tracer, args[0], "str") if len(args) == 1 else fold_pure(tracer, str, args, kwargs)


@rule(repr)
def _repr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return to_text(tracer, args[0], "repr")


@rule(ascii)
def _ascii(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return to_text(tracer, args[0], "ascii")


def to_text(tracer: Tracer, v: Variable, how: str) -> Variable:
    """``str``, ``repr`` or ``ascii`` of a value whose text is known now; else break."""
    v = v.realize(tracer)
    fn = {"str": str, "repr": repr, "ascii": ascii}[how]
    if isinstance(v, ExceptionVariable) and how == "str":
        raw = lookup_mro(v.cls, "__str__")[0]
        if raw is BaseException.__str__ and len(v.args) <= 1:
            return to_text(tracer, v.args[0], "str") if v.args else ConstantVariable("")
    if isinstance(v, ObjectVariable) and not isinstance(v, (ClassVariable, ModuleVariable, FunctionVariable)):
        for name in ("__str__", "__repr__") if how == "str" else ("__repr__",):
            raw = lookup_mro(v.cls, name)[0]
            if isinstance(raw, types.FunctionType):
                return tracer.call(load_attr(tracer, v, name), [], {})
            if raw is not object.__str__:
                break
    if isinstance(v, ClassVariable) and type(v.value) is type:
        return ConstantVariable(fn(v.value))
    value = tracer.as_python(v)
    if value is MISSING:
        if isinstance(v, TensorVariable):
            unsupported(reasons.DATA_DEPENDENT, f"The text of a tensor ({how})")
        unsupported(reasons.UNKNOWN_OPERATION, f"{how}() of {v.describe()}")
    return ConstantVariable(fn(value))


# --- functions -------------------------------------------------------------------------------------


@rule(len)
def _len(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return operators.length(tracer, args[0])


@rule(iter)
def _iter(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return get_iter(tracer, args[0]) if len(args) == 1 else None


@rule(next)
def _next(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if isinstance(args[0], (IteratorVariable, GeneratorVariable)):
        item = next_item(tracer, args[0])
        if item is not None:
            return item
        if len(args) > 1:
            return args[1]
        value = getattr(args[0], "frame", None)
        result = value.result if value is not None else None
        tracer.raise_observed(StopIteration, [] if result is None or _is_none(result) else [result])
    if isinstance(args[0], ObjectVariable):
        raw = lookup_mro(args[0].cls, "__next__")[0]
        if isinstance(raw, types.FunctionType):
            try:
                return tracer.call(load_attr(tracer, args[0], "__next__"), [], {})
            except ObservedException as signal:
                if len(args) > 1 and issubclass(signal.exception.python_type(), StopIteration):
                    return args[1]
                raise
    unsupported(reasons.OPAQUE_ITERATOR, args[0].describe())


def _is_none(v: Variable) -> bool:
    return isinstance(v, ConstantVariable) and v.value is None


@rule(isinstance)
def _isinstance(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    obj, classes = args
    cls = obj.python_type()
    return boolean(any(_instance_of(tracer, obj, cls, k) for k in class_list(tracer, classes)))


def class_list(tracer: Tracer, v: Variable) -> list[Any]:
    """The classes of the second argument of ``isinstance``, flattened."""
    v = v.realize(tracer)
    if isinstance(v, TupleVariable):
        return [k for item in v.items(tracer) for k in class_list(tracer, item)]
    if isinstance(v, ClassVariable):
        return [v.value]
    if isinstance(v, ObjectVariable) and isinstance(v.value, types.UnionType):
        return list(v.value.__args__)
    if isinstance(v, ConstantVariable) and isinstance(v.value, types.UnionType):
        return list(v.value.__args__)
    if isinstance(v, ObjectVariable) and getattr(type(v.value), "__module__", "") == "typing":
        origin = getattr(v.value, "__origin__", None)
        if isinstance(origin, type):
            return [origin]
    unsupported(reasons.UNKNOWN_OPERATION, f"isinstance() with {v.describe()}")


def _instance_of(tracer: Tracer, obj: Variable, cls: type, klass: Any) -> bool:
    if klass is None:
        klass = type(None)
    if klass in cls.__mro__:
        return True
    meta = type(klass)
    hook = lookup_mro(meta, "__instancecheck__")[0]
    if hook is type.__instancecheck__:
        return False
    if isinstance(obj, TensorVariable) and klass.__module__.startswith("torch"):
        if klass is torch.nn.Parameter:
            return issubclass(cls, torch.nn.Parameter)
        if klass in _TENSOR_TYPES:
            return str(obj.meta.dtype) in _TENSOR_TYPES[klass]
        return issubclass(cls, klass)
    if isinstance(hook, types.FunctionType) and not _known_abc(meta):
        result = tracer.call(tracer.wrap_static(hook, None), [tracer.class_variable(klass, None), obj], {})
        return operators.truth(tracer, result)
    return issubclass(cls, klass)


def _known_abc(meta: type) -> bool:
    import abc
    import typing

    return meta is abc.ABCMeta or meta.__module__ in ("typing", "typing_extensions", "torch.nn.parameter", "enum") or typing.TYPE_CHECKING


_TENSOR_TYPES = {
    torch.FloatTensor: ("torch.float32",),
    torch.LongTensor: ("torch.int64",),
    torch.DoubleTensor: ("torch.float64",),
    torch.IntTensor: ("torch.int32",),
    torch.HalfTensor: ("torch.float16",),
    torch.BoolTensor: ("torch.bool",),
}


@rule(issubclass)
def _issubclass(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    cls = args[0]
    if not isinstance(cls, ClassVariable):
        return None
    classes = tuple(class_list(tracer, args[1]))
    if any(isinstance(lookup_mro(type(k), "__subclasscheck__")[0], types.FunctionType) and not _known_abc(type(k)) for k in classes):
        return None
    return boolean(issubclass(cls.value, classes))


@rule(callable)
def _callable(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return boolean(lookup_mro(args[0].python_type(), "__call__")[0] is not MISSING)


@rule(getattr)
def _getattr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str:
        return None
    if len(args) == 2:
        return load_attr(tracer, args[0], name)
    try:
        return load_attr(tracer, args[0], name)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), AttributeError):
            return args[2]
        raise


@rule(hasattr)
def _hasattr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str:
        return None
    if isinstance(args[0], TensorVariable):
        return boolean(torch_calls.tensor_has_attr(args[0], name))
    try:
        load_attr(tracer, args[0], name)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), AttributeError):
            return FALSE
        raise
    return TRUE


@rule(setattr)
def _setattr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str:
        return None
    store_attr(tracer, args[0], name, args[2])
    return NONE


@rule(delattr)
def _delattr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str:
        return None
    delete_attr(tracer, args[0], name)
    return NONE


@rule(object.__setattr__)
def _object_setattr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str or not isinstance(args[0], ObjectVariable):
        return None
    object_setattr(tracer, args[0], name, args[2])
    return NONE


@rule(object.__delattr__)
def _object_delattr(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str or not isinstance(args[0], ObjectVariable):
        return None
    object_setattr(tracer, args[0], name, DELETED)
    return NONE


@rule(object.__getattribute__)
def _object_getattribute(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str:
        return None
    obj = args[0]
    return object_getattr(tracer, obj, name, obj.python_type(), type_source_of(tracer, obj), hook=False)


@rule(vars)
def _vars(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not args:
        unsupported(reasons.FRAME_INSPECTION, "vars()")
    if isinstance(args[0], ObjectVariable) and has_instance_dict(args[0]):
        return load_attr(tracer, args[0], "__dict__")
    return None


@rule(locals, globals, dir, eval, exec, input, breakpoint, compile, __import__)
def _inspection(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not args:
        unsupported(reasons.FRAME_INSPECTION, "locals(), globals() and the like")
    return None


@rule(id)
def _id(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "id()")


@rule(hash)
def _hash(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    value = tracer.as_python(args[0])
    if value is not MISSING:
        return operators.fold(tracer, hash, value)
    if isinstance(args[0], ObjectVariable):
        raw = lookup_mro(args[0].cls, "__hash__")[0]
        if isinstance(raw, types.FunctionType):
            return tracer.call(load_attr(tracer, args[0], "__hash__"), [], {})
        if isinstance(args[0], TupleVariable):
            hashes = []
            for item in args[0].items(tracer):
                part = _hash(tracer, [item.realize(tracer)], {})
                if not isinstance(part, ConstantVariable):
                    return None
                hashes.append(_Hashed(part.value))
            return ConstantVariable(hash(tuple(hashes)))
    return None


class _Hashed:
    """An object with a given hash."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value


@rule(abs)
def _abs(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    v = args[0]
    if isinstance(v, ScalarVariable):
        return tracer.scalar_call(abs, [v], f"abs({v.text})", v.sources)
    if isinstance(v, TensorVariable):
        return tracer.graph_call("call_function", abs, [v], {})
    if isinstance(v, ObjectVariable):
        return tracer.call(load_attr(tracer, v, "__abs__"), [], {})
    return None


@rule(min, max)
def _min_max(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return None


def _extremum(fn: Any, symbol: str) -> Rule:
    def pick(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
        if kwargs:
            return None
        items = iterate(tracer, args[0]) if len(args) == 1 else args
        if not items:
            return None
        best = items[0].realize(tracer)
        for item in items[1:]:
            if operators.truth(tracer, operators.compare(tracer, symbol, item, best)):
                best = item.realize(tracer)
        return best

    return pick


_RULES[min] = _extremum(min, "<")
_RULES[max] = _extremum(max, ">")


@rule(sum)
def _sum(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    items = [i.realize(tracer) for i in iterate(tracer, args[0])]
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantVariable(0))
    known = [tracer.as_python(i) for i in items]
    begin = tracer.as_python(start)
    if begin is not MISSING and not any(k is MISSING for k in known):
        return operators.fold(tracer, sum, known, begin)
    if any(isinstance(i, ConstantVariable) and type(i.value) is float for i in items):
        return None
    total = start.realize(tracer)
    for item in items:
        total = operators.binary_op(tracer, "+", total, item).realize(tracer)
    return total


@rule(enumerate)
def _enumerate(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantVariable(0))
    first = operators.index_value(tracer, start)
    if first is None:
        return None
    inner = get_iter(tracer, args[0])
    it = IteratorVariable(enumerate, "enumerate", _advance_enumerate, first, [inner])
    return it


def _advance_enumerate(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    item = next_item(tracer, it.parts[0])
    if item is None:
        return None
    number = it.target + it.position
    it.position += 1
    return TupleVariable([ConstantVariable(number), item])


@rule(zip)
def _zip(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if kwargs:
        strict = tracer.as_python(kwargs.get("strict", FALSE))
        if strict is not False:
            return None
    parts = [get_iter(tracer, a) for a in args]
    return IteratorVariable(zip, "zip", _advance_zip, None, parts)


def _advance_zip(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    if not it.parts:
        return None
    items = []
    for part in it.parts:
        item = next_item(tracer, part)
        if item is None:
            return None
        items.append(item)
    return TupleVariable(items)


@rule(map)
def _map(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if len(args) < 2:
        return None
    parts = [args[0], *[get_iter(tracer, a) for a in args[1:]]]
    return IteratorVariable(map, "map", _advance_map, None, parts)


def _advance_map(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    items = []
    for part in it.parts[1:]:
        item = next_item(tracer, part)
        if item is None:
            return None
        items.append(item)
    return tracer.call(it.parts[0], items, {})  # type: ignore[no-any-return]


@rule(reversed)
def _reversed(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    v = args[0]
    if isinstance(v, SequenceVariable) and not isinstance(lookup_mro(v.cls, "__reversed__")[0], types.FunctionType):
        it = IteratorVariable(type(reversed([])), "reversed", _advance_reversed, v)
        it.position = len(v.items(tracer)) - 1
        return it
    if isinstance(v, RangeVariable):
        return get_iter(tracer, RangeVariable(v.value[::-1]))
    if isinstance(v, (DictVariable, DictViewVariable)):
        items = iterate(tracer, v)
        return get_iter(tracer, ListVariable(items[::-1]))
    if isinstance(v, ConstantVariable) and isinstance(v.value, str):
        return get_iter(tracer, ConstantVariable(v.value[::-1]))
    if isinstance(v, ObjectVariable) and isinstance(lookup_mro(v.cls, "__reversed__")[0], types.FunctionType):
        return tracer.call(load_attr(tracer, v, "__reversed__"), [], {})
    return None


def _advance_reversed(tracer: Tracer, it: IteratorVariable) -> Variable | None:
    items = it.target.items(tracer)
    if not 0 <= it.position < len(items):
        return None
    it.position -= 1
    return items[it.position + 1]  # type: ignore[no-any-return]


@rule(itertools.repeat)
def _repeat(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return None


@rule(format)
def _format(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return format_value(tracer, args[0], args[1] if len(args) > 1 else ConstantVariable(""))


def format_value(tracer: Tracer, v: Variable, spec: Variable) -> Variable:
    """``format(v, spec)``."""
    v, spec = v.realize(tracer), spec.realize(tracer)
    if isinstance(v, ScalarVariable):
        v = v.specialize(tracer)
    text = tracer.as_python(spec)
    if text is MISSING:
        unsupported(reasons.UNKNOWN_OPERATION, "a format specification made at run time")
    raw = lookup_mro(v.python_type(), "__format__")[0]
    if isinstance(raw, types.FunctionType) and not isinstance(v, TensorVariable):
        return tracer.call(load_attr(tracer, v, "__format__"), [spec], {})
    if text == "":
        return to_text(tracer, v, "str")
    value = tracer.as_python(v)
    if value is MISSING:
        unsupported(reasons.UNKNOWN_OPERATION, f"format() of {v.describe()}")
    return operators.fold(tracer, format, value, text)


@rule(functools.partial)
def _partial(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    fn, rest = args[0], args[1:]
    if isinstance(fn, PartialVariable):
        return stamp(tracer, PartialVariable(functools.partial, fn.fn, [*fn.args, *rest], {**fn.keywords, **kwargs}))  # type: ignore[no-any-return]
    return stamp(tracer, PartialVariable(functools.partial, fn, list(rest), dict(kwargs)))  # type: ignore[no-any-return]


@rule(property, staticmethod, classmethod, weakref.ref)
def _descriptors(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "a descriptor or weak reference made here")


@rule(types.MethodType)
def _method_type(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return MethodVariable(args[0], args[1])


@rule(types.FunctionType.__get__)
def _function_get(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return args[0] if _is_none(args[1]) else MethodVariable(args[0], args[1])


@rule(types.CellType)
def _cell(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    cell = CellVariable()
    cell.contents = args[0] if args else None
    return cell


@rule(print)
def _print(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "print")


# --- methods of containers ---------------------------------------------------------------------------


def _list_of(args: list[Variable]) -> ListVariable:
    target = args[0]
    if not isinstance(target, ListVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a list method on {target.describe()}")
    return target


@rule(list.append, collections.deque.append)
def _append(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _list_of(args).append(tracer, args[1])
    return NONE


@rule(list.extend, collections.deque.extend)
def _extend(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _list_of(args)
    for item in iterate(tracer, args[1]):
        target.append(tracer, item)
    return NONE


@rule(collections.deque.appendleft)
def _appendleft(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _list_of(args)
    items = target.change(tracer)
    items.insert(0, args[1])
    if target.maxlen is not None and len(items) > target.maxlen:
        items.pop()
    return NONE


@rule(list.insert, collections.deque.insert)
def _insert(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    index = operators.index_value(tracer, args[1])
    if index is None or _list_of(args).is_deque:
        return None
    _list_of(args).change(tracer).insert(index, args[2])
    return NONE


@rule(list.pop)
def _pop(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    index = operators.index_value(tracer, args[1]) if len(args) > 1 else -1
    items = _list_of(args).items(tracer)
    if index is None:
        return None
    if not items:
        tracer.raise_error(IndexError, "pop from empty list")
    if not -len(items) <= index < len(items):
        tracer.raise_error(IndexError, "pop index out of range")
    return _list_of(args).change(tracer).pop(index)


@rule(collections.deque.pop)
def _deque_pop(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not _list_of(args).items(tracer):
        tracer.raise_error(IndexError, "pop from an empty deque")
    return _list_of(args).change(tracer).pop()


@rule(collections.deque.popleft)
def _popleft(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not _list_of(args).items(tracer):
        tracer.raise_error(IndexError, "pop from an empty deque")
    return _list_of(args).change(tracer).pop(0)


@rule(list.clear, collections.deque.clear)
def _list_clear(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _list_of(args).change(tracer).clear()
    return NONE


@rule(list.reverse)
def _reverse(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _list_of(args).change(tracer).reverse()
    return NONE


@rule(list.copy)
def _list_copy(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return stamp(tracer, ListVariable(list(_list_of(args).items(tracer))))  # type: ignore[no-any-return]


@rule(list.remove)
def _remove(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _list_of(args)
    position = _find(tracer, target, args[1])
    if position is None:
        tracer.raise_error(ValueError, "list.remove(x): x not in list")
    del target.change(tracer)[position]
    return NONE


def _find(tracer: Tracer, target: SequenceVariable, item: Variable) -> int | None:
    for i, candidate in enumerate(target.items(tracer)):
        if operators.is_same(tracer, candidate, item) or operators.equal(tracer, candidate, item):
            return i
    return None


@rule(list.index, tuple.index)
def _index(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if len(args) != 2 or not isinstance(args[0], SequenceVariable):
        return None
    position = _find(tracer, args[0], args[1])
    if position is None:
        if isinstance(args[0], TupleVariable):
            tracer.raise_error(ValueError, "tuple.index(x): x not in tuple")
        text = tracer.as_python(args[1])
        tracer.raise_error(ValueError, f"{text!r} is not in list" if text is not MISSING else "x is not in list")
    return ConstantVariable(position)


@rule(list.count, tuple.count)
def _count(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not isinstance(args[0], SequenceVariable):
        return None
    total = sum(
        operators.is_same(tracer, i, args[1]) or operators.equal(tracer, i, args[1])
        for i in args[0].items(tracer)
    )
    return ConstantVariable(total)


@rule(list.sort)
def _sort(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _list_of(args)
    known = [tracer.as_python(i) for i in target.items(tracer)]
    reverse = tracer.as_python(kwargs.get("reverse", FALSE))
    if "key" in kwargs and not _is_none(kwargs["key"].realize(tracer)):
        keys = [tracer.call(kwargs["key"], [i], {}).realize(tracer) for i in target.items(tracer)]
        known = [tracer.as_python(k) for k in keys]
    if reverse is MISSING or any(k is MISSING for k in known):
        return None
    try:
        order = sorted(range(len(known)), key=lambda i: known[i], reverse=bool(reverse))
    except Exception as error:
        tracer.raise_real(error)
    items = target.change(tracer)
    items[:] = [items[i] for i in order]
    return NONE


@rule(sorted)
def _sorted(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    result = ListVariable(iterate(tracer, args[0]))
    result.created_at = tracer.ordinal
    if _sort(tracer, [result], kwargs) is not None:
        return result
    polyfill = polyfill_for(sorted)
    if polyfill is None:
        return None
    return tracer.call(tracer.wrap_static(polyfill, None), [result], kwargs)


def _dict_of(args: list[Variable]) -> DictVariable:
    target = args[0]
    if not isinstance(target, DictVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a dict method on {target.describe()}")
    return target


@rule(dict.get)
def _dict_get(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    found = _dict_of(args).get(tracer, args[1])
    if found is not None:
        return found
    return args[2] if len(args) > 2 else NONE


@rule(dict.setdefault, collections.OrderedDict.setdefault)
def _setdefault(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _dict_of(args)
    found = target.get(tracer, args[1])
    if found is not None:
        return found
    default = args[2] if len(args) > 2 else kwargs.get("default", NONE)
    target.set(tracer, args[1], default)
    return default


@rule(dict.pop, collections.OrderedDict.pop)
def _dict_pop(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _dict_of(args)
    found = target.get(tracer, args[1])
    if found is not None:
        target.delete(tracer, args[1])
        return found
    if len(args) > 2 or "default" in kwargs:
        return args[2] if len(args) > 2 else kwargs["default"]
    tracer.raise_error(KeyError, args[1])


@rule(dict.popitem, collections.OrderedDict.popitem)
def _popitem(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _dict_of(args)
    last = tracer.as_python(args[1] if len(args) > 1 else kwargs.get("last", TRUE))
    entries = target.load(tracer)
    if not entries:
        tracer.raise_error(KeyError, "dictionary is empty" if target.cls is not dict else "popitem(): dictionary is empty")
    key = list(entries)[-1 if last else 0]
    entry = entries[key]
    target.delete_hashed(tracer, key, entry[0])
    return TupleVariable([entry[0], entry[1]])


@rule(dict.clear, collections.OrderedDict.clear)
def _dict_clear(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _dict_of(args).clear(tracer)
    return NONE


@rule(dict.update, collections.OrderedDict.update)
def _update(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _fill_dict(tracer, _dict_of(args), args[1:], kwargs)
    return NONE


@rule(dict.copy, collections.OrderedDict.copy, collections.defaultdict.copy)
def _dict_copy(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    target = _dict_of(args)
    cls = target.cls if target.cls in (collections.OrderedDict, collections.defaultdict) else dict
    result = stamp(tracer, DictVariable(cls))
    result.entries = dict(target.load(tracer))
    result.default_factory = target.default_factory
    if cls is collections.defaultdict:
        result.default_factory = load_attr(tracer, target, "default_factory")
    return result  # type: ignore[no-any-return]


@rule(dict.keys, collections.OrderedDict.keys)
def _keys(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return DictViewVariable(_dict_of(args), "keys")


@rule(dict.values, collections.OrderedDict.values)
def _values(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return DictViewVariable(_dict_of(args), "values")


@rule(dict.items, collections.OrderedDict.items)
def _items(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return DictViewVariable(_dict_of(args), "items")


@rule(collections.OrderedDict.move_to_end)
def _move_to_end(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    last = tracer.as_python(args[2] if len(args) > 2 else kwargs.get("last", TRUE))
    if last is MISSING:
        return None
    if not _dict_of(args).move_to_end(tracer, args[1], bool(last)):
        tracer.raise_error(KeyError, args[1])
    return NONE


@rule(dict.__setitem__, collections.OrderedDict.__setitem__)
def _dict_setitem(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _dict_of(args).set(tracer, args[1], args[2])
    return NONE


@rule(dict.__delitem__, collections.OrderedDict.__delitem__)
def _dict_delitem(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not _dict_of(args).delete(tracer, args[1]):
        tracer.raise_error(KeyError, args[1])
    return NONE


@rule(dict.__getitem__)
def _dict_getitem(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return operators.dict_getitem(tracer, _dict_of(args), args[1])


@rule(dict.__contains__)
def _dict_contains(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return boolean(_dict_of(args).get(tracer, args[1]) is not None)


@rule(dict.__len__)
def _dict_len(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return ConstantVariable(len(_dict_of(args).load(tracer)))


@rule(dict.__iter__, collections.OrderedDict.__iter__)
def _dict_iter(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    plain = DictViewVariable(_dict_of(args), "keys")
    return get_iter(tracer, plain)


@rule(list.__getitem__, tuple.__getitem__)
def _seq_getitem(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        return operators.sequence_getitem(tracer, args[0], args[1])
    return None


@rule(list.__setitem__)
def _list_setitem(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    operators.list_setitem(tracer, _list_of(args), args[1], args[2])
    return NONE


@rule(list.__len__, tuple.__len__)
def _seq_len(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        return ConstantVariable(len(args[0].items(tracer)))
    return None


@rule(list.__iter__, tuple.__iter__)
def _seq_iter(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if isinstance(args[0], SequenceVariable):
        kind = list if isinstance(args[0], ListVariable) else tuple
        proxy = ListVariable if kind is list else TupleVariable
        return get_iter(tracer, proxy(args[0].items(tracer)))
    return None


def _set_of(args: list[Variable]) -> SetVariable:
    target = args[0]
    if not isinstance(target, SetVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a set method on {target.describe()}")
    return target


@rule(set.add)
def _set_add(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _set_of(args).add(tracer, args[1])
    return NONE


@rule(set.discard)
def _set_discard(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _set_of(args).discard(tracer, args[1])
    return NONE


@rule(set.remove)
def _set_remove(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    if not _set_of(args).discard(tracer, args[1]):
        tracer.raise_error(KeyError, args[1])
    return NONE


@rule(set.clear)
def _set_clear(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    _set_of(args).replace(tracer, {})
    return NONE


@rule(set.copy, frozenset.copy)
def _set_copy(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return stamp(tracer, SetVariable(dict(_set_of(args).entries(tracer)), _set_of(args).cls))  # type: ignore[no-any-return]


def _hashed_items(tracer: Tracer, v: Variable) -> dict[Any, Variable]:
    v = v.realize(tracer)
    if isinstance(v, SetVariable):
        return v.entries(tracer)
    return {tracer.hashed(i): i for i in iterate(tracer, v)}


@rule(set.update)
def _set_update(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    for other in args[1:]:
        for item in list(_hashed_items(tracer, other).values()):
            _set_of(args).add(tracer, item)
    return NONE


def _combine(how: str) -> Rule:
    def run(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
        mine = dict(_set_of(args).entries(tracer))
        for other in args[1:]:
            theirs = _hashed_items(tracer, other)
            if how == "union":
                mine = {**mine, **{k: v for k, v in theirs.items() if k not in mine}}
            elif how == "intersection":
                mine = {k: v for k, v in mine.items() if k in theirs}
            else:
                mine = {k: v for k, v in mine.items() if k not in theirs}
        return stamp(tracer, SetVariable(mine, frozenset if _set_of(args).cls is frozenset else set))  # type: ignore[no-any-return]

    return run


for _name in ("union", "intersection", "difference"):
    _RULES[getattr(set, _name)] = _RULES[getattr(frozenset, _name)] = _combine(_name)


@rule(set.issubset, frozenset.issubset)
def _issubset(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return boolean(_set_of(args).entries(tracer).keys() <= _hashed_items(tracer, args[1]).keys())


@rule(set.issuperset, frozenset.issuperset)
def _issuperset(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return boolean(_set_of(args).entries(tracer).keys() >= _hashed_items(tracer, args[1]).keys())


@rule(str.join)
def _join(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    parts = [tracer.as_python(i) for i in iterate(tracer, args[1])]
    separator = tracer.as_python(args[0])
    if separator is MISSING or any(p is MISSING for p in parts):
        return None
    return operators.fold(tracer, separator.join, parts)


@rule(str.format)
def _str_format(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    values = [tracer.as_python(a) for a in args]
    named = {k: tracer.as_python(v) for k, v in kwargs.items()}
    if any(v is MISSING for v in [*values, *named.values()]):
        return None
    try:
        return ConstantVariable(values[0].format(*values[1:], **named))
    except Exception as error:
        tracer.raise_real(error)


def _generator_of(args: list[Variable]) -> GeneratorVariable:
    target = args[0]
    if not isinstance(target, GeneratorVariable):
        unsupported(reasons.OPAQUE_ITERATOR, target.describe())
    return target


@rule(types.GeneratorType.send)
def _send(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    generator = _generator_of(args)
    item = tracer.run_generator(generator, args[1])
    if item is None:
        result = generator.frame.result
        tracer.raise_observed(StopIteration, [] if result is None or _is_none(result) else [result])
    return item


@rule(types.GeneratorType.__iter__)
def _generator_iter(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return _generator_of(args)


@rule(types.GeneratorType.__next__)
def _generator_next(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return _next(tracer, [_generator_of(args)], {})


@rule(types.GeneratorType.close)
def _close(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return tracer.close_generator(_generator_of(args))


@rule(types.GeneratorType.throw)
def _throw(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return tracer.throw_generator(_generator_of(args), args[1:])


@rule(BaseException.with_traceback)
def _with_traceback(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    return args[0] if _is_none(args[1]) else None


# --- Python functions that are not inlined ---------------------------------------------------------------


@python_rule_for(functools.cached_property.__get__)
def _cached_property_get(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    """``cached_property.__get__`` without its lock. Source: ``Lib/functools.py``."""
    descriptor, instance = args[0], args[1]
    if _is_none(instance):
        return descriptor
    name = load_attr(tracer, descriptor, "attrname").realize(tracer)
    if not isinstance(instance, ObjectVariable) or not isinstance(name, ConstantVariable):
        return None
    found = instance.dict_get(tracer, name.value)
    if found is None:
        found = tracer.call(load_attr(tracer, descriptor, "func"), [instance], {})
        tracer.effects.set_attr(instance, name.value, found)
    return found


@python_rule_for(warnings.warn)
def _warn(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")


@python_rule_for(inspect.signature, inspect.getsource)
def _signature(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    unsupported(reasons.UNKNOWN_CALLABLE, "inspect.signature")


assert contextlib and InstanceDictVariable
