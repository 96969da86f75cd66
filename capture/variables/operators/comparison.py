"""Holds comparison, identity and containment. Source: ``Objects/object.c`` (``do_richcompare``)."""

from __future__ import annotations

import collections
import enum
import operator
import types
import weakref
from typing import Any

from capture import break_reasons as reasons
from capture.guards.kinds import IdIs, IsNotSame, IsSame
from capture.polyfills.arguments import type_name
from capture.variables.attributes import type_source_of
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import (
    FALSE,
    TRUE,
    ConstantVariable,
    ScalarVariable,
    boolean,
    guard_expression,
)
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    RangeVariable,
    SequenceVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
)
from capture.variables.functions import BuiltinVariable, MethodVariable
from capture.variables.identities import IdentityVariable, same_address
from capture.variables.iteration import items_of, iterator_or, next_item
from capture.variables.mixed_enums import plain_value
from capture.variables.objects import (
    ClassVariable,
    ObjectVariable,
    lookup_mro,
    type_attribute,
)
from capture.variables.operators.arithmetic import is_not_implemented, is_tensor_operand
from capture.variables.operators.numbers import compare_scalars, fold
from capture.variables.operators.set_algebra import set_entries, set_key
from capture.variables.operators.subscripts import index_value
from capture.variables.operators.tables import COMPARE
from capture.variables.operators.truth import truth
from capture.variables.tensor import TensorVariable
from capture.variables.weak import WeakVariable, referent


def contains(tracer: Tracer, container: Variable, item: Variable) -> Variable:
    """``item in container``."""
    container, item = container.realize(tracer), item.realize(tracer)
    cls = container.python_type()
    if isinstance(container, TensorVariable):
        unsupported(reasons.DATA_DEPENDENT, "`in` on a tensor")
    raw, where = type_attribute(tracer, cls, type_source_of(tracer, container), "__contains__")
    if isinstance(raw, types.FunctionType):
        return boolean(
            truth(tracer, tracer.call(tracer.wrap_static(raw, where), [container, item], {}))
        )
    container = plain_value(container, "__contains__")
    if isinstance(container, ConstantVariable) and isinstance(container.value, (str, bytes)):
        item = plain_value(item)
    if isinstance(item, ScalarVariable) and _is_none_of(tracer, container, item):
        return FALSE
    if isinstance(container, ConstantVariable) and isinstance(
        item, (ConstantVariable, ScalarVariable)
    ):
        value = item.value if isinstance(item, ConstantVariable) else item.specialize(tracer).value
        return fold(tracer, operator.contains, container.value, value)
    if isinstance(container, DictVariable):
        return boolean(container.get(tracer, item) is not None)
    if isinstance(container, SetVariable):
        return boolean(set_key(tracer, item) in container.entries(tracer))
    if isinstance(container, DictViewVariable) and container.kind == "keys":
        return boolean(container.target.get(tracer, item) is not None)
    if isinstance(container, RangeVariable) and item.python_type() in (int, bool):
        number = index_value(tracer, item)
        if number is not None:
            return boolean(number in container.value)
    if isinstance(container, ClassVariable) and isinstance(container.value, enum.EnumMeta):
        value = tracer.as_python(item)
        if value is not MISSING:
            return fold(tracer, operator.contains, container.value, value)
    if raw is MISSING:
        kind = type_name(container.python_type())
        candidates = iterator_or(tracer, container, f"argument of type {kind!r} is not iterable")
        while (candidate := next_item(tracer, candidates)) is not None:
            if same_or_equal(tracer, candidate, item):
                return TRUE
        return FALSE
    if isinstance(container, (SequenceVariable, DictViewVariable, RangeVariable)):
        for candidate in items_of(tracer, container):
            if same_or_equal(tracer, candidate, item):
                return TRUE
        return FALSE
    unsupported(reasons.UNKNOWN_OPERATION, f"`in` on {container.describe()}")


_FEW = 32


def _is_none_of(tracer: Tracer, container: Variable, item: ScalarVariable) -> bool:
    """True for an integer that is none of a few numbers, which is guarded, not its value.

    So a count of steps may go on where a program compares it with milestones.
    """
    if item.python_type() is not int or not item.known:
        return False
    if isinstance(container, DictViewVariable) and container.kind == "keys":
        container = container.target
    if isinstance(container, DictVariable):
        if not (container.loaded or _are_few_integers(list(dict.keys(container.value)))):
            return False
        keys = list(container.load(tracer))
    elif isinstance(container, SetVariable):
        keys = list(container.entries(tracer))
    elif isinstance(container, ConstantVariable) and type(container.value) in (tuple, frozenset):
        keys = list(container.value)
    else:
        return False
    if not _are_few_integers(keys) or item.example in keys:
        return False
    guard_expression(tracer, f"({item.text}) not in {tuple(keys)!r}", item.sources)
    return True


def _are_few_integers(keys: list[Any]) -> bool:
    return 0 < len(keys) <= _FEW and all(type(key) is int for key in keys)


