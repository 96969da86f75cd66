"""Holds what packed sequences do to metadata; must not know graphs.

How many elements a packed sequence has, and how long its longest sequence is, depends on data. The
recurrent networks that run on it, and the way back to a padded tensor, read numbers out of the
table of batch sizes to do their work, but not for the sizes of their results: those are told here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from capture.graph.tensor_meta import CannotPropagate, DependsOnData

__all__ = ["pack", "stand_in"]


def pack(mode: Any, sequences: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    """Return the packed elements and the batch sizes; ``_pack_padded_sequence`` on fake tensors.

    Raises:
        CannotPropagate: if the lengths are of a kind that the operator refuses.
    """
    batch = 0 if batch_first else 1
    if (
        sequences.ndim < 2
        or lengths.ndim != 1
        or lengths.dtype is not torch.int64
        or lengths.device.type != "cpu"
        or lengths.shape[0] != sequences.shape[batch]
    ):
        raise CannotPropagate("lengths that cannot be those of sequences")
    elements, steps = (
        mode.shape_env.create_unbacked_symint(),
        mode.shape_env.create_unbacked_symint(),
    )
    for number in (elements, steps):  # each sequence has an element at least
        _one_at_least(number)
    with mode:
        data = sequences.new_empty((elements, *sequences.shape[2:]))
        return data, lengths.new_empty((steps,))


def stand_in(name: str, args: Sequence[Any]) -> Callable[..., Any] | None:
    """Return what does to metadata the same as a function that works on a packed sequence."""
    if name == "_pad_packed_sequence":
        return _padded
    if name in _NETWORKS and len(args) > 3 and not isinstance(args[3], bool):
        return _Network(has_cells=name == "lstm")
    return None


_NETWORKS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def _padded(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding_value: float,
    total_length: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``_pad_packed_sequence`` gives: the size of the batch is that of the first step."""
    if data.ndim < 1 or batch_sizes.ndim != 1:
        raise CannotPropagate("what is no packed sequence")
    batch = _number_of(data)
    steps = total_length if total_length > 0 else batch_sizes.shape[0]
    padded = data.new_empty((steps, batch, *data.shape[1:])) + 0 * data.sum()
    if padded.dtype is not data.dtype:
        padded = padded.to(data.dtype)
    lengths = torch.empty((batch,), dtype=torch.int64)
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def _number_of(data: torch.Tensor) -> Any:
    """A new number, one at least, that depends on data."""
    environment = getattr(getattr(data, "fake_mode", None), "shape_env", None)
    if environment is None:
        raise DependsOnData("the size of a padded batch depends on data")
    number = environment.create_unbacked_symint()
    _one_at_least(number)
    return number


def _one_at_least(number: Any) -> None:
    check: Any = torch._check
    check(number >= 1)


class _Network:
    """What a recurrent network gives for a packed sequence."""

    def __init__(self, has_cells: bool) -> None:
        self.has_cells = has_cells

    def __call__(
        self,
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        state: Any,
        weights: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> tuple[torch.Tensor, ...]:
        states = list(state) if self.has_cells else [state]
        if data.ndim != 2 or batch_sizes.ndim != 1 or any(s.ndim != 3 for s in states):
            raise CannotPropagate("what is no packed sequence, or no state for one")
        # it depends on all of them
        touched = sum((t.sum() for t in (*states, *weights)), start=data.sum())
        if train and dropout:
            touched = touched + torch.rand(())
        width = states[0].shape[2] * (2 if bidirectional else 1)
        output = data.new_empty((data.shape[0], width)) + touched
        return (output, *(s.new_empty(s.shape) + touched for s in states))
