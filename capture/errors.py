"""Holds every exception and control-flow signal of the package; must not know any other module.

Errors (``CaptureError``) reach the user. Signals (``Signal``) never do: they carry one of the two
policies "break the graph here" and "run this frame eagerly" from where the trouble is noticed to
where it is handled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = [
    "BackendCompilerFailed",
    "BreakReason",
    "CaptureError",
    "FailOnRecompileLimitHit",
    "GraphBreak",
    "InternalError",
    "RecompileError",
    "Signal",
    "SkipFrame",
    "TorchRuntimeError",
    "Unsupported",
    "UnsupportedPythonError",
    "UserError",
]


class CaptureError(RuntimeError):
    """Base of all errors that the package raises.

    A ``RuntimeError``, because that is what code written for ``torch.compile`` catches.
    """


class Unsupported(CaptureError):
    """Raised under ``fullgraph=True`` where capture would otherwise break the graph.

    Attributes:
        reason: the catalogued reason, or None.
        location: the user's line as ``file:line``, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: BreakReason | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.location = location

    @classmethod
    def from_break(cls, signal: GraphBreak, location: str | None = None) -> Unsupported:
        """Build the error that a graph break becomes under ``fullgraph=True``."""
        location = location or signal.location
        return cls(signal.describe(location), reason=signal.reason, location=location)


class UserError(CaptureError):
    """Raised for a wrong use of the package's own API."""


class TorchRuntimeError(CaptureError):
    """Raised where an operator failed during capture and its error cannot be raised as it is."""


class BackendCompilerFailed(CaptureError):
    """Raised when a backend raised while compiling a graph.

    Attributes:
        backend_name: the name of the backend.
        inner: what the backend raised; also ``__cause__``.
    """

    def __init__(self, backend_name: str, inner: BaseException) -> None:
        super().__init__(f"backend {backend_name!r} raised {type(inner).__name__}: {inner}")
        self.backend_name = backend_name
        self.inner = inner
        self.__cause__ = inner

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.backend_name, self.inner)


class RecompileError(CaptureError):
    """Raised instead of a recompile under ``config.error_on_recompile``."""


class FailOnRecompileLimitHit(CaptureError):
    """Raised instead of falling back to eager when the recompile limit is hit and that is fatal."""


class UnsupportedPythonError(CaptureError):
    """Raised on a Python whose bytecode the package does not know."""


class InternalError(CaptureError):
    """Raised for a bug of ours; the frame runs eagerly if ``config.suppress_errors`` is set."""


class _Blanks(dict[str, object]):
    """Formats a missing name as itself, so that a sloppy context cannot hide the reason."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


@dataclass(frozen=True, slots=True)
class BreakReason:
    """One entry of the catalogue of graph-break reasons.

    Attributes:
        id: ``CAP`` and four digits; never reused.
        title: a few words, the same for every break of this kind.
        explanation: a ``str.format`` template over the context of the break.
        hints: what the user can do about it, one sentence each.
    """

    id: str
    title: str
    explanation: str = ""
    hints: Sequence[str] = field(default=())

    def explain(self, context: dict[str, object]) -> str:
        """Return the explanation with the names of ``context`` filled in."""
        return self.explanation.format_map(_Blanks(context))


class Signal(Exception):
    """Base of the control-flow signals; never leaves the package."""


class GraphBreak(Signal):
    """Ends the current graph: the instruction at hand has to run natively.

    Args:
        reason: the catalogued reason.
        context: the names that the reason's explanation mentions.

    Attributes:
        location: the user's line as ``file:line``; set by whoever knows it first.
    """

    def __init__(self, reason: BreakReason, **context: object) -> None:
        super().__init__(reason.id)
        self.reason = reason
        self.context = context
        self.location: str | None = None

    @property
    def explanation(self) -> str:
        """The reason's explanation, filled in."""
        return self.reason.explain(self.context)

    def describe(self, location: str | None = None) -> str:
        """Return the full text for the user: line, reason, explanation and hints."""
        location = location or self.location
        lines = [f"{self.reason.id}: {self.reason.title}"]
        if location:
            lines[0] = f"{location}: {lines[0]}"
        if explanation := self.explanation:
            lines.append(f"  {explanation}")
        lines.extend(f"  hint: {hint}" for hint in self.reason.hints)
        lines.append("  CAPTURE_LOGS=breaks shows every break as it happens.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.describe()


class DataRefused(Signal):
    """Raised by a backend that cannot compile numbers and sizes that depend on data.

    The piece is captured again, with breaks where they come from.
    """


class WholeRefused(Signal):
    """Raised by a backend that cannot promise that a graph which raises has written to nothing.

    The piece is captured again, with breaks in front of what may raise behind a write.
    """


class SkipFrame(Signal):
    """Gives up the whole frame: it runs eagerly, now and later."""

    def __init__(self, reason: BreakReason | str) -> None:
        super().__init__(reason if isinstance(reason, str) else f"{reason.id}: {reason.title}")
        self.reason = reason
