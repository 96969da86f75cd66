"""Holds ints that follow from symbolic sizes, and how numbers become sizes; no interpreter.

A decision on a size is torch's ``ShapeEnv``'s: what it learns serves the metadata of tensors too.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture import logs
from capture.graph.derived import DerivedValue
from capture.graph.symbols import Dim, Inexpressible, Undecided, fold
from capture.sources import ExpressionSource, Source
from capture.variables.base import Variable, unsupported
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import TupleVariable

if TYPE_CHECKING:
    from capture.graph.tensor_meta import TensorMeta
    from capture.graph.values import SizeValue, TensorValue
    from capture.variables.base import Tracer

__all__ = [
    "SizeVariable",
    "as_size",
    "decide",
    "decided",
    "expression",
    "extreme_size",
    "lift",
    "pin_sizes",
    "size_arithmetic",
    "size_of",
    "size_tuple",
]

_dynamic = logs.artifact("dynamic")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_PLACE = re.compile(r"\ba(\d+)\b")
_INTEGER_TEXT = re.compile(r"(?:a?\d+|[\s()+\-%]|\*(?!\*)|//)*")


class SizeVariable(ScalarVariable):
    """An int that is an expression over sizes (and ints) of the graph's inputs."""

    __slots__ = ("_expression",)

    def __init__(self, value: SizeValue) -> None:
        self.source = None
        self.created_at = -1
        self.scalar = value
        self._expression: tuple[str, tuple[Source, ...]] | None = None

    @property
    def dim(self) -> Dim:
        """The expression."""
        dim: Dim = self.scalar.dim  # type: ignore[attr-defined]
        return dim

    @property
    def text(self) -> str:
        """The number as an expression over the sources."""
        return self._as_expression()[0]

    @property
    def sources(self) -> tuple[Source, ...]:
        """What the expression is over."""
        return self._as_expression()[1]

    @property
    def known(self) -> bool:
        """True if it follows from the inputs; else it depends on data."""
        return self.dim.hint is not None

    def _as_expression(self) -> tuple[str, tuple[Source, ...]]:
        if not self.known:
            unsupported(reasons.SIZE_DEPENDS_ON_DATA, f"The value of {self.dim} is needed here")
        if self._expression is None:
            try:
                self._expression = expression(self.dim.shapes, self.dim.expr)
            except Inexpressible as error:
                unsupported(reasons.OPERATOR_METADATA, str(error))
        return self._expression

    def specialize(self, tracer: Tracer) -> ConstantVariable:
        """Treat the number as a constant from here on, and guard that it is the same."""
        if not self.known:
            unsupported(reasons.SIZE_DEPENDS_ON_DATA, f"The value of {self.dim} is needed here")
        if _dynamic.enabled:
            text = self.dim.shapes.text_of(self.dim.expr)
            _dynamic.info("%s: %s is taken to be %s", tracer.place(), text, self.example)
        decide(tracer, operator.eq, self.dim, self.dim.hint)
        return ConstantVariable(self.example)


def expression(shapes: Any, expr: Any) -> tuple[str, tuple[Source, ...]]:
    """Return a sympy expression as the text of a Python one over ``a0``, ``a1`` ..., its sources.

    Raises:
        Inexpressible: if it is not plain integer arithmetic over the graph's inputs.
    """
    sources: dict[Source, int] = {}

    def leaf(symbol: Any) -> str:
        number = shapes.inputs.get(symbol)
        if number is None:
            raise Inexpressible(f"{symbol} is no input")
        key = number.key
        if isinstance(key, ExpressionSource):
            places = [sources.setdefault(source, len(sources)) for source in key.sources]
            return "(" + _PLACE.sub(lambda found: f"a{places[int(found[1])]}", key.text) + ")"
        return f"a{sources.setdefault(key, len(sources))}"

    def apply(symbol: str, operands: list[Any]) -> str:
        if symbol == "not":
            return f"(not {operands[0]})"
        if symbol in ("max", "min"):
            return f"{symbol}({operands[0]}, {operands[1]})"
        return f"({operands[0]} {symbol} {operands[1]})"

    text = str(fold(expr, leaf, apply))
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:]:
        text = text[1:-1]
    return text, tuple(sources)


def size_of(tracer: Tracer, n: Any) -> Variable:
    """The variable of a size or stride."""
    if type(n) is Dim:
        return SizeVariable(tracer.graph.size_value(n))
    return ConstantVariable(n)


def size_tuple(tracer: Tracer, sizes: Iterable[Any], cls: type) -> TupleVariable:
    """The variable of a shape or of strides."""
    return TupleVariable([size_of(tracer, n) for n in sizes], cls)


