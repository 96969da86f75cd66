"""Holds operators, comparison, truth, subscripts, hashing; must not know the interpreter.

Source: ``Objects/abstract.c`` (``binary_op1``, ``PyObject_GetItem``), ``Objects/object.c``
(``do_richcompare``, ``PyObject_IsTrue``).
"""

from __future__ import annotations

import enum
import operator
import types
from typing import TYPE_CHECKING, Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import IsNotSame, IsSame
from capture.variables.attributes import default_factory, load_attr, type_source_of
from capture.variables.base import MISSING, LazyVariable, Variable, unsupported
from capture.variables.constant import (
    FALSE,
    NOT_IMPLEMENTED,
    TRUE,
    ConstantVariable,
    ScalarVariable,
    boolean,
    guard_expression,
)
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    ObjectKey,
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
    MethodVariable,
)
from capture.variables.objects import (
    ClassVariable,
    ModuleVariable,
    ObjectVariable,
    lookup_mro,
    type_attribute,
)
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.variables.base import Tracer

BINARY: dict[str, tuple[Any, str, str]] = {
    "+": (operator.add, "__add__", "__radd__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
}
INPLACE: dict[str, tuple[Any, str]] = {
    "+=": (operator.iadd, "__iadd__"),
    "-=": (operator.isub, "__isub__"),
    "*=": (operator.imul, "__imul__"),
    "/=": (operator.itruediv, "__itruediv__"),
    "//=": (operator.ifloordiv, "__ifloordiv__"),
    "%=": (operator.imod, "__imod__"),
    "**=": (operator.ipow, "__ipow__"),
    "@=": (operator.imatmul, "__imatmul__"),
    "<<=": (operator.ilshift, "__ilshift__"),
    ">>=": (operator.irshift, "__irshift__"),
    "&=": (operator.iand, "__iand__"),
    "|=": (operator.ior, "__ior__"),
    "^=": (operator.ixor, "__ixor__"),
}
COMPARE: dict[str, tuple[Any, str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
_SCALAR_OPS = frozenset({"+", "-", "*", "/", "//", "%", "**"})
_NUMBERS = (int, float, bool)
_FOLD_LIMIT = 1 << 16


def fold(tracer: Tracer, fn: Any, *args: Any) -> Variable:
    """Call a pure function on constants; what it raises the traced program raises."""
    try:
        return tracer.wrap_result(fn(*args))
    except Exception as error:
        tracer.raise_real(error)


def binary_op(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable:
    """``left <symbol> right``; in-place forms and the subscript included."""
    if symbol == "[]":
        return getitem(tracer, left, right)
    left, right = left.realize(tracer), right.realize(tracer)
    inplace = INPLACE.get(symbol)
    if inplace is not None:
        result = inplace_op(tracer, symbol, inplace, left, right)
        if result is not None:
            return result
        symbol = symbol[:-1]
    fn, name, reflected = BINARY[symbol]
    if isinstance(left, TensorVariable) or isinstance(right, TensorVariable):
        if _tensor_operand(left) and _tensor_operand(right):
            return tracer.graph_call("call_function", fn, [left, right], {})
    elif isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return constant_binary(tracer, symbol, fn, left, right)
    elif isinstance(left, ScalarVariable) or isinstance(right, ScalarVariable):
        scalar = scalar_binary(tracer, symbol, fn, left, right)
        if scalar is not None:
            return scalar
        left = left.specialize(tracer) if isinstance(left, ScalarVariable) else left
        right = right.specialize(tracer) if isinstance(right, ScalarVariable) else right
        return binary_op(tracer, symbol, left, right)
    result = container_binary(tracer, symbol, left, right)
    if result is not None:
        return result
    return dispatch_binary(tracer, symbol, name, reflected, left, right)


def _tensor_operand(v: Variable) -> bool:
    return isinstance(v, (TensorVariable, ConstantVariable, ScalarVariable))


def constant_binary(
    tracer: Tracer, symbol: str, fn: Any, left: ConstantVariable, right: ConstantVariable
) -> Variable:
    """Fold an operator on two constants, unless the result would be huge."""
    a, b = left.value, right.value
    if symbol in ("*", "**", "<<"):
        sizes = [len(v) for v in (a, b) if isinstance(v, (str, bytes))]
        count = [v for v in (a, b) if type(v) is int]
        if sizes and count and sizes[0] * count[0] > _FOLD_LIMIT:
            unsupported(reasons.UNKNOWN_OPERATION, "a repetition that makes a huge string")
        if symbol == "**" and len(count) == 2 and abs(a) > 1 and b * a.bit_length() > _FOLD_LIMIT:
            unsupported(reasons.UNKNOWN_OPERATION, "a power that makes a huge number")
    return fold(tracer, fn, a, b)


def scalar_text(v: Variable, sources: list[Any]) -> str:
    """The expression of a number over ``a0..``, its sources appended to ``sources``."""
    if isinstance(v, ConstantVariable):
        return f"({v.value!r})"
    assert isinstance(v, ScalarVariable)
    text = v.text
    # Renumber from the highest name down, so that no new name is renamed again.
    for i in reversed(range(len(v.sources))):
        if v.sources[i] not in sources:
            sources.append(v.sources[i])
        text = text.replace(f"a{i}", f"#{sources.index(v.sources[i])}")
    return "(" + text.replace("#", "a") + ")"


def scalar_binary(tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable) -> Variable | None:
    """Arithmetic on a number of the graph: one more node, in Python's own arithmetic."""
    if symbol not in _SCALAR_OPS:
        return None
    for v in (left, right):
        if isinstance(v, ConstantVariable) and type(v.value) not in _NUMBERS:
            return None
        if not isinstance(v, (ConstantVariable, ScalarVariable)):
            return None
    a, b = (v.value if isinstance(v, ConstantVariable) else v.example for v in (left, right))  # type: ignore[attr-defined]
    try:
        example = fn(a, b)
    except ArithmeticError:
        return None
    if type(example) not in (int, float):
        return None
    sources: list[Any] = []
    text = f"{scalar_text(left, sources)} {symbol} {scalar_text(right, sources)}"
    if len(text) > 400:
        return None
    return tracer.scalar_call(fn, [left, right], text, tuple(sources))


def inplace_op(
    tracer: Tracer, symbol: str, entry: tuple[Any, str], left: Variable, right: Variable
) -> Variable | None:
    """The in-place form, or None if the plain operator takes over."""
    fn, name = entry
    if isinstance(left, TensorVariable):
        if _tensor_operand(right):
            return tracer.graph_call("call_function", fn, [left, right], {})
        return None
    if isinstance(left, ListVariable) and symbol == "+=" and lookup_mro(left.cls, name)[0] in (
        list.__iadd__, _DEQUE_IADD,
    ):  # fmt: skip
        for item in tracer.iterate(right):
            left.append(tracer, item)
        return left
    if isinstance(left, ListVariable) and symbol == "*=" and left.cls is list:
        count = right.realize(tracer)
        if isinstance(count, ConstantVariable) and type(count.value) is int:
            items = left.change(tracer)
            items[:] = items * count.value
            return left
    if isinstance(left, SetVariable) and left.cls is set and symbol in ("|=", "&=", "-=", "^="):
        if not isinstance(right, (SetVariable, DictViewVariable)):
            return None
        result = container_binary(tracer, symbol[:-1], left, right)
        assert isinstance(result, SetVariable)
        left.replace(tracer, result.entries(tracer))
        return left
    if isinstance(left, DictVariable) and symbol == "|=" and lookup_mro(left.cls, name)[0] is dict.__ior__:
        tracer.call(load_attr(tracer, left, "update"), [right], {})
        return left
    if isinstance(left, ObjectVariable):
        raw, where = type_attribute(tracer, left.cls, type_source_of(tracer, left), name)
        if isinstance(raw, types.FunctionType):
            result = tracer.call(tracer.wrap_static(raw, where), [left, right], {})
            if not is_not_implemented(result):
                return result
    return None


_DEQUE_IADD = __import__("collections").deque.__iadd__


def is_not_implemented(v: Variable) -> bool:
    """True for the constant NotImplemented."""
    return isinstance(v, ConstantVariable) and v.value is NotImplemented


def container_binary(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """Operators of the built-in containers, or None if there is no rule."""
    if isinstance(left, SequenceVariable) and symbol == "+" and isinstance(right, SequenceVariable):
        if torch.Size in (left.cls, right.cls) and {left.cls, right.cls} <= {tuple, torch.Size}:
            return TupleVariable(left.items(tracer) + right.items(tracer), torch.Size)
        for base, kind in ((list, ListVariable), (tuple, TupleVariable)):
            if lookup_mro(left.cls, "__add__")[0] is base.__dict__["__add__"] and issubclass(right.cls, base):
                if issubclass(right.cls, left.cls) and isinstance(
                    lookup_mro(right.cls, "__radd__")[0], types.FunctionType
                ):
                    return None
                items = left.items(tracer) + right.items(tracer)
                return kind(items)
    if symbol == "*":
        seq, count = (left, right) if isinstance(left, SequenceVariable) else (right, left)
        if isinstance(seq, SequenceVariable) and seq.cls in (list, tuple):
            if isinstance(count, ScalarVariable):
                count = count.specialize(tracer)
            if isinstance(count, ConstantVariable) and isinstance(count.value, int):
                items = seq.items(tracer)
                if len(items) * count.value > _FOLD_LIMIT:
                    unsupported(reasons.UNKNOWN_OPERATION, "a repetition that makes a huge list")
                return (ListVariable if seq.cls is list else TupleVariable)(items * count.value)
    if symbol in ("|", "&", "-", "^"):
        a, b = set_entries(tracer, left), set_entries(tracer, right)
        if a is not None and b is not None:
            if symbol == "|":
                merged = {**a, **{k: v for k, v in b.items() if k not in a}}
            elif symbol == "&":
                merged = {k: v for k, v in a.items() if k in b}
            elif symbol == "-":
                merged = {k: v for k, v in a.items() if k not in b}
            else:
                merged = {k: v for k, v in a.items() if k not in b}
                merged.update({k: v for k, v in b.items() if k not in a})
            cls = left.cls if isinstance(left, SetVariable) else set
            return SetVariable(merged, frozenset if cls is frozenset else set)
        if symbol == "|" and isinstance(left, DictVariable) and isinstance(right, DictVariable):
            if left.cls is dict and right.cls is dict:
                result = DictVariable()
                result.entries = dict(left.load(tracer))
                for key, entry in right.load(tracer).items():
                    old = result.entries.get(key)
                    result.entries[key] = entry if old is None else (old[0], entry[1])
                return result
    if symbol == "%" and isinstance(left, ConstantVariable) and isinstance(left.value, str):
        values = tracer.as_python(right)
        if values is not MISSING:
            return fold(tracer, operator.mod, left.value, values)
    return None


def set_entries(tracer: Tracer, v: Variable) -> dict[Any, Variable] | None:
    """The elements of a set, or of a keys view, else None."""
    if isinstance(v, SetVariable) and v.cls in (set, frozenset):
        return v.entries(tracer)
    if isinstance(v, DictViewVariable) and v.kind == "keys":
        return {k: entry[0] for k, entry in v.target.load(tracer).items()}
    return None


def dispatch_binary(
    tracer: Tracer, symbol: str, name: str, reflected: str, left: Variable, right: Variable
) -> Variable:
    """Call ``__op__`` and ``__rop__`` in CPython's order (a subclass on the right goes first)."""
    left_cls, right_cls = left.python_type(), right.python_type()
    first = (left, right, name)
    second = (right, left, reflected)
    order = [first, second]
    if left_cls is not right_cls and issubclass(right_cls, left_cls):
        theirs = lookup_mro(right_cls, reflected)[0]
        if theirs is not MISSING and theirs is not lookup_mro(left_cls, reflected)[0]:
            order = [second, first]
    elif left_cls is right_cls:
        order = [first]
    seen_native = False
    for receiver, other, method in order:
        raw, where = type_attribute(
            tracer, receiver.python_type(), type_source_of(tracer, receiver), method
        )
        if raw is MISSING:
            continue
        if isinstance(raw, types.FunctionType):
            result = tracer.call(tracer.wrap_static(raw, where), [receiver, other], {})
            if not is_not_implemented(result):
                return result
        elif isinstance(receiver, (ConstantVariable, SequenceVariable, DictVariable)):
            # A built-in operator: it knows only built-in operands, which were tried before.
            seen_native = seen_native or not isinstance(other, (ConstantVariable, ObjectVariable))
        else:
            seen_native = True
    if seen_native or isinstance(left, TensorVariable) or isinstance(right, TensorVariable):
        unsupported(
            reasons.UNKNOWN_OPERATION, f"`{symbol}` on {left_cls.__name__} and {right_cls.__name__}"
        )
    tracer.raise_error(
        TypeError,
        f"unsupported operand type(s) for {symbol}: {left_cls.__name__!r} and {right_cls.__name__!r}",
    )


UNARY: dict[str, tuple[Any, str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}


def unary_op(tracer: Tracer, symbol: str, operand: Variable) -> Variable:
    """``-x``, ``+x`` or ``~x``."""
    operand = operand.realize(tracer)
    fn, name = UNARY[symbol]
    if isinstance(operand, TensorVariable):
        return tracer.graph_call("call_function", fn, [operand], {})
    if isinstance(operand, ConstantVariable):
        return fold(tracer, fn, operand.value)
    if isinstance(operand, ScalarVariable):
        if symbol == "~":
            return unary_op(tracer, symbol, operand.specialize(tracer))
        return tracer.scalar_call(fn, [operand], f"{symbol}({operand.text})", operand.sources)
    method = load_attr(tracer, operand, name)
    return tracer.call(method, [], {})


def truth(tracer: Tracer, v: Variable) -> bool:
    """``bool(v)`` as a decision of the traced program."""
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable):
        return bool(v.value)
    if isinstance(v, TensorVariable):
        unsupported(reasons.DATA_DEPENDENT, "A branch or bool() on a tensor")
    if isinstance(v, ScalarVariable):
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
    if isinstance(v, (FunctionVariable, MethodVariable, BuiltinVariable, ModuleVariable, CellVariable)):
        return True
    if isinstance(v, ClassVariable):
        if type(v.value) is type or lookup_mro(type(v.value), "__bool__")[0] is MISSING:
            return True
        return bool(v.value)
    if isinstance(v, ObjectVariable):
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
            length = tracer.call(tracer.wrap_static(raw, where), [v], {}).realize(tracer)
            if isinstance(length, ConstantVariable):
                return bool(length.value)
        if raw is not MISSING:
            unsupported(reasons.UNKNOWN_OPERATION, f"bool() of {v.describe()}")
        return True
    cls = v.python_type()
    if lookup_mro(cls, "__bool__")[0] is MISSING and lookup_mro(cls, "__len__")[0] is MISSING:
        return True
    unsupported(reasons.UNKNOWN_OPERATION, f"bool() of {v.describe()}")


_DICT_LENS = frozenset({dict.__len__, __import__("collections").OrderedDict.__len__})


def _native_len(cls: type) -> bool:
    raw = lookup_mro(cls, "__len__")[0]
    return type(raw) is types.WrapperDescriptorType and lookup_mro(cls, "__bool__")[0] is MISSING


def dict_truth(tracer: Tracer, v: DictVariable) -> bool:
    """Emptiness of a dict: guarded as such, not by its keys."""
    if v.loaded or v.entries:
        return bool(v.load(tracer))
    from capture.guards.kinds import IsEmpty

    assert v.source is not None
    empty = not dict.__len__(v.value)
    tracer.guard(IsEmpty(v.source, empty))
    return not empty


def length(tracer: Tracer, v: Variable) -> Variable:
    """``len(v)``."""
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable):
        return fold(tracer, len, v.value)
    if isinstance(v, TensorVariable):
        if not v.meta.shape:
            tracer.raise_error(TypeError, "len() of a 0-d tensor")
        return ConstantVariable(v.meta.shape[0])
    if isinstance(v, SequenceVariable) and not isinstance(lookup_mro(v.cls, "__len__")[0], types.FunctionType):
        return ConstantVariable(len(v.items(tracer)))
    if isinstance(v, DictVariable) and not isinstance(lookup_mro(v.cls, "__len__")[0], types.FunctionType):
        return ConstantVariable(len(v.load(tracer)))
    if isinstance(v, SetVariable):
        return ConstantVariable(len(v.entries(tracer)))
    if isinstance(v, DictViewVariable):
        return ConstantVariable(len(v.target.load(tracer)))
    if isinstance(v, RangeVariable):
        return ConstantVariable(len(v.value))
    if isinstance(v, ObjectVariable):
        raw, where = type_attribute(tracer, v.python_type(), type_source_of(tracer, v), "__len__")
        if isinstance(raw, types.FunctionType):
            return tracer.call(tracer.wrap_static(raw, where), [v], {})
        if raw is MISSING:
            tracer.raise_error(TypeError, f"object of type {v.cls.__name__!r} has no len()")
    unsupported(reasons.UNKNOWN_OPERATION, f"len() of {v.describe()}")


def index_value(tracer: Tracer, v: Variable) -> int | None:
    """A Python int used as an index, or None."""
    v = v.realize(tracer)
    if isinstance(v, ScalarVariable):
        v = v.specialize(tracer)
    if isinstance(v, ConstantVariable) and isinstance(v.value, int):
        return int(v.value)
    if isinstance(v, ObjectVariable) and isinstance(lookup_mro(v.cls, "__index__")[0], types.FunctionType):
        return index_value(tracer, tracer.call(load_attr(tracer, v, "__index__"), [], {}))
    return None


def python_slice(tracer: Tracer, v: SliceVariable) -> slice | None:
    """A slice with constant parts, or None."""
    parts = []
    for part in v.parts:
        part = part.realize(tracer)
        if isinstance(part, ConstantVariable) and part.value is None:
            parts.append(None)
        else:
            number = index_value(tracer, part)
            if number is None:
                return None
            parts.append(number)
    return slice(*parts)


def getitem(tracer: Tracer, obj: Variable, key: Variable) -> Variable:
    """``obj[key]``."""
    obj, key = obj.realize(tracer), key.realize(tracer)
    if isinstance(obj, TensorVariable):
        if isinstance(key, TupleVariable) and key.cls is tuple:
            key.items(tracer)
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
        raw, where = type_attribute(tracer, obj.cls, type_source_of(tracer, obj), "__getitem__")
        if isinstance(raw, types.FunctionType):
            return tracer.call(tracer.wrap_static(raw, where), [obj, key], {})
        if raw is MISSING:
            tracer.raise_error(TypeError, f"{obj.cls.__name__!r} object is not subscriptable")
    unsupported(reasons.UNKNOWN_OPERATION, f"subscript of {obj.describe()}")


def class_getitem(tracer: Tracer, obj: ClassVariable, key: Variable) -> Variable:
    """``cls[key]``: an enum member, or a generic alias."""
    cls = obj.value
    if isinstance(cls, enum.EnumMeta) and isinstance(key, ConstantVariable):
        if key.value in cls.__members__:
            return tracer.wrap_static(cls.__members__[key.value], None)
        tracer.raise_error(KeyError, key.value)
    unsupported(reasons.UNKNOWN_OPERATION, f"{cls.__name__}[...]")


def sequence_getitem(tracer: Tracer, obj: SequenceVariable, key: Variable) -> Variable:
    """``list[i]``, ``tuple[i]`` and slices."""
    items = obj.items(tracer)
    if isinstance(key, SliceVariable):
        sliced = python_slice(tracer, key)
        if sliced is None or (isinstance(obj, ListVariable) and obj.is_deque):
            unsupported(reasons.UNKNOWN_OPERATION, f"slice of {obj.describe()}")
        part = items[sliced]
        if isinstance(obj, ListVariable):
            return ListVariable(part)
        return TupleVariable(part, torch.Size if obj.cls is torch.Size else tuple)
    index = index_value(tracer, key)
    if index is None:
        if isinstance(key, TensorVariable):
            unsupported(reasons.DATA_DEPENDENT, "A list index taken from a tensor")
        word = "list" if isinstance(obj, ListVariable) else "tuple"
        tracer.raise_error(
            TypeError, f"{word} indices must be integers or slices, not {key.python_type().__name__}"
        )
    try:
        return items[index]
    except IndexError:
        word = "deque" if getattr(obj, "is_deque", False) else "list" if isinstance(obj, ListVariable) else "tuple"
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
        tracer.raise_error(TypeError, f"{cls.__name__!r} object does not support item assignment")
    unsupported(reasons.SIDE_EFFECT, f"item assignment on {obj.describe()}")


def list_setitem(tracer: Tracer, obj: ListVariable, key: Variable, value: Variable | None) -> None:
    """Assign (or, with None, delete) an item or a slice of a list."""
    items = obj.items(tracer)
    if isinstance(key, SliceVariable):
        sliced = python_slice(tracer, key)
        if sliced is None or obj.is_deque:
            unsupported(reasons.SIDE_EFFECT, f"slice assignment on {obj.describe()}")
        new = None if value is None else list(tracer.iterate(value))
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
        tracer.raise_error(
            TypeError, f"list indices must be integers or slices, not {key.python_type().__name__}"
        )
    if not -len(items) <= index < len(items):
        word = "deletion" if value is None else "assignment"
        text = "deque index out of range" if obj.is_deque else f"list assignment index out of range"
        tracer.raise_error(IndexError, text if word else text)
    obj.change(tracer)
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
    elif raw is MISSING:
        tracer.raise_error(TypeError, f"{cls.__name__!r} object doesn't support item deletion")
    else:
        unsupported(reasons.SIDE_EFFECT, f"item deletion on {obj.describe()}")


def contains(tracer: Tracer, container: Variable, item: Variable) -> Variable:
    """``item in container``."""
    container, item = container.realize(tracer), item.realize(tracer)
    cls = container.python_type()
    if isinstance(container, TensorVariable):
        unsupported(reasons.DATA_DEPENDENT, "`in` on a tensor")
    raw, where = type_attribute(tracer, cls, type_source_of(tracer, container), "__contains__")
    if isinstance(raw, types.FunctionType):
        return boolean(truth(tracer, tracer.call(tracer.wrap_static(raw, where), [container, item], {})))
    if isinstance(container, ConstantVariable) and isinstance(item, (ConstantVariable, ScalarVariable)):
        value = item.value if isinstance(item, ConstantVariable) else item.specialize(tracer).value
        return fold(tracer, operator.contains, container.value, value)
    if isinstance(container, DictVariable):
        return boolean(container.get(tracer, item) is not None)
    if isinstance(container, SetVariable):
        return boolean(tracer.hashed(item) in container.entries(tracer))
    if isinstance(container, DictViewVariable) and container.kind == "keys":
        return boolean(container.target.get(tracer, item) is not None)
    if isinstance(container, RangeVariable):
        number = index_value(tracer, item)
        if number is not None:
            return boolean(number in container.value)
    if isinstance(container, ClassVariable) and isinstance(container.value, enum.EnumMeta):
        value = tracer.as_python(item)
        if value is not MISSING:
            return fold(tracer, operator.contains, container.value, value)
    if raw is MISSING or isinstance(container, (SequenceVariable, DictViewVariable)):
        for candidate in tracer.iterate(container):
            if is_same(tracer, candidate, item) or equal(tracer, candidate, item):
                return TRUE
        return FALSE
    unsupported(reasons.UNKNOWN_OPERATION, f"`in` on {container.describe()}")


def compare(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable:
    """``left <symbol> right`` for the six rich comparisons."""
    left, right = left.realize(tracer), right.realize(tracer)
    fn, name, reflected = COMPARE[symbol]
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return fold(tracer, fn, left.value, right.value)
    if isinstance(left, TensorVariable) or isinstance(right, TensorVariable):
        if _tensor_operand(left) and _tensor_operand(right):
            other = right if isinstance(left, TensorVariable) else left
            if isinstance(other, ConstantVariable) and not isinstance(other.value, (int, float, complex)):
                if symbol in ("==", "!="):
                    return boolean(symbol == "!=")
            return tracer.graph_call("call_function", fn, [left, right], {})
    numeric = (ConstantVariable, ScalarVariable)
    if isinstance(left, numeric) and isinstance(right, numeric):
        return compare_scalars(tracer, symbol, fn, left, right)
    result = container_compare(tracer, symbol, fn, left, right)
    if result is not None:
        return result
    left_cls, right_cls = left.python_type(), right.python_type()
    order = [(left, right, name), (right, left, reflected)]
    if left_cls is not right_cls and issubclass(right_cls, left_cls):
        order.reverse()
    for receiver, other, method in order:
        raw, where = type_attribute(
            tracer, receiver.python_type(), type_source_of(tracer, receiver), method
        )
        if isinstance(raw, types.FunctionType):
            result = tracer.call(tracer.wrap_static(raw, where), [receiver, other], {})
            if not is_not_implemented(result):
                return result
        elif raw is object.__ne__ and method == "__ne__":
            eq, eq_where = type_attribute(
                tracer, receiver.python_type(), type_source_of(tracer, receiver), "__eq__"
            )
            if isinstance(eq, types.FunctionType):
                result = tracer.call(tracer.wrap_static(eq, eq_where), [receiver, other], {})
                if not is_not_implemented(result):
                    return boolean(not truth(tracer, result))
        elif not _plain_comparison(receiver, raw):
            known = tracer.as_python(left), tracer.as_python(right)
            if MISSING not in known:
                return fold(tracer, fn, *known)
            unsupported(
                reasons.UNKNOWN_OPERATION,
                f"`{symbol}` on {left_cls.__name__} and {right_cls.__name__}",
            )
    if symbol == "==":
        return boolean(is_same(tracer, left, right))
    if symbol == "!=":
        return boolean(not is_same(tracer, left, right))
    tracer.raise_error(
        TypeError,
        f"{symbol!r} not supported between instances of {left_cls.__name__!r} and {right_cls.__name__!r}",
    )


def _plain_comparison(v: Variable, raw: Any) -> bool:
    """True if a built-in comparison only knows its own kind, which was tried before."""
    if raw is MISSING or raw in _OBJECT_COMPARE:
        return True
    return isinstance(
        v, (ConstantVariable, SequenceVariable, DictVariable, SetVariable, SliceVariable,
            RangeVariable, ScalarVariable, MethodVariable, BuiltinVariable)
    )  # fmt: skip


_OBJECT_COMPARE = frozenset(
    {object.__eq__, object.__ne__, object.__lt__, object.__le__, object.__gt__, object.__ge__, type.__eq__
     if "__eq__" in type.__dict__ else object.__eq__}
)  # fmt: skip


def compare_scalars(tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable) -> Variable:
    """Compare numbers of the graph: the outcome is known now and guarded as an expression."""
    for v in (left, right):
        if isinstance(v, ConstantVariable) and type(v.value) not in _NUMBERS:
            a = left.value if isinstance(left, ConstantVariable) else left.example  # type: ignore[attr-defined]
            b = right.value if isinstance(right, ConstantVariable) else right.example  # type: ignore[attr-defined]
            return fold(tracer, fn, a, b)
    sources: list[Any] = []
    text = f"{scalar_text(left, sources)} {symbol} {scalar_text(right, sources)}"
    a, b = (v.value if isinstance(v, ConstantVariable) else v.example for v in (left, right))  # type: ignore[attr-defined]
    outcome = bool(fn(a, b))
    guard_expression(tracer, f"({text}) is {outcome}", tuple(sources))
    return boolean(outcome)


def container_compare(tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable) -> Variable | None:
    """Comparison of built-in containers, or None."""
    if isinstance(left, SequenceVariable) and isinstance(right, SequenceVariable):
        method = COMPARE[symbol][1]
        for base in (tuple, list):
            native = base.__dict__.get(method)
            if (
                issubclass(left.cls, base)
                and issubclass(right.cls, base)
                and lookup_mro(left.cls, method)[0] is native
                and lookup_mro(right.cls, method)[0] is native
            ):
                return compare_sequences(tracer, symbol, left, right)
    if isinstance(left, DictVariable) and isinstance(right, DictVariable) and symbol in ("==", "!="):
        if left.cls is dict and right.cls is dict:
            a, b = left.load(tracer), right.load(tracer)
            same = len(a) == len(b) and all(
                k in b and (is_same(tracer, v[1], b[k][1]) or equal(tracer, v[1], b[k][1]))
                for k, v in a.items()
            )
            return boolean(same == (symbol == "=="))
    a_set, b_set = set_entries(tracer, left), set_entries(tracer, right)
    if a_set is not None and b_set is not None:
        return boolean(fn(a_set.keys(), b_set.keys()))
    if isinstance(left, RangeVariable) and isinstance(right, RangeVariable):
        return fold(tracer, fn, left.value, right.value)
    if isinstance(left, MethodVariable) and isinstance(right, MethodVariable) and symbol in ("==", "!="):
        same = is_same(tracer, left.instance, right.instance) and is_same(tracer, left.fn, right.fn)
        return boolean(same == (symbol == "=="))
    if isinstance(left, BuiltinVariable) and isinstance(right, BuiltinVariable):
        return fold(tracer, fn, left.value, right.value)
    return None


def compare_sequences(
    tracer: Tracer, symbol: str, left: SequenceVariable, right: SequenceVariable
) -> Variable:
    """Lexicographic comparison: the first unequal pair decides."""
    a, b = left.items(tracer), right.items(tracer)
    if symbol in ("==", "!=") and len(a) != len(b):
        return boolean(symbol == "!=")
    for x, y in zip(list(a), list(b), strict=False):
        if is_same(tracer, x, y) or equal(tracer, x, y):
            continue
        if symbol in ("==", "!="):
            return boolean(symbol == "!=")
        return compare(tracer, symbol, x, y)
    return boolean(COMPARE[symbol][0](len(a), len(b)))


def equal(tracer: Tracer, left: Variable, right: Variable) -> bool:
    """``bool(left == right)``."""
    return truth(tracer, compare(tracer, "==", left, right))


def is_same(tracer: Tracer, left: Variable, right: Variable) -> bool:
    """``left is right``, guarded where the answer depends on what is passed in."""
    left, right = left.realize(tracer), right.realize(tracer)
    if left is right:
        return True
    if isinstance(left, ScalarVariable) or isinstance(right, ScalarVariable):
        return False
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        a, b = left.value, right.value
        if type(a) is not type(b):
            return False
        if a is None or type(a) is bool:
            return a is b
        return a is b
    if isinstance(left, BuiltinVariable) and isinstance(right, BuiltinVariable):
        return left.value is right.value
    if isinstance(left, ObjectVariable) and isinstance(right, ObjectVariable):
        if left.value is not MISSING and left.value is right.value:
            return True
        if isinstance(left, ClassVariable) or isinstance(right, ClassVariable):
            return False
        if left.source is not None and right.source is not None:
            same = left.value is right.value
            tracer.guard((IsSame if same else IsNotSame)(left.source, right.source))
            return same
        return False
    if isinstance(left, TensorVariable) and isinstance(right, TensorVariable):
        if left.source is not None and right.source is not None:
            tracer.guard(IsNotSame(left.source, right.source))
        return False
    return False


def hash_key(tracer: Tracer, v: Variable) -> Any:
    """A key for our own dicts that is equal where the traced program's key would be."""
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable):
        return v.value
    if isinstance(v, ScalarVariable):
        return v.specialize(tracer).value
    if isinstance(v, BuiltinVariable):
        return v.value
    if isinstance(v, TensorVariable):
        return ObjectKey(v, id(v), None)
    if isinstance(v, (ClassVariable, ModuleVariable)) and v.value is not MISSING:
        return v.value
    if isinstance(v, TupleVariable) and not isinstance(lookup_mro(v.cls, "__hash__")[0], types.FunctionType):
        return tuple(hash_key(tracer, item) for item in v.items(tracer))
    if isinstance(v, (ListVariable, DictVariable)) or (isinstance(v, SetVariable) and v.cls is set):
        if lookup_mro(v.cls, "__hash__")[0] is None:
            tracer.raise_error(TypeError, f"unhashable type: {v.cls.__name__!r}")
    if isinstance(v, SetVariable):
        return frozenset(v.entries(tracer))
    if isinstance(v, MethodVariable):
        return ("bound method", hash_key(tracer, v.fn), hash_key(tracer, v.instance))
    if isinstance(v, ObjectVariable):
        if isinstance(v.value, enum.Enum) or isinstance(v.value, (torch.Generator,)):
            return v.value
        raw, where = type_attribute(tracer, v.cls, type_source_of(tracer, v), "__hash__")
        if raw is object.__hash__ or type(raw) is types.WrapperDescriptorType and raw in _IDENTITY_HASH:
            return ObjectKey(v, id(v), None)
        if raw is None:
            tracer.raise_error(TypeError, f"unhashable type: {v.cls.__name__!r}")
        if isinstance(raw, types.FunctionType):
            result = tracer.call(tracer.wrap_static(raw, where), [v], {})
            eq, _ = lookup_mro(v.cls, "__eq__")
            plain = eq is object.__eq__
            if isinstance(result, ConstantVariable):
                return ObjectKey(v, hash(result.value), None if plain else tracer)
            return ObjectKey(v, id(v), None) if raw is torch.nn.Module.__hash__ else _unhashable(v)
    return _unhashable(v)


def _unhashable(v: Variable) -> Any:
    unsupported(reasons.UNKNOWN_OPERATION, f"hash() of {v.describe()}")


_IDENTITY_HASH = frozenset({object.__hash__, type.__hash__, types.FunctionType.__hash__, BaseException.__hash__})
assert LazyVariable and NOT_IMPLEMENTED
