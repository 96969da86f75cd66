"""Holds the making of an epilogue: expressions, temporaries, captures and outputs.

An epilogue runs after the graph. It gets captures (values that the guard tree read before the graph
ran) and the graph's outputs, replays the side effects in order, rebuilds what was made during
capture, and returns the frame's result or a ``Continue``. It is generated as Python source: no user
code runs in it, so it needs no user positions, and it reads well in dumps. Must not know guards.
"""

from __future__ import annotations

import math
import re
import types
from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.errors import GraphBreak
from capture.graph.derived import DerivedValue
from capture.hiding import hide
from capture.variables.base import LazyVariable, Variable
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.gradients import is_none
from capture.variables.objects import MODELS, ClassVariable
from capture.variables.sizes import SizeVariable
from capture.variables.tensor import TensorVariable
from capture.variables.texts import TextVariable

if TYPE_CHECKING:
    from collections.abc import Callable

    from capture.graph.values import ScalarValue, TensorValue
    from capture.side_effects import Effect
    from capture.sources import Source

__all__ = ["CannotRebuild", "Codegen"]


def _is_shared(value: Any) -> bool:
    """True for constants of which Python has one object: the others keep their identity."""
    return value is None or type(value) is bool or (type(value) is int and -5 <= value <= 256)


# How to rebuild a kind of variable, and how to replay a kind of effect: ``rebuild`` and ``replay``
# fill them.
REBUILD: dict[type, Callable[[Codegen, Any], str]] = {}
REPLAY: dict[str, Callable[[Codegen, Effect], None]] = {}

# what the text of a number may call
_FUNCTIONS: tuple[Any, ...] = (abs, bool, float, int, max, min, round, repr, math)


class CannotRebuild(GraphBreak):
    """A value made during capture has no rule to rebuild it; ``variable`` says which."""

    def __init__(self, variable: Variable) -> None:
        super().__init__(reasons.CANNOT_REBUILD, what=variable.describe())
        self.variable = variable


