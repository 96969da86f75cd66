"""Holds the ``eager`` backend, which runs a graph as it is; must not know other backends."""

from __future__ import annotations

import functools

from torch import Tensor, fx

from capture.backends.boxed import EitherWay, boxed_forward
from capture.backends.registry import CompiledFn, register_backend

__all__ = ["eager"]


@register_backend
def eager(gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
    """Run the graph's operators one after the other, freeing each value as eager code would."""
    # The partial keeps ``gm``: it holds the source that tracebacks show.
    return EitherWay(functools.partial(boxed_forward(gm), gm))


# A graph made with the boxed convention needs no second generation of its code.
eager.takes_boxed_graph = True  # type: ignore[attr-defined]
# It writes to inputs where the program does, not before.
eager.keeps_order = True  # type: ignore[attr-defined]
