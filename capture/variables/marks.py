"""Holds how users mark functions (never capture, put into the graph as is); must not know more.

Marks that other frontends' decorators left on library code are honoured too.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from capture._native import disable_code

DISABLE, GRAPH, CONSTANT = "disable", "graph", "constant"
_ATTRIBUTE = "_capture_marker"
_native: dict[Any, str] = {}


def mark(fn: Any, marker: str) -> None:
    """Mark a function or, if it takes no attributes, remember it (it is implemented in C then)."""
    target = getattr(fn, "__func__", fn)
    try:
        setattr(target, _ATTRIBUTE, marker)
    except (AttributeError, TypeError):
        _native[target] = marker


def patched(fn: types.FunctionType) -> types.FunctionType | None:
    """What another frontend has put its own ``disable`` around, in the place of its user.

    At its first use torch.compile does so to the functions of torch's optimizers.
    """
    original = fn.__dict__.get("_torchdynamo_orig_callable")
    if isinstance(original, types.FunctionType) and fn.__dict__.get("_torchdynamo_disable"):
        return original
    return None


def marker_of(fn: Any) -> str | None:
    """The mark of a function, or None."""
    if not isinstance(fn, types.FunctionType):
        try:
            return _native.get(fn)
        except TypeError:
            return None
    attributes = fn.__dict__
    marker: str | None = attributes.get(_ATTRIBUTE)
    if marker is not None:
        return marker
    if attributes.get("_torchdynamo_disable"):
        # torch.compiler.disable: its wrapper, and all that it calls, runs as plain Python.
        disable_code(fn.__code__)
        return DISABLE
    rules = sys.modules.get("torch._dynamo.trace_rules")  # there once a user's mark has loaded it
    if rules is not None and id(fn) in getattr(rules, "_allowed_callable_ids", ()):
        return GRAPH
    return None
