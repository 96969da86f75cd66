"""Holds what the AOT stage asks of a compiler of ATen graphs; must not know how a graph is traced.

A compiler that takes the forward and the backward one after the other needs no more than two
functions (``SeparateCompilers``). One that has to know both, as Inductor does, is a ``Toolchain``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from torch import fx

from capture.backends.aot import adapter
from capture.backends.aot.partition import PartitionFn

__all__ = [
    "Boxed",
    "Compiler",
    "Parts",
    "SeparateCompilers",
    "Toolchain",
    "make_boxed",
    "values_of",
]

Boxed: TypeAlias = Callable[[list[Any]], Sequence[Any]]
Compiler: TypeAlias = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


@dataclasses.dataclass
class Parts:
    """What a graph was split into.

    Attributes:
        forward: takes the inputs; returns ``outputs`` values, then what is saved.
        backward: takes what was saved, then the tangents; None where no gradient is needed.
        outputs: how many values the forward returns besides those that it saves.
        static: the inputs that are parameters or buffers, by position.
        mode: the mode of the fake tensors in the graphs' metadata.
    """

    forward: fx.GraphModule
    backward: fx.GraphModule | None
    outputs: int
    static: tuple[int, ...]
    mode: Any


class Toolchain(Protocol):
    """Compiles what the AOT stage traced.

    Attributes:
        decompositions: operator to the function that replaces it; None keeps all operators.
        writes_inputs: whether the forward may write to its inputs with a final ``copy_``.
        costly: whether a graph takes seconds to compile: numbers among the inputs are not to be
            compiled value by value.
    """

    decompositions: adapter.Decompositions | None
    writes_inputs: bool
    costly: bool

    def split(
        self, joint: fx.GraphModule, inputs: Sequence[Any], outputs: int, static: Sequence[int]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Split a joint graph into forward and backward."""
        ...

    def compile(self, parts: Parts) -> tuple[Boxed, Boxed | None]:
        """Compile forward and backward; whatever is raised reaches the program."""
        ...


class SeparateCompilers:
    """Two functions as a toolchain: one for forwards, one for backwards."""

    writes_inputs = False
    costly = False

    def __init__(
        self,
        fw_compiler: Compiler,
        bw_compiler: Compiler,
        partition_fn: PartitionFn,
        decompositions: adapter.Decompositions | None,
    ) -> None:
        self.fw_compiler = fw_compiler
        self.bw_compiler = bw_compiler
        self.partition_fn = partition_fn
        self.decompositions = decompositions

    def split(
        self, joint: fx.GraphModule, inputs: Sequence[Any], outputs: int, static: Sequence[int]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Split with the partition function that was given."""
        return self.partition_fn(joint, inputs, num_fwd_outputs=outputs)

    def compile(self, parts: Parts) -> tuple[Boxed, Boxed | None]:
        """Compile the forward, then the backward."""
        forward = make_boxed(self.fw_compiler(parts.forward, values_of(parts.forward)))
        if parts.backward is None:
            return forward, None
        return forward, make_boxed(self.bw_compiler(parts.backward, values_of(parts.backward)))


def make_boxed(function: Callable[..., Any]) -> Boxed:
    """Return a function of separate arguments as one that takes a list, which it empties."""
    if not callable(function):
        raise TypeError(f"a compiler must return a callable, not a {type(function).__name__}")
    if getattr(function, "_boxed_call", False):
        return function

    @functools.wraps(function)
    def boxed(inputs: list[Any]) -> Any:
        arguments = tuple(inputs)
        inputs.clear()
        return function(*arguments)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def values_of(gm: fx.GraphModule) -> list[Any]:
    """Return the fake tensors of a graph's inputs."""
    return [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
