"""Holds unary, binary and in-place operators.

Source: ``Objects/abstract.c`` (``binary_op1``, ``binary_iop1``).
"""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.polyfills.arguments import type_name
from capture.variables.attributes import load_attr, load_special, type_source_of
from capture.variables.base import MISSING, ObservedException, Tracer, Variable, stamp, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    SequenceVariable,
    SetVariable,
    TupleVariable,
)
from capture.variables.iteration import items_of
from capture.variables.mixed_enums import plain_value
from capture.variables.objects import (
    ClassVariable,
    ObjectVariable,
    is_static_type,
    lookup_mro,
    type_attribute,
)
from capture.variables.operators.dict_union import dict_union
from capture.variables.operators.numbers import FOLD_LIMIT, constant_binary, fold, scalar_binary
from capture.variables.operators.set_algebra import (
    METHODS,
    combine_inplace,
    is_plain_set,
    set_binary,
)
from capture.variables.operators.subscripts import getitem
from capture.variables.operators.tables import BINARY, INPLACE, UNARY
from capture.variables.sizes import SizeVariable
from capture.variables.tensor import TensorVariable
from capture.variables.texts import percent


def binary_op(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable:
    """``left <symbol> right``; in-place forms and the subscript included."""
    if symbol == "[]":
        return getitem(tracer, left, right)
    left, right = left.realize(tracer), right.realize(tracer)
    written = symbol
    inplace = INPLACE.get(symbol)
    if inplace is not None:
        result = inplace_op(tracer, symbol, inplace, left, right)
        if result is not None:
            return result
        symbol = symbol[:-1]
    fn, name, reflected = BINARY[symbol]
    plain = plain_value(left, name), plain_value(right, reflected)
    if plain != (left, right) and _meet_in_c(symbol, *plain):
        return _of_members(tracer, written, (left, right), plain)
    if isinstance(left, TensorVariable) or isinstance(right, TensorVariable):
        if is_tensor_operand(left) and is_tensor_operand(right):
            return tracer.graph_call("call_function", fn, [left, right], {})
    elif isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        # The in-place form is the operator itself, but for the text of its errors.
        return constant_binary(tracer, symbol, inplace[0] if inplace else fn, left, right)
    elif isinstance(left, ScalarVariable) or isinstance(right, ScalarVariable):
        scalar = scalar_binary(tracer, symbol, fn, left, right)
        if scalar is not None:
            return scalar
        if symbol == "%" and isinstance(left, ConstantVariable) and type(left.value) is str:
            text = percent(tracer, left.value, [right])
            if text is not None:
                return text
        left = left.specialize(tracer) if isinstance(left, ScalarVariable) else left
        right = right.specialize(tracer) if isinstance(right, ScalarVariable) else right
        return binary_op(tracer, written, left, right)
    result = container_binary(tracer, symbol, left, right)
    if result is not None:
        return result
    return dispatch_binary(tracer, symbol, written, name, reflected, left, right)


def _meet_in_c(symbol: str, left: Variable, right: Variable) -> bool:
    """True if C code sees both operands: it takes a member of an enum for its number or text."""
    if (
        symbol == "%"
        and isinstance(left, ConstantVariable)
        and isinstance(left.value, (str, bytes))
    ):
        return False  # the text of the member is asked for
    repeated = (left, right) if symbol == "*" else ()
    return all(
        is_tensor_operand(v)
        or (v in repeated and isinstance(v, SequenceVariable) and v.cls in (list, tuple))
        for v in (left, right)
    )


def _of_members(
    tracer: Tracer, written: str, given: tuple[Variable, Variable], plain: tuple[Variable, Variable]
) -> Variable:
    try:
        return binary_op(tracer, written, *plain)
    except ObservedException as signal:
        if not issubclass(signal.exception.python_type(), TypeError):
            raise
    names = " and ".join(v.python_type().__name__ for v in given)
    unsupported(reasons.UNKNOWN_OPERATION, f"`{written}` on {names}")


def is_tensor_operand(v: Variable) -> bool:
    """True for what may stand beside a tensor in an operator of the graph."""
    return isinstance(v, (TensorVariable, ConstantVariable, ScalarVariable))


def inplace_op(
    tracer: Tracer, symbol: str, entry: tuple[Any, str], left: Variable, right: Variable
) -> Variable | None:
    """The in-place form, or None if the plain operator takes over."""
    fn, name = entry
    if isinstance(left, TensorVariable):
        if is_tensor_operand(right):
            return tracer.graph_call("call_function", fn, [left, right], {})
        return None
    if isinstance(left, ListVariable) and symbol == "+=" and lookup_mro(left.cls, name)[0] in (
        list.__iadd__, collections.deque.__iadd__,
    ):  # fmt: skip
        for item in items_of(tracer, right, sized=not left.is_deque):
            left.append(tracer, item)
        return left
    if isinstance(left, ListVariable) and symbol == "*=" and lookup_mro(left.cls, name)[0] in (
        list.__imul__, collections.deque.__imul__,
    ):  # fmt: skip
        count = right.realize(tracer)
        if isinstance(count, ConstantVariable) and type(count.value) is int:
            repeated = _repeated(tracer, left, count.value)
            left.change(tracer)[:] = repeated
            return left
    if isinstance(left, SetVariable) and symbol[0] in METHODS:
        if issubclass(left.cls, set) and is_plain_set(left) and isinstance(right, SetVariable):
            combine_inplace(tracer, METHODS[symbol[0]], left, [right])
            return left
    if (
        isinstance(left, DictVariable)
        and symbol == "|="
        and lookup_mro(left.cls, name)[0] in (dict.__ior__, collections.OrderedDict.__ior__)
    ):
        tracer.call(load_attr(tracer, left, "update"), [right], {})
        return left
    if isinstance(left, ObjectVariable):
        raw, where = type_attribute(tracer, left.cls, type_source_of(tracer, left), name)
        if isinstance(raw, types.FunctionType):
            result = tracer.call(tracer.wrap_static(raw, where), [left, right], {})
            if not is_not_implemented(result):
                return result
    return None


def _repeated(tracer: Tracer, seq: SequenceVariable, count: int) -> list[Variable]:
    items = seq.items(tracer)
    if len(items) * count > FOLD_LIMIT:
        unsupported(reasons.UNKNOWN_OPERATION, "a repetition that makes a huge list")
    return _trimmed(items * count, seq.maxlen if isinstance(seq, ListVariable) else None)


def _trimmed(items: list[Variable], maxlen: int | None) -> list[Variable]:
    """What a deque of that maximal length keeps."""
    return items if maxlen is None or len(items) <= maxlen else items[len(items) - maxlen :]


def is_not_implemented(v: Variable) -> bool:
    """True for the constant NotImplemented."""
    return isinstance(v, ConstantVariable) and v.value is NotImplemented


def container_binary(
    tracer: Tracer, symbol: str, left: Variable, right: Variable
) -> Variable | None:
    """Operators of the built-in containers, or None if there is no rule."""
    if isinstance(left, SequenceVariable) and symbol == "+" and isinstance(right, SequenceVariable):
        if torch.Size in (left.cls, right.cls) and {left.cls, right.cls} <= {tuple, torch.Size}:
            return TupleVariable(left.items(tracer) + right.items(tracer), torch.Size)
        for base, kind in ((list, ListVariable), (tuple, TupleVariable)):
            if lookup_mro(left.cls, "__add__")[0] is base.__dict__["__add__"] and issubclass(
                right.cls, base
            ):
                if issubclass(right.cls, left.cls) and isinstance(
                    lookup_mro(right.cls, "__radd__")[0], types.FunctionType
                ):
                    return None
                if left.cls is right.cls is tuple:
                    for one, other in ((left, right), (right, left)):
                        if not one.items(tracer):
                            return other
                items = left.items(tracer) + right.items(tracer)
                return stamp(tracer, kind(items))
        if left.cls is collections.deque and issubclass(right.cls, collections.deque):
            assert isinstance(left, ListVariable)
            items = _trimmed(left.items(tracer) + right.items(tracer), left.maxlen)
            return stamp(tracer, ListVariable(items, left.cls, maxlen=left.maxlen))
    if symbol == "*":
        seq, count = (left, right) if isinstance(left, SequenceVariable) else (right, left)
        if isinstance(seq, SequenceVariable) and seq.cls in (list, tuple, collections.deque):
            if isinstance(count, ScalarVariable):
                count = count.specialize(tracer)
            if isinstance(count, ConstantVariable) and isinstance(count.value, int):
                items = _repeated(tracer, seq, count.value)
                if isinstance(seq, ListVariable):
                    return stamp(tracer, ListVariable(items, seq.cls, maxlen=seq.maxlen))
                if count.value == 1 or not seq.items(tracer):
                    return seq
                return stamp(tracer, TupleVariable(items))
    if symbol in METHODS:
        made = set_binary(tracer, symbol, left, right)
        if made is not None:
            return made
        if symbol == "|" and isinstance(left, DictVariable) and isinstance(right, DictVariable):
            return dict_union(tracer, left, right)
    if symbol == "|" and _names_types(left) and _names_types(right):
        names = tracer.as_python(left), tracer.as_python(right)
        if MISSING not in names:
            return fold(tracer, operator.or_, *names)
    if symbol == "%" and isinstance(left, ConstantVariable) and isinstance(left.value, str):
        if isinstance(right, TupleVariable) and right.cls is tuple and type(left.value) is str:
            numbers = [v.realize(tracer) for v in right.items(tracer)]
            text = percent(tracer, left.value, numbers)
            if text is not None:
                return text
        values = tracer.as_python(right)
        if values is not MISSING:
            return fold(tracer, operator.mod, left.value, values)
    return None


_EXACT = frozenset({list, tuple, dict, set, frozenset, str, bytes, int, float, bool, type(None)})


def _is_container(v: ObjectVariable) -> bool:
    return isinstance(v, (SequenceVariable, DictVariable, SetVariable))


def _names_types(v: Variable) -> bool:
    """True for what ``|`` makes a union of types of: classes, unions, generic aliases, None."""
    if isinstance(v, ClassVariable):
        return lookup_mro(type(v.value), "__or__")[0] is type.__dict__["__or__"]
    if isinstance(v, ObjectVariable):
        return isinstance(v.value, (types.UnionType, types.GenericAlias))
    return isinstance(v, ConstantVariable) and v.value is None


def dispatch_binary(
    tracer: Tracer,
    symbol: str,
    written: str,
    name: str,
    reflected: str,
    left: Variable,
    right: Variable,
) -> Variable:
    """Call ``__op__`` and ``__rop__`` in CPython's order (a subclass on the right goes first).

    ``written`` is the operator of the program, perhaps an in-place one, for the error.
    """
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
        if isinstance(raw, types.FunctionType) and not isinstance(receiver, TensorVariable):
            result = tracer.call(tracer.wrap_static(raw, where), [receiver, other], {})
            if not is_not_implemented(result):
                return result
        elif isinstance(receiver, (ConstantVariable, SequenceVariable, DictVariable, SetVariable)):
            # A built-in operator: it knows only built-in operands, which were tried before.
            plain = method != "__mod__" and (  # a format takes anything
                isinstance(other, ConstantVariable)
                or (isinstance(other, ObjectVariable) and not _is_container(other))
            )
            exact = {receiver.python_type(), other.python_type()} <= _EXACT
            seen_native = seen_native or not (plain or exact)
        else:
            seen_native = True
    if seen_native or isinstance(left, TensorVariable) or isinstance(right, TensorVariable):
        unsupported(
            reasons.UNKNOWN_OPERATION, f"`{symbol}` on {left_cls.__name__} and {right_cls.__name__}"
        )
    if isinstance(left, SequenceVariable) and symbol == "+":
        word = next((b.__name__ for b in (list, tuple) if issubclass(left.cls, b)), None)
        if word is None or left.cls.__name__ != word:
            unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about {left.describe()}")
        tracer.raise_error(
            TypeError, f'can only concatenate {word} (not "{type_name(right_cls)}") to {word}'
        )
    if symbol == "*" and _is_repetition(left, right, written):
        factor = right_cls if _is_repeatable(left) else left_cls
        tracer.raise_error(
            TypeError, f"can't multiply sequence by non-int of type {type_name(factor)!r}"
        )
    name = "** or pow()" if written == "**" else written
    tracer.raise_error(
        TypeError,
        f"unsupported operand type(s) for {name}: "
        f"{type_name(left_cls)!r} and {type_name(right_cls)!r}",
    )


def _is_repetition(left: Variable, right: Variable, written: str) -> bool:
    """True for what ``*`` takes for the repetition of a sequence, and fails at.

    The in-place form asks the right side only if the left is of a type without any sequence slot.
    """
    if _is_repeatable(left):
        return True
    cls = left.python_type()
    slots = ("__len__", "__contains__", "__getitem__")
    if written != "*" and not (
        is_static_type(cls) and all(lookup_mro(cls, name)[0] is MISSING for name in slots)
    ):
        return False
    return _is_repeatable(right)


def _is_repeatable(v: Variable) -> bool:
    text = isinstance(v, ConstantVariable) and isinstance(v.value, (str, bytes))
    return text or isinstance(v, SequenceVariable)


def unary_op(tracer: Tracer, symbol: str, operand: Variable) -> Variable:
    """``-x``, ``+x`` or ``~x``."""
    fn, name = UNARY[symbol]
    operand = plain_value(operand.realize(tracer), name)
    if isinstance(operand, TensorVariable):
        return tracer.graph_call("call_function", fn, [operand], {})
    if isinstance(operand, ConstantVariable):
        return fold(tracer, fn, operand.value)
    if isinstance(operand, SizeVariable) and symbol in "+-":
        if symbol == "+":
            return operand
        return binary_op(tracer, "-", ConstantVariable(0), operand)
    if isinstance(operand, ScalarVariable):
        if symbol == "~":
            return unary_op(tracer, symbol, operand.specialize(tracer))
        text = f"{symbol}({operand.text})" if operand.known else None
        return tracer.scalar_call(fn, [operand], text, operand.sources)
    cls = operand.python_type()
    if lookup_mro(cls, name)[0] is MISSING:
        tracer.raise_error(TypeError, f"bad operand type for unary {symbol}: {type_name(cls)!r}")
    return tracer.call(load_special(tracer, operand, name), [], {})
