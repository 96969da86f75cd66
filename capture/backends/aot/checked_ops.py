"""Holds operators whose traces would leave out a check of data that eager does.

``one_hot`` looks at its numbers in eager, and compares them with all classes where it is traced: a
class that there is not would give a row of zeros. Written as a scatter it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode

__all__ = ["with_checks"]

_one_hot: Any = torch.nn.functional.one_hot


def with_checks(gm: fx.GraphModule, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``call``, which runs a graph of torch calls, such that its trace checks data."""
    if all(node.target is not _one_hot for node in gm.graph.nodes):
        return call

    def checked(*arguments: Any) -> Any:
        with _Checked():
            return call(*arguments)

    return checked


class _Checked(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is _one_hot:
            return _scattered(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _scattered(tensor: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    if type(num_classes) is int and num_classes < 1:
        made: torch.Tensor = _one_hot(tensor, num_classes)
        return made
    rows = torch.zeros((*tensor.shape, num_classes), dtype=torch.int64, device=tensor.device)
    return rows.scatter(-1, tensor.unsqueeze(-1), 1)