def decide(tracer: Tracer, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    """Decide a comparison of sizes as it is in this call; later calls have to agree."""
    if type(left) is not Dim and type(right) is not Dim:
        return bool(relation(left, right))
    shapes = tracer.graph.symbolic()
    try:
        return shapes.holds(relation, left, right)
    except Undecided as error:
        unsupported(reasons.SIZE_DEPENDS_ON_DATA, str(error))
    except Inexpressible as error:
        unsupported(reasons.OPERATOR_METADATA, str(error))
    finally:
        shapes.note_place(tracer.place)


def decided(tracer: Tracer, relation: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    """Tell whether a comparison does not hang on data: all is known, or what is known suffices."""
    shapes = tracer.graph.symbolic()
    if not (shapes.depends_on_data(left) or shapes.depends_on_data(right)):
        return True
    try:
        shapes.holds(relation, left, right)
    except Undecided:
        return False
    return True


def _remainder(a: Any, b: Any) -> Any:
    return a - (a // b) * b


def pin_sizes(tracer: Tracer, value: TensorValue) -> TensorMeta:
    """Take a tensor's sizes and strides for constants from here on; its metadata then."""
    meta = value.meta
    if not meta.is_symbolic:
        return meta
    for n in (*meta.shape, *meta.stride):
        if type(n) is Dim:
            if n.hint is None:
                unsupported(reasons.SIZE_DEPENDS_ON_DATA, f"The value of {n} is needed here")
            decide(tracer, operator.eq, n, n.hint)
    shape, stride = (
        tuple(n.hint if type(n) is Dim else n for n in dims) for dims in (meta.shape, meta.stride)
    )
    value.meta = meta._replace(shape=shape, stride=stride)
    return value.meta


def as_size(tracer: Tracer, v: Variable) -> Any:
    """The int or ``Dim`` of a number that can take part in sizes, else None."""
    if isinstance(v, SizeVariable):
        return v.dim
    if isinstance(v, ConstantVariable):
        return int(v.value) if type(v.value) in (int, bool) else None
    return lift(tracer, v) if isinstance(v, ScalarVariable) else None


def lift(tracer: Tracer, v: ScalarVariable) -> Any:
    """The int or ``Dim`` of a number that changes from call to call, or None."""
    if isinstance(v, SizeVariable):
        return v.dim
    if not v.known:
        try:
            return tracer.graph.as_dim(v.scalar)
        except (ArithmeticError, Inexpressible):
            return None
    if v.python_type() is not int or v._text is None or type(v.example) is not int:
        return None
    if abs(v.example) >= 1 << 62:
        return None
    if _INTEGER_TEXT.fullmatch(v._text) is None:
        return _derived_size(tracer, v, v._text)
    shapes = tracer.graph.symbolic()
    numbers = []
    for source in v.sources:
        known = tracer.scalars.get(source)
        if known is None:
            dim = shapes.by_key.get(source)
            if dim is None:
                return None
        elif known.python_type() is not int or abs(known.example) >= 1 << 62:
            return None
        else:
            dim = shapes.number(source, source.name, known.example, known.scalar.node)
        numbers.append(shapes.symint(dim))
    names = {f"a{i}": number for i, number in enumerate(numbers)}
    try:
        return shapes.dim(eval(v._text, {"__builtins__": {}}, names))
    except (ArithmeticError, Inexpressible):
        return None
    finally:
        shapes.note_place(tracer.place)


def _derived_size(tracer: Tracer, v: ScalarVariable, text: str) -> Any:
    """The ``Dim`` of an int that no integer arithmetic gives: computed before the graph."""
    if not isinstance(v.scalar, DerivedValue):
        return None
    key = ExpressionSource(text, v.sources)
    number: int = v.example
    return tracer.graph.symbolic().number(key, key.name, number, v.scalar.node)


def size_arithmetic(
    tracer: Tracer, symbol: str, left: Variable, right: Variable
) -> Variable | None:
    """Arithmetic on sizes that gives a size, or None."""
    function = _FUNCTIONS.get(symbol)
    if function is None:
        return None
    a, b = as_size(tracer, left), as_size(tracer, right)
    if a is None or b is None:
        return None
    if symbol in ("//", "%"):
        if type(b) is int:
            if b <= 0:
                return None
        elif b.hint is None:
            if not tracer.graph.symbolic().is_positive(b):
                return None
        elif b.hint <= 0 or not decide(tracer, operator.gt, b, 0):
            return None
    try:
        if symbol == "%" and not tracer.graph.symbolic().is_never_negative(a):
            function = _remainder  # torch's own is for what is not negative
        return size_of(tracer, tracer.graph.symbolic().arithmetic(function, a, b))
    except (Inexpressible, ArithmeticError):
        return None


def extreme_size(tracer: Tracer, name: str, items: list[Variable]) -> Variable | None:
    """``min`` or ``max`` of sizes, without a decision which one it is; or None."""
    sizes = [as_size(tracer, item) for item in items]
    if len(sizes) < 2 or any(n is None for n in sizes):
        return None
    shapes = tracer.graph.symbolic()
    result = sizes[0]
    for n in sizes[1:]:
        if type(result) is int and type(n) is int:
            result = max(result, n) if name == "max" else min(result, n)
        else:
            result = shapes.extreme(name, result, n)
    return size_of(tracer, result)
