"""Holds the interpreter proper: the loop over instructions, frames, exceptions, restarts.

Must not know code generation, the cache or the frame hook. A *piece* is translated from a site to a
return or a graph break; calls of Python functions push a frame, so depth costs no native stack.
"""

from __future__ import annotations

import builtins
import copy
import os
import sys
import types
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from capture import break_reasons as reasons
from capture import polyfills
from capture.config import settings as config
from capture.errors import GraphBreak, Signal, SkipFrame, UnsupportedPythonError
from capture.graph.foresight import Foresight
from capture.graph.output_graph import OutputGraph
from capture.guards.guard_set import GuardSet
from capture.guards.kinds import (
    IdIs,
)
from capture.guards.torch_kinds import StateIs, read_state
from capture.polyfills.optimizers import OPTIMIZERS
from capture.side_effects import SideEffects
from capture.sources import (
    AttrSource,
    BuiltinsSource,
    DictItemSource,
    GlobalsSource,
    SizeSource,
    Source,
)
from capture.symbolic_convert import (
    classes,
    generators,
    graph_calls,
    local_names,
    raising,
    size_guards,
    suspended,
)
from capture.symbolic_convert.attempts import Attempts
from capture.symbolic_convert.dynamic import Policy, is_count
from capture.symbolic_convert.failure import Failure
from capture.symbolic_convert.frame import Frame
from capture.symbolic_convert.lifetimes import may_have_ended
from capture.symbolic_convert.reachable import is_reachable
from capture.symbolic_convert.registry import HANDLERS
from capture.symbolic_convert.warned import warned_place
from capture.variables import attributes, calls, conversion, iteration, operators
from capture.variables.base import (
    MISSING,
    FrameRequest,
    LazyVariable,
    ObservedException,
    SizePlan,
    Variable,
    unsupported,
)
from capture.variables.constant import ConstantVariable, ScalarVariable
from capture.variables.containers import DictVariable
from capture.variables.functions import (
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    GeneratorVariable,
)
from capture.variables.marks import marker_of
from capture.variables.objects import ClassVariable, ExceptionVariable
from capture.variables.tensor import TensorVariable
from capture.variables.watches import Watch
from capture.variables.weak import WeakVariable
from capture.variables.wrap import is_part_of_object, wrap, wrap_static

if TYPE_CHECKING:
    from collections.abc import Callable

    from capture.guards.guard import Guard

# Frames inlined into each other, and those of one function: a recursion that goes deeper is
# captured again from there, which serves every round of it.
_MAX_FRAMES = 1000
_MAX_RECURSION = 40
# Frames that wait for each other within an instruction: each takes native stack of the compiler.
_MAX_NESTING = 50
_POLYFILLS = os.path.dirname(polyfills.__file__) + os.sep
_AS_A_WHOLE = (_POLYFILLS, copy.__file__)
_TORCH = os.path.dirname(torch.__file__) + os.sep


class Restart(Signal):
    """The piece is translated again, with a break where the trouble came from."""


class LoopEdge(Signal):
    """The piece ends at a loop's back edge: the loop is run as a body by the driver."""


class Finished(Signal):
    """The piece ends here; ``signal`` is the break that ended it, None for a return."""

    def __init__(self, signal: GraphBreak | None) -> None:
        super().__init__()
        self.signal = signal


