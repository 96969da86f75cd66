"""Holds reading, writing and deleting items.

Source: ``Objects/abstract.c`` (``PyObject_GetItem``).
"""

from __future__ import annotations

import enum
import operator
import sys
import types
from typing import Any, NoReturn

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import IdIs
from capture.polyfills.arguments import error_text, type_name
from capture.variables.attributes import default_factory, type_source_of
from capture.variables.base import MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable, exactly
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    RangeVariable,
    SequenceVariable,
    SliceVariable,
    TupleVariable,
)
from capture.variables.iteration import sequence_of
from capture.variables.mixed_enums import plain_value
from capture.variables.objects import (
    ClassVariable,
    ObjectVariable,
    is_static_type,
    lookup_mro,
    type_attribute,
)
from capture.variables.operators.numbers import fold
from capture.variables.operators.places import select_places
from capture.variables.tensor import TensorVariable


def index_value(tracer: Tracer, v: Variable) -> int | None:
    """A Python int used as an index, or None."""
    v = plain_value(v.realize(tracer), "__index__")
    if isinstance(v, ScalarVariable):
        v = v.specialize(tracer)
    if isinstance(v, ConstantVariable) and isinstance(v.value, int):
        return int(v.value)
    if isinstance(v, ObjectVariable) and isinstance(
        lookup_mro(v.cls, "__index__")[0], types.FunctionType
    ):
        raw, where = type_attribute(tracer, v.cls, type_source_of(tracer, v), "__index__")
        found = tracer.call(tracer.wrap_static(raw, where), [v], {})
        return index_value(tracer, exactly(tracer, found, int, "__index__"))
    if isinstance(v, TensorVariable):
        unsupported(reasons.DATA_DEPENDENT, "An index taken from a tensor")
    if lookup_mro(v.python_type(), "__index__")[0] is not MISSING:
        unsupported(reasons.UNKNOWN_OPERATION, f"{v.describe()} as an index")
    return None


def python_slice(tracer: Tracer, v: SliceVariable) -> slice | None:
    """A slice with constant parts, or None."""
    parts: list[int | None] = []
    for part in v.parts:
        part = part.realize(tracer)
        if isinstance(part, ConstantVariable) and part.value is None:
            parts.append(None)
        else:
            number = index_value(tracer, part)
            if number is None:
                return None
            parts.append(number)
    if parts[2:] == [0]:
        tracer.raise_error(ValueError, "slice step cannot be zero")
    return slice(*parts)


def getitem(tracer: Tracer, obj: Variable, key: Variable) -> Variable:
    """``obj[key]``."""
    obj, key = plain_value(obj.realize(tracer), "__getitem__"), key.realize(tracer)
    if isinstance(obj, TensorVariable):
        if isinstance(key, TupleVariable) and key.cls is tuple:
            key.items(tracer)
        if isinstance(key, ScalarVariable) and not key.known and key.python_type() is int:
            row = [obj, ConstantVariable(0), key]  # torch's subscripts ask for the number
            return tracer.graph_call("call_method", "select", row, {})
        selected = select_places(tracer, obj, key)
        if selected is not None:
            return selected
        return tracer.graph_call("call_function", operator.getitem, [obj, key], {})
    if isinstance(obj, SequenceVariable):
        raw = lookup_mro(obj.cls, "__getitem__")[0]
        if type(raw) in (types.WrapperDescriptorType, types.MethodDescriptorType):
            return sequence_getitem(tracer, obj, key)
    elif isinstance(obj, DictVariable):
        raw = lookup_mro(obj.cls, "__getitem__")[0]
        if type(raw) in (types.WrapperDescriptorType, types.MethodDescriptorType):
            return dict_getitem(tracer, obj, key)
    elif isinstance(obj, ConstantVariable):
        key = plain_value(key, "__index__")
        if isinstance(key, ScalarVariable):
            key = key.specialize(tracer)
        if isinstance(key, SliceVariable):
            sliced = python_slice(tracer, key)
            if sliced is not None:
                return fold(tracer, operator.getitem, obj.value, sliced)
        if isinstance(key, ConstantVariable):
            return fold(tracer, operator.getitem, obj.value, key.value)
    elif isinstance(obj, RangeVariable):
        if isinstance(key, SliceVariable):
            sliced = python_slice(tracer, key)
            if sliced is not None:
                return RangeVariable(obj.value[sliced])
        index = index_value(tracer, key)
        if index is not None:
            return fold(tracer, operator.getitem, obj.value, index)
    elif isinstance(obj, ClassVariable):
        return class_getitem(tracer, obj, key)
    if isinstance(obj, ObjectVariable):
        if obj.cls.__module__ == "typing" and obj.value is not MISSING:
            alias = typing_getitem(tracer, obj, key)
            if alias is not None:
                return alias
        raw, where = type_attribute(tracer, obj.cls, type_source_of(tracer, obj), "__getitem__")
        if isinstance(raw, types.FunctionType):
            return tracer.call(tracer.wrap_static(raw, where), [obj, key], {})
        if raw is MISSING:
            tracer.raise_error(TypeError, f"{type_name(obj.cls)!r} object is not subscriptable")
    unsupported(reasons.UNKNOWN_OPERATION, f"subscript of {obj.describe()}")


