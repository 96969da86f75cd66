"""Holds the user's lines in tracebacks of what graphs raise; must not know pieces or frames.

A captured frame is not on the stack while its graph runs. Where the exception leaves the frame, its
traceback gets the entries that eager would have given it, in the place of the generated code's.
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any

from torch import fx

from capture.backends.boxed import BoxedCodeGen

__all__ = ["has_locations", "locate"]

_ASSIGNED = re.compile(r"\s*(\w+)(?: : [^=]*)? = ")
# ``a -= b`` and ``a[i] = b`` stand in front of what assigns the node
_CHANGED = re.compile(r"[^;]*;\s+(\w+) = ")
_PLACE = re.compile(r'  File "(.*)", line (\d+), in (.*)')
_TEMPLATE = compile("frame = getframe()", "<captured>", "exec")
# Eight instructions an entry, each without line and columns: the traceback has its own line.
_NOWHERE = b"\xff" * (len(_TEMPLATE.co_code) // 16 + 1)


def has_locations(gm: fx.GraphModule) -> bool:
    """True if the graph's own code runs, so that a traceback tells the node that raised."""
    return isinstance(gm.graph._codegen, BoxedCodeGen)


def locate(error: BaseException, gm: fx.GraphModule) -> None:
    """Put the user's lines where the traceback has the graph's code; else leave it as it is."""
    forward: Any = type(gm).forward
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code is not forward.__code__:
        entry = entry.tb_next
    if entry is None:
        return
    places = _PLACE.findall(_stack_of(gm, entry.tb_lineno))
    if not places:
        return
    made = entry.tb_next
    for filename, line, name in reversed(places):
        made = types.TracebackType(made, _frame(filename, int(line), name), 0, int(line))
    error.__traceback__ = made


def _stack_of(gm: fx.GraphModule, line: int) -> str:
    """Where the user called the operator of a line of the generated code."""
    lines = gm.code.splitlines()
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    found = _ASSIGNED.match(text) or _CHANGED.match(text)
    if found is not None:
        for node in gm.graph.nodes:
            if node.name == found[1]:
                return str(node.meta.get("stack_trace") or "")
    return ""


def _frame(filename: str, line: int, name: str) -> types.FrameType:
    """A frame that shows a place; it has no columns, and nothing of the program's."""
    code = _TEMPLATE.replace(
        co_filename=filename, co_name=name, co_qualname=name, co_firstlineno=line,
        co_linetable=_NOWHERE,
    )  # fmt: skip
    namespace: dict[str, Any] = {"getframe": sys._getframe}
    exec(code, namespace)
    frame: types.FrameType = namespace.pop("frame")
    namespace.clear()
    return frame
