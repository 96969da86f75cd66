"""Holds the one orchestrator: a missed site to a cache entry; must not know the frame hook.

decode and translate (``symbolic_convert``) → epilogue (``codegen``) → graph (``graph``, backend) →
guards → entry. A break while rebuilding, or in a place that cannot be resumed, starts the
translation again with a break further out; translation is deterministic, so places are counted.
"""

from __future__ import annotations

import functools
import time
import traceback
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from capture import break_reasons as reasons
from capture import counters, logs, stance
from capture._native import Break, Continue, Entry, Site
from capture.cache import FrameFamily, History, history_of
from capture.codegen import CannotRebuild, Codegen
from capture.config import settings as config
from capture.errors import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    GraphBreak,
    InternalError,
    RecompileError,
    SkipFrame,
    Unsupported,
    UserError,
)
from capture.graph.locations import has_locations, locate
from capture.guards.kinds import AllDistinct, ExprHolds, IsNotSame
from capture.guards.torch_kinds import state_is_foreign
from capture.hiding import hide
from capture.instructions.analysis import rebound_in_loops
from capture.instructions.decode import decode
from capture.side_effects import Effect
from capture.sources import (
    CellContentsSource,
    ClosureCellSource,
    DictItemSource,
    InstanceDictSource,
    LocalSource,
    Source,
)
from capture.symbolic_convert.dynamic import Policy, Seen
from capture.symbolic_convert.failure import rewinding, state_restoring
from capture.symbolic_convert.frame import Frame
from capture.symbolic_convert.handlers.exceptions import HandlerMarker
from capture.symbolic_convert.resume import (
    Layout,
    Outcome,
    Slot,
    make_await_code,
    make_break_code,
    make_resume_code,
    takes_slot0,
)
from capture.symbolic_convert.translator import Restart, Translator
from capture.variables.base import NULL, LazyVariable, Variable
from capture.variables.containers import DictVariable, ListVariable, SetVariable
from capture.variables.functions import CellVariable, FunctionVariable, GeneratorVariable
from capture.variables.made_classes import retire
from capture.variables.objects import ClassVariable, ModuleVariable, ObjectVariable
from capture.variables.tensor import TensorVariable

__all__ = ["Converter", "Options"]

_DROPPED_EARLY = frozenset({torch.Tensor, torch.nn.Parameter, list, tuple, dict})
_MAX_RESTARTS = 200
# Instructions of one frame, all attempts counted, without any tensor: it is left to Python then.
# That is about a second of compilation for what no backend can make faster.
_IDLE_LIMIT = 60_000
_EMPTY_LIMIT = 3
_breaks = logs.artifact("breaks")
_recompiles = logs.artifact("recompiles")
_guards = logs.artifact("guards")
_bytecode = logs.artifact("bytecode")
_effects = logs.artifact("side_effects")


@dataclass
class Options:
    """How one compiled function is captured."""

    backend: Callable[..., Any]
    fullgraph: bool = False
    dynamic: bool | None = None
    on_piece: list[Callable[[Any], None]] = field(default_factory=list)


