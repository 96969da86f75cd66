"""Holds functions, methods, cells, iterators and generators; must not know the interpreter."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from capture.sources import CellContentsSource, Source
from capture.variables.base import MISSING, LazyVariable, Variable, births
from capture.variables.objects import ObjectVariable

if TYPE_CHECKING:
    from collections.abc import Callable

    from capture.variables.base import Tracer
    from capture.variables.containers import DictVariable


class CellVariable(Variable):
    """A closure cell. ``contents`` is None while unknown or unbound (see ``loaded``)."""

    __slots__ = ("born", "cell", "contents", "loaded")

    def __init__(self, cell: types.CellType | None = None, source: Source | None = None) -> None:
        super().__init__(source)
        self.born = next(births)
        self.cell = cell
        self.contents: Variable | None = None
        self.loaded = cell is None

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return types.CellType

    def get(self, tracer: Tracer) -> Variable | None:
        """The contents, or None if the cell is empty."""
        if not self.loaded:
            assert self.cell is not None
            assert self.source is not None
            self.loaded = True
            tracer.guard_cell(self)
            try:
                value = self.cell.cell_contents
            except ValueError:
                return None
            self.contents = LazyVariable(value, CellContentsSource(self.source))
        return self.contents

    def set(self, tracer: Tracer, value: Variable | None) -> None:
        """Store a value (None empties the cell) and journal it."""
        tracer.effects.cell_set(self)
        self.loaded = True
        self.contents = value


class FunctionVariable(ObjectVariable):
    """A Python function: one that existed before, or one made during capture."""

    __slots__ = (
        "annotations", "closure", "code", "defaults", "globals", "kwdefaults", "name",
        "qualname",
    )  # fmt: skip

    def __init__(
        self,
        code: types.CodeType,
        globals_: DictVariable,
        *,
        name: str,
        qualname: str,
        closure: list[CellVariable],
        defaults: list[Variable],
        kwdefaults: dict[str, Variable],
        value: Any = MISSING,
        source: Source | None = None,
    ) -> None:
        super().__init__(types.FunctionType, value, source)
        self.code = code
        self.globals = globals_
        self.name = name
        self.qualname = qualname
        self.closure = closure
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.annotations: Variable | None = None

    def describe(self) -> str:
        """A short text for messages."""
        return self.qualname


#: Types of methods in C, which bind themselves.
BINDING = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


class MethodVariable(Variable):
    """A bound method: of a Python function, or of a C method descriptor."""

    __slots__ = ("fn", "instance")

    def __init__(self, fn: Variable, instance: Variable, source: Source | None = None) -> None:
        self.source = source
        self.created_at = -1
        self.fn = fn
        self.instance = instance

    def python_type(self) -> type:
        """The exact Python type of the value."""
        if isinstance(self.fn, BuiltinVariable) and isinstance(self.fn.value, BINDING):
            return types.MethodWrapperType if self.fn.is_slot else types.BuiltinMethodType
        return types.MethodType  # ``types.MethodType`` binds any other callable, too

    def describe(self) -> str:
        """A short text for messages."""
        return self.fn.describe()


class BuiltinVariable(Variable):
    """A callable or descriptor implemented in C; guarded by identity where it can change."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.source = source
        self.created_at = -1
        self.value = value

    @property
    def is_slot(self) -> bool:
        """True for slot wrappers such as ``object.__init__``."""
        return isinstance(self.value, types.WrapperDescriptorType)

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return type(self.value)

    def describe(self) -> str:
        """A short text for messages."""
        value = self.value
        owner = getattr(value, "__objclass__", None)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if owner is not None and name and "." not in str(name):
            return f"{owner.__name__}.{name}"
        module = getattr(value, "__module__", None)
        if name and module and module != "builtins":
            return f"{module}.{name}"
        return str(name or value)


class PartialVariable(ObjectVariable):
    """A ``functools.partial`` object."""

    __slots__ = ("args", "fn", "keywords")

    def __init__(
        self,
        cls: type,
        fn: Variable,
        args: list[Variable],
        keywords: dict[str, Variable],
        value: Any = MISSING,
        source: Source | None = None,
    ) -> None:
        super().__init__(cls, value, source)
        self.fn = fn
        self.args = args
        self.keywords = keywords


class MadeCallableVariable(ObjectVariable):
    """What ``operator.itemgetter(...)`` and its kin made: calls come down to a Python function."""

    __slots__ = ("args", "function", "keywords", "maker")

    def __init__(
        self,
        cls: type,
        maker: Any,
        args: list[Variable],
        keywords: dict[str, Variable],
        function: Variable,
    ) -> None:
        super().__init__(cls)
        self.maker = maker
        self.args = args
        self.keywords = keywords
        self.function = function


class IteratorVariable(Variable):
    """An iterator made during capture. ``advance`` gives the next item or None at the end.

    ``kind`` and ``parts`` say how to rebuild the iterator where it stands.
    """

    __slots__ = ("__weakref__", "advance", "cls", "done", "kind", "parts", "position", "target")

    def __init__(
        self,
        cls: type,
        kind: str,
        advance: Callable[[Tracer, IteratorVariable], Variable | None],
        target: Any = None,
        parts: list[Variable] | None = None,
    ) -> None:
        super().__init__(None)
        self.cls = cls
        self.kind = kind
        self.advance = advance
        self.target = target
        self.parts = parts or []
        self.position = 0
        self.done = False

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return self.cls

    def next(self, tracer: Tracer) -> Variable | None:
        """The next item, or None when exhausted; an exhausted iterator stays so."""
        if self.done:
            return None
        tracer.mutations += 1
        item = self.advance(tracer, self)
        if item is None:
            self.done = True
        return item


class GeneratorVariable(Variable):
    """A generator whose body is run inside the capture, as a coroutine of the interpreter."""

    __slots__ = ("args", "fn", "frame", "kwargs", "running", "state")

    def __init__(
        self, fn: FunctionVariable, frame: Any, args: list[Variable], kwargs: dict[str, Variable]
    ) -> None:
        super().__init__(None)
        self.fn = fn
        self.frame = frame
        self.args = args
        self.kwargs = kwargs
        self.state = "created"
        self.running = False

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return types.GeneratorType
