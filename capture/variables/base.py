"""Holds the base of all symbolic values and what they see of the tracer; must not know the rest.

A *variable* stands for one Python value while a frame is executed symbolically. It knows its
Python type and, if the value existed before, the source it was reached through.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from capture.errors import GraphBreak, Signal

if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import torch

    from capture.errors import BreakReason
    from capture.graph.output_graph import OutputGraph
    from capture.guards.guard import Guard
    from capture.sources import Source
    from capture.variables.constant import ScalarVariable
    from capture.variables.containers import DictVariable
    from capture.variables.functions import CellVariable, FunctionVariable, GeneratorVariable
    from capture.variables.objects import ClassVariable
    from capture.variables.tensor import TensorVariable
    from capture.variables.watches import Watch
    from capture.variables.weak import WeakVariable

Made = TypeVar("Made", bound="Variable")


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


births = itertools.count(1)
"""Numbers the variables of objects that can be written to, in the order of their making."""


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
        """The exact Python type of the value."""
        return type(self.value)

    def realize(self, tracer: Tracer) -> Variable:
        """Return the variable proper, with the guards that its kind needs."""
        real = self.real
        if real is None:
            assert self.source is not None
            real = self.real = tracer.wrap(self.value, self.source)
        return real


class CallableVariable(Variable):
    """A callable made during capture that no function of Python's stands for."""

    __slots__ = ()

    def call(
        self, tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable | FrameRequest:
        """Call it."""
        raise NotImplementedError(type(self).__name__)


class NullVariable(Variable):
    """The NULL that CPython keeps on its stack beside a callable."""

    __slots__ = ()

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return _Missing


NULL = NullVariable()


class ObservedException(Signal):
    """The traced program raised: carries the exception as a variable, not as a real exception.

    ``again``: it was raised before, and its traceback does not grow where this comes from.
    """

    again = False

    def __init__(self, exception: Variable) -> None:
        super().__init__(exception)
        self.exception = exception


@dataclass(slots=True)
class SizePlan:
    """What of a tensor input is symbolic.

    Attributes:
        sizes: the dimensions.
        strides: dimensions whose strides are symbols of their own.
        bounds: least and greatest size of some dimensions.
        marked: dimensions that the user marked: an error says if the program pins one.
    """

    sizes: frozenset[int]
    strides: frozenset[int] = frozenset()
    bounds: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    marked: frozenset[int] = frozenset()


class Effects(Protocol):
    """What variables see of the journal of side effects."""

    @property
    def pending(self) -> bool:
        """True if something older than the piece was written to."""

    @property
    def pending_beside_grad(self) -> bool:
        """Likewise, apart from ``grad`` of tensors."""

    def set_attr(self, target: Variable, name: str, value: Any) -> None:
        """Set (or delete, with ``DELETED``) an attribute."""

    def dict_op(self, target: Variable, op: str, key: Any, value: Any = None) -> None:
        """``set``, ``del``, ``clear`` or ``move`` on a dict."""

    def set_grad(self, target: Variable, value: Variable) -> None:
        """The ``grad`` of a tensor was assigned."""

    def list_changed(self, target: Variable) -> None:
        """A list was changed or appended to."""

    def set_op(self, target: Variable, op: str, item: Any = None) -> None:
        """``add`` or ``discard`` on a set."""

    def advanced(self, target: Variable) -> None:
        """An iterator that is older than the piece is moved on."""

    def cell_set(self, target: Variable) -> None:
        """A closure cell is about to be written."""

    def note_hashed(self, key: Variable) -> None:
        """Code of the program hashed a key."""

    def warned(
        self, text: str, category: type[Warning], place: tuple[str, int], names: dict[str, Any]
    ) -> None:
        """A warning was given, of a line of a module with these global names."""

    def undisturbed(self, what: str) -> AbstractContextManager[None]:
        """Break if what runs inside writes to an object that is older than this."""


class FrameState(Protocol):
    """What variables see of a frame that the interpreter runs."""

    generator: GeneratorVariable | None
    result: Variable


@dataclass(slots=True)
class FrameRequest:
    """A frame to be run; ``override`` replaces what it returns (by the instance made)."""

    frame: FrameState
    override: Variable | None = None


class Tracer(Protocol):
    """What variables see of the interpreter (see ``symbolic_convert``)."""

    graph: OutputGraph
    mutations: int
    """Counts what the captured code did; a break goes in front of what did nothing yet."""
    ordinal: int
    """The number of the current instruction in the order of execution."""
    identity: dict[int, Variable]
    """``id`` of a real object to its variable."""
    models: list[type]
    """What stands for the classes made so far."""
    keep_alive: list[object]
    """Real objects whose ``id`` is in use as a key."""
    tensors: dict[int, Variable]
    """``id`` of a value of the graph to its variable."""
    real_tensors: dict[Source, torch.Tensor]
    keys_used: dict[Source, None]
    """Tensors and objects that were used as keys by identity: they must stay different ones."""
    scalars: dict[Source, ScalarVariable]
    class_sources: dict[int, tuple[type, Source]]
    """``id`` of a class to the class and where it is: a metaclass may not let it be hashed."""
    by_identity: set[Source]
    """The sources of functions that are guarded by identity."""
    generators: list[GeneratorVariable]
    """All generators made so far."""
    watches: list[Watch]
    """Hooks on tensors of the graph that a backward call is to run."""
    sets_up_hooks: int
    """The instruction that set up hooks of a module last."""
    weak_references: list[WeakVariable]
    """All weak references and proxies made so far."""

    @property
    def effects(self) -> Effects:
        """The journal of side effects."""

    # values

    def wrap(self, value: object, source: Source) -> Variable:
        """The variable of a value reached through a source, guarded."""

    def wrap_static(self, value: object, source: Source | None) -> Variable:
        """The variable of a value that cannot change, or that has a source after all."""

    def wrap_result(self, value: object) -> Variable:
        """The variable of what the graph or a folded call gave."""

    def as_python(self, v: Variable) -> Any:
        """The real value of a variable that is made of constants only, else ``MISSING``."""

    def bounded(self, v: Variable) -> Variable:
        """A number of no more than 64 bits, guarded to be; others are taken for constants."""

    def real_value(self, v: TensorVariable) -> Any:
        """The real tensor behind an input, or ``MISSING``."""

    def tensor_grad(self, obj: TensorVariable) -> Variable:
        """``tensor.grad`` of an input."""

    def cell_variable(self, cell: types.CellType, source: Source) -> CellVariable:
        """The variable of a real cell; one per cell."""

    def class_source(
        self, cls: type, source: Source | None, cls_var: Variable | None
    ) -> Source | None:
        """Where a class can be reached from an instance's source, or its own variable."""

    def class_variable(self, cls: type, source: Source | None) -> ClassVariable:
        """The variable of a class that an object's type or an MRO led to."""

    def torch_module_global(self, name: str) -> Variable | None:
        """A global of ``torch.nn.modules.module``."""

    def calling_code(self) -> types.CodeType:
        """The code that makes the current call."""

    def plan_sizes(self, source: Source, value: torch.Tensor) -> SizePlan | None:
        """Which sizes and strides of an input are symbolic; None if all are static."""

    def place(self) -> str | None:
        """The user's line that is being executed."""

    def is_dynamic(self, source: Source, value: object) -> bool:
        """True if a number was seen to change: it is an input of the graph then."""

    # guards

    def guard(self, guard: Guard) -> None:
        """Add a guard."""

    def retract(self, guard: Guard) -> None:
        """Take back a guard whose ground capture itself has changed."""

    def guard_class_lacks(self, cls: type, source: Source, name: str) -> None:
        """Guard that a class has no attribute of its own of this name."""

    def guard_cell(self, cell: CellVariable) -> None:
        """Guard whether a cell is bound."""

    # the object protocol

    def truth(self, v: Variable) -> bool:
        """``bool(v)`` as a decision of the traced program."""

    def equal(self, left: Variable, right: Variable) -> bool:
        """``left == right`` as a decision of the traced program."""

    def hashed(self, v: Variable) -> Any:
        """A key for our own dicts that is equal where the traced program's key would be."""

    def iterate(self, obj: Variable) -> list[Variable]:
        """All items of an iterable, in a new list."""

    def count_iteration(self, done: int) -> None:
        """Bound the draining of an endless iterator."""

    def may_have_ended(self) -> bool:
        """True if the program may have dropped the last reference to an object in this piece."""

    # calls

    def start_call(
        self, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable | FrameRequest:
        """Begin a call: its result, or the frame that computes it."""

    def cuts(self, ordinal: int) -> bool:
        """True if the hook that this instruction registered is known to change gradients."""

    def cut(self, ordinal: int) -> NoReturn:
        """Start again, knowing that this hook changes gradients."""

    def warned_place(self, level: int | None) -> tuple[tuple[str, int] | None, dict[str, Any]]:
        """File and line so many frames up, None: out of torch, and the global names there."""

    def attempt(self, run: Callable[[], None]) -> bool:
        """Execute what the program does not do here, to learn about it; False if it cannot be."""

    def call(self, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """Call and wait for the result, within the current instruction."""

    def run_class_body(self, fn: FunctionVariable, namespace: DictVariable) -> None:
        """Execute the body of a class statement; its names go to the namespace."""

    def make_frame(self, fn: FunctionVariable, names: dict[str, Variable]) -> FrameState:
        """A frame of a Python function with its arguments bound."""

    def function_marker(self, fn: types.FunctionType) -> str | None:
        """How the user marked a function (``disable``, ``graph``, ...), or None."""

    def local_names(self) -> DictVariable:
        """``locals()`` in the current frame."""

    def global_names(self) -> DictVariable:
        """``globals()`` in the current frame."""

    def zero_argument_super(self) -> Variable:
        """``super()`` in the current frame."""

    def run_generator(self, generator: GeneratorVariable, sent: Variable | None) -> Variable | None:
        """Run a generator to its next yield; None when it is finished."""

    def close_generator(self, generator: GeneratorVariable) -> Variable:
        """``generator.close()``."""

    def throw_generator(self, generator: GeneratorVariable, args: list[Variable]) -> Variable:
        """``generator.throw(...)``."""

    # exceptions

    def handled_exception(self) -> Variable | None:
        """The exception that the innermost handler of the piece's frames handles, or None."""

    def raise_error(self, exc_type: type[BaseException], *args: object) -> NoReturn:
        """Raise in the traced program."""

    def raise_observed(self, exc_type: type[BaseException], args: list[Variable]) -> NoReturn:
        """As ``raise_error``, with arguments that are variables."""

    def raise_real(self, error: BaseException) -> NoReturn:
        """Raise in the traced program what a call made during capture raised."""

    def is_held(self, v: Variable) -> bool:
        """True if a frame that is being run refers to the value, directly or not."""

    # the graph

    def graph_call(
        self, kind: str, target: Any, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        """Add a call to the graph; its result as a variable."""

    def add_leaf_gradients(
        self,
        outputs: list[TensorVariable],
        grad_outputs: list[TensorVariable | None],
        leaves: list[TensorVariable],
        layouts: list[torch.layout],
        fresh: list[bool],
        retain_graph: bool,
        watched: list[TensorVariable] | None = None,
    ) -> list[TensorVariable]:
        """Add a backward call to the graph; the gradients of ``leaves``, and of what is watched."""

    def add_gradients(
        self,
        outputs: list[TensorVariable],
        grad_outputs: list[TensorVariable | None],
        inputs: list[TensorVariable],
        options: dict[str, bool],
    ) -> list[Variable]:
        """Add a call of ``torch.autograd.grad`` to the graph; the gradients, or None."""

    def scalar_call(
        self,
        fn: Any,
        args: list[Variable],
        text: str | None,
        sources: tuple[Source, ...],
        *,
        sure: bool = False,
    ) -> Variable:
        """Arithmetic on numbers in the graph; ``text`` is its expression over the sources.

        There is no text where only the graph knows one of the numbers. ``sure``: it cannot raise.
        """

    def decide(self, v: TensorVariable | ScalarVariable, what: str) -> bool:
        """The truth of a value of the graph, where it can be told beforehand; else break."""

    def scalar_item(self, tensor: TensorVariable) -> Variable:
        """``tensor.item()`` as a number that only the graph knows."""

    def scalar_items(self, tensor: TensorVariable) -> list[Variable]:
        """The items of ``tensor.tolist()``, for a tensor of one dimension."""

    def scalar_function(self, fn: Any, tensors: list[TensorVariable], pytype: type) -> Variable:
        """A number that a function of tensors gives when the graph runs."""

    def assume(self, condition: Variable) -> None:
        """Take a condition for granted that only the graph knows; else the piece starts again."""


def unsupported(reason: BreakReason, what: object = "") -> NoReturn:
    """Break the graph at the current instruction."""
    raise GraphBreak(reason, what=what)


def stamp(tracer: Tracer, v: Made) -> Made:
    """Note when a variable was made, so that a break can be put there if it cannot be rebuilt."""
    v.created_at = tracer.ordinal
    return v