class Converter:
    """Makes entries for the sites of one compiled function."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.pieces = 0

    def convert(self, site: Site, values: list[Any], func: types.FunctionType) -> Entry | None:
        """Make an entry for a site that missed; None leaves this run to Python."""
        if stance.current() != "default" and not self._stance_allows(site, values, func):
            return None
        try:
            return self._convert(site, values, func)
        except (
            Unsupported,
            BackendCompilerFailed,
            RecompileError,
            FailOnRecompileLimitHit,
            UserError,
        ):
            raise
        except SkipFrame as signal:
            site.skip = True
            if _breaks.enabled:
                _breaks.info("%s is left to Python: %s", func.__qualname__, signal)
            if self.options.fullgraph:
                raise Unsupported(f"{func.__qualname__} cannot be captured: {signal}") from None
            return None
        except RecursionError:
            # Values nested deeper than the compiler's own recursion goes.
            site.skip = True
            return None
        except Exception as error:
            if not config.suppress_errors:
                raise InternalError(f"capturing {func.__qualname__} failed: {error!r}") from error
            site.skip = True
            logs.warning_once(
                "breaks",
                ("internal", func.__code__),
                "internal error while capturing %s; it runs eagerly. Please report this:\n%s",
                func.__qualname__,
                "".join(traceback.format_exception(error)),
            )
            return None

    def _convert(self, site: Site, values: list[Any], func: types.FunctionType) -> Entry | None:
        if state_is_foreign():
            return None
        history = history_of(site)
        started = time.perf_counter()
        if history.compiles:
            if not self._may_recompile(site, history, values, func):
                return None
        code = func.__code__
        if site.index == 0 and site.layout is None:
            counters.record_frame(code)
        break_at: dict[int, GraphBreak] = {}
        family = history.family
        for _ in range(_MAX_RESTARTS):
            if not family.works and family.idle > _IDLE_LIMIT:
                raise SkipFrame(reasons.INSTRUCTION_BUDGET)
            piece = _Piece(self, site, history, values, func, break_at)
            try:
                entry = piece.make()
            except Restart:
                continue
            finally:
                family.works = family.works or bool(piece.tracer.tensors)
                family.idle += piece.tracer.ordinal
                piece.release()
            break
        else:
            raise SkipFrame("translation does not settle")
        counters.record_instructions(piece.tracer.ordinal)
        counters.record_compile_time(time.perf_counter() - started)
        return entry

    def _stance_allows(self, site: Site, values: list[Any], func: types.FunctionType) -> bool:
        """Whether the stance lets a piece be compiled; may raise instead."""
        if stance.current() != "fail_on_recompile":
            return False
        history = history_of(site)
        tensors = any(isinstance(value, torch.Tensor) for value in values)
        if not history.compiles and not tensors:
            return False  # no tensor work: there is nothing that could be compiled
        failures = history.failure(values, func)
        sentence = failures[0][1] if failures else "nothing is compiled for it"
        raise RecompileError(
            f"{func.__qualname__} would be compiled under the stance fail_on_recompile: {sentence}"
        )

    def _may_recompile(
        self, site: Site, history: History, values: list[Any], func: types.FunctionType
    ) -> bool:
        failures = history.failure(values, func)
        if self.options.dynamic is not False and config.automatic_dynamic_shapes:
            history.learn(values, func)
        where = f"{func.__code__.co_filename}:{func.__code__.co_firstlineno}"
        sentence = failures[0][1] if failures else "no entry is left"
        if failures and failures[0][2]:
            sentence = f"{sentence} ({failures[0][2]})"
        if config.error_on_recompile:
            raise RecompileError(f"{func.__qualname__} would recompile: {sentence}")
        if len(site.entries) >= config.recompile_limit:
            site.skip = True
            if not history.limit_reported:
                history.limit_reported = True
                text = (
                    f"{func.__qualname__} ({where}) reached the recompile limit of "
                    f"{config.recompile_limit}; what is compiled stays in use, other calls run "
                    f"eagerly. Last reason: {sentence}. Raise capture.config.recompile_limit, or "
                    "keep this from changing."
                )
                if config.fail_on_recompile_limit_hit or self.options.fullgraph:
                    raise FailOnRecompileLimitHit(text)
                logs.warning_once("recompiles", (id(self), func.__code__), "%s", text)
            return False
        counters.record_recompile(where, sentence)
        if _recompiles.enabled:
            _recompiles.info("%s (%s) recompiles: %s", func.__qualname__, where, sentence)
        return True

    def make_resume(self, site: Site, func: types.FunctionType) -> types.CodeType:
        """The code that finishes a frame natively from a resume site."""
        return hide(make_resume_code(func.__code__, site.index, site.layout))


class _Piece:
    """The making of one entry."""

    def __init__(
        self,
        converter: Converter,
        site: Site,
        history: History,
        values: list[Any],
        func: types.FunctionType,
        break_at: dict[int, GraphBreak],
    ) -> None:
        self.converter = converter
        self.options = converter.options
        self.site = site
        self.history = history
        self.family: FrameFamily = history.family
        self.values = values
        self.func = func
        self.code = func.__code__
        self.break_at = break_at
        self.name = f"{self.code.co_name}_{converter.pieces}"
        static = bool(getattr(self.options.backend, "static_shapes", False))
        policy = Policy(self.options.dynamic, history.seen, static=static)
        self.tracer = Translator(self.name, func, policy, break_at, self.family.run_loops)
        self.given = self.tracer.given  # by their place among the values
        if not self.family.works:
            self.tracer.idle_limit = _IDLE_LIMIT - self.family.idle

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
            cell = tracer.cell_variable(self.values[place], _cell_source(place, name))
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
            source = _stack_source(place, depth)
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
            if type(v.value) in _DROPPED_EARLY and id(v) not in alive and id(v.real) not in alive
        )

    # --- the whole --------------------------------------------------------------------------------

    def make(self) -> Entry | None:
        """Translate, rebuild, compile; the entry is added to the site."""
        tracer = self.tracer
        root = self.root_frame()
        tracer.frames.append(root)
        tracer.run()
        cg = Codegen()
        try:
            self.check_generators()
            result = self.finish(cg)
            cg.settle()
        except CannotRebuild as signal:
            self.break_earlier(signal)
            raise Restart() from None
        if tracer.signal is not None:
            self.report_break(tracer.signal)
        self.guard_aliases()
        tracer.guard_decisions()
        if self.nothing_captured():
            return None
        self.converter.pieces += 1
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

    def report_break(self, signal: GraphBreak) -> None:
        """Log and count a graph break; under ``fullgraph`` it is an error."""
        if self.options.fullgraph and signal.reason is not reasons.UNCAUGHT_EXCEPTION:
            raise Unsupported.from_break(signal)
        counters.record_break(signal.reason, signal.location or "?", signal.explanation)
        if _breaks.enabled:
            _breaks.info("%s", signal.describe())

    def guard_aliases(self) -> None:
        """What is written to through one name must not be reached through another one later."""
        tracer = self.tracer
        self.guard_gradients()
        if len(tracer.tensor_keys) > 1:
            tracer.guard(AllDistinct(tuple(tracer.tensor_keys)))
        for source in tracer.graph.no_views:
            assert isinstance(source, Source)
            tracer.guard(ExprHolds((source,), is_no_view, f"{source.name} is no view"))
        changed = [v for v in tracer.effects.changed_objects() if v.source is not None]
        if not changed:
            return
        others = [
            v
            for v in tracer.identity.values()
            if v.source is not None
            and isinstance(
                v, (ListVariable, DictVariable, SetVariable, ObjectVariable, CellVariable)
            )
            and not isinstance(v, (ClassVariable, ModuleVariable, FunctionVariable))
        ]
        for v in changed:
            for other in others:
                if other is not v and v.python_type() is other.python_type():
                    assert v.source is not None
                    assert other.source is not None
                    if _may_alias(v.source, other.source):
                        tracer.guard(IsNotSame(v.source, other.source))
        self.guard_instance_dicts(others)

    def guard_gradients(self) -> None:
        """Where some ``grad`` is written, the tensors whose ``grad`` was used stay different."""
        tracer = self.tracer
        if any(effect.kind == "grad" for effect in tracer.effects.journal):
            sources = [
                v.source
                for v in tracer.tensors.values()
                if isinstance(v, TensorVariable) and v.source is not None and v.grad is not None
            ]
            if len(sources) > 1:
                tracer.guard(AllDistinct(tuple(sources)))

    def guard_instance_dicts(self, others: Sequence[Variable]) -> None:
        """A dict passed in may be the ``__dict__`` of an object: two names for one thing."""
        journal = self.tracer.effects.journal
        names = {
            id(e.target): e.target for e in journal if e.kind == "attr" or e.kind.startswith("dict")
        }
        keys = {e.key for e in journal if type(e.key) is str}
        for v in others:
            if type(v) is not DictVariable or v.cls is not dict or _is_attribute(v.source):
                continue
            for other in others:
                if isinstance(other, DictVariable) or not isinstance(other, ObjectVariable):
                    continue
                real = other.real_dict()
                if real is None or not (id(v) in names or id(other) in names):
                    continue
                if real is v.value:
                    raise SkipFrame("an object and its __dict__ are reached by two ways")
                if not keys.isdisjoint(real) and v.source is not None and other.source is not None:
                    self.tracer.guard(IsNotSame(InstanceDictSource(other.source), v.source))

    # --- the end of the piece ---------------------------------------------------------------------

    def finish(self, cg: Codegen) -> str:
        """Emit the effects and the result; the expression that the epilogue returns."""
        tracer = self.tracer
        cg.changed = {id(effect.target) for effect in tracer.effects.journal}
        if tracer.result is not None:
            result = cg.ref(tracer.result)
            for effect in tracer.effects.journal:
                cg.replay(effect)
            return result
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
            target = self.await_target(code, index, layout, discard)
            items.append(callee)
        elif self.tracer.signal is None:
            index = frame.index
            target = self.site_for(code, Outcome(index, layout))
        else:
            index = frame.index
            target = self.break_target(code, index, layout)
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

    def site_for(self, code: types.CodeType, outcome: Outcome) -> Site:
        """The resume site of a place in a frame's code; one per place and layout."""
        key = (id(code), outcome.index, outcome.layout)
        found = self.family.sites.get(key)
        if found is not None and found[0]() is code:
            return found[1]
        layout = outcome.layout
        arg0 = code.co_varnames[0] if takes_slot0(code) else None
        slot0 = layout.arg0_in_cell or (
            arg0 is not None and bool(layout.locals) and layout.locals[0] == arg0
        )
        site = Site(
            outcome.index,
            layout,
            len(code.co_cellvars) + len(code.co_freevars),
            slot0,
            History(self.family, seen=Seen(numbers=_carried_numbers(code, outcome))),
        )
        self.family.sites[key] = (weakref.ref(code), site)
        return site

    def break_target(self, code: types.CodeType, index: int, layout: Layout) -> Break:
        """The code that runs one instruction natively, and the sites behind it."""
        key = (id(code), index, layout)
        found = self.family.breaks.get(key)
        if found is not None and found[0]() is code:
            return found[1]
        made = make_break_code(code, index, layout)
        return self.remember_break(key, code, layout, made)

    def await_target(
        self, code: types.CodeType, index: int, layout: Layout, discard: bool
    ) -> Break:
        """The code that waits for a callee in the place of its call."""
        key = (id(code), index, layout, discard)
        found = self.family.breaks.get(key)
        if found is not None and found[0]() is code:
            return found[1]
        made = make_await_code(code, index, layout, discard)
        return self.remember_break(key, code, layout, made)

    def remember_break(self, key: Any, code: types.CodeType, layout: Layout, made: Any) -> Break:
        sites = tuple(self.site_for(code, outcome) for outcome in made.outcomes)
        arg0 = code.co_varnames[0] if takes_slot0(code) else None
        has_slot0 = layout.arg0_in_cell or (
            arg0 is not None and bool(layout.locals) and layout.locals[0] == arg0
        )
        hide(made.code)
        target = Break(made.code, sites, takes_slot0(code), has_slot0)
        self.family.breaks[key] = (weakref.ref(code), target, sites)
        return target

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
        if graph.num_ops or n_outputs:
            compiled = graph.compile(cg.outputs, self.options.backend)
            fn, boxed, keys = compiled.fn, compiled.boxed, list(compiled.input_keys)
            gm = compiled.gm
            counters.record_graph(self.name, graph.num_ops)
            if graph.switches:
                fn = state_restoring(fn, graph.switches == {"grad_enabled"})
            if tracer.failure.rewinds(graph):
                fn = rewinding(fn)
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
            _guards.info("%s\n%s", self.name, "\n".join(f"  {g}" for g in tracer.guards))
        if _effects.enabled:
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
        )
        self.history.add(entry, tracer.guards)
        self.site.add_entry(entry)
        return entry


