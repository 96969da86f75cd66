"""Holds the graph of a function that a captured call takes: a part with inputs of its own.

Values of the graph around it are *lifted*: each becomes an input of the part when it is first
used. Must not know variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from capture.graph.derived import DerivedValue
from capture.graph.fx_adapter import append_placeholder, make_graph_module
from capture.graph.graph_inputs import FrameSummary
from capture.graph.output_graph import OutputGraph
from capture.graph.state import TorchState
from capture.graph.symbols import Dim, Shapes
from capture.graph.tensor_meta import CannotPropagate, TensorMeta
from capture.graph.values import ScalarValue, SizeValue, TensorValue

__all__ = ["SubGraph"]


class SubGraph(OutputGraph):
    """A graph within another one.

    Attributes:
        lifted: the values of the graph around it that are inputs, in order.
        written: those of them whose memory was written to.
        reads_grad: whether ``grad`` of a tensor was read while it was made.
    """

    def __init__(self, name: str, parent: OutputGraph, state: TorchState | None = None) -> None:
        super().__init__(name, parent.state if state is None else state)
        self.parent = parent
        self.shapes = parent.shapes
        self.takes_data = False
        self._sizes: dict[Dim, SizeValue] = {}
        self.lifted: list[TensorValue | ScalarValue] = []
        self._inner: dict[int, Any] = {}
        self._outer: dict[int, TensorValue] = {}
        self._entered = self.state
        self.reads_grad = False

    @property
    def written(self) -> list[TensorValue]:
        """The lifted values whose memory, or metadata, was changed."""
        return [
            outer
            for outer in self.lifted
            if type(outer) is TensorValue and self._inner[id(outer)].alias_group in self._dirty
        ]

    def add_input(
        self,
        name: str,
        tensor: torch.Tensor,
        key: object,
        shape: tuple[Any, ...] | None = None,
        stride: tuple[Any, ...] | None = None,
    ) -> TensorValue:
        """Make ``tensor`` an input of the outermost graph; it is lifted when it is used."""
        return self.parent.add_input(name, tensor, key, shape, stride)

    def symbolic(self) -> Shapes:
        """Return what symbolic sizes are made of: the outermost graph's."""
        self.shapes = self.parent.symbolic()
        return self.shapes

    def size_value(self, dim: Dim) -> SizeValue:
        """Return a size as a value of the outermost graph; it is lifted when it is used."""
        return self.parent.size_value(dim)

    def add_scalar_input(self, name: str, number: int | float | bool, key: object) -> ScalarValue:
        """Make a Python number an input of the outermost graph."""
        return self.parent.add_scalar_input(name, number, key)

    def derived_number(self, name: str, example: int | float | bool, key: object) -> DerivedValue:
        """Return a number that is computed before the outermost graph."""
        return self.parent.derived_number(name, example, key)

    def add_own_input(self, meta: TensorMeta) -> TensorValue:
        """Make an input that is no value of the graph around it."""
        node = self._own_placeholder("given")
        node.meta["capture_meta"] = meta
        group = self._new_group()
        value = TensorValue(node, meta, group, group, is_input=True)
        self._note_input(group)
        self._by_view_group[group] = [value]
        return value

    def call(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        frame_summary: FrameSummary = None,
    ) -> Any:
        """Add a call on values of this graph or of those around it."""
        inner = {name: self._lift(arg) for name, arg in (kwargs or {}).items()}
        result = super().call(kind, target, self._lift(args), inner, frame_summary)
        return self._returned(result)

    def is_given(self, value: TensorValue) -> bool:
        """True for what shares memory with an input of this graph."""
        return not self.is_own(value) or value.alias_group in self._input_alias_groups

    def writes_own_input(self) -> bool:
        """True if the memory of some input is written to, or its metadata changed."""
        return bool(self._dirty)

    def _number_type(self, meta: TensorMeta) -> type:
        """Numbers out of tensors stay out of functions: nothing could hand them over."""
        raise CannotPropagate("a number is taken out of a tensor in a function inside the graph")

    def is_own(self, value: TensorValue) -> bool:
        """True for a value of this graph; others are lifted when they are used."""
        return value.node.graph is self.graph

    def _lift(self, arg: Any) -> Any:
        kind = type(arg)
        if kind is TensorValue:
            return arg if self.is_own(arg) else self._lift_tensor(arg)
        if kind is ScalarValue or kind is DerivedValue:
            return arg if arg.node.graph is self.graph else self._lift_number(arg)
        if kind is SizeValue:
            return self._lift_size(arg)
        if kind is tuple or kind is list:
            return kind(map(self._lift, arg))
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return tuple.__new__(kind, map(self._lift, arg))
        if kind is dict:
            return {name: self._lift(item) for name, item in arg.items()}
        if kind is slice:
            return slice(*map(self._lift, (arg.start, arg.stop, arg.step)))
        return arg

    def _lift_number(self, outer: ScalarValue) -> ScalarValue:
        known: ScalarValue | None = self._inner.get(id(outer))
        if known is None:
            node = self._own_placeholder("number")
            known = ScalarValue(node, outer.pytype, outer.example, is_input=True)
            self.lifted.append(outer)
            self._inner[id(outer)] = known
        return known

    def _lift_size(self, outer: SizeValue) -> SizeValue:
        known = self._sizes.get(outer.dim)
        if known is None:
            node = self._own_placeholder("size")
            known = self._sizes[outer.dim] = SizeValue(outer.dim, lambda dim: node)
            self.lifted.append(outer)
        return known

    def _own_placeholder(self, name: str) -> fx.Node:
        last = self.placeholders[-1] if self.placeholders else None
        node = append_placeholder(self.graph, name, last)
        self.placeholders.append(node)
        return node

    def _lift_tensor(self, outer: TensorValue) -> TensorValue:
        known: TensorValue | None = self._inner.get(id(outer))
        if known is not None:
            return known
        node = self._own_placeholder("lifted")
        node.meta["capture_meta"] = outer.meta
        value = TensorValue(
            node,
            outer.meta,
            self._input_group("storage", outer.alias_group),
            self._input_group("base", outer.view_group),
            outer.view_kind,
            is_input=True,
        )
        self._note_input(value.alias_group)
        self._by_view_group.setdefault(value.view_group, []).append(value)
        self.lifted.append(outer)
        self._inner[id(outer)] = value
        self._outer[id(value)] = outer
        return value

    def _returned(self, result: Any) -> Any:
        """A call that gives back its argument gives back the value that the program knows."""
        if type(result) is TensorValue:
            return self._outer.get(id(result), result)
        if type(result) is tuple or type(result) is list:
            return type(result)(map(self._returned, result))
        return result

    def finish(self, outputs: Sequence[TensorValue]) -> fx.GraphModule:
        """Make the module: it takes the lifted values, in order, and returns a tuple.

        Raises:
            CannotPropagate: if the function left torch's state changed.
        """
        if self.state != self._entered:
            raise CannotPropagate("a function that changes torch's state")
        self.graph.output(tuple(self._lift(value).node for value in outputs))
        for part in reversed(self._parts):
            if not part.users:
                self.graph.erase_node(part)
        return make_graph_module(self.graph, self.name)
