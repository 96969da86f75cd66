"""Holds checks of a finished graph, for tests and ``CAPTURE_VERIFY=1``; must not change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from capture.errors import InternalError

__all__ = ["verify"]


def verify(gm: fx.GraphModule, example_inputs: Sequence[Any], n_outputs: int) -> None:
    """Check the form of a graph.

    Raises:
        InternalError: if something is wrong with it.
    """
    gm.graph.lint()
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(example_inputs):
        raise InternalError(f"{len(placeholders)} placeholders, {len(example_inputs)} inputs")
    for node in placeholders:
        if not node.users:
            raise InternalError(f"the input {node.name} is unused")
    allowed = ("placeholder", "call_function", "call_method", "output")
    for node in gm.graph.nodes:
        if node.op not in allowed:
            raise InternalError(f"a node of kind {node.op}: {node.name}")
    (result,) = gm.graph.output_node().args
    if not isinstance(result, tuple) or len(result) != n_outputs:
        raise InternalError(f"the graph returns {result!r}, not a tuple of {n_outputs}")
