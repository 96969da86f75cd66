"""Holds ``mode`` and ``options`` of the Inductor backend; must not know what they change."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from capture.backends.inductor import adapter
from capture.errors import UserError

__all__ = ["settings_for"]

# A captured program draws the random numbers of the program, at the price of random operators that
# are not fused; torch.compile has it the other way round.
_DEFAULTS = {"fallback_random": True}


def settings_for(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of Inductor to change for what ``capture.compile`` was given.

    Raises:
        UserError: there is no such mode or setting, or its type is another one.
    """
    settings = dict(_DEFAULTS)
    if mode is not None and mode != "default":
        known = adapter.mode_options(mode)
        if known is None:
            modes = ", ".join(map(repr, adapter.mode_names()))
            raise UserError(f"unknown mode {mode!r} of backend 'inductor'; there are: {modes}")
        settings.update(known)
    if not options:
        return settings
    current = adapter.known_options()
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in current:
            close = difflib.get_close_matches(name, current, n=3)
            guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise UserError(f"Inductor has no option {key!r}{guess}")
        expected = adapter.option_type(name)
        if expected is not None and not isinstance(value, expected):
            raise UserError(
                f"Inductor's option {key!r} is a {expected.__name__}, not a {type(value).__name__}"
            )
        settings[name] = value
    return settings
