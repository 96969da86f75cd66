"""Holds equivalents of the callable makers of operator (Modules/_operator.c), as closures.

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from capture.polyfills.arguments import Missing, as_size, error_text, type_name
from capture.polyfills.registry import POLYFILLS, polyfill_of


@polyfill_of(operator.length_hint)
def length_hint(obj: Any, default: int = 0, /) -> int:
    """operator.length_hint() (Objects/abstract.c, PyObject_LengthHint)."""
    default = as_size(default)
    kind = type(obj)
    if getattr(kind, "__len__", Missing) is not Missing:
        try:
            return len(obj)
        except TypeError:
            pass
    method: Any = getattr(kind, "__length_hint__", Missing)
    if method is Missing:
        return default
    try:
        hint = method(obj)
    except TypeError:
        return default
    if hint is NotImplemented:
        return default
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type_name(type(hint))}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint


_NO_ITEM = error_text(operator.itemgetter)
_NO_ATTRIBUTE = error_text(operator.attrgetter)
_NO_METHOD = error_text(operator.methodcaller)


@polyfill_of(operator.itemgetter)
def itemgetter(*items: Any) -> Callable[[Any], Any]:
    """operator.itemgetter(): one item, or a tuple of several."""
    if not items:
        raise TypeError(_NO_ITEM)
    if len(items) == 1:
        item = items[0]

        def get_item(obj: Any, /) -> Any:
            return obj[item]

        return get_item

    def get_items(obj: Any, /) -> tuple[Any, ...]:
        result = []
        for item in items:
            result.append(obj[item])
        return (*result,)

    return get_items


def _get_path(obj: Any, path: list[str]) -> Any:
    for name in path:
        obj = getattr(obj, name)
    return obj


@polyfill_of(operator.attrgetter)
def attrgetter(*attributes: str) -> Callable[[Any], Any]:
    """operator.attrgetter(): dots walk along a path."""
    if not attributes:
        raise TypeError(_NO_ATTRIBUTE)
    paths = []
    for attribute in attributes:
        if not isinstance(attribute, str):
            raise TypeError("attribute name must be a string")
        paths.append(attribute.split("."))
    if len(paths) == 1:
        path = paths[0]

        def get_attribute(obj: Any, /) -> Any:
            return _get_path(obj, path)

        return get_attribute

    def get_attributes(obj: Any, /) -> tuple[Any, ...]:
        result = []
        for path in paths:
            result.append(_get_path(obj, path))
        return (*result,)

    return get_attributes


@polyfill_of(operator.methodcaller)
def methodcaller(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """operator.methodcaller()."""
    if not args:
        raise TypeError(_NO_METHOD)
    name = args[0]
    arguments = args[1:]
    if not isinstance(name, str):
        raise TypeError("method name must be a string")

    def call_method(obj: Any, /) -> Any:
        return getattr(obj, name)(*arguments, **kwargs)

    return call_method


_MAKERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


def closure_of(getter: object) -> types.FunctionType | None:
    """Return a Python function for an existing itemgetter, attrgetter or methodcaller."""
    if type(getter) not in _MAKERS:
        return None
    parts: tuple[Any, ...] = getter.__reduce__()  # type: ignore[assignment]
    maker, args = parts
    keywords: dict[str, Any] = {}
    if isinstance(maker, functools.partial):  # a methodcaller with keyword arguments
        args = (*maker.args, *args)
        keywords = maker.keywords
        maker = maker.func
    closure = POLYFILLS[maker](*args, **keywords)
    assert isinstance(closure, types.FunctionType)
    return closure
