"""Holds the pause of Python's garbage collector while frames are captured; must not know them.

Capture makes many objects that stay, and hardly any cycles; the collector would go through all of
them, and all of the program's, again and again: up to half of the time of a cold start. What a
backend does is not ours to judge, so it runs with the program's setting.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["paused", "resumed"]

# One thread captures at a time, so one flag serves: it says that ``paused`` turned the collector
# off and will turn it on again.
_paused = False


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Turn the collector off; afterwards it is as the program had it."""
    global _paused
    if _paused or not gc.isenabled():
        yield
        return
    gc.disable()
    _paused = True
    try:
        yield
    finally:
        if _paused:
            _paused = False
            gc.enable()


@contextlib.contextmanager
def resumed() -> Iterator[None]:
    """Let the collector be as the program had it, within ``paused``.

    What the code inside makes of it stays: a collector that it turned off is not turned on later.
    """
    global _paused
    if not _paused:
        yield
        return
    _paused = False
    gc.enable()
    try:
        yield
    finally:
        if gc.isenabled():
            gc.disable()
            _paused = True
