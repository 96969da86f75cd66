"""Holds the rules of numbers, hashes, ranges and slices."""

from __future__ import annotations

import math
import types
from typing import Any

from capture import break_reasons as reasons
from capture.errors import GraphBreak
from capture.polyfills.arguments import type_name
from capture.variables import operators
from capture.variables.attributes import load_special
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.builtins.folding import fold_pure
from capture.variables.builtins.registry import Args, Kwargs, Rule, rule
from capture.variables.constant import (
    FALSE,
    NONE,
    ConstantVariable,
    ScalarVariable,
    boolean,
    exactly,
    guard_evaluates,
)
from capture.variables.containers import SliceVariable, TupleVariable
from capture.variables.iteration import drained
from capture.variables.objects import ObjectVariable, lookup_mro
from capture.variables.read_numbers import as_bool, captures_numbers, takes_numbers
from capture.variables.sizes import SizeVariable, extreme_size
from capture.variables.tensor import TensorVariable


@rule(range)
def _range(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    bounds = [operators.index_value(tracer, a) for a in args]
    if None in bounds:
        return None
    return operators.fold(tracer, range, *bounds)


@rule(slice)
def _slice(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    parts = [NONE, *args, NONE] if len(args) == 1 else [*args, NONE][:3]
    return SliceVariable(list(parts))


@rule(bool)
def _bool(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args:
        return FALSE
    value = args[0].realize(tracer)
    is_number = isinstance(value, ScalarVariable) and not value.known
    if not is_number and not isinstance(value, TensorVariable):
        return boolean(operators.truth(tracer, value))
    try:
        return boolean(operators.truth(tracer, value))  # counters of optimizers are known
    except GraphBreak as signal:
        if signal.reason is not reasons.DATA_DEPENDENT or not takes_numbers(tracer):
            raise
    assert isinstance(value, TensorVariable | ScalarVariable)
    return as_bool(tracer, value)


def _number(cls: type, method: str) -> Rule:
    def convert(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        if len(args) != 1:
            return fold_pure(tracer, cls, args, kwargs)
        value = args[0]
        if isinstance(value, ScalarVariable):
            if value.python_type() is cls:
                return value
            text = f"{cls.__name__}({value.text})" if value.known else None
            return tracer.scalar_call(cls, [value], text, value.sources)
        if isinstance(value, TensorVariable):
            if not captures_numbers(tracer):
                unsupported(reasons.DATA_DEPENDENT, f"{cls.__name__}() of a tensor")
            return convert(tracer, [tracer.scalar_item(value)], kwargs)
        if isinstance(value, ObjectVariable):
            raw = lookup_mro(value.python_type(), method)[0]
            if isinstance(raw, types.FunctionType):
                found = tracer.call(load_special(tracer, value, method), [], {})
                return exactly(tracer, found, cls, method)
        return fold_pure(tracer, cls, args, kwargs)

    return convert


rule(int)(_number(int, "__int__"))


rule(float)(_number(float, "__float__"))


def _function_of_numbers(fn: Any, name: str) -> Rule:
    def apply(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        args = [arg.realize(tracer) for arg in args]
        if kwargs or not any(isinstance(arg, ScalarVariable) for arg in args):
            return None
        if len(args) == 1 and isinstance(args[0], ScalarVariable) and not args[0].known:
            return tracer.scalar_call(fn, args, None, ())
        for arg in args:
            if isinstance(arg, ConstantVariable):
                if type(arg.value) not in (int, float):
                    return None
            elif not isinstance(arg, ScalarVariable) or not arg.known:
                return None
        try:
            example = fn(*map(operators.known_number, args))
        except (ArithmeticError, ValueError, TypeError):
            return None  # folded, which raises in the program
        if type(example) not in (int, float):
            return None
        sources: list[Any] = []
        texts = [operators.scalar_text(arg, sources) for arg in args]
        text = f"{name}({', '.join(texts)})"
        guard_evaluates(tracer, text, tuple(sources))
        return tracer.scalar_call(fn, args, text, tuple(sources), sure=True)

    return apply


for _function in (
    math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.sinh, math.cosh, math.tanh,
    math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.sqrt, math.fabs,
    math.floor, math.ceil, math.trunc, math.radians, math.degrees, math.isqrt, math.gcd, math.lcm,
    math.pow, math.fmod, math.atan2, math.hypot, math.copysign,
):  # fmt: skip
    rule(_function)(_function_of_numbers(_function, f"math.{_function.__name__}"))
rule(round)(_function_of_numbers(round, "round"))


@rule(math.prod)
def _prod(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) != 1 or kwargs:
        return None
    items = [item.realize(tracer) for item in drained(tracer, args, 0)]
    if not any(isinstance(item, ScalarVariable) for item in items):
        return None
    result: Variable = ConstantVariable(1)
    for item in items:
        result = operators.binary_op(tracer, "*", result, item).realize(tracer)
    return result


@rule(divmod)
def _divmod(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    args = [arg.realize(tracer) for arg in args]
    if len(args) != 2 or not any(isinstance(arg, ScalarVariable) for arg in args):
        return None
    if not all(isinstance(arg, ScalarVariable | ConstantVariable) for arg in args):
        return None
    if any(
        isinstance(arg, ConstantVariable) and type(arg.value) not in (int, float) for arg in args
    ):
        return None
    left, right = args
    return TupleVariable(
        [operators.binary_op(tracer, symbol, left, right) for symbol in ("//", "%")]
    )


@rule(hash)
def _hash(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    value = tracer.as_python(args[0])
    if value is not MISSING:
        return operators.fold(tracer, hash, value)
    if isinstance(args[0], ObjectVariable):
        raw = lookup_mro(args[0].cls, "__hash__")[0]
        if isinstance(raw, types.FunctionType):
            found = tracer.call(load_special(tracer, args[0], "__hash__"), [], {})
            found = exactly(tracer, found, int, "__hash__")
            if not isinstance(found, ConstantVariable):
                return None
            return ConstantVariable(hash(_Hashed(found.value)))
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
def _abs(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    v = args[0]
    if isinstance(v, ScalarVariable):
        return tracer.scalar_call(abs, [v], f"abs({v.text})" if v.known else None, v.sources)
    if isinstance(v, TensorVariable):
        return tracer.graph_call("call_function", abs, [v], {})
    if isinstance(v, ObjectVariable):
        if lookup_mro(v.cls, "__abs__")[0] is MISSING:
            tracer.raise_error(TypeError, f"bad operand type for abs(): {type_name(v.cls)!r}")
        return tracer.call(load_special(tracer, v, "__abs__"), [], {})
    return None


def _known_extremum(tracer: Tracer, fn: Any, items: list[Variable]) -> Variable | None:
    """``min`` or ``max`` of floats known in advance, without a decision which one it is."""
    if len(items) < 2 or not any(isinstance(item, ScalarVariable) for item in items):
        return None
    for item in items:
        if not isinstance(item, (ConstantVariable, ScalarVariable)):
            return None
        if item.python_type() is not float or (isinstance(item, ScalarVariable) and not item.known):
            return None
    sources: list[Any] = []
    texts = [operators.scalar_text(item, sources) for item in items]
    text = f"{fn.__name__}({', '.join(texts)})"
    return tracer.scalar_call(fn, items, text, tuple(sources), sure=True)


def _extremum(fn: Any, symbol: str) -> Rule:
    def pick(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        if kwargs:
            return None
        items = drained(tracer, args, 0) if len(args) == 1 else args
        if not items:
            return None
        items = [item.realize(tracer) for item in items]
        if any(isinstance(item, SizeVariable) for item in items):
            found = extreme_size(tracer, fn.__name__, items)
            if found is not None:
                return found
        if any(isinstance(i, ScalarVariable) and not i.known for i in items):
            if all(isinstance(i, (ConstantVariable, ScalarVariable)) for i in items) and {
                i.python_type() for i in items
            } in ({float}, {int}):  # whichever it is, its type is known
                return tracer.scalar_call(fn, items, None, ())
        found = _known_extremum(tracer, fn, items)
        if found is not None:
            return found
        best = items[0]
        for item in items[1:]:
            if operators.truth(tracer, operators.compare(tracer, symbol, item, best)):
                best = item
        return best

    return pick


rule(min)(_extremum(min, "<"))


rule(max)(_extremum(max, ">"))


@rule(sum)
def _sum(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    items = [i.realize(tracer) for i in drained(tracer, args, 0)]
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantVariable(0))
    total = start.realize(tracer)
    if all(isinstance(i, ConstantVariable) for i in (*items, total)):
        known = [tracer.as_python(i) for i in items]
        return operators.fold(tracer, sum, known, tracer.as_python(total))
    if any(isinstance(i, ConstantVariable) and type(i.value) is float for i in items):
        return None
    if issubclass(total.python_type(), (str, bytes, bytearray)):
        return None
    for item in items:
        total = operators.binary_op(tracer, "+", total, item).realize(tracer)
    return total
