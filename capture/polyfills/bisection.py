"""Holds equivalents of the functions of ``bisect``.

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from operator import index
from typing import Any

from capture.polyfills.registry import polyfill_of

_NEGATIVE = "lo must be non-negative"


@polyfill_of(bisect.bisect_right)
def bisect_right(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> int:
    """bisect_right(): the place behind what is not greater than x; only `x < item` is used."""
    lo = index(lo)
    if lo < 0:
        raise ValueError(_NEGATIVE)
    hi = len(a) if hi is None else index(hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


@polyfill_of(bisect.bisect_left)
def bisect_left(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> int:
    """bisect_left(): the place before what is not less than x; only `item < x` is used."""
    lo = index(lo)
    if lo < 0:
        raise ValueError(_NEGATIVE)
    hi = len(a) if hi is None else index(hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


@polyfill_of(bisect.insort_right)
def insort_right(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> None:
    """insort_right(): insert behind what is not greater."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


@polyfill_of(bisect.insort_left)
def insort_left(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> None:
    """insort_left(): insert before what is not less."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)