def class_getitem(tracer: Tracer, obj: ClassVariable, key: Variable) -> Variable:
    """``cls[key]``: an enum member, or a generic alias."""
    cls = obj.value
    if isinstance(cls, enum.EnumMeta) and isinstance(key, ConstantVariable):
        if key.value in cls.__members__:
            return tracer.wrap_static(cls.__members__[key.value], None)
        tracer.raise_error(KeyError, key.value)
    if is_static_type(cls) and type(cls) is type and hasattr(cls, "__class_getitem__"):
        known = _type_argument(tracer, key)
        if known is not MISSING:  # tuple[int, ...] and its like
            return tracer.wrap_static(cls.__class_getitem__(known), None)
    unsupported(reasons.UNKNOWN_OPERATION, f"{cls.__name__}[...]")


def typing_getitem(tracer: Tracer, obj: ObjectVariable, key: Variable) -> Variable | None:
    """``List[int]`` and its like: what ``typing`` makes of it is a value like any other."""
    known = _type_argument(tracer, key)
    if known is MISSING:
        return None
    try:
        made = obj.value[known]
    except TypeError:
        return None
    if obj.source is not None:
        tracer.guard(IdIs(obj.source, obj.value))
    return tracer.wrap_static(made, None)


def _type_argument(tracer: Tracer, key: Variable) -> Any:
    """The real value of what a generic type is made of: types, and what ``typing`` has for them."""
    key = key.realize(tracer)
    if isinstance(key, ObjectVariable) and key.value is not MISSING:
        if isinstance(key.value, types.GenericAlias | types.UnionType) or (
            key.cls.__module__ == "typing"
        ):
            if key.source is not None:
                tracer.guard(IdIs(key.source, key.value))
            return key.value
    if isinstance(key, TupleVariable) and key.cls is tuple:
        parts = tuple(_type_argument(tracer, part) for part in key.items(tracer))
        return MISSING if any(part is MISSING for part in parts) else parts
    return tracer.as_python(key)


def sequence_getitem(tracer: Tracer, obj: SequenceVariable, key: Variable) -> Variable:
    """``list[i]``, ``tuple[i]`` and slices."""
    items = obj.items(tracer)
    if isinstance(key, SliceVariable):
        sliced = python_slice(tracer, key)
        if sliced is None or (isinstance(obj, ListVariable) and obj.is_deque):
            unsupported(reasons.UNKNOWN_OPERATION, f"slice of {obj.describe()}")
        part = items[sliced]
        if isinstance(obj, ListVariable):
            return stamp(tracer, ListVariable(part))
        if obj.cls is tuple and len(part) == len(items) and (sliced.step or 1) == 1:
            return obj
        return TupleVariable(part, torch.Size if obj.cls is torch.Size else tuple)
    index = index_value(tracer, key)
    if index is None:
        _refuse_index(tracer, obj, key)
    _check_size(tracer, index)
    try:
        return items[index]
    except IndexError:
        word = (
            "deque"
            if getattr(obj, "is_deque", False)
            else "list"
            if isinstance(obj, ListVariable)
            else "tuple"
        )
        tracer.raise_error(IndexError, f"{word} index out of range")


def dict_getitem(tracer: Tracer, obj: DictVariable, key: Variable) -> Variable:
    """``dict[key]`` with ``__missing__``."""
    found = obj.get(tracer, key)
    if found is not None:
        return found
    missing, where = type_attribute(tracer, obj.cls, type_source_of(tracer, obj), "__missing__")
    if isinstance(missing, types.FunctionType):
        return tracer.call(tracer.wrap_static(missing, where), [obj, key], {})
    if missing is not MISSING:  # defaultdict
        factory = default_factory(tracer, obj).realize(tracer)
        if not (isinstance(factory, ConstantVariable) and factory.value is None):
            made = tracer.call(factory, [], {})
            obj.set(tracer, key, made)
            return made
    tracer.raise_error(KeyError, key)


