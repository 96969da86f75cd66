"""Holds what autograd will know of a tensor of the graph: the operators and leaves behind it.

Must not know the FX graph. A history is never changed: an in-place operator gives its tensor a new
one. So a backward call can be planned when it is captured, without running anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from capture.graph.tensor_meta import CannotPropagate

if TYPE_CHECKING:
    from capture.graph.values import TensorValue

__all__ = ["History", "behind", "check", "is_open", "is_rewritten", "leaves_behind", "release"]


class History:
    """One operator as autograd records it, a leaf, or something that came from outside.

    Attributes:
        parents: where gradients flow on to.
        leaf: the tensor whose gradient is accumulated here.
        untold: half a sentence on why a backward call cannot be foretold, or None.
        open: whether only a run tells which parents get a gradient, and of which layout.
        freed: whether a backward call has let go of what the operator saved.
        rewritten: whether what the operator may have saved was written to since.
        through: what a gradient runs through on its way to the parents, but does not begin at.
    """

    __slots__ = ("freed", "leaf", "open", "parents", "rewritten", "through", "untold")

    def __init__(
        self,
        parents: Iterable[History] = (),
        *,
        leaf: TensorValue | None = None,
        untold: str | None = None,
        through: Iterable[History] = (),
        open: bool = False,
    ) -> None:
        self.parents = tuple(parents)
        self.through = tuple(through)
        self.leaf = leaf
        self.untold = untold
        self.open = open
        self.freed = False
        self.rewritten = False


def _walk(ends: Iterable[History], through: bool = True) -> list[History]:
    found: dict[int, History] = {}
    todo = list(ends)
    while todo:
        history = todo.pop()
        if id(history) not in found:
            found[id(history)] = history
            todo.extend(history.parents)
            if through:
                todo.extend(history.through)
    return list(found.values())


def leaves_behind(ends: Iterable[History]) -> list[TensorValue]:
    """Return the leaves that gradients may flow to from ``ends``, each once.

    They do so if no history on the way is open.

    Raises:
        CannotPropagate: if that cannot be foretold.
    """
    ends = list(ends)
    check(ends)
    leaves: dict[int, TensorValue] = {}
    for history in _walk(ends, through=False):
        if history.leaf is not None:
            leaves[id(history.leaf)] = history.leaf
    return list(leaves.values())


def is_open(ends: Iterable[History]) -> bool:
    """Tell whether only a run tells which leaves get a gradient."""
    return any(history.open for history in _walk(ends))


def behind(ends: Iterable[History], stops: Iterable[History] = ()) -> dict[int, History]:
    """Return what gradients may flow to from ``ends``, by ``id``; not through any of ``stops``."""
    blocked = {id(stop) for stop in stops}
    found: dict[int, History] = {}
    todo = list(ends)
    while todo:
        history = todo.pop()
        if id(history) not in found:
            found[id(history)] = history
            if id(history) not in blocked:
                todo.extend(history.parents)
    return found


def check(ends: Iterable[History]) -> None:
    """Make sure that what a backward call from ``ends`` does can be foretold.

    Raises:
        CannotPropagate: if it cannot.
    """
    for history in _walk(ends):
        if history.untold is not None:
            raise CannotPropagate(history.untold)
        if history.freed:
            raise CannotPropagate("a backward call has freed a part of it before")


def is_rewritten(ends: Iterable[History]) -> bool:
    """Tell whether a backward call from ``ends`` may find that saved tensors have changed."""
    return any(history.rewritten for history in _walk(ends))


def release(ends: Iterable[History]) -> None:
    """Note that a backward call from ``ends`` freed what the operators on its way saved."""
    for history in _walk(ends):
        history.freed = history.leaf is None
