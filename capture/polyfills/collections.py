"""Holds equivalents of collections functions implemented in C (Modules/_collectionsmodule.c).

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from capture.polyfills.registry import polyfill_of


@polyfill_of(collections._count_elements)  # type: ignore[attr-defined]
def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    """Count the items of `iterable` into `mapping`: the inner loop of Counter.update()."""
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1
