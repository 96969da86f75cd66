"""Holds calls whose effect is known beforehand, rather than found by running them on stand-ins.

They work on tensors that no stand-in is made of (sparse ones). Must not know the FX graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.optim._functional as optim

from capture.graph.state import TorchState
from capture.graph.tensor_meta import CannotPropagate
from capture.graph.values import GraphFunction, TensorValue

__all__ = ["SPARSE_ADAM", "written_by"]

#: What ``SparseAdam.step`` comes down to. How many entries its gradients have is up to the data.
SPARSE_ADAM = GraphFunction("sparse_adam", optim.sparse_adam, traceable=False)


def written_by(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], state: TorchState
) -> list[TensorValue] | None:
    """Return what such a call writes to, if ``target`` is one of them; it returns None.

    Raises:
        CannotPropagate: if it could fail on these arguments.
    """
    if isinstance(target, GraphFunction) and target.effect:
        return []
    writes = _WRITES.get(id(target))
    return None if writes is None else writes(args, kwargs, state)


def _sparse_adam(
    args: tuple[Any, ...], kwargs: dict[str, Any], state: TorchState
) -> list[TensorValue]:
    if len(args) != 5 or state.grad_enabled:
        raise CannotPropagate("sparse_adam is called in a way of its own")
    params, grads, averages, squares, _ = args
    for group in zip(params, grads, averages, squares, strict=True):
        _check_plain(group[0], *group[2:])
        if not group[1].meta.is_sparse or len({value.meta.shape for value in group}) > 1:
            raise CannotPropagate("a gradient that does not fit its parameter")
    return [*params, *averages, *squares]


def _check_plain(*values: Any) -> None:
    if not all(type(value) is TensorValue and value.meta.is_plain for value in values):
        raise CannotPropagate("it takes strided tensors")


_Writes = Callable[[tuple[Any, ...], dict[str, Any], TorchState], list[TensorValue]]
_WRITES: dict[int, _Writes] = {id(SPARSE_ADAM): _sparse_adam}
