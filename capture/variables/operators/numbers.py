"""Holds the folding of constants, and arithmetic and comparison of numbers in the graph."""

from __future__ import annotations

import math
from typing import Any

from capture import break_reasons as reasons
from capture.sources import SizeSource, StrideSource
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.constant import (
    ConstantVariable,
    ScalarVariable,
    boolean,
    guard_evaluates,
    guard_expression,
)
from capture.variables.sizes import SizeVariable, as_size, decide, decided, size_arithmetic

_SCALAR_OPS = frozenset({"+", "-", "*", "/", "//", "%", "**"})
_BIT_OPS = frozenset({"<<", ">>", "&", "|", "^"})
_DIVISIONS = frozenset({"/", "//", "%"})
_NUMBERS = (int, float, bool)
FOLD_LIMIT = 1 << 16


def fold(tracer: Tracer, fn: Any, *args: Any) -> Variable:
    """Call a pure function on constants; what it raises the traced program raises."""
    try:
        result = fn(*args)
    except Exception as error:
        tracer.raise_real(error)
    return tracer.wrap_result(result)


def constant_binary(
    tracer: Tracer, symbol: str, fn: Any, left: ConstantVariable, right: ConstantVariable
) -> Variable:
    """Fold an operator on two constants, unless the result would be huge."""
    a, b = left.value, right.value
    if symbol in ("*", "**", "<<"):
        sizes = [len(v) for v in (a, b) if isinstance(v, (str, bytes))]
        count = [v for v in (a, b) if type(v) is int]
        if sizes and count and sizes[0] * count[0] > FOLD_LIMIT:
            unsupported(reasons.UNKNOWN_OPERATION, "a repetition that makes a huge string")
        if symbol == "**" and len(count) == 2 and abs(a) > 1 and b * a.bit_length() > FOLD_LIMIT:
            unsupported(reasons.UNKNOWN_OPERATION, "a power that makes a huge number")
    return fold(tracer, fn, a, b)


def scalar_text(v: Variable, sources: list[Any]) -> str:
    """The expression of a number over ``a0..``, its sources appended to ``sources``."""
    if isinstance(v, ConstantVariable):
        if isinstance(v.value, float) and not math.isfinite(v.value):
            return f"(float('{v.value!r}'))"
        return f"({v.value!r})"
    assert isinstance(v, ScalarVariable)
    text = v.text
    # Renumber from the highest name down, so that no new name is renamed again.
    for i in reversed(range(len(v.sources))):
        if v.sources[i] not in sources:
            sources.append(v.sources[i])
        text = text.replace(f"a{i}", f"#{sources.index(v.sources[i])}")
    return "(" + text.replace("#", "a") + ")"


def known_number(v: Variable) -> Any:
    """The number in the call that is being captured."""
    if isinstance(v, ConstantVariable):
        return v.value
    assert isinstance(v, ScalarVariable)
    return v.example


def _is_known(v: Variable) -> bool:
    return isinstance(v, ConstantVariable) or (isinstance(v, ScalarVariable) and v.known)


def _unknown_binary(
    tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable
) -> Variable | None:
    """Arithmetic on a number that only the graph knows; its type must follow from the types."""
    if symbol == "**" and not _power_keeps_type(left, right):
        if float not in (left.python_type(), right.python_type()):
            return None
        fn = math.pow  # the same power, but an error where Python's would be complex
    return tracer.scalar_call(fn, [left, right], None, ())


def _power_keeps_type(base: Variable, exponent: Variable) -> bool:
    """True if the type of a power does not depend on the numbers (2 ** -1, (-8.0) ** 0.5)."""
    if exponent.python_type() is float:
        return isinstance(base, ConstantVariable) and base.value > 0
    return base.python_type() is float


