"""Holds the settings; must not know what they steer.

Inside the package: ``from capture.config import settings`` and read ``settings.recompile_limit``.
Users write ``capture.config.recompile_limit = 4`` or ``with capture.config.patch(...)``; the module
itself forwards names to the one ``settings`` object. Each setting's first value can come from the
environment, as ``CAPTURE_`` and its name in capitals.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType, TracebackType

from capture.errors import UserError

__all__ = ["Settings", "patch", "settings"]


@dataclass(slots=True)
class Settings:
    """All settings, process-wide."""

    recompile_limit: int = 8
    """Entries for one place of one compiled function; beyond it new cases run eagerly."""
    fail_on_recompile_limit_hit: bool = False
    """Raise ``FailOnRecompileLimitHit`` instead of running eagerly beyond the limit."""
    error_on_recompile: bool = False
    """Raise ``RecompileError`` where a second entry would be compiled."""
    unroll_limit: int = 64
    """Iterations of one loop that are unrolled into a graph before the body is captured alone."""
    unroll_node_limit: int = 20_000
    """Graph nodes that one loop may add by unrolling before the body is captured alone."""
    unroll_instruction_limit: int = 100_000
    """Likewise, by the instructions executed symbolically in the loop; 100 per node are free."""
    unroll_backward_limit: int = 16
    """Backward calls that one loop may add by unrolling: more are steps, not micro-batches."""
    instruction_limit: int = 2_000_000
    """Instructions executed symbolically for one frame before capture gives up."""
    suppress_errors: bool = True
    """Run a frame eagerly after an internal error, with one warning, instead of raising."""
    verify: bool = False
    """Check each graph and each generated code object; slow, on in our tests."""
    automatic_dynamic_shapes: bool = True
    """Make a size or number symbolic once a second value of it was seen."""
    dynamic_sources: str = ""
    """Inputs that are symbolic from the first call on: names as in the logs, with wildcards."""
    capture_without_tensors: bool = False
    """Keep what was captured of a frame without tensor work, to test capture itself."""
    capture_scalar_outputs: bool = True
    """Capture ``Tensor.item()`` and its like: the graph breaks where the program needs to know."""
    capture_dynamic_output_shape_ops: bool = True
    """Capture operators whose output shape depends on data, with sizes that the graph tells."""
    aot_tracer: str = "recorder"
    """Who traces for the AOT stage: ``recorder``, or torch's ``make_fx``, to compare with."""

    def __setattr__(self, name: str, value: object) -> None:
        kind = _TYPES.get(name)
        if kind is None:
            raise UserError(_unknown(name))
        if type(value) is not kind:
            raise UserError(f"config.{name} is of type {kind.__name__}, not {type(value).__name__}")
        object.__setattr__(self, name, value)

    def patch(self, changes: Mapping[str, object] | None = None, /, **names: object) -> _Patch:
        """Change settings inside a ``with`` block or a decorated function."""
        changes = {**(changes or {}), **names}
        for name in changes:
            if name not in _TYPES:
                raise UserError(_unknown(name))
        return _Patch(self, changes)

    def snapshot(self) -> dict[str, object]:
        """Return all settings as they are now."""
        return dataclasses.asdict(self)


_TYPES: dict[str, type] = {
    field.name: type(field.default) for field in dataclasses.fields(Settings)
}


class _Patch(contextlib.ContextDecorator):
    """Sets values on entry and puts the previous ones back on exit; may be nested in itself."""

    def __init__(self, target: Settings, changes: Mapping[str, object]) -> None:
        self.target = target
        self.changes = changes
        self.saved: list[dict[str, object]] = []

    def __enter__(self) -> Settings:
        self.saved.append({name: getattr(self.target, name) for name in self.changes})
        try:
            for name, value in self.changes.items():
                setattr(self.target, name, value)
        except BaseException:
            self._restore()
            raise
        return self.target

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for name, value in self.saved.pop().items():
            setattr(self.target, name, value)


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, _TYPES, n=1)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown setting {name!r}{guess}; there are: {', '.join(_TYPES)}"


def _from_environment(environ: Mapping[str, str]) -> Settings:
    """Return the defaults with what ``CAPTURE_<NAME>`` variables say."""
    result = Settings()
    for name, kind in _TYPES.items():
        variable = f"CAPTURE_{name.upper()}"
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            setattr(result, name, _BOOLEANS[text.lower()] if kind is bool else kind(text))
        except (KeyError, ValueError):
            expected = "0 or 1" if kind is bool else f"an {kind.__name__}"
            raise UserError(f"{variable}={text!r}: expected {expected}") from None
    return result


_BOOLEANS = {
    **dict.fromkeys(("0", "false", "no", "off"), False),
    **dict.fromkeys(("1", "true", "yes", "on"), True),
}

settings = _from_environment(os.environ)
patch = settings.patch


class _ConfigModule(ModuleType):
    """Lets users read and write settings as attributes of the module."""

    def __getattr__(self, name: str) -> object:
        if name in _TYPES:
            return getattr(settings, name)
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__ or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(settings, name, value)


sys.modules[__name__].__class__ = _ConfigModule
