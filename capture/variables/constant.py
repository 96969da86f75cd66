"""Holds immutable values, and numbers computed in the graph; must not know the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.guards.kinds import Equals
from capture.guards.size_program import NumbersHold
from capture.variables.base import Variable, unsupported

if TYPE_CHECKING:
    from capture.graph.values import ScalarValue
    from capture.sources import Source
    from capture.variables.base import Tracer


class ConstantVariable(Variable):
    """An immutable value that is known now; if it has a source, its value is guarded."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.source = source
        self.created_at = -1
        self.value = value

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return type(self.value)

    def __repr__(self) -> str:
        return f"ConstantVariable({self.value!r})"


NONE = ConstantVariable(None)
TRUE = ConstantVariable(True)
FALSE = ConstantVariable(False)


def exactly(tracer: Tracer, result: Variable, kind: type, what: str) -> Variable:
    """What a special method gave, if it is of the type that Python asks for; else break."""
    result = result.realize(tracer)
    if result.python_type() is not kind:
        text = f"A TypeError or warning: {what} gave a {result.python_type().__name__}"
        unsupported(reasons.UNCAUGHT_EXCEPTION, text)
    return result


def boolean(value: object) -> ConstantVariable:
    """The constant True or False."""
    return TRUE if value else FALSE


def is_none(v: Variable) -> bool:
    """True for the constant None."""
    return isinstance(v, ConstantVariable) and v.value is None


class ScalarVariable(Variable):
    """An int or float that changes from call to call: an input of the graph or computed from one.

    ``text`` is the Python expression over ``sources`` (named ``a0``, ``a1``, ...) that gives the
    number, so that a decision on it can be guarded as an expression. There is none for what an
    operator of the graph gave: to decide on that is a graph break.
    """

    __slots__ = ("_sources", "_text", "scalar")

    def __init__(
        self,
        scalar: ScalarValue,
        text: str | None,
        sources: tuple[Source, ...],
        source: Source | None,
    ) -> None:
        super().__init__(source)
        self.scalar = scalar
        self._text = text
        self._sources = sources

    @property
    def sources(self) -> tuple[Source, ...]:
        """What the expression is over."""
        return self._sources

    @property
    def text(self) -> str:
        """The number as an expression over the sources."""
        if self._text is None:
            unsupported(reasons.DATA_DEPENDENT, "A number that only the graph knows")
        return self._text

    @property
    def known(self) -> bool:
        """False for what an operator of the graph gave, or was computed from such a number."""
        return self._text is not None

    @property
    def example(self) -> Any:
        """The number's value in the call that is being captured."""
        return self.scalar.example

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return self.scalar.pytype

    def specialize(self, tracer: Tracer) -> ConstantVariable:
        """Treat the number as a constant from here on, and guard that it is the same."""
        text = self.text  # breaks for what only the graph knows
        value = self.example
        if self.source is not None:
            tracer.guard(Equals(self.source, value))
            return ConstantVariable(value, self.source)
        if type(value) is float:  # by its text: nan equals nan, and -0.0 is not 0.0
            guard_expression(tracer, f"repr({text}) == {repr(value)!r}", self.sources)
        else:
            guard_expression(tracer, f"({text}) == {value!r}", self.sources)
        return ConstantVariable(value)


def guard_expression(tracer: Tracer, text: str, sources: tuple[Source, ...]) -> None:
    """Guard that the Python expression ``text`` over ``a0..`` (the sources' values) is true."""
    tracer.guard(NumbersHold(sources, text))


def guard_evaluates(tracer: Tracer, text: str, sources: tuple[Source, ...]) -> None:
    """Guard that the expression raises nothing, so that the graph cannot fail on it."""
    guard_expression(tracer, f"({text}) is not None", sources)