class Translator:
    """Executes one piece symbolically; afterwards ``frames`` or ``result`` say where it stands."""

    def __init__(
        self,
        name: str,
        func: types.FunctionType,
        policy: Policy,
        attempts: Attempts,
        run_loops: set[tuple[int, int]],
    ) -> None:
        self.func = func
        self.graph = OutputGraph(name)
        self.foresight = Foresight(self.graph, is_part_of_object)
        self.initial_state = self.graph.state
        self.guards = GuardSet()
        self.effects = SideEffects(self)
        self.mutations = 0
        self.ordinal = 0
        self.generators: list[GeneratorVariable] = []
        self.watches: list[Watch] = []
        self.sets_up_hooks = -1
        self.weak_references: list[WeakVariable] = []
        self.made_cells: list[CellVariable] = []
        self.given: dict[int, LazyVariable] = {}
        self.failure = Failure()
        self.frames: list[Frame] = []
        self.break_at = attempts.break_at
        self.without_trial = attempts.without_trial
        self.cutting = attempts.cutting
        self.policy = policy
        self.marked_sizes: set[Source] = set()
        self.identity: dict[int, Variable] = {}
        self.keep_alive: list[object] = []
        self.models: list[type] = []
        self.tensors: dict[int, Variable] = {}
        self.real_tensors: dict[Source, torch.Tensor] = {}
        self.keys_used: dict[Source, None] = {}
        self.scalars: dict[Source, ScalarVariable] = {}
        self.class_sources: dict[int, tuple[type, Source]] = {}
        self.by_identity: set[Source] = set()
        self.run_loops = run_loops
        self.result: Variable | None = None
        self.signal: GraphBreak | None = None
        self.guards.add(StateIs(read_state()))
        self.max_depth = min(_frames_left(), _MAX_FRAMES)
        self.deepest = 0  # frames on top of the first that were there at a time
        self.nesting = 0
        self.idle_limit = config.instruction_limit  # for what works on no tensor

    # --- what variables see -----------------------------------------------------------------------

    def wrap(self, value: object, source: Source) -> Variable:
        """The variable of a value reached through a source, guarded."""
        return wrap(self, value, source)

    def wrap_static(self, value: object, source: Source | None) -> Variable:
        """The variable of a value that cannot change, or that has a source after all."""
        return wrap_static(self, value, source)

    def guard(self, guard: Guard) -> None:
        """Add a guard, with the user's line that it comes from."""
        frame = self.frames[-1] if self.frames else None
        if guard not in self.guards:
            self.guards.add(guard, frame.location if frame is not None else None)

    def retract(self, guard: Guard) -> None:
        """Take back a guard whose ground was just changed by capture itself (lazy modules)."""
        self.guards.discard(guard)

    def guard_cell(self, cell: CellVariable) -> None:
        """Guard whether a cell is bound."""
        classes.guard_cell(self, cell)

    def guard_class_lacks(self, cls: type, source: Source, name: str) -> None:
        """Guard that a class in the middle of an MRO has no attribute of its own."""
        classes.guard_class_lacks(self, cls, source, name)

    def cell_variable(self, cell: types.CellType, source: Source) -> CellVariable:
        """The variable of a real cell; one per cell."""
        return classes.cell_variable(self, cell, source)

    def class_source(
        self, cls: type, source: Source | None, cls_var: Variable | None
    ) -> Source | None:
        """Where a class can be reached: guards on its attributes are the same for all instances."""
        return classes.class_source(self, cls, source, cls_var)

    def class_variable(self, cls: type, source: Source | None) -> ClassVariable:
        """The variable of a class that an object's type or an MRO led to."""
        return classes.class_variable(self, cls, source)

    def torch_module_global(self, name: str) -> Variable | None:
        """A global of ``torch.nn.modules.module``, reached through ``nn.Module._call_impl``."""
        return classes.torch_module_global(self, name)

    def calling_code(self) -> types.CodeType:
        """The code that makes the current call."""
        return self.frames[-1].code

    def is_dynamic(self, source: Source, value: object) -> bool:
        """True if the number was seen to change, or counts: it is an input of the graph then."""
        if is_count(source, value) and self.calling_code().co_filename.startswith(OPTIMIZERS):
            return True
        return self.policy.number(source, value)

    def plan_sizes(self, source: Source, value: torch.Tensor) -> SizePlan | None:
        """Which sizes and strides of an input are symbolic; None if all are static."""
        plan = self.policy.sizes(source, value)
        if plan is not None:
            self.marked_sizes.update(SizeSource(source, i) for i in plan.marked)
        return plan

    def place(self) -> str | None:
        """The user's line that is being executed: not one of torch's or of a polyfill."""
        for frame in reversed(self.frames):
            if not frame.code.co_filename.startswith((_POLYFILLS, _TORCH)):
                return frame.location
        return self.frames[-1].location if self.frames else None

    def warned_place(self, level: int | None) -> tuple[tuple[str, int] | None, dict[str, Any]]:
        """File and line so many frames up, None: out of torch, and the global names there."""
        return warned_place(self.frames, level, (_POLYFILLS, _TORCH))

    def guard_sizes(self) -> None:
        """Guard what was decided about symbolic sizes; the backend has had its say."""
        size_guards.guard_sizes(self)

    def real_value(self, v: TensorVariable) -> Any:
        """The real tensor behind an input."""
        return MISSING if v.source is None else self.real_tensors.get(v.source, MISSING)

    def tensor_grad(self, obj: TensorVariable) -> Variable:
        """``parameter.grad`` of an input: None or another input."""
        real = self.real_value(obj)
        if real is MISSING or obj.source is None:
            unsupported(reasons.UNKNOWN_ATTRIBUTE, "Tensor.grad")
        return self.wrap(real.grad, AttrSource(obj.source, "grad"))

    def as_python(self, v: Variable) -> Any:
        """The real value of a variable that is made of constants only, else MISSING."""
        return conversion.as_python(self, v)

    def truth(self, v: Variable) -> bool:
        """``bool(v)`` as a decision of the traced program."""
        return operators.truth(self, v)

    def hashed(self, v: Variable) -> Any:
        """A key for our own dicts that is equal where the traced program's key would be."""
        return operators.hash_key(self, v)

    def equal(self, left: Variable, right: Variable) -> bool:
        """``left == right`` as a decision of the traced program."""
        return operators.equal(self, left, right)

    def getattr(self, obj: Variable, name: str) -> Variable:
        """``obj.name``."""
        return attributes.load_attr(self, obj, name)

    def iterate(self, obj: Variable) -> list[Variable]:
        """All items of an iterable, in a new list."""
        return iteration.iterate(self, obj)

    def count_iteration(self, done: int) -> None:
        """Bound the draining of an endless iterator."""
        if done > config.instruction_limit:
            raise SkipFrame(reasons.INSTRUCTION_BUDGET)

    def may_have_ended(self) -> bool:
        """True if the program may have dropped the last reference to an object in this piece."""
        return may_have_ended(self)

    def function_marker(self, fn: types.FunctionType) -> str | None:
        """How the user marked a function: ``disable``, ``graph``, ..."""
        return marker_of(fn)

    # --- the graph --------------------------------------------------------------------------------

    def bounded(self, v: Variable) -> Variable:
        """An argument of an operator: no operator takes an integer of more than 64 bits."""
        return graph_calls.bounded(self, v)

    def graph_call(
        self, kind: str, target: Any, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        """Add a call to the graph; its result as a variable."""
        return graph_calls.graph_call(self, kind, target, args, kwargs)

    def decide(self, v: TensorVariable | ScalarVariable, what: str) -> bool:
        """The truth of a value of the graph, where it can be told beforehand; else break."""
        return graph_calls.decide(self, v, what)

    def guard_decisions(self) -> None:
        """Guard that what was decided on values of the graph would be decided so again."""
        graph_calls.guard_decisions(self)

    def scalar_item(self, tensor: TensorVariable) -> Variable:
        """``tensor.item()`` as a number that only the graph knows."""
        return graph_calls.scalar_item(self, tensor)

    def scalar_items(self, tensor: TensorVariable) -> list[Variable]:
        """The items of ``tensor.tolist()``, for a tensor of one dimension."""
        return graph_calls.scalar_items(self, tensor)

    def scalar_function(self, fn: Any, tensors: list[TensorVariable], pytype: type) -> Variable:
        """A number that a function of tensors gives when the graph runs."""
        return graph_calls.scalar_function(self, fn, tensors, pytype)

    def assume(self, condition: Variable) -> None:
        """Take a condition for granted that only the graph knows; else the piece starts again."""
        graph_calls.assume(self, condition)

    def scalar_call(
        self,
        fn: Any,
        args: list[Variable],
        text: str | None,
        sources: tuple[Source, ...],
        *,
        sure: bool = False,
    ) -> Variable:
        """Arithmetic on Python numbers in the graph; ``sure``: it cannot raise."""
        return graph_calls.scalar_call(self, fn, args, text, sources, sure=sure)

    def add_to_graph(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        sure: bool = False,
    ) -> Any:
        """Add a call, and see what becomes of the piece if it raises on data."""
        return self.noting(
            target,
            lambda: self.graph.call(kind, target, args, kwargs, self.stack_summary()),
            sure=sure,
        )

    def noting(self, target: Any, add: Callable[[], Any], *, sure: bool = False) -> Any:
        """Have a node added, and see what becomes of the piece if it raises on data."""
        return graph_calls.noting(self, target, add, sure=sure)

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
        return graph_calls.add_leaf_gradients(
            self, outputs, grad_outputs, leaves, layouts, fresh, retain_graph, watched or []
        )

    def add_gradients(
        self,
        outputs: list[TensorVariable],
        grad_outputs: list[TensorVariable | None],
        inputs: list[TensorVariable],
        options: dict[str, bool],
    ) -> list[Variable]:
        """Add a call of ``torch.autograd.grad`` to the graph; the gradients, or None."""
        return graph_calls.add_gradients(self, outputs, grad_outputs, inputs, options)

    def cleans_up(self, frame: Frame) -> bool:
        """True if a suspended generator has something to do when it is dropped."""
        return suspended.cleans_up(self, frame)

    def stack_summary(self) -> Callable[[], str]:
        """What gives the user's lines that led to the current node, innermost last, when asked."""
        places = [(frame.code, frame.line) for frame in self.frames]

        def text() -> str:
            return "".join(
                f'  File "{code.co_filename}", line {line}, in {code.co_name}\n'
                for code, line in places
            )

        return text

    def graph_argument(self, v: Variable) -> Any:
        """What stands for a variable in the arguments of a graph call."""
        return conversion.graph_argument(self, v)

    def wrap_result(self, value: Any) -> Variable:
        """The variable of a result: tensors of the graph, containers of them, constants."""
        return conversion.wrap_result(self, value)

    # --- exceptions -------------------------------------------------------------------------------

    def handled_exception(self) -> Variable | None:
        """The exception that the innermost handler of the piece's frames handles, or None."""
        for frame in reversed(self.frames):
            if frame.handled:
                return frame.handled[-1]
        return None

    def raise_error(self, exc_type: type[BaseException], *args: object) -> NoReturn:
        """Raise in the traced program."""
        variables = [a if isinstance(a, Variable) else ConstantVariable(a) for a in args]
        self.raise_observed(exc_type, variables)

    def raise_observed(self, exc_type: type[BaseException], args: list[Variable]) -> NoReturn:
        """As ``raise_error``, with arguments that are variables."""
        exception = ExceptionVariable(exc_type, args, None)
        exception.fields = {}  # what Python would put there is not known
        self.set_context(exception)
        raise ObservedException(exception)

    def raise_real(self, error: BaseException) -> NoReturn:
        """Raise in the traced program what a call made during capture raised."""
        raising.raise_real(self, error)

    def set_context(self, exception: Variable) -> None:
        """``__context__``: what was being handled when the exception was raised."""
        raising.set_context(self, exception)

    # --- calls ------------------------------------------------------------------------------------

    def start_call(self, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Any:
        """Begin a call: its result, or the frame that computes it."""
        return calls.start_call(self, fn, args, kwargs)

    def call(self, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """Call and wait for the result, within the current instruction."""
        started = calls.start_call(self, fn, args, kwargs)
        if isinstance(started, FrameRequest):
            frame = started.frame
            assert isinstance(frame, Frame)
            frame.override = started.override
            return self._run_nested(frame)
        return started

    def attempt(self, run: Callable[[], None]) -> bool:
        """Execute what the program does not do here, to learn about it; False if it cannot be.

        What a failed trial wrote cannot be taken back: the piece is translated again without it.
        """
        ordinal, mutations = self.ordinal, self.mutations
        if ordinal in self.without_trial:
            return False
        try:
            run()
        except (GraphBreak, ObservedException):
            if self.mutations != mutations:
                self.without_trial.add(ordinal)
                raise Restart() from None
            return False
        return True

    def cuts(self, ordinal: int) -> bool:
        """True if the hook that this instruction registered is known to change gradients."""
        return ordinal in self.cutting

    def cut(self, ordinal: int) -> NoReturn:
        """Start again, knowing that this hook changes gradients."""
        self.cutting.add(ordinal)
        raise Restart()

    def settle_watches(self) -> None:
        """Leave the hooks to Python that a backward call outside of the piece may run."""
        for watch in self.watches:
            if not watch.settled:
                self.break_at[watch.ordinal] = GraphBreak(
                    reasons.UNKNOWN_CALLABLE, what="a hook that a later backward call may run"
                )
                raise Restart()

    def settle_warnings(self) -> None:
        """Leave warnings to Python that the piece may find in a list of those caught."""
        for ordinal, caught in self.effects.caught_in:
            if caught is not None and id(caught) in self.identity:
                self.break_at[ordinal] = GraphBreak(
                    reasons.UNKNOWN_CALLABLE, what="warnings.warn, where they are caught,"
                )
                raise Restart()

    def _run_nested(self, frame: Frame) -> Variable:
        frame.nested = True
        if self.nesting >= _MAX_NESTING:
            unsupported(reasons.RECURSION_TOO_DEEP, self.nesting)
        self.push_frame(frame)
        self.nesting += 1
        try:
            self.run_until(len(self.frames) - 1)
        finally:
            self.nesting -= 1
        return frame.result

    def run_class_body(self, fn: FunctionVariable, namespace: DictVariable) -> None:
        """Execute the body of a class statement; its names go to the namespace."""
        frame = self.make_frame(fn, {})
        frame.namespace = namespace
        self._run_nested(frame)

    def push_call(self, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> None:
        """Call from a CALL instruction; the result goes on the stack, now or by the return."""
        started = calls.start_call(self, fn, args, kwargs)
        if isinstance(started, FrameRequest):
            frame = started.frame
            assert isinstance(frame, Frame)
            frame.override = started.override
            self.frames[-1].await_discard = started.override is not None
            if started.override is not None:
                self.frames[-1].stack.append(started.override)
            self.push_frame(frame)
        else:
            self.frames[-1].stack.append(started)

    def push_frame(self, frame: Frame) -> None:
        """Enter a frame."""
        depth = len(self.frames)
        if depth >= self.max_depth or (
            depth >= _MAX_RECURSION
            and sum(f.code is frame.code for f in self.frames) >= _MAX_RECURSION
        ):
            unsupported(reasons.RECURSION_TOO_DEEP, depth)
        self.frames.append(frame)
        if depth > self.deepest:
            self.deepest = depth

    def make_frame(self, fn: FunctionVariable, names: dict[str, Variable]) -> Frame:
        """A frame of a Python function with its arguments bound."""
        try:
            frame = Frame(fn.code, fn, fn.globals)
        except UnsupportedPythonError as error:
            unsupported(reasons.UNKNOWN_CALLABLE, str(error))
        frame.locals = names
        code = fn.code
        for name, cell in zip(code.co_freevars, fn.closure, strict=True):
            frame.cells[name] = cell
        return frame

    def local_names(self) -> DictVariable:
        """``locals()`` in the current frame."""
        return local_names.local_names(self)

    def global_names(self) -> DictVariable:
        """``globals()`` in the current frame."""
        return self.frames[-1].globals

    def zero_argument_super(self) -> Variable:
        """``super()``: the class from the ``__class__`` cell, the object from argument slot 0."""
        return classes.zero_argument_super(self)

    def run_generator(self, generator: GeneratorVariable, sent: Variable | None) -> Variable | None:
        """Run a generator's frame to its next yield; None when it is finished."""
        return generators.run(self, generator, sent)

    def close_generator(self, generator: GeneratorVariable) -> Variable:
        """``generator.close()``."""
        return generators.close(self, generator)

    def throw_generator(self, generator: GeneratorVariable, args: list[Variable]) -> Variable:
        """``generator.throw(...)``."""
        return generators.throw(self, generator, args)

    # --- globals ----------------------------------------------------------------------------------

    def load_global(self, frame: Frame, name: str) -> Variable:
        """A global or built-in name."""
        found = frame.globals.get_hashed(self, name)
        if found is not None:
            return found
        if name not in builtins.__dict__:
            self.raise_error(NameError, f"name {name!r} is not defined")
        return self.load_builtin(name, builtins.__dict__[name])

    def load_builtin(self, name: str, value: Any) -> Variable:
        """A name of the builtins module, guarded to be what it is now."""
        source = DictItemSource(BuiltinsSource(), name)
        known = self.identity.get(id(value))
        if known is not None and known.source == source:
            return known
        if isinstance(value, type):
            self.guard(IdIs(source, value))
            return self.wrap_static(value, None)
        if callable(value):
            self.guard(IdIs(source, value))
            return BuiltinVariable(value, source)
        return self.wrap(value, source)

    def is_held(self, v: Variable) -> bool:
        """True if a frame that is being run refers to the value, directly or not."""
        return is_reachable(self, v)

    def root_globals(self) -> DictVariable:
        """The globals of the frame being captured."""
        found = self.wrap(self.func.__globals__, GlobalsSource())
        assert isinstance(found, DictVariable)
        return found

    # --- the loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Translate until the root frame returns or the graph breaks."""
        try:
            self.run_until(0)
        except Finished as finished:
            self.signal = finished.signal

    def depth_nested(self) -> bool:
        """True inside a frame whose result an instruction waits for: the piece cannot end there."""
        return any(frame.nested for frame in self.frames)

    def run_until(self, depth: int) -> None:
        """Execute instructions until only ``depth`` frames are left (or a generator yields)."""
        frames = self.frames
        break_at = self.break_at
        limit = min(config.instruction_limit, self.idle_limit)
        while len(frames) > depth:
            frame = frames[-1]
            inst = frame.instructions[frame.index]
            ordinal = self.ordinal = self.ordinal + 1
            frame.ordinal = ordinal
            frame.saved = frame.stack.copy()
            frame.mark = self.mutations
            frame.index += 1
            try:
                if ordinal in break_at:
                    raise break_at[ordinal]
                if ordinal > limit:
                    if ordinal > config.instruction_limit or not self.tensors:
                        raise SkipFrame(reasons.INSTRUCTION_BUDGET)
                    limit = config.instruction_limit
                HANDLERS[inst.op](self, frame, inst)
            except ObservedException as signal:
                del frames[_position(frames, frame) + 1 :]
                if not self.unwind(signal, depth):
                    raise
            except LoopEdge:
                raise Finished(None) from None
            except GraphBreak as signal:
                del frames[_position(frames, frame) + 1 :]
                if signal.location is None:
                    signal.location = frame.location
                if depth > 0:
                    del frames[depth:]
                    raise
                self.break_here(frame, signal)

    def break_here(self, frame: Frame, signal: GraphBreak) -> NoReturn:
        """End the piece in front of the instruction; translate again if it did something.

        A C function that a polyfill stands for is called as such: no frame of ours goes on alone.
        Nor does one of ``copy``, whose work is of no use in parts.
        """
        for position, entered in enumerate(self.frames):
            if entered is frame:
                break
            if position and entered.code.co_filename.startswith(_AS_A_WHOLE):
                frame = self.frames[position - 1]
                self.break_at[frame.ordinal] = signal
                raise Restart()
        if len(self.frames) > 1 and frame.code.co_filename.startswith(_AS_A_WHOLE):
            frame = self.frames[_position(self.frames, frame) - 1]
            self.break_at[frame.ordinal] = signal
            raise Restart()
        if self.mutations != frame.mark:
            self.break_at[frame.ordinal] = signal
            raise Restart()
        frame.stack = frame.saved
        frame.index -= 1
        raise Finished(signal)

    def unwind(self, signal: ObservedException, depth: int) -> bool:
        """Go on at the handler of an exception, or leave the frames down to ``depth``.

        False: they are left, and the caller raises ``signal``. Were it raised here, it would refer
        to itself through its traceback, and keep what the program let go of.
        """
        frames = self.frames
        exception = signal.exception
        if isinstance(exception, ExceptionVariable) and exception.raised_at < 0:
            exception.raised_at = exception.created_at = self.ordinal
        entry = None
        for position in range(len(frames) - 1, depth - 1, -1):
            frame = frames[position]
            entry = frame.decoded.handler_at(max(frame.index - 1, 0))
            if entry is not None:
                break
            signal.again = False
        if isinstance(exception, ExceptionVariable) and not signal.again:
            exception.bare = False
            exception.trace = None
        signal.again = False
        if entry is None:
            if depth > 0:
                del frames[depth:]
                return False
            frame = frames[-1]
            cause = GraphBreak(
                reasons.UNCAUGHT_EXCEPTION, what=signal.exception.python_type().__name__
            )
            cause.location = frame.location
            if isinstance(exception, ExceptionVariable) and exception.raised_at < frame.ordinal:
                # Raised again here: Python raises it where it came from, for the traceback.
                self.break_at[exception.raised_at] = cause
                raise Restart()
            if isinstance(exception, ExceptionVariable):
                exception.raised_at = -1  # Python raises it first
            self.break_here(frame, cause)
        for left in frames[position + 1 :]:
            if left.generator is not None:
                left.generator.state = "finished"
        del frames[position + 1 :]
        self.mutations += 1
        index = frame.index - 1
        del frame.stack[entry.depth :]
        if entry.lasti:
            frame.stack.append(ConstantVariable(frame.instructions[index].offset // 2))
        frame.stack.append(signal.exception)
        frame.index = entry.target
        return True


def _frames_left() -> int:
    """How many frames deeper the program may go from where it is now."""
    frame: types.FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back
    return max(sys.getrecursionlimit() - depth, 1)


def _position(frames: list[Frame], frame: Frame) -> int:
    for i in range(len(frames) - 1, -1, -1):
        if frames[i] is frame:
            return i
    return len(frames) - 1
