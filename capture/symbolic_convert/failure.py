"""Holds what becomes of a piece whose graph raises when it runs; must not know code generation.

The program's handlers and state must see what eager would have left. Where nothing has changed yet
the piece starts again in Python, from the values it began with, and Python raises. So:

- a backend may promise that a graph which raises has written to nothing, if it is asked to;
- random numbers that the graph drew are given back first;
- a node that may raise on data, behind one that wrote to an input, ends the piece in front of it
  if somebody would notice: under a handler of the program, or behind a side effect;
- a check that a branch goes as expected fails in front of all changes: the piece starts again;
- otherwise the exception simply leaves the frame: what the graph has done stays done, as in eager,
  and so do writes to ``grad`` in front of it that need nothing from the graph (``zero_grad``).

Keeping the values of a resumed frame for that second start keeps their memory as well, so it is
done only for pieces that have a reason to start again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from capture import break_reasons as reasons
from capture.graph.data_sizes import UNEXPECTED
from capture.graph.state import put_back, snapshot
from capture.instructions.ops import Op
from capture.polyfills.optimizers import OPTIMIZERS, QUIET, UnrecordedRange
from capture.symbolic_convert.handled_errors import passes_over
from capture.variables.base import LazyVariable, Variable, unsupported
from capture.variables.functions import MethodVariable
from capture.variables.gradients import is_none
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.graph.output_graph import OutputGraph
    from capture.instructions.instruction import ExceptionEntry
    from capture.side_effects import Effect
    from capture.sources import Source
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator

__all__ = ["Failure", "in_try", "is_unexpected", "rewinding", "state_restoring"]

"""What the graph raises where a check fails: the piece starts again in Python."""

# Context managers that only set torch's state: the piece itself puts that back. Or do nothing.
_STATE_MANAGERS = (
    UnrecordedRange,
    torch.no_grad,
    torch.enable_grad,
    torch.set_grad_enabled,
    torch.inference_mode,
    torch.autocast,
)


class Failure:
    """What is known of one piece's nodes, in order.

    Attributes:
        guarded: some node runs under a handler of the program.
        matters: some node that may raise on data runs under a handler or behind a side effect.
        late: some node that may raise on data comes behind one that changed something.
        late_number: arithmetic on an optimizer's Python numbers comes behind such a one.
        exits: the ``__exit__`` of torch's context managers that were entered before the piece.
        expected: the numbers of the instructions whose branches the graph checks.
        may_be_whole: the backend can make graphs that write to nothing if they raise.
        whole: this graph must be such a one: then the piece starts again whatever it raises.
        grads: the writes to ``grad`` that stand in front of every node that may raise on data.
    """

    def __init__(self) -> None:
        self.guarded = False
        self.matters = False
        self.late = False
        self.expected: list[int] = []
        self.late_number = False
        self.exits: dict[Source, Variable] = {}
        self.grads: list[tuple[TensorVariable, Variable]] | None = None
        self.may_be_whole = False
        self.whole = False

    def note(
        self, tracer: Translator, target: Any, changed: bool, may_raise: bool, assumes: bool = False
    ) -> None:
        """Note a node just added; ``changed``: the graph has written or drawn before it.

        With ``assumes`` the graph checks a condition in front of it that need not hold in eager.

        Raises:
            GraphBreak: the node must not be in this piece.
        """
        handled = in_try(tracer, self.exits, target)
        lenient = may_raise and _is_optimizers_number(tracer, target)
        self.guarded = self.guarded or handled
        if assumes:
            self.expected.append(tracer.ordinal)
        if may_raise:
            cares = handled or not (lenient or self._leaves_right(tracer.effects.journal))
            if tracer.graph.mutates_inputs and (cares or (self.matters and not lenient)):
                if not self.may_be_whole:
                    tracer.mutations += 1
                    unsupported(reasons.WITHIN_GRAPH_ERROR, getattr(target, "__name__", target))
                self.whole = True
            self.matters = self.matters or cares
            if lenient:
                self.late_number = self.late_number or changed
            else:
                self.late = self.late or changed

    def _leaves_right(self, journal: list[Effect]) -> bool:
        """True if the failing piece can leave the effects so far as eager would."""
        grads = gradients_written(journal)
        if grads is None:
            return False
        if self.grads is None:
            self.grads = grads
        return [(id(v), id(g)) for v, g in self.grads] == [(id(v), id(g)) for v, g in grads]

    def restart(self, graph: OutputGraph) -> bool | Callable[[BaseException], bool]:
        """Whether the piece starts again when its graph raises; a callable decides by what."""
        if self.whole:
            return True
        again = self._restart_on_data(graph)
        if again is True or not self.expected:
            return again
        if again is False:
            return is_unexpected
        on_data = again
        return lambda error: is_unexpected(error) or on_data(error)

    def _restart_on_data(self, graph: OutputGraph) -> bool | Callable[[BaseException], bool]:
        if not (self.guarded or graph.may_raise):
            return False
        if not graph.mutates_inputs:
            if not graph.uses_rng or self.rewinds(graph):
                return True
        late = self.late or (self.late_number and not self.matters)
        if late or (graph.mutates_inputs and not graph.may_raise):
            return False
        return _raised_by_tensors if self.late_number else _raised_on_data

    def rewinds(self, graph: OutputGraph) -> bool:
        """Whether the graph gives random numbers back when it raises."""
        return graph.uses_rng and (self.guarded or self.matters)

    def around(self, graph: OutputGraph, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The graph with the random numbers given back that must not have been drawn.

        Where the piece does not start again, eager has drawn them too.
        """
        if self.rewinds(graph):
            again = self.restart(graph)
            if again is False:
                return fn
            return rewinding(fn) if again is True else rewinding(fn, again)
        if graph.uses_rng and self.expected:
            return rewinding(fn, is_unexpected)
        return fn


