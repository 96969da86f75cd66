"""Holds the policy of compilation: what becomes of a site that missed; not how a piece is made."""

from __future__ import annotations

import time
import traceback
import types
from typing import Any

import torch

from capture import break_reasons as reasons
from capture import collector, counters, logs, stance
from capture._native import Break, Entry, Site
from capture.cache import History, history_of
from capture.config import settings as config
from capture.convert_frame.constants_seen import many_constants
from capture.convert_frame.options import Options
from capture.convert_frame.piece import IDLE_LIMIT, Piece
from capture.convert_frame.targets import loop_target
from capture.errors import (
    BackendCompilerFailed,
    DataRefused,
    FailOnRecompileLimitHit,
    InternalError,
    RecompileError,
    SkipFrame,
    Unsupported,
    UnsupportedPythonError,
    UserError,
    WholeRefused,
)
from capture.guards.torch_kinds import state_is_foreign
from capture.hiding import hide
from capture.symbolic_convert.attempts import Attempts
from capture.symbolic_convert.resume import make_resume_code
from capture.symbolic_convert.translator import Restart

_MAX_RESTARTS = 200
_breaks = logs.artifact("breaks")
# How many times the limit a site may compile in all: entries go with the objects they are for.
_LOST = 16
# How often a site compiles while its frame has not met a tensor: what no backend makes faster need
# not be compiled for every value that it is run with.
_IDLE_COMPILES = 2
_recompiles = logs.artifact("recompiles")


def _is_generated_for_torch(func: types.FunctionType) -> bool:
    """True for methods of torch's dataclasses: like torch's files, nothing to be captured alone."""
    name = func.__globals__.get("__name__")
    return (
        func.__code__.co_filename == "<string>" and type(name) is str and name.startswith("torch.")
    )


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
            with collector.paused():
                return self._convert(site, values, func)
        except (
            Unsupported,
            BackendCompilerFailed,
            RecompileError,
            FailOnRecompileLimitHit,
            UserError,
        ):
            raise
        except (SkipFrame, UnsupportedPythonError) as signal:
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
            if _is_generated_for_torch(func):
                site.skip = True
                return None
            counters.record_frame(code)
        attempts = Attempts()
        family = history.family
        for _ in range(_MAX_RESTARTS):
            if not family.works and family.idle > IDLE_LIMIT:
                raise SkipFrame(reasons.INSTRUCTION_BUDGET)
            piece = Piece(self.options, self.pieces, site, history, values, func, attempts)
            try:
                entry = piece.make()
            except Restart:
                continue
            except DataRefused:
                family.takes_data = False
                continue
            except WholeRefused:
                family.takes_whole = False
                continue
            finally:
                family.works = family.works or bool(piece.tracer.tensors)
                family.idle += piece.tracer.ordinal
                piece.release()
            break
        else:
            raise SkipFrame("translation does not settle")
        self.pieces += entry is not None
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
        kept = len(site.entries)
        strict = self.options.fullgraph or config.fail_on_recompile_limit_hit
        if history.compiles >= _IDLE_COMPILES and not (history.family.works or strict):
            site.skip = True
            return False
        if kept >= config.recompile_limit or history.compiles >= _LOST * config.recompile_limit:
            site.skip = True
            if not history.limit_reported:
                history.limit_reported = True
                reached = f"reached the recompile limit of {config.recompile_limit}"
                if kept < config.recompile_limit:
                    reached = f"was compiled {history.compiles} times, mostly for objects now gone"
                text = (
                    f"{func.__qualname__} ({where}) {reached}; what is compiled stays in use, "
                    f"other calls run eagerly. Last reason: {sentence}. Raise "
                    "capture.config.recompile_limit, or keep this from changing."
                )
                constants = many_constants(failures)
                if constants is not None:
                    text = f"{text} {constants}."
                if config.fail_on_recompile_limit_hit or self.options.fullgraph:
                    raise FailOnRecompileLimitHit(text)
                logs.warning_once("recompiles", (id(self), func.__code__), "%s", text)
            return False
        counters.record_recompile(where, sentence)
        if _recompiles.enabled:
            _recompiles.info("%s (%s) recompiles: %s", func.__qualname__, where, sentence)
        return True

    def make_resume(self, site: Site, func: types.FunctionType) -> types.CodeType | Break:
        """What goes on natively from a resume site: to the end of its loop, or of its frame."""
        family = history_of(site).family
        loop = loop_target(family, func.__code__, site.index, site.layout)
        if loop is not None:
            return loop
        return hide(make_resume_code(func.__code__, site.index, site.layout))
