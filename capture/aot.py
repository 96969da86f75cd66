"""The AOT stage on its own: joint graphs, partitioners and decompositions, for authors of backends.

backend = capture.aot.aot_autograd(fw_compiler=my_compiler)      # a backend of two compilers
compiled = backend(graph_module, example_inputs)                 # or without any capture
joint, count = capture.aot.joint_graph(graph_module, example_inputs)
forward, backward = capture.aot.fast_partition(joint, [], num_fwd_outputs=count)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from capture.backends.aot import (
    Compiler,
    PartitionFn,
    aot_autograd,
    core_aten_decompositions,
    default_partition,
    eager_random,
    fast_partition,
    make_boxed,
    min_cut_partition,
    run_graph,
)
from capture.backends.aot.adapter import Decompositions
from capture.backends.aot.described import CannotTrace
from capture.backends.aot.joint import trace_joint
from capture.errors import UserError

__all__ = [
    "CannotTrace",
    "Compiler",
    "PartitionFn",
    "aot_autograd",
    "core_aten_decompositions",
    "default_partition",
    "eager_random",
    "fast_partition",
    "joint_graph",
    "make_boxed",
    "min_cut_partition",
    "run_graph",
]


def joint_graph(
    gm: fx.GraphModule,
    inputs: Sequence[Tensor],
    *,
    decompositions: Decompositions | None = None,
    tracer: str | None = None,
) -> tuple[fx.GraphModule, int]:
    """Trace a graph of torch calls, forward and backward, into one functional ATen graph.

    Args:
        gm: the graph, as a backend of ``capture.compile`` gets it, or made by ``symbolic_trace``.
        inputs: its inputs; only their metadata is used. Parameters and buffers of ``gm`` are
            inputs of the joint graph behind them.
        decompositions: operator to the function that replaces it; None keeps all operators.
        tracer: ``recorder`` or ``make_fx``, the reference; if not given, as in the settings.

    Returns:
        The joint graph, with inputs ``primals_N`` and ``tangents_N``, and how many of its outputs
        the forward gives: new values of inputs that are written to, then outputs. Gradients of
        those inputs that require grad follow. A partitioner takes both.

    Raises:
        CannotTrace: a backend made by ``aot_autograd`` would run this graph as it is.
        UserError: for anything else than a graph module and tensors.
    """
    if not isinstance(gm, fx.GraphModule):
        raise UserError(f"joint_graph takes a torch.fx.GraphModule, not {type(gm).__name__}")
    for value in inputs:
        if not isinstance(value, Tensor):
            raise UserError(f"joint_graph takes tensors as inputs, not {type(value).__name__}")
    owned = dict([*gm.named_parameters(), *gm.named_buffers()])

    def call(*arguments: Any) -> Any:
        given = tuple(arguments[: len(inputs)])
        if not owned:
            return gm.forward(*given)
        replaced = dict(zip(owned, arguments[len(inputs) :], strict=True))
        return torch.func.functional_call(gm, replaced, given)

    tensors = [*inputs, *owned.values()]
    joint = trace_joint(gm, call, tensors, decompositions, tracer=tracer)
    return joint.gm, joint.forward_outputs