def gradients_written(
    journal: list[Effect],
) -> list[tuple[TensorVariable, Variable]] | None:
    """The writes to ``grad`` in a journal; None if it has others, or if they need the graph."""
    found = []
    for effect in journal:
        tensor, value = effect.target, effect.value
        if effect.kind != "grad" or not isinstance(tensor, TensorVariable):
            return None
        if not is_none(value):
            if value.source is None:
                return None
        elif is_none(tensor.initial_grad):
            continue
        found.append((tensor, value))
    return found


def _is_optimizers_number(tracer: Translator, target: Any) -> bool:
    """True for arithmetic on Python numbers in torch's optimizers.

    It fails only on options that their constructors refuse (a beta of 1). If somebody has put such
    an option there afterwards, the exception leaves a step half done, as in eager; the state that
    the step was to begin with is missing then.
    """
    module = getattr(target, "__module__", None)
    if module not in ("_operator", "builtins", "math"):
        return False
    return tracer.calling_code().co_filename.startswith(OPTIMIZERS)


def _raised_on_data(error: BaseException) -> bool:
    """False where memory ran out: that can happen at any node, behind changes too."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return False
    return "allocate memory" not in str(error)


def _raised_by_tensors(error: BaseException) -> bool:
    """False also for arithmetic on Python numbers, which stands behind changes."""
    return not isinstance(error, ArithmeticError) and _raised_on_data(error)


# --- handlers -------------------------------------------------------------------------------------


def in_try(
    tracer: Translator, exits: dict[Source, Variable] | None = None, target: Any = None
) -> bool:
    """True if some frame has a handler here. ``exits`` takes torch's own context managers.

    Handlers do not count that pass over what ``target`` raises because of data, if it is given.
    """
    found = False
    for frame in tracer.frames:
        if id(frame.code) in QUIET:
            continue
        for entry in _handlers(frame):
            if not _reacts(frame, entry):
                continue
            if target is not None and passes_over(tracer, frame, entry, target):
                continue
            leave = _state_exit(frame, entry)
            if leave is None:
                found = True
            elif exits is not None and leave.source is not None:
                exits[leave.source] = leave
    return found


def _handlers(frame: Frame) -> Iterator[ExceptionEntry]:
    """The exception entries around the current instruction, innermost first."""
    handler_at = frame.decoded.handler_at
    entry = handler_at(max(frame.index - 1, 0))
    seen = set()
    while entry is not None and entry.target not in seen:
        seen.add(entry.target)
        yield entry
        entry = handler_at(entry.target)


def _reacts(frame: Frame, entry: ExceptionEntry) -> bool:
    """False for handlers made by the compiler, which only leave another handler or a generator."""
    return frame.instructions[entry.target].op is Op.PUSH_EXC_INFO


def _state_exit(frame: Frame, entry: ExceptionEntry) -> Variable | None:
    """The ``__exit__`` that a handler calls, if it is one of torch's state."""
    instructions = frame.instructions
    behind = entry.target + 1
    if behind >= len(instructions) or instructions[behind].op is not Op.WITH_EXCEPT_START:
        return None
    if not 0 < entry.depth <= len(frame.stack):
        return None
    leave = frame.stack[entry.depth - 1]
    known = leave
    if isinstance(leave, LazyVariable):
        if leave.real is None:
            owner = getattr(leave.value, "__self__", None)
            return leave if isinstance(owner, _STATE_MANAGERS) else None
        known = leave.real
    if isinstance(known, MethodVariable):
        if issubclass(known.instance.python_type(), _STATE_MANAGERS):
            return leave
    return None


# --- around the graph -----------------------------------------------------------------------------


def is_unexpected(error: BaseException) -> bool:
    """True for what the graph raises where a check of it fails."""
    return isinstance(error, RuntimeError) and UNEXPECTED in str(error)


def rewinding(
    fn: Callable[..., Any], when: Callable[[BaseException], bool] = lambda error: True
) -> Callable[..., Any]:
    """Give the random numbers back that a graph drew before it raised (what ``when`` says)."""

    def run(*args: Any) -> Any:
        states = [(torch.default_generator, torch.default_generator.get_state())]
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            states += [(g, g.get_state()) for g in torch.cuda.default_generators]
        try:
            return fn(*args)
        except Exception as error:
            for generator, state in states if when(error) else ():
                generator.set_state(state)
            raise

    return run


def state_restoring(fn: Callable[..., Any], only_grad: bool) -> Callable[..., Any]:
    """Leave torch's state as it was before if a graph that switches it raises half way."""

    def run_grad(*args: Any) -> Any:
        before = torch.is_grad_enabled()
        try:
            return fn(*args)
        except BaseException:
            torch.set_grad_enabled(before)
            raise

    def run(*args: Any) -> Any:
        before = snapshot()
        try:
            return fn(*args)
        except BaseException as error:
            if torch.is_inference_mode_enabled() != before.inference_mode:
                traceback.clear_frames(error.__traceback__)  # the mode lasts as long as its guard
            put_back(before)
            raise

    return run_grad if only_grad else run
