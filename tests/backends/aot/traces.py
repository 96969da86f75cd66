"""Traces a function for the tests of the tracers, and tells what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from capture.backends.aot.described import Joint
from capture.backends.aot.joint import trace_joint
from tests.backends.aot.canonical import canonical


def _empty() -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(None)
    return fx.GraphModule(nn.Module(), graph)


def trace(call: Any, tensors: Sequence[Tensor], table: Any, tracer: str) -> Joint:
    """Trace with one tracer."""
    with torch.random.fork_rng():
        return trace_joint(_empty(), call, tensors, table, tracer=tracer)


def described(joint: Joint) -> Any:
    """Return all that a trace found out."""
    return (
        joint.forward_outputs, joint.differentiable, joint.geometry, repr(joint.outputs),
        repr(joint.written), joint.single, joint.grad_mode, joint.owned, canonical(joint.gm),
    )  # fmt: skip
