"""Holds the stance: what a call does that nothing compiled fits; knows nothing of compiling."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from capture.errors import UserError

__all__ = ["STANCES", "current", "listeners", "set_stance"]

F = TypeVar("F", bound=Callable[..., Any])

STANCES: dict[str, str] = {
    "default": "compile what is missing",
    "eager_on_recompile": "use what is compiled; all else runs eagerly",
    "fail_on_recompile": "use what is compiled; all else raises RecompileError",
    "force_eager": "run everything eagerly",
}

listeners: list[Callable[[], None]] = []
"""Called after each change."""
_current = "default"


def current() -> str:
    """The stance now, in the whole process."""
    return _current


def _set(stance: str) -> None:
    global _current
    _current = stance
    for listener in listeners:
        listener()


class set_stance:
    """Say what calls of compiled functions do from now on that nothing compiled fits.

    ``"default"`` compiles, ``"eager_on_recompile"`` runs eagerly, ``"fail_on_recompile"`` raises
    ``RecompileError``, ``"force_eager"`` runs everything eagerly, also what is compiled. It holds
    for the whole process: from the call on, inside a ``with`` block, or a decorated function.

    Raises:
        UserError: for an unknown stance.
    """

    def __init__(self, stance: str) -> None:
        if stance not in STANCES:
            raise UserError(f"unknown stance {stance!r}; there are: {', '.join(STANCES)}")
        self.stance = stance
        self.before = _current
        _set(stance)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _set(self.before)

    def __call__(self, fn: F) -> F:
        """Let the stance hold inside a function only."""
        _set(self.before)

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return wrapper  # type: ignore[return-value]
