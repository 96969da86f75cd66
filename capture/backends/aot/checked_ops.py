"""Holds functions that make torch's own checks of data where torch leaves them out of a trace.

Some operators are made of others in C++, and read numbers there only to refuse some: with nothing
but metadata they skip that. What is traced here has the check as an operator. Must not know the
tracer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from capture.backends.aot.targets import with_targets

__all__ = ["with_checks"]


def with_checks(gm: fx.GraphModule) -> fx.GraphModule:
    """Return the graph with functions that check in the place of those that would not."""
    if any(node.target in _CHECKED for node in gm.graph.nodes if node.op in _CALLS):
        return with_targets(gm, _CHECKED)
    return gm


def _one_hot(tensor: Tensor, num_classes: Any = -1) -> Tensor:
    """As a scatter, which refuses classes that there are not; a trace compares with all classes."""
    if type(num_classes) is int and num_classes < 1:
        return torch.nn.functional.one_hot(tensor, num_classes)
    rows = torch.zeros((*tensor.shape, num_classes), dtype=torch.int64, device=tensor.device)
    return rows.scatter(-1, tensor.unsqueeze(-1), 1)


def _of_quantiles(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def checked(input: Tensor, q: Any, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(q, Tensor) and input.device.type == "cpu":
            inside = torch.logical_and(q >= 0, q <= 1).all()
            torch._assert_async(inside, "quantile() q values must be in the range [0, 1]")
        return function(input, q, *args, **kwargs)

    return checked


def _assert_async(condition: Tensor, message: str | None = None) -> None:
    """A check without a text is no effect to FX, which would take it out as dead."""
    if message is None:
        message = "Expected Tensor with single nonzero value, but got zero"
    torch._assert_async(condition, message)


_CALLS = ("call_function", "call_method")
_CHECKED: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: _one_hot,
    torch.quantile: _of_quantiles(torch.quantile),
    torch.nanquantile: _of_quantiles(torch.nanquantile),
    "quantile": _of_quantiles(torch.quantile),
    "nanquantile": _of_quantiles(torch.nanquantile),
    torch._assert_async: _assert_async,
}
