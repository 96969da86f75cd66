"""Holds the choice of what a call of a C callable or a class comes down to; must not know rules."""

from __future__ import annotations

import enum
import inspect
import os
import types
from collections import OrderedDict
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.polyfills import polyfill_for
from capture.polyfills.optimizers import OPTIMIZERS, WRAPPER_NAMES, WRAPPERS, undisabled
from capture.variables import operators, torch_calls
from capture.variables.base import MISSING, FrameRequest, Tracer, Variable, unsupported
from capture.variables.builtins import arity
from capture.variables.builtins.folding import fold_pure
from capture.variables.builtins.registry import PYTHON_RULES, RULES
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import DictVariable, SequenceVariable, SetVariable, TupleVariable
from capture.variables.functions import BuiltinVariable, FunctionVariable
from capture.variables.marks import DISABLE, GRAPH, patched
from capture.variables.objects import ClassVariable, ObjectVariable, lookup_mro, module_name
from capture.variables.tensor import TensorVariable


def call_builtin(
    tracer: Tracer, fn: BuiltinVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | FrameRequest:
    """Call a C callable: its rule, a torch rule, folding, a polyfill, a real method; else break."""
    value = fn.value
    if value is not print:  # which is left to Python: it asks no text what it says
        args = [a.realize(tracer) for a in args]
    if type(value) is types.ClassMethodDescriptorType and value not in RULES and args:
        owner = args[0]  # `int.from_bytes`: the tables know it bound to its class
        if isinstance(owner, ClassVariable) and issubclass(owner.value, value.__objclass__):
            return call_builtin(
                tracer, BuiltinVariable(value.__get__(None, owner.value)), args[1:], kwargs
            )
    if type(value) is types.BuiltinFunctionType and value.__self__ is not None:
        method = _class_method(value)
        if method is not None and method in RULES:
            bound_to: Any = value.__self__
            args = [tracer.class_variable(bound_to, None), *args]
            return call_builtin(tracer, BuiltinVariable(method), args, kwargs)
    try:
        handler = RULES.get(value)
    except TypeError:  # unhashable
        handler = None
    if handler is not None:
        args, kwargs = arity.check(tracer, value, args, kwargs)
        refuse_receiver(value, args)
        refuse_base_method(value, args)
        result = handler(tracer, args, kwargs)
        if result is not None:
            return result
    if getattr(value, "__module__", None) == "_operator":
        args, kwargs = arity.check(tracer, value, args, kwargs)
    rule_ = torch_calls.call_rule(tracer, value, args, kwargs)
    if rule_ is not None:
        return rule_
    folded = fold_pure(tracer, value, args, kwargs)
    if folded is not None:
        return folded
    polyfill = polyfill_for(value)
    if polyfill is not None and not _is_running(tracer, polyfill):
        args, kwargs = arity.check(tracer, value, args, kwargs)
        arity.check_equivalent(tracer, value, polyfill, args, kwargs)
        return tracer.start_call(tracer.wrap_static(polyfill, None), args, kwargs)
    special = call_slot(tracer, value, args, kwargs)
    if special is not None:
        return special
    unsupported(reasons.UNKNOWN_CALLABLE, fn.describe())


def _class_method(value: Any) -> Any:
    """What a class method of C was bound from."""
    owner = value.__self__
    if not issubclass(type(owner), type) or owner.__mro__ is None:  # None: it is being made
        return None
    found = lookup_mro(owner, value.__name__)[0]
    return found if type(found) is types.ClassMethodDescriptorType else None


def _is_running(tracer: Tracer, polyfill: Any) -> bool:
    """True in the polyfill itself, where it hands over to the original."""
    frames: Any = getattr(tracer, "frames", ())
    code = frames[-1].code if frames else None
    return code is getattr(polyfill, "__code__", None)


def refuse_receiver(value: Any, args: list[Variable]) -> None:
    """Leave to Python a method on what is not of its class: `list.append(deque(), 1)`."""
    if type(value) in (types.MethodDescriptorType, types.WrapperDescriptorType) and args:
        owner = value.__objclass__
        if owner not in type.__dict__["__mro__"].__get__(args[0].python_type()):
            unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError: {owner.__name__} is wanted")


def refuse_base_method(value: Any, args: list[Variable]) -> None:
    """Leave to Python what goes behind an ordered dict's back: ``dict.pop(ordered, key)``."""
    if getattr(value, "__objclass__", None) is dict and args and isinstance(args[0], DictVariable):
        if issubclass(args[0].cls, OrderedDict) and value.__name__ in OrderedDict.__dict__:
            unsupported(reasons.SIDE_EFFECT, f"dict.{value.__name__} of an ordered dict")


def call_slot(
    tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    """Slot wrappers called as such (``list.__eq__(x, y)``), or None."""
    if type(value) is not types.WrapperDescriptorType or not args:
        return None
    name = value.__name__
    if name in _OPERATOR_SLOTS and len(args) == 2 and not isinstance(args[0], TensorVariable):
        symbol, swap = _OPERATOR_SLOTS[name]
        taken = _takes(args[0], args[1], "r%" if swap and symbol == "%" else symbol)
        if taken is False:
            return ConstantVariable(NotImplemented)
        if taken:
            left, right = (args[1], args[0]) if swap else (args[0], args[1])
            return operators.binary_op(tracer, symbol, left, right)
    if name in _COMPARE_SLOTS and len(args) == 2:
        symbol = _COMPARE_SLOTS[name]
        compare = operators.COMPARE[symbol][0]
        return operators.container_compare(tracer, symbol, compare, args[0], args[1])
    return None


def _takes(receiver: Variable, other: Variable, symbol: str) -> bool | None:
    """Whether a slot in C computes with the other operand, or says NotImplemented; None: unsure."""
    if isinstance(receiver, ConstantVariable) and isinstance(receiver.value, _NUMBERS):
        if isinstance(other, ConstantVariable):
            numbers = isinstance(other.value, _NUMBERS)
            return numbers and _rank(other.value) <= _rank(receiver.value)
        if isinstance(other, ScalarVariable):
            return True if type(receiver.value) is other.python_type() else None
        return None if issubclass(other.python_type(), _NUMBERS) else False
    if isinstance(receiver, SetVariable):
        return isinstance(other, SetVariable)
    if isinstance(receiver, SequenceVariable) or (
        isinstance(receiver, ConstantVariable) and isinstance(receiver.value, (str, bytes))
    ):
        if symbol == "*":
            known = isinstance(other, ConstantVariable) and isinstance(other.value, int)
        else:
            known = symbol == "%" or receiver.python_type() is other.python_type()
        return True if known else None  # else it raises an error of its own
    return None


_NUMBERS = (int, float, complex)


def _rank(number: Any) -> int:
    return next(i for i, kind in enumerate(_NUMBERS) if isinstance(number, kind))


_OPERATOR_SLOTS = {
    **{entry[1]: (symbol, False) for symbol, entry in operators.BINARY.items()},
    **{entry[2]: (symbol, True) for symbol, entry in operators.BINARY.items()},
}
_COMPARE_SLOTS = {entry[1]: symbol for symbol, entry in operators.COMPARE.items()}


def call_marked(
    tracer: Tracer, value: Any, marker: str, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """Call a function that the user marked."""
    if marker == DISABLE:
        unsupported(reasons.DISABLED, getattr(value, "__qualname__", value))
    if marker == GRAPH:
        return torch_calls.graph_node(tracer, value, args, kwargs)
    known = [tracer.as_python(a) for a in args]
    named = {k: tracer.as_python(v) for k, v in kwargs.items()}
    if any(v is MISSING for v in [*known, *named.values()]):
        unsupported(reasons.UNKNOWN_CALLABLE, f"{value} on arguments that are no constants")
    return tracer.wrap_result(value(*known, **named))


def call_wrapper(
    tracer: Tracer, fn: FunctionVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | FrameRequest | None:
    """Call what a polyfill gives for a wrapper around a function of torch's optimizers."""
    name, equivalent = WRAPPERS.get(fn.code, ("fn", undisabled))
    wrapped = fn.closure[fn.code.co_freevars.index(name)].get(tracer)
    wrapped = None if wrapped is None else wrapped.realize(tracer)
    if not isinstance(wrapped, FunctionVariable):
        return None
    if not _is_optimizers(wrapped.code, wrapped.value):
        return None
    named = DictVariable()
    for key, value in kwargs.items():
        named.entries[key] = (ConstantVariable(key), value)
    given: list[Variable] = [wrapped, TupleVariable(list(args)), named]
    return tracer.start_call(tracer.wrap_static(equivalent, None), given, {})


def _is_optimizers(code: types.CodeType, fn: Any) -> bool:
    """True for a function of torch's optimizers, or a decorated one (``torch.no_grad``)."""
    if isinstance(fn, types.FunctionType):
        code = getattr(inspect.unwrap(fn), "__code__", code)
    return code.co_filename.startswith(OPTIMIZERS)


def python_rule(
    tracer: Tracer, fn: FunctionVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | FrameRequest | None:
    """The rule of a Python function that is not to be inlined, or None."""
    value = fn.value
    handler = PYTHON_RULES.get(value)
    if handler is not None:
        return handler(tracer, [a.realize(tracer) for a in args], kwargs)
    if (fn.code.co_name in WRAPPER_NAMES and fn.code in WRAPPERS) or (
        "fn" in fn.code.co_freevars
        and (original := patched(value)) is not None
        and _is_optimizers(original.__code__, original)
    ):
        result = call_wrapper(tracer, fn, args, kwargs)
        if result is not None:
            return result
    if fn.code.co_filename.startswith(OPTIMIZERS) and patched(value) is not None:
        return None  # ``functools.wraps`` has copied the mark from what it wraps
    marker = tracer.function_marker(value)
    if marker is not None:
        return call_marked(tracer, value, marker, args, kwargs)
    if fn.code.co_filename.startswith(_TORCH_FRONTEND):
        # What torch.compile made (it calls itself as the function that it wraps).
        unsupported(reasons.UNKNOWN_CALLABLE, f"torch.compile: {fn.qualname}")
    module = module_name(value)
    if module == _OWN_API and torch_calls.is_special(value):
        return torch_calls.call_rule(tracer, value, args, kwargs)
    if module.startswith("torch"):
        return torch_calls.call_rule(tracer, value, args, kwargs)
    if module == _OWN_API and fn.qualname == "_CompiledModule.__call__":
        return None
    if (
        module == _OWN_API
        or module == "importlib"
        or module.startswith("importlib.")
        or (module in _NATIVE_MODULES and value not in _PLAIN_FUNCTIONS)
    ):
        unsupported(reasons.UNKNOWN_CALLABLE, f"{module}.{fn.qualname}")
    return None


_OWN_API = "capture.eval_frame"
_TORCH_FRONTEND = os.path.join(os.path.dirname(torch.__file__), "_dynamo") + os.sep
_NATIVE_MODULES = frozenset(
    {
        "random", "threading", "logging", "warnings", "subprocess", "socket", "inspect",
        "tempfile", "tokenize", "linecache", "traceback", "unittest.mock", "pickle", "asyncio",
        "concurrent.futures",
        "capture.eval_frame", "capture.api",
    }
)  # fmt: skip


# Functions of these that only look at types and at the flags of code.
_PLAIN_FUNCTIONS = frozenset(
    found
    for found in (
        inspect.isclass, inspect.isfunction, inspect.ismethod, inspect.isbuiltin,
        inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction,
        getattr(inspect, "_has_code_flag", None), getattr(inspect, "_has_coroutine_mark", None),
    )
)  # fmt: skip


def class_rule(
    tracer: Tracer, cls_var: ClassVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | FrameRequest | None:
    """The rule for calling a class, or None: an ordinary class."""
    cls = cls_var.value
    if type(cls).__hash__ is not type.__hash__:
        return None  # no class that is known here
    handler = RULES.get(cls)
    if handler is not None:
        args, kwargs = arity.check(tracer, cls, args, kwargs)
        made = handler(tracer, [a.realize(tracer) for a in args], kwargs)
        if made is not None:
            return made
    module = module_name(cls)
    if module == "torch" or module.startswith("torch."):
        found = torch_calls.call_rule(tracer, cls, [a.realize(tracer) for a in args], kwargs)
        if found is not None:
            return found
    if isinstance(cls, enum.EnumMeta) and len(args) == 1 and not kwargs:
        value = tracer.as_python(args[0])
        if value is not MISSING:
            try:
                member: Any = cls(value)
            except Exception as error:
                tracer.raise_real(error)
            return tracer.wrap_static(member, None)
        item = args[0].realize(tracer)
        if isinstance(item, ObjectVariable) and issubclass(type(item.value), cls):
            return item
    folded = fold_pure(tracer, cls, args, kwargs)
    if folded is not None:
        return folded
    polyfill = polyfill_for(cls)
    if polyfill is not None and not _is_running(tracer, polyfill):
        args, kwargs = arity.check(tracer, cls, args, kwargs)
        arity.check_equivalent(tracer, cls, polyfill, args, kwargs)
        return tracer.start_call(tracer.wrap_static(polyfill, None), args, kwargs)
    return None