def setitem(tracer: Tracer, obj: Variable, key: Variable, value: Variable) -> None:
    """``obj[key] = value``."""
    obj, key = obj.realize(tracer), key.realize(tracer)
    if isinstance(obj, TensorVariable):
        selected = select_places(tracer, obj, key)
        if selected is not None:
            obj, key = selected, ConstantVariable(...)
        tracer.graph_call("call_function", operator.setitem, [obj, key, value.realize(tracer)], {})
        return
    cls = obj.python_type()
    raw, where = type_attribute(tracer, cls, type_source_of(tracer, obj), "__setitem__")
    if isinstance(raw, types.FunctionType):
        tracer.call(tracer.wrap_static(raw, where), [obj, key, value], {})
        return
    if isinstance(obj, DictVariable):
        obj.set(tracer, key, value)
        return
    if isinstance(obj, ListVariable):
        list_setitem(tracer, obj, key, value)
        return
    if raw is MISSING:
        _is_index(tracer, cls, key)
        tracer.raise_error(TypeError, f"{type_name(cls)!r} object does not support item assignment")
    unsupported(reasons.SIDE_EFFECT, f"item assignment on {obj.describe()}")


_REFUSALS = [
    error_text(operator.setitem, [1], slice(0, 1), None),
    error_text(operator.setitem, [1], slice(None, None, 2), None),
]


def _assigned(tracer: Tracer, value: Variable, place: slice) -> list[Variable]:
    refusal = _REFUSALS[place.step is not None and place.step != 1]
    return sequence_of(tracer, value, refusal)


def _refuse_index(tracer: Tracer, obj: SequenceVariable, key: Variable) -> NoReturn:
    kind = type_name(key.python_type())
    if getattr(obj, "is_deque", False):
        tracer.raise_error(TypeError, f"sequence index must be integer, not {kind!r}")
    word = "list" if isinstance(obj, ListVariable) else "tuple"
    tracer.raise_error(TypeError, f"{word} indices must be integers or slices, not {kind}")


def _is_index(tracer: Tracer, cls: type, key: Variable) -> bool:
    """True if a key is taken for a number: classes of the program have all slots of sequences."""
    if lookup_mro(key.python_type(), "__index__")[0] is MISSING:
        return False
    if is_static_type(cls) and not isinstance(key, ConstantVariable):
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about items of a {cls.__name__}")
    number = index_value(tracer, key)
    assert number is not None
    if not -sys.maxsize - 1 <= number <= sys.maxsize:
        unsupported(reasons.UNCAUGHT_EXCEPTION, "An IndexError about a huge number")
    return True


def _check_size(tracer: Tracer, index: int) -> None:
    if not -sys.maxsize - 1 <= index <= sys.maxsize:
        tracer.raise_error(IndexError, "cannot fit 'int' into an index-sized integer")


def list_setitem(tracer: Tracer, obj: ListVariable, key: Variable, value: Variable | None) -> None:
    """Assign (or, with None, delete) an item or a slice of a list."""
    items = obj.items(tracer)
    if isinstance(key, SliceVariable):
        sliced = python_slice(tracer, key)
        if sliced is None or obj.is_deque:
            unsupported(reasons.SIDE_EFFECT, f"slice assignment on {obj.describe()}")
        new = None if value is None else _assigned(tracer, value, sliced)
        obj.change(tracer)
        try:
            if new is None:
                del items[sliced]
            else:
                items[sliced] = new
        except ValueError as error:
            tracer.raise_real(error)
        return
    index = index_value(tracer, key)
    if index is None:
        _refuse_index(tracer, obj, key)
    _check_size(tracer, index)
    if not -len(items) <= index < len(items):
        word = "deque" if obj.is_deque else "list assignment"  # for a deletion too
        tracer.raise_error(IndexError, f"{word} index out of range")
    obj.change(tracer, moves=value is None)
    if value is None:
        del items[index]
    else:
        items[index] = value


def delitem(tracer: Tracer, obj: Variable, key: Variable) -> None:
    """``del obj[key]``."""
    obj, key = obj.realize(tracer), key.realize(tracer)
    cls = obj.python_type()
    raw, where = type_attribute(tracer, cls, type_source_of(tracer, obj), "__delitem__")
    if isinstance(raw, types.FunctionType):
        tracer.call(tracer.wrap_static(raw, where), [obj, key], {})
    elif isinstance(obj, DictVariable):
        if not obj.delete(tracer, key):
            tracer.raise_error(KeyError, key)
    elif isinstance(obj, ListVariable):
        list_setitem(tracer, obj, key, None)
    elif raw is MISSING and is_static_type(cls):
        known = tracer.as_python(key)
        if not isinstance(obj, ConstantVariable) or known is MISSING:
            unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError: {obj.describe()} has no items")
        fold(tracer, operator.delitem, obj.value, known)
    elif raw is MISSING:
        denial = "doesn't" if _is_index(tracer, cls, key) else "does not"
        tracer.raise_error(TypeError, f"{type_name(cls)!r} object {denial} support item deletion")
    else:
        unsupported(reasons.SIDE_EFFECT, f"item deletion on {obj.describe()}")