def compare(tracer: Tracer, symbol: str, left: Variable, right: Variable) -> Variable:
    """``left <symbol> right`` for the six rich comparisons."""
    left, right = left.realize(tracer), right.realize(tracer)
    fn, name, reflected = COMPARE[symbol]
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return fold(tracer, fn, left.value, right.value)
    if isinstance(left, TensorVariable) or isinstance(right, TensorVariable):
        if is_tensor_operand(left) and is_tensor_operand(right):
            other = right if isinstance(left, TensorVariable) else left
            if isinstance(other, ConstantVariable) and not isinstance(
                other.value, (int, float, complex)
            ):
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
        elif not _plain_comparison(receiver, other, raw):
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
        f"{symbol!r} not supported between instances of "
        f"{type_name(left_cls)!r} and {type_name(right_cls)!r}",
    )


_FAMILIES: tuple[tuple[type, type], ...] = (
    (SequenceVariable, list), (SequenceVariable, tuple), (SequenceVariable, collections.deque),
    (DictVariable, dict), (SetVariable, object), (SliceVariable, object), (RangeVariable, object),
    (MethodVariable, object),
)  # fmt: skip


def _plain_comparison(v: Variable, other: Variable, raw: Any) -> bool:
    """True if a built-in comparison only knows its own kind, and the other is of another."""
    if raw is MISSING or raw in _OBJECT_COMPARE:
        return True
    for kind, base in _FAMILIES:
        if isinstance(v, kind) and isinstance(other, kind):
            if issubclass(v.python_type(), base) and issubclass(other.python_type(), base):
                return False
    return isinstance(
        v, (ConstantVariable, SequenceVariable, DictVariable, SetVariable, SliceVariable,
            RangeVariable, ScalarVariable, MethodVariable, BuiltinVariable)
    )  # fmt: skip


_OBJECT_COMPARE = frozenset(
    getattr(object, f"__{name}__") for name in ("eq", "ne", "lt", "le", "gt", "ge")
)


def container_compare(
    tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable
) -> Variable | None:
    """Comparison of built-in containers, or None."""
    if isinstance(left, SequenceVariable) and isinstance(right, SequenceVariable):
        method = COMPARE[symbol][1]
        for base in (tuple, list, collections.deque):
            native = base.__dict__.get(method)
            if (
                issubclass(left.cls, base)
                and issubclass(right.cls, base)
                and lookup_mro(left.cls, method)[0] is native
                and lookup_mro(right.cls, method)[0] is native
            ):
                return compare_sequences(tracer, symbol, left, right)
    if (
        isinstance(left, DictVariable)
        and isinstance(right, DictVariable)
        and symbol in ("==", "!=")
    ):
        natives = {lookup_mro(v.cls, "__eq__")[0] for v in (left, right)}
        if natives <= {dict.__eq__, collections.OrderedDict.__eq__}:
            a, b = left.load(tracer), right.load(tracer)
            if dict.__eq__ not in natives and list(a) != list(b):
                return boolean(symbol == "!=")
            same = len(a) == len(b) and all(
                k in b and same_or_equal(tracer, v[1], b[k][1]) for k, v in a.items()
            )
            return boolean(same == (symbol == "=="))
    a_set, b_set = set_entries(tracer, left), set_entries(tracer, right)
    if a_set is not None and b_set is not None:
        return boolean(fn(a_set.keys(), b_set.keys()))
    if isinstance(left, SliceVariable) and isinstance(right, SliceVariable):
        return compare_sequences(
            tracer, symbol, TupleVariable(left.parts), TupleVariable(right.parts)
        )
    if isinstance(left, RangeVariable) and isinstance(right, RangeVariable):
        return fold(tracer, fn, left.value, right.value)
    if (
        isinstance(left, MethodVariable)
        and isinstance(right, MethodVariable)
        and symbol in ("==", "!=")
    ):
        same = is_same(tracer, left.instance, right.instance) and is_same(tracer, left.fn, right.fn)
        return boolean(same == (symbol == "=="))
    if isinstance(left, BuiltinVariable) and isinstance(right, BuiltinVariable):
        return fold(tracer, fn, left.value, right.value)
    if isinstance(left, WeakVariable) or isinstance(right, WeakVariable):
        if not (isinstance(left, WeakVariable) and isinstance(right, WeakVariable)) or (
            left.is_proxy or right.is_proxy or symbol not in ("==", "!=")
        ):
            unsupported(reasons.UNKNOWN_OPERATION, f"`{symbol}` on weak references")
        return compare(tracer, symbol, referent(tracer, left), referent(tracer, right))
    if isinstance(left, IdentityVariable) and isinstance(right, IdentityVariable):
        if symbol in ("==", "!="):
            return boolean(same_address(tracer, left, right) == (symbol == "=="))
    return None


# Each pair of longer sequences that come from outside would cost two guards: Python compares them.
_LONG = 1 << 10


