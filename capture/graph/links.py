"""Holds the reading of autograd's own graph: which arguments an operator's result hangs on.

Must not know the FX graph. Read once per kind of call, from the stand-ins that it was run on.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["MAYBE", "UNKNOWN", "Links"]

#: In the place of an argument's position: something whose gradient cannot be foretold.
UNKNOWN = -1
#: Likewise: whether the arguments get a gradient, and of which layout, only a run tells.
MAYBE = -2

# Nodes made in Python may give None for a gradient; that of a missing formula raises.
_OPEN_NAMES = frozenset({"NotImplemented", "Error"})


class Links:
    """The places in autograd's graph of the stand-ins, noted before the operator runs."""

    def __init__(self, stand_ins: list[torch.Tensor]) -> None:
        self.keep = [tensor.grad_fn for tensor in stand_ins]  # their ids are in use
        self.inner = {id(fn): n for n, fn in enumerate(self.keep) if fn is not None}
        self.leaves = {
            id(tensor): n
            for n, tensor in enumerate(stand_ins)
            if tensor.requires_grad and tensor.grad_fn is None
        }

    def of(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """The positions of the arguments that a gradient for ``tensor`` flows to."""
        if not tensor.requires_grad or tensor.grad_fn is None:
            return ()
        found: set[int] = set()
        seen: set[int] = set()
        keep: list[Any] = []
        todo: list[Any] = [tensor.grad_fn]
        while todo:
            fn = todo.pop()
            if id(fn) in seen:
                continue
            seen.add(id(fn))
            keep.append(fn)
            position = self.inner.get(id(fn))
            if position is not None:
                found.add(position)
                continue
            leaf = getattr(fn, "variable", None)
            if leaf is not None:
                found.add(self.leaves.get(id(leaf), UNKNOWN))
                continue
            if _is_open(fn):
                found.add(MAYBE)
            todo.extend(following for following, _ in fn.next_functions if following is not None)
        return tuple(sorted(found))


def _is_open(fn: Any) -> bool:
    return (
        isinstance(fn, torch.autograd.function.BackwardCFunction)
        or fn.name() in _OPEN_NAMES
        or bool(getattr(fn, "_saved_sparse", False))
        or bool(getattr(fn, "_saved_sparse_grad", False))
    )
