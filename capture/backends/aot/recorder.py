"""Holds the fast tracer: a dispatch mode that writes operators into an FX graph as they come.

It stands where ``make_fx`` has its own mode, below autograd and below the mode that turns mutation
into new values, so it sees the same operators in the same order. What it does not know it refuses
(``CannotRecord``), and ``make_fx`` traces. Must not know what is traced, nor what becomes of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from capture.backends.aot import adapter, recorder_adapter
from capture.backends.aot.memo import Memo, Template, memo_for

__all__ = ["CannotRecord", "record"]

_METADATA = frozenset(
    "aten::size aten::stride aten::storage_offset aten::sym_size aten::sym_stride aten::sym_numel"
    " aten::sym_storage_offset aten::is_contiguous aten::is_strides_like_format aten::dim"
    " aten::is_non_overlapping_and_dense aten::numel aten::layout".split()
)
_LIFTS = frozenset(("aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift"))


class CannotRecord(Exception):
    """Something that only ``make_fx`` can trace; the message is what."""


def record(
    function: Callable[..., Sequence[Tensor]],
    fakes: Sequence[Tensor],
    decompositions: adapter.Decompositions | None,
    mode: Any,
) -> fx.GraphModule:
    """Run ``function`` on fake tensors and return the graph of its operators.

    Args:
        function: returns tensors.
        fakes: its arguments, made by ``mode``.
        decompositions: operator to the function that replaces it.
        mode: the mode of the fake tensors; active while ``function`` runs.

    Raises:
        CannotRecord: the graph is one for ``make_fx``.
    """
    recorder = _Recorder(mode, decompositions)
    for i, fake in enumerate(fakes, 1):
        recorder.add_input(f"primals_{i}", fake)
    # A cast that autocast remembered would come from outside the trace.
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with recorder:
            values = function(*fakes)
    finally:
        torch.set_autocast_cache_enabled(cached)
    return recorder.finish(values)


class _Kind:
    """What is known of one operator, whatever its arguments."""

    __slots__ = ("decomposition", "implicit", "memoised", "metadata", "name", "refused")

    def __init__(self, func: Any, table: adapter.Decompositions) -> None:
        schema = func._schema
        self.metadata = func.namespace == "prim" or schema.name in _METADATA
        self.decomposition = table.get(func)
        self.implicit = not self.metadata and recorder_adapter.is_composite(func)
        self.name = func.overloadpacket.__name__
        self.refused = ""
        if schema.is_mutable and self.decomposition is None:
            self.refused = f"{func} writes to a tensor"
        elif torch.Tag.data_dependent_output in func.tags:
            self.refused = f"{func} depends on data"
        # A decomposition of somebody else's may depend on anything.
        self.memoised = schema.name not in _LIFTS and (
            self.decomposition is None or recorder_adapter.is_pure_decomposition(self.decomposition)
        )


@recorder_adapter.undisguised
class _Recorder(recorder_adapter.TracerMode):  # type: ignore[no-untyped-call]
    def __init__(self, mode: Any, table: adapter.Decompositions | None) -> None:
        super().__init__()
        self.mode = mode
        self.table: adapter.Decompositions = {} if table is None else dict(table)
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self.memo: Memo = memo_for(self.table)
        # Tensors by identity: they are kept, so that none takes the place of another.
        self.nodes: dict[int, fx.Node] = {}
        self.kept: list[Tensor] = []
        self.described: dict[int, tuple[Any, ...]] = {}
        self.constants = 0
        self.impure = 0  # counts what no template may hold
        self.original: Any = None  # the operator that is being decomposed

    # -- the graph ---------------------------------------------------------------------------------

    def add_input(self, name: str, fake: Tensor) -> None:
        self._track(fake, self.graph.placeholder(name))

    def finish(self, values: Sequence[Tensor]) -> fx.GraphModule:
        results = [self.nodes.get(id(value)) for value in values]
        if any(node is None for node in results):
            raise CannotRecord("a value was not made in the trace")
        self.graph.output(tuple(results))
        return recorder_adapter.graph_module(self.root, self.graph)

    def _track(self, value: Tensor, node: fx.Node) -> None:
        self.nodes[id(value)] = node
        self.kept.append(value)
        node.meta["val"] = value
        if self.original is not None:
            node.meta["original_aten"] = self.original

    def _node_of(self, value: Any) -> Any:
        """Return an argument as it stands in a graph."""
        if isinstance(value, Tensor):
            node = self.nodes.get(id(value))
            return self._constant(value) if node is None else node
        if isinstance(value, list | tuple):
            return type(value)([self._node_of(each) for each in value])
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise CannotRecord("a symbolic number")
        if isinstance(value, torch.Generator):
            raise CannotRecord("a generator")
        return value

    def _constant(self, value: Tensor) -> fx.Node:
        if adapter.mode_of([value]) is not None:
            raise CannotRecord("a fake tensor from elsewhere")
        name = f"_tensor_constant{self.constants}"
        self.constants += 1
        self.impure += 1
        setattr(self.root, name, value)
        return self.graph.get_attr(name)

    def _append(self, func: Any, kind: _Kind, args: Any, kwargs: Any) -> Any:
        if kind.refused:
            raise CannotRecord(kind.refused)
        node_args = tuple([self._node_of(each) for each in args])
        node_kwargs = {name: self._node_of(each) for name, each in kwargs.items()}
        if func is torch.ops.aten.lift_fresh.default:
            func = torch.ops.aten.lift_fresh_copy.default
        out = func(*args, **kwargs)
        node = self.graph.create_node("call_function", func, node_args, node_kwargs, kind.name)
        self._results(out, node)
        return out

    def _results(self, out: Any, node: fx.Node) -> None:
        if isinstance(out, Tensor):
            self._track(out, node)
        elif isinstance(out, tuple | list):
            node.meta["val"] = out
            for i, each in enumerate(out):
                if each is not None:
                    item = self.graph.create_node("call_function", operator.getitem, (node, i))
                    self._results(each, item)
        elif out is not None:
            raise CannotRecord(f"an operator returns a {type(out).__name__}")

    # -- operators ---------------------------------------------------------------------------------

    def dispatch(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = self.memo.kinds.get(func)
        if kind is None:
            if not recorder_adapter.is_operator(func):
                raise CannotRecord(f"{func}")
            kind = self.memo.kinds[func] = _Kind(func, self.table)
        if kind.metadata:
            return func(*args, **kwargs)
        if self.original is not None:
            return self._record(func, kind, args, kwargs)
        self.original = func
        try:
            return self._record(func, kind, args, kwargs)
        finally:
            self.original = None

    def _record(self, func: Any, kind: _Kind, args: Sequence[Any], kwargs: Any) -> Any:
        if not kind.memoised or not self.memo.usable():
            return self._run(func, kind, args, kwargs)
        tensors: list[Tensor] = []
        key = self._key(func, args, kwargs, tensors)
        if key is None:
            return self._run(func, kind, args, kwargs)
        template = self.memo.templates.get(key)
        if template is not None:
            return self._replay(template, tensors)
        if key in self.memo.hopeless:
            return self._run(func, kind, args, kwargs)
        impure, last = self.impure, next(iter(reversed(self.graph.nodes)), None)
        out = self._run(func, kind, args, kwargs)
        template = None
        if self.impure == impure:
            inputs = [(self.nodes[id(t)], t) for t in tensors]
            template = Template.of(inputs, list(_behind(self.graph, last)), out)
        self.memo.add(key, template)
        return out

    def _run(self, func: Any, kind: _Kind, args: Sequence[Any], kwargs: Any) -> Any:
        if kind.decomposition is not None:
            with self:
                out = kind.decomposition(*args, **kwargs)
            if out is not NotImplemented:
                return out
        if kind.implicit and recorder_adapter.is_decomposed(func, args, kwargs):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        return self._append(func, kind, args, kwargs)

    # -- the memo ----------------------------------------------------------------------------------

    def _key(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """Return what the operator's record depends on; None if it is not known."""
        parts: list[Any] = [func]
        seen: dict[int, int] = {}
        if not self._key_of(args, parts, seen, tensors):
            return None
        for name, value in kwargs.items():
            parts.append(name)
            if not self._key_of((value,), parts, seen, tensors):
                return None
        parts.append(torch.is_grad_enabled())
        return tuple(parts)

    def _key_of(
        self, values: Any, parts: list[Any], seen: dict[int, int], tensors: list[Tensor]
    ) -> bool:
        for value in values:
            kind = type(value)
            if kind in _PLAIN:
                # 1, 1.0 and True hash alike, and so do 0.0 and -0.0.
                parts.append(kind)
                parts.append(repr(value) if kind is float else value)
            elif kind is list or kind is tuple:
                parts.append(kind)
                parts.append(len(value))
                if not self._key_of(value, parts, seen, tensors):
                    return False
            elif isinstance(value, Tensor):
                identity = id(value)
                place = seen.get(identity)
                if place is not None:
                    parts.append(place)
                    continue
                described = self._describe(value)
                if described is None:
                    return False
                seen[identity] = len(tensors)
                tensors.append(value)
                parts.append(described)
            else:
                return False
        return True

    def _describe(self, value: Tensor) -> tuple[Any, ...] | None:
        identity = id(value)
        known = self.described.get(identity)
        if known is None:
            if identity not in self.nodes:
                return None
            known = self.described[identity] = recorder_adapter.describe(value)
        return known or None

    def _replay(self, template: Template, tensors: Sequence[Tensor]) -> Any:
        table: list[Any] = [(self.nodes[id(t)], t) for t in tensors]
        with recorder_adapter.making_fakes(self.mode):
            for step in template.steps:
                node, out = step.replay(self.graph, table, self.mode)
                table.append((node, out))
                if isinstance(out, Tensor):
                    self._track(out, node)
                    if type(step.out) is not int:
                        self.described[id(out)] = step.out.meta
                else:
                    node.meta["val"] = out
        return template.result(table)


_PLAIN = frozenset(
    (
        int, float, bool, str, complex, type(None),
        torch.dtype, torch.device, torch.layout, torch.memory_format,
    )
)  # fmt: skip


def _behind(graph: fx.Graph, last: fx.Node | None) -> Iterator[fx.Node]:
    node = next(iter(graph.nodes)) if last is None else last.next
    while node.op != "root":
        yield node
        node = node.next
