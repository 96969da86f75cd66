"""Holds what makes inference tensors of a graph's results; must not know how a graph is traced.

A graph may switch inference mode on by itself. A trace has no place for that (and the mode is a
guard of C++: left behind by an exception it takes torch's state with it), so a trace sees gradients
switched off instead, and what was compiled runs in the mode as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from capture.backends.aot import adapter
from capture.backends.aot.targets import with_targets

__all__ = ["in_inference_mode", "made_in_inference_mode", "without_inference_mode"]


def without_inference_mode(gm: fx.GraphModule) -> fx.GraphModule:
    """Return the graph with gradients switched off where it switches inference mode on."""
    return with_targets(gm, adapter.INFERENCE_SWITCHES) if _switches(gm) else gm


def _switches(gm: fx.GraphModule) -> bool:
    return any(
        node.target in adapter.INFERENCE_SWITCHES
        for node in gm.graph.nodes
        if node.op == "call_function"
    )


def made_in_inference_mode(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool | None:
    """Tell whether a graph switches inference mode on, and all its results are made in it.

    None if that cannot be said of all of it: some results are others, or an input with a history
    is written to, or the mode is on already and the graph switches it all the same.
    """
    if not _switches(gm):
        return False
    if torch.is_inference_mode_enabled():
        return None
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    metas = [node.meta.get("capture_meta") for node in output.all_input_nodes]
    found = {meta.is_inference for meta in metas if meta is not None}
    history = any(isinstance(v, torch.Tensor) and v.grad_fn is not None for v in inputs)
    return (
        True if found == {True} and not (history and gm.meta.get("capture_mutates", True)) else None
    )


def in_inference_mode(compiled: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return the boxed function with inference mode on while it runs."""

    def run(arguments: list[Any]) -> Any:
        with torch.inference_mode():
            return compiled(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
