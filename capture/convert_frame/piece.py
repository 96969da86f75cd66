"""Holds the making of one cache entry from one piece of the program.

Translate, rebuild, compile the graph, compile the guards. A break while rebuilding, or in a place
that cannot be resumed, starts the translation again with a break further out; translation is
deterministic, so places are counted.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from capture import break_reasons as reasons
from capture import counters, logs
from capture._native import Break, Continue, Entry, Site
from capture.backends import is_all_or_nothing
from capture.cache import FrameFamily, History
from capture.codegen import CannotRebuild, Codegen
from capture.config import settings as config
from capture.convert_frame.alias_guards import guard_aliases
from capture.convert_frame.inner_history import asks_for_history
from capture.convert_frame.options import Options
from capture.convert_frame.targets import (
    await_target,
    break_target,
    cell_source,
    site_for,
    stack_source,
)
from capture.errors import GraphBreak, SkipFrame, Unsupported
from capture.graph.locations import has_locations, locate
from capture.guards.derived import with_derived
from capture.side_effects import Effect
from capture.sources import ClosureCellSource, LocalSource, Source
from capture.symbolic_convert.attempts import Attempts
from capture.symbolic_convert.dynamic import Policy
from capture.symbolic_convert.failure import state_restoring
from capture.symbolic_convert.frame import Frame
from capture.symbolic_convert.handlers.exceptions import HandlerMarker
from capture.symbolic_convert.local_names import keep_shared
from capture.symbolic_convert.reachable import leads_to
from capture.symbolic_convert.resume import Layout, Outcome, Slot, takes_slot0
from capture.symbolic_convert.translator import Restart, Translator
from capture.variables.base import NULL, LazyVariable, Variable
from capture.variables.functions import CellVariable, GeneratorVariable
from capture.variables.made_classes import retire
from capture.variables.objects import MODELS, ClassVariable

# by ``id``: hashing a class runs its metaclass's code
_DROPPED_EARLY = frozenset(map(id, (torch.Tensor, torch.nn.Parameter, list, tuple, dict)))
# Instructions of one frame, all attempts counted, without any tensor: it is left to Python then.
# That is about a second of compilation for what no backend can make faster.
IDLE_LIMIT = 60_000
_EMPTY_LIMIT = 3
_breaks = logs.artifact("breaks")
_guards = logs.artifact("guards")
_bytecode = logs.artifact("bytecode")
_effects = logs.artifact("side_effects")


class Piece:
    """The making of one entry."""

    def __init__(
        self,
        options: Options,
        number: int,
        site: Site,
        history: History,
        values: list[Any],
        func: types.FunctionType,
        attempts: Attempts,
    ) -> None:
        self.options = options
        self.site = site
        self.history = history
        self.family: FrameFamily = history.family
        self.values = values
        self.func = func
        self.code = func.__code__
        self.break_at = attempts.break_at
        self.name = f"{self.code.co_name}_{number}"
        static = bool(getattr(self.options.backend, "static_shapes", False))
        policy = Policy(self.options.dynamic, history.seen, static=static)
        self.tracer = Translator(self.name, func, policy, attempts, self.family.run_loops)
        self.given = self.tracer.given  # by their place among the values
        self.tracer.graph.takes_data = self.family.takes_data and not static
        self.tracer.failure.may_be_whole = self.family.takes_whole and is_all_or_nothing(
            self.options.backend
        )
        if not self.family.works:
            self.tracer.idle_limit = IDLE_LIMIT - self.family.idle

    # --- the start --------------------------------------------------------------------------------

    def root_frame(self) -> Frame:
        """The frame as the site says it stands."""
        tracer, code = self.tracer, self.code
        frame = Frame(code, None, tracer.root_globals())
        layout = self.site.layout
        if layout is None:
            count = (
                code.co_argcount
                + code.co_kwonlyargcount
                + bool(code.co_flags & 0x04)
                + bool(code.co_flags & 0x08)
            )
            for i, name in enumerate(code.co_varnames[:count]):
                frame.locals[name] = self.give(i, LocalSource(i, name))
            for i, name in enumerate(code.co_freevars):
                assert self.func.__closure__ is not None
                frame.cells[name] = tracer.cell_variable(
                    self.func.__closure__[i], ClosureCellSource(i, name)
                )
            return frame
        frame.index = self.site.index
        place = 0
        for name in (*code.co_cellvars, *code.co_freevars):
            cell = tracer.cell_variable(self.values[place], cell_source(place, name))
            frame.cells[name] = cell
            place += 1
        if layout.arg0_in_cell:
            place += 1
        for name in layout.locals:
            value = self.values[place]
            if type(value) is types.CellType and name in frame.decoded.remade_cells:
                frame.cells[name] = tracer.cell_variable(value, LocalSource(place, name))
            else:
                frame.locals[name] = self.give(place, LocalSource(place, name))
            place += 1
        depth = 0
        for slot in layout.stack:
            if slot is Slot.NULL:
                frame.stack.append(NULL)
                continue
            source = stack_source(place, depth)
            v: Variable = self.give(place, source)
            if type(self.values[place]) is types.CellType:
                v = tracer.cell_variable(self.values[place], source)
            if slot is Slot.PREV_EXC:
                v = HandlerMarker(v.realize(tracer))
                frame.handled = [*frame.handled, v.exception]
            frame.stack.append(v)
            place += 1
            depth += 1
        return frame

    def give(self, place: int, source: LocalSource) -> LazyVariable:
        """The variable of one of the values that the piece begins with."""
        v = self.given[place] = LazyVariable(self.values[place], source)
        return v

    def dropped(self, root: Frame) -> tuple[int, ...]:
        """Places of the values that the program lets go of while the piece runs.

        Their memory must go before the graph is through. Objects other than tensors and plain
        containers of them stay to the end: letting go of one may run the program's code.
        """
        first = 0
        if self.site.layout is not None:
            first = len(self.code.co_cellvars) + len(self.code.co_freevars)
        alive = {id(v) for v in (*root.locals.values(), *root.stack)}
        alive.update(id(cell.contents) for cell in root.cells.values())
        return tuple(
            place - first
            for place, v in self.given.items()
            if id(type(v.value)) in _DROPPED_EARLY
            and id(v) not in alive
            and id(v.real) not in alive
        )

    # --- the whole --------------------------------------------------------------------------------

    def make(self) -> Entry | None:
        """Translate, rebuild, compile; the entry is added to the site."""
        tracer = self.tracer
        try:
            root = self.root_frame()
        except GraphBreak as signal:  # there is no instruction yet to leave to Python
            raise SkipFrame(f"{signal.reason.id}: {signal.explanation}") from None
        tracer.frames.append(root)
        tracer.run()
        tracer.settle_watches()
        tracer.settle_warnings()
        cg = Codegen()
        try:
            self.check_generators()
            result = self.finish(cg)
            cg.settle()
        except CannotRebuild as signal:
            self.break_earlier(signal)
            raise Restart() from None
        self.refuse_expectations()
        if tracer.signal is not None:
            self.report_break(tracer.signal)
        guard_aliases(tracer)
        tracer.guard_decisions()
        if self.nothing_captured():
            return None
        return self.make_entry(cg, result, self.dropped(root))

    def release(self) -> None:
        """Let go of the program's values now: what refers to them here refers to each other."""
        for signal in (self.tracer.signal, *self.break_at.values()):
            if signal is not None:
                signal.__traceback__ = None
                signal.__context__ = None
        for generator in self.tracer.generators:
            generator.frame.generator = None
        for cell in self.tracer.made_cells:
            cell.contents = None
        for model in self.tracer.models:
            retire(model)
        done = self.tracer.ordinal
        vars(self.tracer).clear()
        self.tracer.ordinal = done
        self.values = []
        self.given = {}

    def check_generators(self) -> None:
        """A suspended generator that must clean up when it is dropped is left to Python."""
        for generator in self.tracer.generators:
            if generator.state == "suspended" and self.tracer.cleans_up(generator.frame):
                raise CannotRebuild(generator)

    def nothing_captured(self) -> bool:
        """A whole frame without tensor work is left to Python; if it stays so, for good."""
        tracer = self.tracer
        if tracer.graph.num_ops or tracer.signal is not None or self.site.layout is not None:
            return False
        if tracer.frames or config.capture_without_tensors:
            return False
        self.history.empty += 1
        if self.history.empty >= _EMPTY_LIMIT:
            self.site.skip = True
        return True

    def break_earlier(self, signal: CannotRebuild) -> None:
        """Break where the value that cannot be rebuilt was made."""
        ordinal = signal.variable.created_at
        if ordinal < 0 or ordinal in self.break_at:
            raise SkipFrame(f"{signal.reason.id}: {signal.explanation}")
        reason = reasons.GENERATOR_ESCAPES
        if not isinstance(signal.variable, GeneratorVariable):
            reason = reasons.CANNOT_REBUILD
        self.break_at[ordinal] = GraphBreak(reason, what=signal.variable.describe())

    def refuse_expectations(self) -> None:
        """Break at the checks of a graph that writes to inputs, if its backend may write first."""
        tracer = self.tracer
        if not tracer.graph.mutates_inputs or getattr(self.options.backend, "keeps_order", False):
            return
        if tracer.failure.whole:
            return
        for ordinal in tracer.failure.expected:
            self.break_at[ordinal] = GraphBreak(
                reasons.DATA_DEPENDENT, what="A branch or bool() on a tensor"
            )
        if tracer.failure.expected:
            raise Restart()

    def report_break(self, signal: GraphBreak) -> None:
        """Log and count a graph break; under ``fullgraph`` it is an error."""
        if self.options.fullgraph and signal.reason is not reasons.UNCAUGHT_EXCEPTION:
            raise Unsupported.from_break(signal)
        counters.record_break(signal.reason, signal.location or "?", signal.explanation)
        if _breaks.enabled:
            _breaks.info("%s", signal.describe())

    # --- the end of the piece ---------------------------------------------------------------------

    def check_weak_references(self) -> None:
        """A callback runs when its object dies: Python makes those of what dies in the piece.

        So it does all in a deep recursion: where the stack ends, a piece gives up what it made.
        """
        signal = self.tracer.signal
        if signal is not None and signal.reason is reasons.RECURSION_TOO_DEEP:
            for v in self.tracer.weak_references:
                raise CannotRebuild(v)
        watching = [v for v in self.tracer.weak_references if v.callback is not None]
        if not watching:
            return
        held: list[Variable] = [] if self.tracer.result is None else [self.tracer.result]
        for frame in self.tracer.frames:
            held += [*frame.stack, *frame.locals.values(), *frame.cells.values()]
        for effect in self.tracer.effects.journal:
            parts = effect.value if isinstance(effect.value, tuple) else (effect.value,)
            held += [v for v in (effect.target, *parts) if isinstance(v, Variable)]
        for v in watching:
            known = isinstance(v.target, ClassVariable) and v.target.value not in MODELS
            if not known and not leads_to(list(held), v.target):
                raise CannotRebuild(v)

    def finish(self, cg: Codegen) -> str:
        """Emit the effects and the result; the expression that the epilogue returns."""
        tracer = self.tracer
        self.check_weak_references()
        cg.changed = {id(effect.target) for effect in tracer.effects.journal}
        if tracer.result is not None:
            result = cg.ref(tracer.result)
            for effect in tracer.effects.journal:
                cg.replay(effect)
            return result
        keep_shared(tracer.frames)
        expression = ""
        for depth in range(len(tracer.frames) - 1, -1, -1):
            innermost = depth == len(tracer.frames) - 1
            expression = self.continuation(cg, tracer.frames[depth], innermost, expression)
        for effect in tracer.effects.journal:
            cg.replay(effect)
        return expression

    def continuation(self, cg: Codegen, frame: Frame, innermost: bool, callee: str) -> str:
        """Emit the ``Continue`` that takes a frame on: its state and where it goes."""
        code = frame.code
        layout, items = self.state(cg, frame)
        cells = []
        for name in (*code.co_cellvars, *code.co_freevars):
            cell = frame.cells.get(name)
            if cell is None:
                cell = frame.cells[name] = CellVariable()
            cells.append(cg.ref(cell))
        target: Break | Site
        if not innermost:
            index = frame.index - 1
            discard = frame.await_discard
            target = await_target(self.family, code, index, layout, discard, frame.stack)
            items.append(callee)
        elif self.tracer.signal is None:
            index = frame.index
            target = site_for(self.family, code, Outcome(index, layout), frame.stack)
        else:
            index = frame.index
            target = break_target(self.family, code, index, layout, frame.stack)
        func = "None" if frame.fn is None else cg.ref(frame.fn)
        make = cg.const(Continue, "Continue")
        return cg.temp(
            f"{make}({cg.const(target, 'target')}, {func}, ({''.join(c + ', ' for c in cells)}), "
            f"({''.join(i + ', ' for i in items)}))"
        )

    def state(self, cg: Codegen, frame: Frame) -> tuple[Layout, list[str]]:
        """A frame's layout and the expressions of its values, cells left out."""
        code = frame.code
        items: list[str] = []
        arg0_in_cell = False
        arg0 = code.co_varnames[0] if takes_slot0(code) else None
        if arg0 is not None and arg0 in code.co_cellvars and arg0 in frame.cells:
            contents = frame.cells[arg0].get(self.tracer)
            if contents is not None:
                arg0_in_cell = True
                items.append(cg.ref(contents))
        names = []
        for name in code.co_varnames:
            v = frame.locals.get(name)
            if v is not None:
                names.append(name)
                items.append(cg.ref(v))
        slots = []
        handled = len(frame.handled)
        for v in frame.stack:
            if v is NULL:
                slots.append(Slot.NULL)
            elif isinstance(v, HandlerMarker) and handled:
                handled -= 1
                slots.append(Slot.PREV_EXC)
                items.append(cg.ref(v.exception))
            elif isinstance(v, HandlerMarker):  # its handler was left: nothing reads it any more
                slots.append(Slot.VALUE)
                items.append("None")
            else:
                slots.append(Slot.VALUE)
                items.append(cg.ref(v))
        return Layout(tuple(names), tuple(slots), arg0_in_cell), items

    # --- the entry --------------------------------------------------------------------------------

    def failure_code(
        self, captures: list[Source], gm: Any
    ) -> tuple[Callable[..., Any] | None, tuple[int, ...]]:
        """What is left to do when the graph's exception leaves the frame: a function of it.

        Writes to ``grad`` in front of what raised are done, torch's context managers left, and the
        traceback tells the user's lines.
        """
        failure = self.tracer.failure
        exits = list(failure.exits.values())
        cg = Codegen()
        for tensor, grad in failure.grads or ():
            cg.replay(Effect("grad", tensor, None, grad))
        for leave in reversed(exits):
            cg.lines.append(f"{cg.ref(leave)}(None, None, None)")
        cg.settle()
        if not cg.lines:
            return (functools.partial(locate, gm=gm) if has_locations(gm) else None), ()
        if has_locations(gm):
            cg.lines.append(f"{cg.const(locate, 'locate')}(error, {cg.const(gm, 'graph')})")
        fn, _ = cg.finish("None", self.code.co_qualname, "error")
        for source in cg.captures:
            if source not in captures:
                captures.append(source)
        return fn, tuple(captures.index(source) for source in cg.captures)

    def make_entry(self, cg: Codegen, result: str, dropped: tuple[int, ...]) -> Entry:
        """Compile the graph and put everything together."""
        tracer = self.tracer
        graph = tracer.graph
        fn: Callable[..., Any] | None = None
        gm: Any = None
        boxed = False
        keys: list[Any] = []
        n_outputs = len(cg.outputs)
        graph.drop_spare(cg.outputs)
        if tracer.result is None:
            graph.asks_history = asks_for_history(tracer.frames, cg.outputs)
        if graph.num_ops or n_outputs:
            compiled = graph.compile(cg.outputs, self.options.backend, whole=tracer.failure.whole)
            fn, boxed, keys = compiled.fn, compiled.boxed, list(compiled.input_keys)
            gm = compiled.gm
            fn, keys = with_derived(fn, boxed, keys)
            counters.record_graph(self.name, graph.num_ops)
            if graph.switches:
                fn = state_restoring(fn, graph.switches == {"grad_enabled"})
            fn = tracer.failure.around(graph, fn)
        captures: list[Source] = list(keys)
        places: dict[str, int] = {}
        for source, name in cg.captures.items():
            places[name] = len(captures)
            captures.append(source)
        arguments = [*places.values(), *(~i for i in range(n_outputs))]
        failure, failure_arguments = self.failure_code(captures, gm) if gm else (None, ())
        epilogue: int | Callable[..., Any]
        if not cg.lines and (result in places or (result.startswith("o") and result[1:].isdigit())):
            epilogue = places[result] if result in places else ~int(result[1:])
            arguments = []
        else:
            epilogue, text = cg.finish(result, self.code.co_qualname)
            if _bytecode.enabled:
                _bytecode.info("epilogue of %s\n%s", self.name, text)
            logs.dump("bytecode", f"{self.name}.epilogue.py", text)
        tracer.guard_sizes()
        tree = tracer.guards.compile(captures)
        if _guards.enabled:
            _guards.info("%s\n%s", self.name, "\n".join(f"  {g.describe()}" for g in tracer.guards))
        if _effects.enabled and tracer.effects.journal:
            journal = "\n".join(f"  {effect}" for effect in tracer.effects.journal)
            _effects.info("%s\n%s", self.name, journal)
        entry = Entry(
            tree,
            fn,
            len(keys),
            boxed,
            epilogue,
            tuple(arguments),
            tracer.failure.restart(graph),
            n_outputs,
            None,
            failure,
            failure_arguments,
            dropped,
            tracer.deepest,
        )
        self.history.add(entry, tracer.guards)
        self.site.add_entry(entry)
        return entry
