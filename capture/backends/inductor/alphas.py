"""Holds the writing out of ``alpha`` in sums: Inductor forgets it where it fuses some of them.

``add(x, mm(a, b), alpha=-0.1)`` becomes an ``addmm`` whose ``alpha`` is 1. Plain gradient descent
comes down to that, so factors are nodes of their own before Inductor sees a graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

__all__ = ["write_out_alpha"]

_aten = torch.ops.aten
_SUMS = frozenset({_aten.add.Tensor, _aten.sub.Tensor})


def write_out_alpha(gm: fx.GraphModule, mode: Any) -> None:
    """Make ``add(x, y, alpha=k)`` an addition of ``mul(y, k)``, in place.

    Args:
        gm: an ATen graph.
        mode: the mode of the fake tensors in its metadata.
    """
    graph = gm.graph
    changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _SUMS or "alpha" not in node.kwargs:
            continue
        alpha = node.kwargs["alpha"]
        first, second = node.args[:2]
        node.kwargs = {name: v for name, v in node.kwargs.items() if name != "alpha"}
        changed = True
        if type(alpha) in (int, float) and alpha == 1:
            continue
        with graph.inserting_before(node):
            product = graph.call_function(_aten.mul.Tensor, (second, alpha))
        product.meta.update(node.meta)
        value = second.meta.get("val") if isinstance(second, fx.Node) else second
        factor = alpha.meta.get("val") if isinstance(alpha, fx.Node) else alpha
        with mode:
            product.meta["val"] = _aten.mul.Tensor(value, factor)
        node.args = (first, product)
    if changed:
        gm.recompile()
