"""Holds what was recorded of operators, by operator and metadata, so that it is recorded once.

An entry (``Template``) is the piece of graph that one call of an operator became, decompositions
done, with the metadata of each value. It holds no tensor and no node. Must not know the tracer.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from capture.backends.aot import adapter, recorder_adapter

__all__ = ["Memo", "Template", "memo_for"]

# A model has some hundreds; thrown away all together, which costs one more trace.
_MOST = 20_000


class Memo:
    """What was recorded under one table of decompositions and one state of torch.

    Attributes:
        kinds: the tracer's own knowledge of operators.
        templates: by operator and arguments.
        hopeless: calls whose record no template can hold.
    """

    def __init__(self) -> None:
        self.kinds: dict[Any, Any] = {}
        self.templates: dict[Any, Template] = {}
        self.hopeless: set[Any] = set()

    @staticmethod
    def usable() -> bool:
        """Tell whether torch's state is one that the memo knows of."""
        return not adapter.any_autocast() and not torch.is_inference_mode_enabled()

    def add(self, key: Any, template: Template | None) -> None:
        """Keep a template; None says that there is none for the key."""
        if len(self.templates) + len(self.hopeless) >= _MOST:
            self.templates.clear()
            self.hopeless.clear()
        if template is None:
            self.hopeless.add(key)
        else:
            self.templates[key] = template


_memos: dict[Any, Memo] = {}


def memo_for(table: adapter.Decompositions) -> Memo:
    """Return the memo for these decompositions in torch's present state."""
    key = (frozenset(table.items()), recorder_adapter.decomposition_state())
    memo = _memos.get(key)
    if memo is None:
        if len(_memos) >= 16:
            _memos.clear()
        memo = _memos[key] = Memo()
    return memo


class _Slot(NamedTuple):
    """Stands for a value in a template: an argument or what an earlier step made."""

    place: int


