"""Holds the making of the joint graph from a record: inputs, outputs, and what they are.

Stand-ins for tangents become inputs, operators that do nothing go, outputs are chosen. Must not
know how the record came about, nor how the graph is split.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from capture.backends.aot import adapter, recorder_adapter
from capture.backends.aot.described import CannotTrace, Joint, Output, View, Written
from capture.backends.aot.trace import Result, Trace, geometry_of

__all__ = ["assemble"]

# Their backward needs a workspace that the forward leaves out under no_grad, where graphs run.
_SAVE_IN_GRAD_MODE = frozenset(("aten::mkldnn_rnn_layer_backward",))
_NO_OPS = frozenset(("aten::detach", "aten::alias", "aten::lift_fresh"))


def assemble(
    traced: fx.GraphModule, found: Trace, fakes: list[Tensor], mode: Any, numbers: Sequence[Any]
) -> Joint:
    """Return the joint graph of a trace.

    Args:
        traced: what was recorded; its outputs are the trace's values.
        found: what the trace found out.
        fakes: the tensor inputs.
        mode: the mode of the fake tensors.
        numbers: symbolic ints among the inputs.
    """
    return _Assembly(traced, found, fakes, mode, numbers).joint()


class _Assembly:
    """Makes the joint graph from a trace: tangents become inputs, no-ops go, outputs are chosen."""

    def __init__(
        self,
        traced: fx.GraphModule,
        found: Trace,
        fakes: list[Tensor],
        mode: Any,
        numbers: Sequence[Any],
    ) -> None:
        self.mode = mode
        self.numbers = numbers
        self.traced = traced
        self.found = found
        self.fakes = fakes
        nodes = list(traced.graph.nodes)
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        self.values: list[Any] = list(nodes[-1].args[0])
        if any(not isinstance(value, fx.Node) for value in self.values):
            raise CannotTrace("a value in the trace is a constant")
        if any(_name_of(node) in _SAVE_IN_GRAD_MODE for node in nodes):
            raise CannotTrace("an operator saves something only where grad mode is on")
        self.forward: list[fx.Node] = []  # the outputs of the forward
        self.forward_values: dict[int, int] = {}  # value -> position among them
        self.replaced: dict[fx.Node, fx.Node] = {}  # by an input

    def joint(self) -> Joint:
        found = self.found
        written = [w for i in range(len(found.inputs)) if (w := self._written(i)) is not None]
        outputs = self._outputs()
        differentiable = []
        for position in found.tangent_of:
            differentiable.append(self._output(position))
        gradients: list[fx.Node | None] = [
            None if position is None else self.values[position] for position in found.gradients
        ]
        owned = self._owned()
        gm, tangents = self._graph(gradients)
        return Joint(
            gm=gm,
            fakes=[*self.fakes, *self.numbers, *tangents],
            symbolic=self._has_symbolic_sizes(),
            forward_outputs=len(self.forward),
            differentiable=differentiable,
            geometry=[_demanded(t) for t in tangents],
            outputs=outputs,
            written=written,
            single=found.single,
            grad_mode=found.grad_mode,
            mode=self.mode,
            owned=owned,
        )

    def _has_symbolic_sizes(self) -> bool:
        if any(map(adapter.is_symbolic, [*self.fakes, *self.numbers])):
            return True
        # sizes that depend on data come up within the graph
        made = (node.meta.get("val") for node in self.traced.graph.nodes)
        return any(isinstance(value, Tensor) and adapter.is_symbolic(value) for value in made)

    def _owned(self) -> tuple[int, ...]:
        found = self.found
        return tuple(
            self.forward_values[position]
            for position, result in zip(found.position, found.results, strict=True)
            if position in self.forward_values
            and not result.tensor.requires_grad
            and adapter.base_of(result.tensor) is None
            and adapter.is_view_op(self._strip(self.values[position]).target)
        )

    def _output(self, position: int) -> int:
        """Let the forward return a value; return where."""
        if position not in self.forward_values:
            self.forward_values[position] = len(self.forward)
            self.forward.append(self.values[position])
        return self.forward_values[position]

    def _strip(self, node: fx.Node) -> fx.Node:
        """Return the node behind operators that only make another name."""
        while _is_no_op(node):
            node = node.args[0]  # type: ignore[assignment]
        return node

    def _written(self, i: int) -> Written | None:
        found = self.found
        position = found.inputs[i]
        _, root = self._steps(self.values[position])
        new_data = root is not self.placeholders[i]
        geometry = found.changed[i]
        if not new_data and not found.visible[i]:
            if geometry is None:
                return None
            position_or_none = None
        else:
            position_or_none = self._output(position)
        if geometry is not None:
            if _is_symbolic(geometry):
                raise CannotTrace("an input gets a symbolic shape")
            offset = self.fakes[i].storage_offset()
            geometry = (*geometry[:2], geometry[2] - offset)
        return Written(i, position_or_none, found.visible[i], geometry)

    def _steps(self, node: fx.Node) -> tuple[list[Any], fx.Node]:
        """Return the view operators that made a value, first one first, and what they began at."""
        steps: list[Any] = []
        stops = {self.values[p] for p in (*self.found.inputs, *self.found.initial)}
        while True:
            item = None
            source = node
            if node in stops:
                break
            if node.op == "call_function" and node.target is operator.getitem:
                source, item = node.args  # type: ignore[assignment]
            if source.op != "call_function" or not adapter.is_view_op(source.target):
                break
            first, *rest = source.args
            if _holds_node(rest) or _holds_node(source.kwargs.values()):
                break
            if _is_symbolic((rest, list(source.kwargs.values()))):
                break
            if not _is_no_op(source):
                steps.append((source.target, tuple(rest), dict(source.kwargs), item))
            node = first  # type: ignore[assignment]
        return steps[::-1], self._strip(node)

    def _outputs(self) -> list[Output]:
        found = self.found
        groups: dict[int, list[int]] = {}
        for i, result in enumerate(found.results):
            groups.setdefault(result.storage, []).append(i)
        made: list[Output] = []
        for i, result in enumerate(found.results):
            if result.input is not None:
                made.append(self._view_of_input(i, result))
            elif len(groups[result.storage]) == 1:
                freed = found.freed.get(id(result.tensor))
                made.append(Output("forward", self._output(found.position[i]), freed=freed))
            else:
                made.append(self._shared(i, result, groups[result.storage]))
        outputs = []
        for kind, value in found.plain:
            if kind == "constant":
                outputs.append(Output("constant", value=value))
            elif kind == "input":
                outputs.append(Output("input", value))
            else:
                outputs.append(made[value])
        return outputs

    def _view(self, i: int, steps: list[Any] | None, strided: Any) -> View:
        tensor = self.found.results[i].tensor
        return View(
            () if steps is None else tuple(steps),
            strided if steps is None else None,
            tensor.requires_grad,
            self.found.detached[i],
            adapter.is_one_of_many(tensor),
        )

    def _view_of_input(self, i: int, result: Result) -> Output:
        found, index = self.found, result.input
        assert index is not None
        if result.tensor.requires_grad and not found.final_grad[index]:
            raise CannotTrace("a view of an input requires grad, the input does not")
        steps, root = self._steps(self.values[found.position[i]])
        last = self._strip(self.values[found.inputs[index]])
        if root is last and found.changed[index] is None:
            return Output("input", index, view=self._view(i, steps, None))
        fake, tensor = self.fakes[index], result.tensor
        if fake.dtype != tensor.dtype or found.changed[index] is not None:
            raise CannotTrace("an output is a view of an input in a way that is not known")
        size, stride, offset = geometry_of(tensor)
        if _is_symbolic((size, stride, offset)):
            raise CannotTrace("an output is a view of an input with a symbolic shape")
        strided = (size, stride, offset - fake.storage_offset())
        return Output("input", index, view=self._view(i, None, strided))

    def _shared(self, i: int, result: Result, group: list[int]) -> Output:
        """Return how to make one of several outputs that share memory."""
        found = self.found
        position = found.bases.get(result.storage)
        if position is None:
            # Nobody needs a gradient: an output that is no view is the base, or the hidden base is.
            roots = [self._steps(self.values[found.position[k]])[1] for k in group]
            for k, root in zip(group, roots, strict=True):
                if self._strip(self.values[found.position[k]]) is root:
                    position = found.position[k]
                    found.base_tensors[result.storage] = found.results[k].tensor
                    break
            else:
                position = len(self.values)
                self.values.append(roots[0])
            found.bases[result.storage] = position
        base = self._strip(self.values[position])
        index = self._output(position)
        if found.base_tensors.get(result.storage) is result.tensor:
            return Output("forward", index, freed=found.freed.get(id(result.tensor)))
        steps, root = self._steps(self.values[found.position[i]])
        if root is not base:
            raise CannotTrace("outputs share memory in a way that is not known")
        return Output("forward", index, view=self._view(i, steps, None))

    def _graph(self, gradients: Sequence[fx.Node | None]) -> tuple[fx.GraphModule, list[Tensor]]:
        """Turn the record into the joint graph, in place."""
        graph = self.traced.graph
        stand_ins = [self.values[position] for position in self.found.tangents]
        self._tag(stand_ins)
        last = None
        for i, node in enumerate(self.placeholders, 1):
            last = self._become_input(node, f"primals_{i}", last)
        tangents = []
        for i, node in enumerate(stand_ins, 1):
            last = self._become_input(node, f"tangents_{i}", last)
            tangents.append(last.meta["val"])
        no_ops = [node for node in graph.nodes if _is_no_op(node)]
        for node in no_ops:
            node.replace_all_uses_with(self.replaced.get(node.args[0], node.args[0]))
        taken: set[fx.Node] = set()
        results: list[fx.Node | None] = []
        for each in self.forward:
            node = self._final(each)
            root = node
            while root.op == "call_function" and adapter.is_view_op(root.target):
                root = root.args[0]  # type: ignore[assignment]
            if node in taken or root.op == "placeholder" or root.op == "get_attr":
                node = self._clone(graph, node)
            taken.add(node)
            results.append(node)
        results += [None if node is None else self._final(node) for node in gradients]
        (output,) = (node for node in graph.nodes if node.op == "output")
        output.args = (tuple(results),)
        for node in reversed(no_ops):
            graph.erase_node(node)
        return recorder_adapter.graph_module(self.traced, graph), tangents

    def _tag(self, stand_ins: Sequence[fx.Node]) -> None:
        tag = "is_forward"  # for torch's partitioners
        for node in self.traced.graph.nodes:
            if stand_ins and node is stand_ins[0]:
                tag = "is_backward"
            if node.op not in ("placeholder", "output"):
                node.meta["partitioner_tag"] = tag

    def _become_input(self, node: fx.Node, name: str, last: fx.Node | None) -> fx.Node:
        """Put an input in the place of a node, behind the input ``last``."""
        graph = self.traced.graph
        if node.op == "placeholder" and node.name == name:
            return node
        first = next(iter(graph.nodes))
        with graph.inserting_before(first) if last is None else graph.inserting_after(last):
            new = graph.placeholder(name)
        new.meta = {k: v for k, v in node.meta.items() if k != "partitioner_tag"}
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        self.replaced[node] = new
        return new

    def _final(self, node: fx.Node) -> fx.Node:
        node = self._strip(self.replaced.get(node, node))
        return self.replaced.get(node, node)

    @staticmethod
    def _clone(graph: fx.Graph, node: fx.Node) -> fx.Node:
        after = node
        if node.op == "placeholder":
            after = [each for each in graph.nodes if each.op == "placeholder"][-1]
        with graph.inserting_after(after):
            clone = graph.call_function(torch.ops.aten.clone.default, (node,))
        clone.meta["partitioner_tag"] = "is_forward"
        clone.meta["val"] = node.meta["val"].clone()
        return clone


def _name_of(node: fx.Node) -> str:
    return getattr(getattr(node.target, "_schema", None), "name", "")


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_is_symbolic, value))
    return isinstance(value, torch.SymInt)


def _demanded(tensor: Tensor) -> Any:
    """The geometry of a tangent: as numbers, or as the order of its dimensions."""
    if not adapter.is_symbolic(tensor):
        return tuple(tensor.shape), tensor.stride()
    if adapter.is_contiguous_as_written(tensor):
        return list(range(tensor.ndim))[::-1]
    return [d for _, d in sorted((stride, d) for d, stride in enumerate(tensor.stride()))]


def _is_no_op(node: fx.Node) -> bool:
    return (
        node.op == "call_function"
        and _name_of(node) in _NO_OPS
        and isinstance(node.args[0], fx.Node)
    )


def _holds_node(arguments: Any) -> bool:
    found: list[fx.Node] = []
    fx.map_arg(tuple(arguments), found.append)
    return bool(found)
