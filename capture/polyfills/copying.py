"""Holds equivalents of what ``object`` does for ``copy`` and ``pickle``.

Must not know the interpreter, variables or torch.

Source: ``Objects/typeobject.c`` (``reduce_newobj``, ``object_getstate_default``).
"""

from __future__ import annotations

import copyreg
from typing import Any

from capture.polyfills.registry import polyfill_of


@polyfill_of(object.__getstate__)
def getstate(self: Any, /) -> Any:
    """object.__getstate__(): the instance's dict, and the values of its slots if it has some."""
    state = None
    if hasattr(self, "__dict__"):
        state = self.__dict__
        if len(state) == 0:
            state = None
    slots = {}
    for name in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, name):
            slots[name] = getattr(self, name)
    if slots:
        return state, slots
    return state


def reduce_object(self: Any) -> Any:
    """object.__reduce_ex__() with a protocol of 2 or more, of an object laid out in Python."""
    cls: Any = type(self)
    if cls.__reduce__ is not object.__reduce__:
        return self.__reduce__()
    make = copyreg.__newobj__  # type: ignore[attr-defined]
    arguments: Any = (cls,)
    if hasattr(cls, "__getnewargs_ex__"):
        given = self.__getnewargs_ex__()
        if not isinstance(given, tuple):
            kind = type(given).__name__
            raise TypeError(f"__getnewargs_ex__ should return a tuple, not '{kind}'")
        if len(given) != 2:
            raise TypeError(
                f"__getnewargs_ex__ should return a tuple of length 2, not {len(given)}"
            )
        args, kwargs = given
        if not isinstance(args, tuple):
            kind = type(args).__name__
            raise TypeError(
                "first item of the tuple returned by __getnewargs_ex__ must be a tuple, "
                f"not '{kind}'"
            )
        if not isinstance(kwargs, dict):
            kind = type(kwargs).__name__
            raise TypeError(
                "second item of the tuple returned by __getnewargs_ex__ must be a dict, "
                f"not '{kind}'"
            )
        if kwargs:
            make = copyreg.__newobj_ex__  # type: ignore[attr-defined]
            arguments = (cls, args, kwargs)
        else:
            arguments = (cls, *args)
    elif hasattr(cls, "__getnewargs__"):
        args = self.__getnewargs__()
        if not isinstance(args, tuple):
            kind = type(args).__name__
            raise TypeError(f"__getnewargs__ should return a tuple, not '{kind}'")
        arguments = (cls, *args)
    state = self.__getstate__()
    items = iter(self) if isinstance(self, list) else None
    entries = iter(self.items()) if isinstance(self, dict) else None
    return make, arguments, state, items, entries
