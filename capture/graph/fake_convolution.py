"""Holds convolutions of fake tensors whose batch size is symbolic; must not know graphs.

Which kernel torch takes for a convolution depends on the batch size (whether it is 16 or more), and
torch asks for the kernel to tell the memory format of the result: a needless decision, since both
kernels give the same format. So the convolution is run for a batch on either side, and if the
results differ in their batch only, they hold for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["BATCHED", "without_batch"]

BATCHED = {"aten::convolution": 1, "aten::convolution_backward": 2}
"""How many of the first arguments have a batch."""
_BATCHES = (16, 2)  # on both sides of what torch asks for


def without_batch(
    make: Callable[[torch.Tensor, torch.device], torch.Tensor],
    environment: Any,
    func: Any,
    args: Sequence[Any],
    kwargs: Any,
) -> Any:
    """Return what a convolution gives, decided without its batch size; None if it needs that.

    Args:
        make: makes a fake tensor of a meta tensor.
        environment: torch's ``ShapeEnv``.
    """
    count = BATCHED.get(func._schema.name)
    if count is None or kwargs or len(args) <= count:
        return None
    batched = args[:count]
    if not all(isinstance(t, torch.Tensor) and t.device.type == "cpu" for t in batched):
        return None
    batch = batched[0].shape[0]
    if not isinstance(batch, torch.SymInt):
        return None
    expr = batch.node.expr
    if expr.is_Integer or not environment.bound_sympy(expr).lower >= 2:
        return None
    if any(t.shape[0] is not batch and t.shape[0] != batch for t in batched[1:]):
        return None
    runs = []
    for size in _BATCHES:
        probes = [_with_batch(make, t, size) for t in batched]
        runs.append(func(*probes, *args[count:]))
    first, second = (run if isinstance(run, tuple) else (run,) for run in runs)
    results: list[Any] = []
    for position, (one, other) in enumerate(zip(first, second, strict=True)):
        if one is None:
            results.append(None)
            continue
        if not _same(one.stride(), other.stride()) or not _same(one.shape[1:], other.shape[1:]):
            return None
        if position == 0:  # the only one that has a batch: the output, the input's gradient
            meta = torch.empty_strided(
                (batch, *one.shape[1:]), one.stride(), dtype=one.dtype, device="meta"
            )
            one = make(meta, one.device)
        results.append(one)
    return tuple(results) if isinstance(runs[0], tuple) else results[0]


def _with_batch(
    make: Callable[[torch.Tensor, torch.device], torch.Tensor], tensor: torch.Tensor, size: int
) -> torch.Tensor:
    meta = torch.empty_strided(
        (size, *tensor.shape[1:]), tensor.stride(), dtype=tensor.dtype, device="meta"
    )
    return make(meta, tensor.device)


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Tell whether sizes are the same expressions, without a decision."""
    return len(left) == len(right) and all(
        _expression(a) == _expression(b) for a, b in zip(left, right, strict=True)
    )


def _expression(n: Any) -> Any:
    return n.node.expr if isinstance(n, torch.SymInt) else n