def compare_sequences(
    tracer: Tracer, symbol: str, left: SequenceVariable, right: SequenceVariable
) -> Variable:
    """Lexicographic comparison: the first unequal pair decides."""
    a, b = left.items(tracer), right.items(tracer)
    if symbol in ("==", "!=") and len(a) != len(b):
        return boolean(symbol == "!=")
    if min(len(a), len(b)) > _LONG and (left.source is not None or right.source is not None):
        unsupported(reasons.UNKNOWN_OPERATION, f"`{symbol}` on long sequences")
    for x, y in zip(list(a), list(b), strict=False):
        if same_or_equal(tracer, x, y):
            continue
        if symbol in ("==", "!="):
            return boolean(symbol == "!=")
        return compare(tracer, symbol, x, y)
    return boolean(COMPARE[symbol][0](len(a), len(b)))


def equal(tracer: Tracer, left: Variable, right: Variable) -> bool:
    """``bool(left == right)``."""
    left, right = left.realize(tracer), right.realize(tracer)
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return truth(tracer, compare(tracer, "==", left, right))
    with tracer.effects.undisturbed("a comparison with side effects"):
        return truth(tracer, compare(tracer, "==", left, right))


def same_or_equal(tracer: Tracer, left: Variable, right: Variable) -> bool:
    """``left is right or left == right``, as containers ask: identity only counts for nan."""
    left, right = left.realize(tracer), right.realize(tracer)
    numbers = (ConstantVariable, ScalarVariable)
    if isinstance(left, numbers) and isinstance(right, numbers):
        if left is right or equal(tracer, left, right):
            return True
        values = [v.value if isinstance(v, ConstantVariable) else v.example for v in (left, right)]
        return values[0] != values[0] and is_same(tracer, left, right)
    return is_same(tracer, left, right) or equal(tracer, left, right)


def is_same(tracer: Tracer, left: Variable, right: Variable) -> bool:
    """``left is right``, guarded where the answer depends on what is passed in."""
    left, right = left.realize(tracer), right.realize(tracer)
    if left is right:
        return True
    if isinstance(left, WeakVariable) or isinstance(right, WeakVariable):
        if left.source is not None or right.source is not None:
            kinds = (weakref.ref, weakref.ProxyType, weakref.CallableProxyType)
            if issubclass(left.python_type(), kinds) and issubclass(right.python_type(), kinds):
                unsupported(reasons.UNKNOWN_OPERATION, "`is` on weak references")
        return False
    if isinstance(left, IdentityVariable) or isinstance(right, IdentityVariable):
        if left.python_type() is not right.python_type():
            return False
        unsupported(reasons.UNKNOWN_OPERATION, "`is` on ids")
    if isinstance(left, ScalarVariable) or isinstance(right, ScalarVariable):
        return same_number(tracer, left, right)
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return same_constant(tracer, left, right)
    if isinstance(left, BuiltinVariable) and isinstance(right, BuiltinVariable):
        return left.value is right.value
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ConstantVariable) and isinstance(other, ObjectVariable):
            return other.value is not MISSING and one.value is other.value
    if isinstance(left, ObjectVariable) and isinstance(right, ObjectVariable):
        if isinstance(left, TupleVariable) and isinstance(right, TupleVariable):
            if left.cls is right.cls is tuple and not left.items(tracer):
                return not right.items(tracer)  # there is one empty tuple
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


def same_number(tracer: Tracer, left: Variable, right: Variable) -> bool:
    """``is`` on numbers of which one at least is an input of the graph or computed from one."""
    if left.python_type() is not right.python_type():
        return False
    if left.source is not None and right.source is not None:
        examples = [v.example for v in (left, right) if isinstance(v, ScalarVariable)]
        if len(examples) == 2:
            same = examples[0] is examples[1]
            tracer.guard((IsSame if same else IsNotSame)(left.source, right.source))
            return same
    left = left.specialize(tracer) if isinstance(left, ScalarVariable) else left
    right = right.specialize(tracer) if isinstance(right, ScalarVariable) else right
    assert isinstance(left, ConstantVariable)
    assert isinstance(right, ConstantVariable)
    return same_constant(tracer, left, right)


_SINGLETONS = frozenset({type(None), bool, type(Ellipsis), type(NotImplemented)})


def same_constant(tracer: Tracer, left: ConstantVariable, right: ConstantVariable) -> bool:
    """``is`` on constants: equal ones from outside may or may not be one object."""
    a, b = left.value, right.value
    same = type(a) is type(b) and a is b
    if type(a) is not type(b) or type(a) in _SINGLETONS:
        return same
    if a != b and not (a != a and b != b):
        return same
    if left.source is not None and right.source is not None:
        tracer.guard((IsSame if same else IsNotSame)(left.source, right.source))
    elif left.source is not None or right.source is not None:
        if not same:
            unsupported(reasons.UNKNOWN_OPERATION, "`is` on equal constants")
        v = left if left.source is not None else right
        assert v.source is not None
        tracer.guard(IdIs(v.source, a))
    return same
