"""Holds the nodes and inputs of the graph that capture builds; must not know calls.

Inputs carry opaque keys.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from capture.graph import fake, op_rules
from capture.graph.derived import DerivedValue
from capture.graph.fx_adapter import (
    append_node,
    append_placeholder,
    new_graph,
)
from capture.graph.history import History
from capture.graph.lifted_numbers import NUMBER
from capture.graph.shadow import Shadow
from capture.graph.size_nodes import SizeNodes
from capture.graph.state import TorchState, snapshot
from capture.graph.symbols import Dim, Shapes
from capture.graph.tensor_meta import TensorMeta, meta_of
from capture.graph.values import ScalarValue, SizeValue, TensorValue, ViewKind

__all__ = ["FrameSummary", "GraphInputs"]

FrameSummary = Callable[[], str] | str | None


class GraphInputs:
    """The nodes and inputs of a graph, and what is noted while calls are added.

    Attributes:
        inputs: the keys of the inputs, in placeholder order.
        num_ops: calls in the graph, parts of results not counted.
        mutates_inputs: whether some input's data or metadata is changed.
        uses_rng: whether some call draws random numbers.
        may_raise: whether some call can fail because of data.
        switches: the fields of torch's state that some call changes.
        backward_calls: how many calls of autograd there are.
        placeholders: the nodes of the inputs, in order.
        group_of: of each node that is a tensor, its ``alias_group``.
        writes: of each node that writes to memory, the alias groups it writes to.
        no_views: the keys of inputs that must not be views: autograd could refuse a write then.
        drawing: the nodes that draw random numbers.
        shapes: what is decided about symbolic sizes; None while all sizes are static.
        takes_data: whether numbers out of tensors, and sizes that depend on data, may come into it.
        data_dependent: whether it has numbers out of tensors, or sizes that depend on data.
        data_sizes: whether it has such sizes.
        assumes: whether something is assumed of them: the graph raises if it does not hold.
    """

    layout_known = True
    """Whether strides are what the program would see (in ``vmap`` they are not)."""

    def __init__(self, name: str, state: TorchState | None = None) -> None:
        self.name = name
        self.graph = new_graph()
        self.inputs: list[object] = []
        self.examples: list[Any] = []
        self._state = snapshot() if state is None else state
        self._state_key = _state_key(self._state)
        self.num_ops = 0
        self._spare: dict[fx.Node, None] = {}  # in order; a node may be told twice
        self.mutates_inputs = False
        self.uses_rng = False
        self.may_raise = False
        self.switches: set[str] = set()
        self.placeholders: list[fx.Node] = []
        self._groups = 0
        self._by_view_group: dict[int, list[TensorValue]] = {}
        self._input_groups: dict[tuple[str, int], int] = {}
        self._input_alias_groups: dict[int, list[tuple[object, ViewKind]]] = {}
        self.no_views: dict[object, None] = {}
        # operators that may have saved tensors of an alias group, as the tensors are now
        self._savers: dict[int, list[History]] = {}
        self.backward_calls = 0
        self._shadow: Shadow | None = None
        self._initial_state = self._state
        self._parts: list[fx.Node] = []
        self._dirty: set[int] = set()  # groups of inputs that were written to
        self.group_of: dict[fx.Node, int] = {}
        self.writes: dict[fx.Node, set[int]] = {}
        self.drawing: set[fx.Node] = set()
        self.shapes: Shapes | None = None
        self.takes_data = True
        self._read: dict[Any, ScalarValue] = {}  # numbers read out of tensors, by their place
        self.data_dependent = False
        self.data_sizes = False
        self.asks_history = False  # code behind the graph may ask for inner gradients
        self.assumes = False
        self._size_nodes: SizeNodes | None = None
        self._derived: dict[object, DerivedValue] = {}

    @property
    def state(self) -> TorchState:
        """Torch's state at the current point of the program being captured."""
        return self._state

    @state.setter
    def state(self, state: TorchState) -> None:
        self._state = state
        self._state_key = _state_key(state)

    def add_input(
        self,
        name: str,
        tensor: torch.Tensor,
        key: object,
        shape: tuple[Any, ...] | None = None,
        stride: tuple[Any, ...] | None = None,
    ) -> TensorValue:
        """Make ``tensor`` an input; ``name`` is a hint for readers.

        Args:
            shape: its sizes, with a ``Dim`` of ``shapes`` for what is symbolic.
            stride: its strides, likewise.

        Raises:
            CannotPropagate: if a graph cannot take such a tensor.
        """
        meta = meta_of(tensor)
        if shape is not None and stride is not None:
            meta = meta._replace(shape=shape, stride=stride)
        if meta.is_plain:
            alias_group = self._input_group("storage", tensor.untyped_storage()._cdata)
            kind, view_group = ViewKind.NOT_A_VIEW, self._input_group("base", id(tensor))
            if tensor._is_view():
                kind = ViewKind.VIEW
                view_group = self._input_group("base", id(tensor._base))
        else:
            alias_group = view_group = self._new_group()
            kind = ViewKind.NOT_A_VIEW
        node = self._placeholder(name, tensor, key)
        node.meta["capture_meta"] = meta
        value = TensorValue(node, meta, alias_group, view_group, kind, is_input=True)
        if meta.has_grad_fn:
            value.history = History(untold="it reaches a tensor that was computed before the graph")
        elif meta.requires_grad:
            value.history = History(leaf=value)
        self.group_of[node] = alias_group
        self._note_input(alias_group, key, kind)
        self._by_view_group.setdefault(view_group, []).append(value)
        return value

    def _note_input(
        self, alias_group: int, key: object = None, kind: ViewKind = ViewKind.VIEW
    ) -> None:
        """Note the memory of an input; unless it is known to be no view, it may be one."""
        self._input_alias_groups.setdefault(alias_group, []).append((key, kind))

    def add_scalar_input(self, name: str, number: int | float | bool, key: object) -> ScalarValue:
        """Make a Python number an input."""
        node = self._placeholder(name, number, key)
        node.meta[NUMBER] = type(number)
        return ScalarValue(node, type(number), number, is_input=True)

    def derived_number(self, name: str, example: int | float | bool, key: object) -> DerivedValue:
        """Return a number that is computed before the graph, an input once it is used."""
        known = self._derived.get(key)
        if known is None:
            known = self._derived[key] = DerivedValue(
                type(example), example, lambda: self._placeholder(name, example, key)
            )
        return known

    def symbolic(self) -> Shapes:
        """Return what symbolic sizes are made of; the graph has some from now on."""
        if self.shapes is None:
            self.shapes = Shapes(self.takes_data)
            self._size_nodes = SizeNodes(self.graph, self.shapes, self._placeholder)
        return self.shapes

    def size_value(self, dim: Dim) -> SizeValue:
        """Return a size as a value of the graph."""
        assert self._size_nodes is not None
        return SizeValue(dim, self._size_nodes.node)

    def product(self, sizes: Sequence[Any]) -> Any:
        """Return the product of sizes: an int or a ``Dim``."""
        result: Any = 1
        for n in sizes:
            if type(n) is Dim or type(result) is Dim:
                result = self.symbolic().arithmetic(operator.mul, result, n)
            else:
                result *= n
        return result

    def is_contiguous(self, meta: TensorMeta, memory_format: torch.memory_format) -> bool:
        """Tell what ``Tensor.is_contiguous`` tells; of symbolic sizes, a decision."""
        if not meta.is_symbolic:
            return meta.is_contiguous(memory_format)
        tensor = fake.make_fake(meta, self.symbolic())
        return bool(tensor.is_contiguous(memory_format=memory_format))

    def _placeholder(self, name: str, example: object, key: object) -> fx.Node:
        last = self.placeholders[-1] if self.placeholders else None
        node = append_placeholder(self.graph, name, last)
        self.placeholders.append(node)
        self.inputs.append(key)
        self.examples.append(example)
        return node

    def _new_group(self) -> int:
        self._groups += 1
        return self._groups

    def _input_group(self, space: str, number: int) -> int:
        group = self._input_groups.get((space, number))
        if group is None:
            group = self._input_groups[space, number] = self._new_group()
        return group

    def _node(
        self,
        kind: str,
        target: Any,
        fx_args: tuple[Any, ...],
        fx_kwargs: dict[str, Any],
        frame_summary: FrameSummary,
    ) -> fx.Node:
        name = target if type(target) is str else op_rules.name_of(target)
        node = append_node(self.graph, kind, name, target, fx_args, fx_kwargs)
        if frame_summary is not None:
            # at once: what a callable would say changes as the program goes on
            node.meta["stack_trace"] = frame_summary() if callable(frame_summary) else frame_summary
        self.num_ops += 1
        return node

    def _value(
        self, node: fx.Node, meta: TensorMeta, alias_group: int, view_group: int, kind: ViewKind
    ) -> TensorValue:
        node.meta["capture_meta"] = meta
        value = TensorValue(node, meta, alias_group, view_group, kind)
        self.group_of[node] = alias_group
        self._by_view_group.setdefault(view_group, []).append(value)
        return value


_state_keys: dict[TorchState, int] = {}


def _state_key(state: TorchState) -> int:
    """Return a number for ``state`` that is cheaper to hash; there are only a few states."""
    return _state_keys.setdefault(state, len(_state_keys))