class Codegen:
    """Collects the lines of one epilogue."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.table: dict[str, Any] = {"__builtins__": {}}
        self.captures: dict[Source, str] = {}
        self.outputs: list[TensorValue | ScalarValue] = []
        self._output_names: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._consts: dict[int, str] = {}
        self._keep: list[Any] = []
        self._temps = 0
        self.changed: set[int] = set()  # ``id`` of the variables that the journal writes to
        self.unfilled: list[tuple[str, Variable]] = []  # made cells and their contents
        self.late: list[str] = []  # lines that may run code of the program's keys: the very last
        self.late_targets: set[int] = set()  # ``id`` of the variables that such lines fill

    # --- pieces of expressions --------------------------------------------------------------------

    def const(self, value: Any, hint: str = "k") -> str:
        """The name of a live object in the epilogue's table."""
        name = self._consts.get(id(value))
        if name is None:
            if isinstance(value, type) and value in MODELS:
                raise CannotRebuild(ClassVariable(value, None))
            name = self._consts[id(value)] = f"{hint}_{len(self._consts)}"
            self.table[name] = value
        return name

    def capture(self, source: Source) -> str:
        """The argument that holds a source's value."""
        name = self.captures.get(source)
        if name is None:
            name = self.captures[source] = f"c{len(self.captures)}"
        return name

    def output(self, value: TensorValue | ScalarValue) -> str:
        """The argument that holds an output of the graph."""
        name = self._output_names.get(id(value))
        if name is None:
            name = self._output_names[id(value)] = f"o{len(self.outputs)}"
            self.outputs.append(value)
        return name

    def tensor(self, v: TensorVariable) -> str:
        """The argument that holds a tensor made by the graph, with the ``grad`` it was given."""
        known = id(v.value) in self._output_names
        name = self.output(v.value)
        if not known and v.retains_grad:
            self.lines.append(f"{name}.retain_grad()")
        if not known and v.grad is not None and not is_none(v.grad):
            self.lines.append(f"{name}.grad = {self.ref(v.grad)}")
        return name

    def temp(self, expression: str) -> str:
        """A new local set to the expression."""
        name = f"t{self._temps}"
        self._temps += 1
        self.lines.append(f"{name} = {expression}")
        return name

    def literal(self, value: Any) -> str:
        """An expression for a constant."""
        if value is Ellipsis:
            return "..."  # the epilogue has no builtins
        return repr(value) if _is_shared(value) else self.const(value)

    def ref(self, v: Variable) -> str:
        """An expression for a variable; objects made during capture are built once."""
        if type(v) is LazyVariable:
            if v.real is None:
                assert v.source is not None
                return self.capture(v.source)
            v = v.real
        elif type(v) is TextVariable:
            if v.real is None:
                return self.text(v)
            v = v.real
        kind = type(v)
        if isinstance(v, ConstantVariable):
            if v.source is not None and not _is_shared(v.value):
                return self.capture(v.source)
            return self.literal(v.value)
        if v.source is not None:
            return self.capture(v.source)
        if isinstance(v, TensorVariable):
            return self.tensor(v)
        if isinstance(v, SizeVariable):
            return self.number(v)
        if isinstance(v, ScalarVariable):
            if isinstance(v.scalar, DerivedValue):
                return self.number(v)
            return self.output(v.scalar)
        known = self._names.get(id(v))
        if known is not None:
            if known == "":
                raise CannotRebuild(v)
            return known
        self._keep.append(v)
        for cls in kind.__mro__:
            rule = REBUILD.get(cls)
            if rule is not None:
                break
        else:
            raise CannotRebuild(v)
        self._names[id(v)] = ""
        name = rule(self, v)
        self._names[id(v)] = name
        return str(name)

    def number(self, v: ScalarVariable) -> str:
        """A number that follows from sizes: computed anew from what the guard tree read of them."""
        if not v.known:
            return self.output(v.scalar)
        known = self._names.get(id(v))
        if known is None:
            self._keep.append(v)
            text = v.text
            for i in reversed(range(len(v.sources))):
                text = re.sub(rf"\ba{i}\b", self.capture(v.sources[i]), text)
            for function in _FUNCTIONS:
                if function.__name__ in text:
                    name = self.const(function, function.__name__)
                    text = re.sub(rf"\b{function.__name__}(?=[(.])", name, text)
            known = self._names[id(v)] = text if text.isidentifier() else self.temp(text)
        return known

    def text(self, v: TextVariable) -> str:
        """A text of numbers, which nothing has asked for: made anew from them."""
        known = self._names.get(id(v))
        if known is None:
            self._keep.append(v)
            parts = [
                self.const(part)
                if isinstance(part, str)
                else f"{self.const(format)}({self.ref(part.number)}, {self.const(part.spec)})"
                for part in v.parts
            ]
            known = self._names[id(v)] = self.temp(" + ".join(parts))
        return known

    def name(self, v: Variable, expression: str) -> str:
        """Build a mutable object before its contents: whoever refers to it meanwhile finds it."""
        name = self._names[id(v)] = self.temp(expression)
        return name

    def refs(self, items: list[Variable]) -> str:
        """``a, b, `` for a tuple or list display."""
        return "".join(f"{self.ref(i)}, " for i in items)

    # --- effects ----------------------------------------------------------------------------------

    def replay(self, effect: Effect) -> None:
        """Emit one journalled write."""
        rule = REPLAY[effect.kind]
        rule(self, effect)

    def fill(self, target: Variable, line: str, runs_code: bool) -> None:
        """Emit a write to a dict or set; from the first that may run code on, the very last."""
        if runs_code:
            self.late_targets.add(id(target))
        (self.late if id(target) in self.late_targets else self.lines).append(line)

    # --- the end ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Fill the cells that were made: a function in a cell may refer to the cell itself."""
        while self.unfilled:
            name, contents = self.unfilled.pop()
            self.lines.append(f"{name}.cell_contents = {self.ref(contents)}")

    def finish(self, result: str, name: str, *more: str) -> tuple[types.FunctionType, str]:
        """The epilogue function and its source; arguments: captures, then outputs, then more."""
        arguments = ", ".join(
            [*self.captures.values(), *(f"o{i}" for i in range(len(self.outputs))), *more]
        )
        body = "\n    ".join([*self.lines, *self.late, f"return {result}"])
        source = f"def epilogue({arguments}):\n    {body}\n"
        namespace = self.table
        exec(compile(source, f"<capture epilogue of {name}>", "exec"), namespace)
        fn = namespace.pop("epilogue")
        hide(fn.__code__)
        return fn, source
