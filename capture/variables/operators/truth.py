"""Holds truth and length. Source: ``Objects/object.c`` (``PyObject_IsTrue``)."""

from __future__ import annotations

import collections
import operator
import sys
import types
from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.guards.kinds import IsEmpty
from capture.polyfills.arguments import type_name
from capture.variables.attributes import type_source_of
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable, exactly, guard_expression
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    RangeVariable,
    SequenceVariable,
    SetVariable,
)
from capture.variables.functions import (
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    MethodVariable,
)
from capture.variables.mixed_enums import plain_value
from capture.variables.objects import (
    ClassVariable,
    ModuleVariable,
    ObjectVariable,
    lookup_mro,
    type_attribute,
)
from capture.variables.operators.numbers import fold
from capture.variables.sizes import SizeVariable, decide, size_of
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.sources import Source


def truth(tracer: Tracer, v: Variable) -> bool:
    """``bool(v)`` as a decision of the traced program."""
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable):
        return bool(v.value)
    if isinstance(v, TensorVariable):
        return tracer.decide(v, "A branch or bool() on a tensor")
    if isinstance(v, SizeVariable):
        return decide(tracer, operator.ne, v.dim, 0)
    if isinstance(v, ScalarVariable):
        if not v.known:
            return tracer.decide(v, "A number that only the graph knows")
        result = bool(v.example)
        guard_expression(tracer, f"bool({v.text}) is {result}", v.sources)
        return result
    if isinstance(v, SequenceVariable) and _native_len(v.cls):
        return bool(v.items(tracer))
    if isinstance(v, DictVariable) and lookup_mro(v.cls, "__len__")[0] in _DICT_LENS:
        if lookup_mro(v.cls, "__bool__")[0] is MISSING:
            return dict_truth(tracer, v)
    if isinstance(v, SetVariable):
        return bool(v.entries(tracer))
    if isinstance(v, DictViewVariable):
        return bool(v.target.load(tracer))
    if isinstance(v, RangeVariable):
        return bool(v.value)
    if isinstance(
        v, (FunctionVariable, MethodVariable, BuiltinVariable, ModuleVariable, CellVariable)
    ):
        return True
    if isinstance(v, ClassVariable):
        if type(v.value) is type or lookup_mro(type(v.value), "__bool__")[0] is MISSING:
            return True
        return bool(v.value)
    if isinstance(v, ObjectVariable):
        plain = plain_value(v, "__bool__", "__len__")
        if plain is not v:
            return truth(tracer, plain)
        source = type_source_of(tracer, v)
        raw, where = type_attribute(tracer, v.cls, source, "__bool__")
        if isinstance(raw, types.FunctionType):
            result_var = tracer.call(tracer.wrap_static(raw, where), [v], {})
            if isinstance(result_var, ConstantVariable) and type(result_var.value) is bool:
                return result_var.value
            unsupported(reasons.UNKNOWN_OPERATION, f"bool() of {v.describe()}")
        if raw is not MISSING:
            unsupported(reasons.UNKNOWN_OPERATION, f"bool() of {v.describe()}")
        raw, where = type_attribute(tracer, v.cls, source, "__len__")
        if isinstance(raw, types.FunctionType):
            return truth(tracer, _length_of(tracer, raw, where, v))
        if raw is not MISSING:
            unsupported(reasons.UNKNOWN_OPERATION, f"bool() of {v.describe()}")
        return True
    cls = v.python_type()
    if lookup_mro(cls, "__bool__")[0] is MISSING and lookup_mro(cls, "__len__")[0] is MISSING:
        return True
    unsupported(reasons.UNKNOWN_OPERATION, f"bool() of {v.describe()}")


def _length_of(tracer: Tracer, raw: Any, where: Source | None, v: Variable) -> Variable:
    found = tracer.call(tracer.wrap_static(raw, where), [v], {})
    found = exactly(tracer, found, int, "__len__")
    if isinstance(found, ConstantVariable) and not 0 <= found.value <= sys.maxsize:
        unsupported(reasons.UNCAUGHT_EXCEPTION, "An error about the length")
    return found


_DICT_LENS = frozenset({dict.__len__, collections.OrderedDict.__len__})


def _native_len(cls: type) -> bool:
    raw = lookup_mro(cls, "__len__")[0]
    return type(raw) is types.WrapperDescriptorType and lookup_mro(cls, "__bool__")[0] is MISSING


def dict_truth(tracer: Tracer, v: DictVariable) -> bool:
    """Emptiness of a dict: guarded as such, not by its keys."""
    if v.loaded or v.entries:
        return bool(v.load(tracer))
    assert v.source is not None
    empty = not dict.__len__(v.value)
    tracer.guard(IsEmpty(v.source, empty))
    return not empty


def length(tracer: Tracer, v: Variable) -> Variable:
    """``len(v)``."""
    v = plain_value(v.realize(tracer), "__len__")
    if isinstance(v, ConstantVariable):
        return fold(tracer, len, v.value)
    if isinstance(v, TensorVariable):
        if not v.meta.shape:
            tracer.raise_error(TypeError, "len() of a 0-d tensor")
        return size_of(tracer, v.meta.shape[0])
    if isinstance(v, SequenceVariable) and not isinstance(
        lookup_mro(v.cls, "__len__")[0], types.FunctionType
    ):
        return ConstantVariable(len(v.items(tracer)))
    if isinstance(v, DictVariable) and not isinstance(
        lookup_mro(v.cls, "__len__")[0], types.FunctionType
    ):
        return ConstantVariable(len(v.load(tracer)))
    if isinstance(v, SetVariable):
        return ConstantVariable(len(v.entries(tracer)))
    if isinstance(v, DictViewVariable):
        return ConstantVariable(len(v.target.load(tracer)))
    if isinstance(v, RangeVariable):
        return fold(tracer, len, v.value)
    if isinstance(v, ObjectVariable):
        raw, where = type_attribute(tracer, v.python_type(), type_source_of(tracer, v), "__len__")
        if isinstance(raw, types.FunctionType):
            return _length_of(tracer, raw, where, v)
        if raw is MISSING:
            tracer.raise_error(TypeError, f"object of type {type_name(v.cls)!r} has no len()")
    unsupported(reasons.UNKNOWN_OPERATION, f"len() of {v.describe()}")