def _guard_type_of_power(tracer: Tracer, base: Variable, exponent: Variable) -> bool:
    """Guard that a power of known numbers has the type that it has now; False if it may not."""
    if exponent.python_type() is not float:
        if base.python_type() is not float and not follows_from_sizes(base, exponent):
            return False  # the graph takes no powers of integers
        decides = exponent
    elif known_number(base) >= 0:
        decides = base
    else:
        return False
    if isinstance(decides, ScalarVariable):
        outcome = bool(known_number(decides) >= 0)
        guard_expression(tracer, f"(({decides.text}) >= 0) is {outcome}", decides.sources)
    return True


def follows_from_sizes(*operands: Variable) -> bool:
    """True for numbers known in advance, some of which follow from sizes."""
    return any(
        isinstance(v, ScalarVariable)
        and v.known
        and any(isinstance(source, SizeSource | StrideSource) for source in v.sources)
        for v in operands
    )


def _is_huge(number: int) -> bool:
    """True for integers whose text is not worth having in a guard."""
    return number.bit_length() > 256


def scalar_binary(
    tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable
) -> Variable | None:
    """Arithmetic on a number of the graph: one more node, in Python's own arithmetic."""
    if symbol not in _SCALAR_OPS and not (symbol in _BIT_OPS and follows_from_sizes(left, right)):
        return None
    if isinstance(left, SizeVariable) or isinstance(right, SizeVariable):
        found = size_arithmetic(tracer, symbol, left, right)
        if found is not None:
            return found
    for v in (left, right):
        if isinstance(v, ConstantVariable) and type(v.value) not in _NUMBERS:
            return None
        if not isinstance(v, (ConstantVariable, ScalarVariable)):
            return None
    if not (_is_known(left) and _is_known(right)):
        return _unknown_binary(tracer, symbol, fn, left, right)
    if symbol == "**" and not _power_keeps_type(left, right):
        if not _guard_type_of_power(tracer, left, right):
            return None
    try:
        example = fn(known_number(left), known_number(right))
    except ArithmeticError:
        return None
    if type(example) not in (int, float) or (isinstance(example, int) and _is_huge(example)):
        return None
    if any(type(known_number(v)) is int and _is_huge(known_number(v)) for v in (left, right)):
        return None
    sources: list[Any] = []
    text = f"{scalar_text(left, sources)} {symbol} {scalar_text(right, sources)}"
    if len(text) > 400:
        return None
    raises = symbol in ("**", "<<", ">>") or (
        symbol == "/" and float not in (left.python_type(), right.python_type())
    )
    if raises:  # that nothing is raised is known beforehand: the graph cannot fail on it
        guard_evaluates(tracer, text, tuple(sources))
    elif symbol in _DIVISIONS and isinstance(right, ScalarVariable):
        if not right.scalar.nonzero:
            guard_expression(tracer, f"({right.text}) != 0", right.sources)
            right.scalar.nonzero = True
    return tracer.scalar_call(fn, [left, right], text, tuple(sources), sure=raises)


def compare_scalars(
    tracer: Tracer, symbol: str, fn: Any, left: Variable, right: Variable
) -> Variable:
    """Compare numbers of the graph: the outcome is known now and guarded as an expression."""
    for v in (left, right):
        if isinstance(v, ConstantVariable) and type(v.value) not in _NUMBERS:
            return fold(tracer, fn, known_number(left), known_number(right))
    if isinstance(left, SizeVariable) or isinstance(right, SizeVariable):
        a, b = as_size(tracer, left), as_size(tracer, right)
        if a is not None and b is not None:
            if decided(tracer, fn, a, b):
                return boolean(decide(tracer, fn, a, b))
            return tracer.scalar_call(fn, [left, right], None, ())
    if not (_is_known(left) and _is_known(right)):
        return tracer.scalar_call(fn, [left, right], None, ())
    sources: list[Any] = []
    text = f"{scalar_text(left, sources)} {symbol} {scalar_text(right, sources)}"
    outcome = bool(fn(known_number(left), known_number(right)))
    guard_expression(tracer, f"({text}) is {outcome}", tuple(sources))
    return boolean(outcome)
