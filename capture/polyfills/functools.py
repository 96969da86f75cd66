"""Holds equivalents of functools functions implemented in C (Modules/_functoolsmodule.c).

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from capture.polyfills.arguments import Missing
from capture.polyfills.registry import polyfill_of


@polyfill_of(functools.reduce)
def reduce(
    function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = Missing, /
) -> Any:
    """functools.reduce()."""
    try:
        iterator = iter(iterable)
    except TypeError:
        iterator = None
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    result = initial
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            break
        result = item if result is Missing else function(result, item)
    if result is Missing:
        raise TypeError("reduce() of empty iterable with no initial value")
    return result


class ComparisonKey:
    """What the key function of functools.cmp_to_key() returns: compares by calling `compare`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        """Wrap `obj`."""
        self.compare = compare
        self.obj = obj

    def _result(self, other: object) -> Any:
        if not isinstance(other, ComparisonKey):
            raise TypeError("other argument must be K instance")
        return self.compare(self.obj, other.obj)

    def __lt__(self, other: object) -> Any:
        """Self comes before other."""
        return self._result(other) < 0

    def __gt__(self, other: object) -> Any:
        """Self comes behind other."""
        return self._result(other) > 0

    def __le__(self, other: object) -> Any:
        """Self does not come behind other."""
        return self._result(other) <= 0

    def __ge__(self, other: object) -> Any:
        """Self does not come before other."""
        return self._result(other) >= 0

    def __eq__(self, other: object) -> Any:
        """Neither comes first."""
        return self._result(other) == 0

    def __ne__(self, other: object) -> Any:
        """One comes first."""
        return self._result(other) != 0


@polyfill_of(functools.cmp_to_key)
def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], ComparisonKey]:
    """functools.cmp_to_key()."""

    def key(obj: Any) -> ComparisonKey:
        return ComparisonKey(mycmp, obj)

    return key


def partial_call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    /,
    *more: Any,
    **more_keywords: Any,
) -> Any:
    """Call a functools.partial object given by its parts."""
    return function(*arguments, *more, **{**keywords, **more_keywords})


@polyfill_of(functools.partial.__call__)
def partial_method_call(self: functools.partial[Any], /, *args: Any, **kwargs: Any) -> Any:
    """functools.partial.__call__()."""
    return self.func(*self.args, *args, **{**self.keywords, **kwargs})
