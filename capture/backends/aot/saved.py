"""Holds how saved values that lie in the memory of inputs or outputs are saved; knows no graphs.

Autograd notices that a saved value was overwritten by the version of the tensor that was saved.
Compiled code may return a view of an input or output that autograd does not know as one: such a
view has versions of its own. The tensor that the program sees is saved in its place, and the view
is made again for the backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from capture.backends.aot import adapter

__all__ = ["Rebuild", "rebuilds"]


class Rebuild(NamedTuple):
    """A saved value that is a view of something the program sees.

    Attributes:
        place: its position among the saved values.
        source: the position of what it is a view of, among inputs and outputs.
        size: the view's size.
        stride: the view's stride.
        offset: from the beginning of the source, in elements.
    """

    place: int
    source: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def view_of(self, source: Tensor) -> Tensor:
        """Return the value that was saved, given what it is a view of."""
        return source.as_strided(self.size, self.stride, source.storage_offset() + self.offset)


def rebuilds(visible: Sequence[Any], saved: Sequence[Any]) -> list[Rebuild]:
    """Return which saved values have to be made again, as seen in one call.

    Args:
        visible: inputs and outputs.
        saved: what the forward saves.
    """
    known = {id(tensor) for tensor in visible}
    owners: dict[int, list[int]] = {}
    for i, tensor in enumerate(visible):
        if isinstance(tensor, Tensor) and tensor.numel():
            owners.setdefault(adapter.storage_key(tensor), []).append(i)
    found = []
    for place, value in enumerate(saved):
        if not isinstance(value, Tensor) or id(value) in known or value._is_view():
            continue
        sources = owners.get(adapter.storage_key(value), ()) if value.numel() else ()
        # With several that share memory in this call, the next call may be another case.
        if len(sources) != 1 or visible[sources[0]].dtype != value.dtype:
            continue
        offset = value.storage_offset() - visible[sources[0]].storage_offset()
        found.append(Rebuild(place, sources[0], tuple(value.shape), value.stride(), offset))
    return found
