"""Holds the ways between variables and what real calls and the graph take and give."""

from __future__ import annotations

import enum
import types
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.graph.values import ScalarValue, SizeValue, StateToken, TensorValue
from capture.variables.base import MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    RangeVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
)
from capture.variables.functions import BuiltinVariable
from capture.variables.objects import MODELS, ClassVariable, ObjectVariable, TokenVariable
from capture.variables.sizes import SizeVariable, lift
from capture.variables.tensor import TensorVariable

_CONSTANT_RESULTS = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented),
        torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo,
        types.CodeType,
    }
)  # fmt: skip
_FIXED = (enum.Enum, types.UnionType, types.GenericAlias)
_CONSTANT_BASES = (torch.finfo, torch.iinfo)


def as_python(tracer: Tracer, v: Variable) -> Any:
    """The real value of a variable that is made of constants only, else MISSING."""
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable):
        return v.value
    if isinstance(v, ScalarVariable):
        return v.specialize(tracer).value
    if isinstance(v, BuiltinVariable):
        return v.value
    if isinstance(v, (TupleVariable, ListVariable)):
        if v.cls not in (tuple, list, torch.Size) and not hasattr(v.cls, "_fields"):
            return MISSING
        items = [as_python(tracer, i) for i in v.items(tracer)]
        if any(i is MISSING for i in items):
            return MISSING
        if hasattr(v.cls, "_fields"):
            return tuple.__new__(v.cls, items)
        return v.cls(items)
    if isinstance(v, DictVariable) and v.cls is dict:
        result = {}
        for key, value in v.load(tracer).values():
            real_key, real_value = as_python(tracer, key), as_python(tracer, value)
            if real_key is MISSING or real_value is MISSING:
                return MISSING
            result[real_key] = real_value
        return result
    if isinstance(v, SetVariable) and v.cls in (set, frozenset):
        members = [as_python(tracer, i) for i in v.entries(tracer).values()]
        if any(m is MISSING for m in members):
            return MISSING
        if len(members) <= 1:
            return v.cls(members)
        real = v.real(tracer)  # one made anew might come in another order
        return real if type(real) is v.cls else MISSING
    if isinstance(v, RangeVariable):
        return v.value
    if isinstance(v, SliceVariable):
        parts = [as_python(tracer, p) for p in v.parts]
        return MISSING if any(p is MISSING for p in parts) else slice(*parts)
    if isinstance(v, ClassVariable) and v.value in MODELS:
        return MISSING  # nobody may get hold of the model
    if isinstance(v, ClassVariable):
        return v.value
    if isinstance(v, ObjectVariable) and issubclass(type(v.value), _FIXED):
        return v.value
    return MISSING


class Numbers(enum.Enum):
    """How numbers of the graph go into a call."""

    KEPT = 0
    SIZES = 1  # ints as sizes: what they decide is guarded
    CONSTANTS = 2


def graph_argument(tracer: Tracer, v: Variable, numbers: Numbers = Numbers.KEPT) -> Any:
    """What stands for a variable in the arguments of a graph call."""
    v = v.realize(tracer)
    if isinstance(v, (TensorVariable, ConstantVariable, TokenVariable)):
        return v.value
    if isinstance(v, ScalarVariable):
        return _number(tracer, v, numbers)
    if isinstance(v, (TupleVariable, ListVariable)):
        if isinstance(v, ListVariable) and v.is_deque:
            unsupported(reasons.UNKNOWN_OPERATION, f"{v.describe()} as an argument of an operator")
        items = [graph_argument(tracer, i, numbers) for i in v.items(tracer)]
        if isinstance(v, ListVariable):
            return items
        if v.cls is torch.Size:
            return torch.Size(items) if all(type(i) is int for i in items) else tuple(items)
        if hasattr(v.cls, "_fields"):
            return tuple.__new__(v.cls, items)
        return tuple(items)
    if isinstance(v, DictVariable):
        if v.cls is not dict:
            unsupported(reasons.UNKNOWN_OPERATION, f"{v.describe()} as an argument of an operator")
        return {
            graph_argument(tracer, k): graph_argument(tracer, i, numbers)
            for k, i in v.load(tracer).values()
        }
    if isinstance(v, SliceVariable):
        return slice(*[graph_argument(tracer, p, numbers) for p in v.parts])
    if isinstance(v, RangeVariable):
        return v.value
    if isinstance(v, ObjectVariable) and issubclass(type(v.value), torch.Tensor):
        unsupported(reasons.TENSOR_SUBCLASS, type(v.value).__name__)
    known = as_python(tracer, v)
    if known is not MISSING:
        return known
    unsupported(reasons.UNKNOWN_OPERATION, f"{v.describe()} as an argument of an operator")


def _number(tracer: Tracer, v: ScalarVariable, numbers: Numbers) -> Any:
    if numbers is Numbers.KEPT or isinstance(v, SizeVariable):
        return v.scalar
    if numbers is Numbers.CONSTANTS:
        return v.specialize(tracer).value
    size = lift(tracer, v)
    if size is None:
        return v.scalar
    return size if type(size) is int else tracer.graph.size_value(size)


def wrap_result(tracer: Tracer, value: Any) -> Variable:
    """The variable of a result: tensors of the graph, containers of them, constants."""
    if isinstance(value, TensorValue):
        known = tracer.tensors.get(id(value))
        if known is None:
            known = tracer.tensors[id(value)] = TensorVariable(value)
            tracer.keep_alive.append(value)
        return known
    kind = type(value)
    if isinstance(value, tuple):
        return TupleVariable([wrap_result(tracer, v) for v in value], kind)
    if kind is list:
        return ListVariable([wrap_result(tracer, v) for v in value])
    if isinstance(value, ScalarValue):
        if isinstance(value, SizeValue):
            return SizeVariable(value)
        return ScalarVariable(value, None, (), None)
    if isinstance(value, StateToken):
        return TokenVariable(value)
    if kind is range:
        return RangeVariable(value)
    if kind is slice:
        return SliceVariable(
            [wrap_result(tracer, p) for p in (value.start, value.stop, value.step)]
        )
    if kind is dict:
        result = DictVariable()
        for key, item in value.items():
            result.entries[key] = (wrap_result(tracer, key), wrap_result(tracer, item))
        return result
    if kind in (set, frozenset):
        made = SetVariable({v: wrap_result(tracer, v) for v in value}, kind, table=value)
        return stamp(tracer, made)
    if isinstance(value, torch.Tensor):
        unsupported(reasons.OPERATOR_METADATA, "A real tensor came out of a folded call")
    if kind in _CONSTANT_RESULTS or isinstance(value, _CONSTANT_BASES):
        return ConstantVariable(value)
    if isinstance(value, (types.FunctionType, type, types.BuiltinFunctionType)):
        return tracer.wrap_static(value, None)
    if isinstance(value, _FIXED):
        return tracer.wrap_static(value, None)
    unsupported(reasons.UNKNOWN_OPERATION, f"a result of type {kind.__name__}")