def _cell_source(place: int, name: str) -> LocalSource:
    return LocalSource(place, f"cell of {name}")


def _stack_source(place: int, depth: int) -> LocalSource:
    return LocalSource(place, f"<stack {depth}>")


def _carried_numbers(code: types.CodeType, outcome: Outcome) -> set[Source]:
    """Where a resume site in a loop finds what changes from round to round.

    A number found there is an input of the graph from the first time on: the second round would
    ask for it anyway.
    """
    rebound = rebound_in_loops(decode(code), outcome.index)
    if rebound is None:
        return set()
    layout = outcome.layout
    found: set[Source] = set()
    place = 0
    for name in (*code.co_cellvars, *code.co_freevars):
        if name in rebound:
            found.add(CellContentsSource(_cell_source(place, name)))
        place += 1
    place += layout.arg0_in_cell
    for name in layout.locals:
        if name in rebound:
            found.add(LocalSource(place, name))
        place += 1
    for depth in range(len(layout.stack) - layout.stack.count(Slot.NULL)):
        found.add(_stack_source(place, depth))
        place += 1
    return found


def is_no_view(tensor: torch.Tensor) -> bool:
    """True for a tensor that is no view of another one."""
    return not tensor._is_view()


def _is_attribute(source: Source | None) -> bool:
    return isinstance(source, InstanceDictSource) or (
        isinstance(source, DictItemSource) and isinstance(source.parent, InstanceDictSource)
    )


def _may_alias(first: Source, second: Source) -> bool:
    """False if one source lies within the other: a part is not the whole."""
    for inner, outer in ((first, second), (second, first)):
        step: Source | None = inner
        while step is not None:
            if step == outer:
                return False
            step = step.parent
    return True