class _Step(NamedTuple):
    """One node of a template.

    Attributes:
        target: the operator.
        args: with slots in the place of nodes; likewise ``kwargs``.
        name: for the node.
        out: one entry of ``_Made``, a list of them, or for ``getitem`` the element's number.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str
    out: Any

    def replay(self, graph: fx.Graph, table: Sequence[Any], mode: Any) -> tuple[fx.Node, Any]:
        """Append the node; return it and its value."""
        args = tuple(
            [
                table[each.place][0] if type(each) is _Slot else _filled(each, table)
                for each in self.args
            ]
        )
        kwargs = self.kwargs and {k: _filled(v, table) for k, v in self.kwargs.items()}
        node = graph.create_node("call_function", self.target, args, kwargs, self.name)
        out = self.out
        if type(out) is _Made:
            return node, out.make(table, mode)
        if type(out) is list:
            return node, tuple([None if each is None else each.make(table, mode) for each in out])
        return node, table[self.args[0].place][1][out]


class _Made(NamedTuple):
    """The metadata of one value; ``base`` is the slot of what it is a view of."""

    meta: tuple[Any, ...]
    base: int | None

    def make(self, table: Sequence[Any], mode: Any) -> Tensor:
        return recorder_adapter.make_fake(
            mode, self.meta, None if self.base is None else table[self.base][1]
        )


def _filled(value: Any, table: Sequence[Any]) -> Any:
    kind = type(value)
    if kind is _Slot:
        return table[value.place][0]
    if kind is list or kind is tuple:
        return kind([_filled(each, table) for each in value])
    return value


class Template(NamedTuple):
    """What one call of an operator became.

    Attributes:
        steps: its nodes.
        outputs: what it returned: a slot, or a tuple or list of slots and None.
    """

    steps: tuple[_Step, ...]
    outputs: Any

    @classmethod
    def of(
        cls, inputs: Sequence[tuple[fx.Node, Tensor]], nodes: Sequence[fx.Node], out: Any
    ) -> Template | None:
        """Make a template of the nodes that a call appended; None if they depend on more.

        Args:
            inputs: the call's tensor arguments, each once, with their nodes.
            nodes: what was appended.
            out: what the call returned.
        """
        maker = _Maker(inputs)
        steps = []
        for node in nodes:
            step = maker.step(node)
            if step is None:
                return None
            steps.append(step)
        outputs = maker.outputs(out)
        return None if outputs is NotImplemented else cls(tuple(steps), outputs)

    def result(self, table: Sequence[Any]) -> Any:
        """Return what the call returns, given the values of all slots."""
        return _result(self.outputs, table)


def _result(outputs: Any, table: Sequence[Any]) -> Any:
    if type(outputs) is _Slot:
        return table[outputs.place][1]
    if outputs is None:
        return None
    return type(outputs)([_result(each, table) for each in outputs])


class _Maker:
    def __init__(self, inputs: Sequence[tuple[fx.Node, Tensor]]) -> None:
        self.slots: dict[fx.Node, int] = {}
        self.tensors: dict[int, int] = {}  # id -> slot
        self.storages: dict[int, int] = {}  # storage -> a slot
        for node, tensor in inputs:
            # Two tensors may have one node (an operator that returned its argument).
            slot = len(self.tensors)
            self.slots[node] = self.tensors[id(tensor)] = slot
            self.storages.setdefault(adapter.storage_key(tensor), slot)
        self.count = len(inputs)

    def step(self, node: fx.Node) -> _Step | None:
        if node.op != "call_function":
            return None
        args, kwargs = self._slotted(node.args), self._slotted(node.kwargs)
        if args is NotImplemented or kwargs is NotImplemented:
            return None
        value = node.meta.get("val")
        if value is None:
            return None
        slot = self.count
        self.count += 1
        self.slots[node] = slot
        out: Any
        if node.target is operator.getitem:
            out = node.args[1]
            if not isinstance(value, Tensor):
                return None
            self.tensors[id(value)] = slot
        elif isinstance(value, Tensor):
            out = self._made(value, node, slot)
            self.tensors[id(value)] = slot
        else:
            out = [None if each is None else self._made(each, node, slot) for each in value]
            if any(each is NotImplemented for each in out):
                return None
        if out is NotImplemented:
            return None
        return _Step(
            node.target,
            args,
            kwargs,
            node.target.overloadpacket.__name__
            if hasattr(node.target, "overloadpacket")
            else "getitem",
            out,
        )

    def _slotted(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            slot = self.slots.get(value)
            return NotImplemented if slot is None else _Slot(slot)
        if isinstance(value, dict):
            found = {name: self._slotted(each) for name, each in value.items()}
            return NotImplemented if any(v is NotImplemented for v in found.values()) else found
        if isinstance(value, tuple | list):
            items = [self._slotted(each) for each in value]
            if any(each is NotImplemented for each in items):
                return NotImplemented
            return tuple(items) if isinstance(value, tuple) else items
        return value

    def _made(self, value: Any, node: fx.Node, slot: int) -> Any:
        if not isinstance(value, Tensor):
            return NotImplemented
        meta = recorder_adapter.describe(value)
        if not meta:
            return NotImplemented
        storage = adapter.storage_key(value)
        base = None
        if adapter.is_view_op(node.target):
            first = node.args[0]
            source = first.meta["val"] if isinstance(first, fx.Node) else None
            if not isinstance(source, Tensor) or adapter.storage_key(source) != storage:
                return NotImplemented
            if source.dtype != value.dtype:
                return NotImplemented
            base = self.slots[first]  # type: ignore[index]
        elif storage in self.storages or meta[2]:
            return NotImplemented
        self.storages.setdefault(storage, slot)
        return _Made(meta, base)

    def outputs(self, out: Any) -> Any:
        if out is None:
            return None
        if isinstance(out, Tensor):
            slot = self.tensors.get(id(out))
            return NotImplemented if slot is None else _Slot(slot)
        if type(out) in (tuple, list):
            items = [self.outputs(each) for each in out]
            if any(each is NotImplemented for each in items):
                return NotImplemented
            return tuple(items) if type(out) is tuple else items
        return NotImplemented
