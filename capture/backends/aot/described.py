"""Holds the words in which a joint graph is described to those who split, compile and wrap it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx

__all__ = ["CannotTrace", "Joint", "Output", "View", "Written"]


class CannotTrace(Exception):
    """The stage cannot do this graph right; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class View:
    """How an output is made from the tensor that it aliases.

    Attributes:
        steps: view operators, each with its arguments behind the tensor and the element to take.
        strided: size, stride, and offset relative to the base, where no operators are known.
        requires_grad: whether the output does.
        detached: whether autograd takes the output for no view (``detach``).
        one_of_many: whether autograd forbids writing to it, as one of an operator's several views.
    """

    steps: tuple[tuple[Any, tuple[Any, ...], Mapping[str, Any], int | None], ...]
    strided: tuple[Any, ...] | None
    requires_grad: bool
    detached: bool
    one_of_many: bool


@dataclasses.dataclass(frozen=True)
class Output:
    """What one output of the torch-level graph is.

    Attributes:
        kind: ``constant``, ``input`` (that very object) or ``forward`` (made by the forward graph).
        index: the position of the input or of the forward graph's output.
        value: the constant.
        view: how to make the output if it only aliases the input or the forward's output.
        freed: what autograd says of the output's history, if a backward call in the graph freed it.
    """

    kind: str
    index: int = 0
    value: Any = None
    view: View | None = None
    freed: str | None = None


@dataclasses.dataclass(frozen=True)
class Written:
    """An input that the graph writes to.

    Attributes:
        index: its position among the tensor inputs.
        source: the forward graph's output with the new value; None if only the geometry changes.
        differentiable: whether autograd sees the write.
        geometry: the new size, stride and relative offset, if they change.
        in_graph: whether the forward graph itself writes the new value.
    """

    index: int
    source: int | None
    differentiable: bool
    geometry: tuple[Any, ...] | None
    in_graph: bool = False


@dataclasses.dataclass
class Joint:
    """A joint graph and what has to be done around it.

    Attributes:
        gm: inputs ``primals_N`` and ``tangents_N``, outputs of the forward, then gradients.
        fakes: the fake tensors of the inputs, tangents included.
        forward_outputs: how many outputs the forward has.
        differentiable: those among them that have a tangent, in the tangents' order.
        geometry: size and stride that each tangent must have; with symbolic sizes, the order of
            its dimensions in memory, the innermost first.
        outputs: the torch-level outputs.
        written: the inputs to write to.
        single: whether the torch-level graph returned one value, not a tuple.
        symbolic: whether some size is symbolic, or depends on data.
        grad_mode: the grad mode that the graph leaves behind, if it changes it.
        mode: the mode of the fake tensors.
        owned: forward outputs that are no views for autograd, though an operator made them so.
    """

    gm: fx.GraphModule
    fakes: list[Tensor]
    forward_outputs: int
    differentiable: list[int]
    geometry: list[tuple[tuple[int, ...], tuple[int, ...]] | list[int]]
    outputs: list[Output]
    written: list[Written]
    single: bool
    symbolic: bool
    grad_mode: bool | None
    mode: Any
    owned: tuple[int, ...] = ()
