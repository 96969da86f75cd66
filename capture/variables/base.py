"""Holds the base of all symbolic values and what they see of the tracer; must not know the rest.

A *variable* stands for one Python value while a frame is executed symbolically. It knows its
Python type and, if the value existed before, the source it was reached through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from capture.errors import GraphBreak, Signal

if TYPE_CHECKING:
    from capture.errors import BreakReason
    from capture.graph.output_graph import OutputGraph
    from capture.guards.kinds import Guard
    from capture.sources import Source


class _Missing:
    """The type of the markers below."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


MISSING: Any = _Missing("MISSING")
"""No real object stands behind a variable: it was made during capture."""
DELETED: Any = _Missing("DELETED")
"""An attribute or key that the captured code deleted."""


class Variable:
    """One symbolic Python value."""

    __slots__ = ("created_at", "source")

    def __init__(self, source: Source | None = None) -> None:
        self.source = source
        self.created_at = -1

    def python_type(self) -> type:
        """The exact Python type of the value."""
        raise NotImplementedError(type(self).__name__)

    def realize(self, tracer: Tracer) -> Variable:
        """Return the variable proper, with the guards that its kind needs."""
        return self

    def describe(self) -> str:
        """A short text for messages: the user's name for the value or its type."""
        if self.source is not None:
            return self.source.name
        return f"a {self.python_type().__name__} made here"


class LazyVariable(Variable):
    """A value reached through a source that nothing has depended on yet: it costs no guard."""

    __slots__ = ("real", "value")

    def __init__(self, value: object, source: Source) -> None:
        super().__init__(source)
        self.value = value
        self.real: Variable | None = None

    def python_type(self) -> type:
        return type(self.value)

    def realize(self, tracer: Tracer) -> Variable:
        real = self.real
        if real is None:
            assert self.source is not None
            real = self.real = tracer.wrap(self.value, self.source)
        return real


class NullVariable(Variable):
    """The NULL that CPython keeps on its stack beside a callable."""

    __slots__ = ()

    def python_type(self) -> type:
        return _Missing


NULL = NullVariable()


class ObservedException(Signal):
    """The traced program raised: carries the exception as a variable, not as a real exception."""

    def __init__(self, exception: Variable) -> None:
        super().__init__(exception)
        self.exception = exception


class Effects(Protocol):
    """What variables see of the journal of side effects."""

    def set_attr(self, target: Variable, name: str, value: Any) -> None: ...
    def dict_op(self, target: Variable, op: str, key: Any, value: Any = None) -> None: ...
    def list_changed(self, target: Variable) -> None: ...
    def set_op(self, target: Variable, op: str, item: Any = None) -> None: ...
    def cell_set(self, target: Variable) -> None: ...


class Tracer(Protocol):
    """What variables see of the interpreter (see ``symbolic_convert``)."""

    graph: OutputGraph
    effects: Effects
    mutations: int
    ordinal: int

    def wrap(self, value: object, source: Source) -> Variable: ...
    def guard(self, guard: Guard) -> None: ...
    def call(self, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable: ...
    def getattr(self, obj: Variable, name: str) -> Variable: ...
    def equal(self, left: Variable, right: Variable) -> bool: ...
    def iterate(self, obj: Variable) -> list[Variable]: ...
    def raise_error(self, exc_type: type[BaseException], *args: object) -> NoReturn: ...
    def graph_call(
        self, kind: str, target: object, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable: ...
    def wrap_result(self, value: object) -> Variable: ...
    def is_dynamic(self, source: Source, value: object) -> bool: ...
    def run_generator(self, generator: Variable, sent: Variable | None) -> Variable | None: ...


def unsupported(reason: BreakReason, what: object = "") -> NoReturn:
    """Break the graph at the current instruction."""
    raise GraphBreak(reason, what=what)
