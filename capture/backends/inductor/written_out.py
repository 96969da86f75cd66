"""Holds the writing out of arguments that Inductor forgets where it replaces operators by others.

``add(x, mm(a, b), alpha=-0.1)`` becomes an ``addmm`` whose ``alpha`` is 1. Plain gradient descent
comes down to that, so factors are nodes of their own before Inductor sees a graph. Likewise the
``dtype`` of a cumulative sum, which is lost where what is summed up is a constant.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

__all__ = ["write_out"]

_aten = torch.ops.aten
_SUMS = frozenset({_aten.add.Tensor, _aten.sub.Tensor})
_CUMULATIVE = frozenset({_aten.cumsum.default, _aten.cumprod.default})
_convert = torch.ops.prims.convert_element_type.default


def write_out(gm: fx.GraphModule, mode: Any) -> None:
    """Make ``add(x, y, alpha=k)`` an addition of ``mul(y, k)``, and so on, in place.

    Args:
        gm: an ATen graph.
        mode: the mode of the fake tensors in its metadata.
    """
    changed = False
    for node in list(gm.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _SUMS and "alpha" in node.kwargs:
            alpha = _taken(node, "alpha")
            if type(alpha) not in (int, float) or alpha != 1:
                first, second = node.args[:2]
                node.args = (first, _inserted(node, _aten.mul.Tensor, second, alpha, mode))
            changed = True
        elif node.target in _CUMULATIVE and node.kwargs.get("dtype") is not None:
            dtype = _taken(node, "dtype")
            summed, *rest = node.args
            node.args = (_inserted(node, _convert, summed, dtype, mode), *rest)
            changed = True
    if changed:
        gm.recompile()


def _taken(node: fx.Node, name: str) -> Any:
    """Take an argument away from a node."""
    value = node.kwargs[name]
    node.kwargs = {key: v for key, v in node.kwargs.items() if key != name}
    return value


def _inserted(before: fx.Node, target: Any, tensor: Any, other: Any, mode: Any) -> fx.Node:
    """A new node in front of another one."""
    with before.graph.inserting_before(before):
        made = before.graph.call_function(target, (tensor, other))
    made.meta.update(before.meta)
    with mode:
        made.meta["val"] = target(*(v.meta["val"] if isinstance(v, fx.Node) else v
                                    for v in (tensor, other)))  # fmt: skip
    return made
