"""Holds what autograd records in the graph, and calls of autograd as nodes."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch

from capture.graph import data_sizes
from capture.graph.fx_adapter import (
    append_node,
)
from capture.graph.gradients import gradient_meta, gradients, leaf_gradients
from capture.graph.graph_inputs import FrameSummary
from capture.graph.graph_numbers import GraphNumbers
from capture.graph.history import (
    History,
    behind,
    check,
    is_open,
    is_rewritten,
    leaves_behind,
    release,
)
from capture.graph.links import MAYBE, UNKNOWN
from capture.graph.propagate import (
    Outcome,
)
from capture.graph.shadow import Shadow
from capture.graph.tensor_meta import CannotPropagate, DependsOnData, TensorMeta, meta_of
from capture.graph.values import TensorValue, ViewKind

__all__ = ["GraphAutograd"]


class GraphAutograd(GraphNumbers):
    """A graph that knows how its tensors depend on each other."""

    def _gradient_meta(self, leaf: TensorMeta) -> TensorMeta:
        if not leaf.is_symbolic:
            return gradient_meta(leaf)
        if data_sizes.depends_on_data(leaf):
            raise DependsOnData("the gradient of a leaf whose size depends on data")
        if not self.is_contiguous(leaf, torch.contiguous_format):
            raise CannotPropagate("the gradient of a leaf with symbolic strides")
        return TensorMeta(leaf.shape, leaf.stride, leaf.dtype, leaf.device)

    def _record(
        self, value: TensorValue, links: tuple[int, ...], tensors: list[TensorValue]
    ) -> None:
        """Note what a gradient for a new tensor flows to."""
        if value.meta.requires_grad:
            if value.meta.has_grad_fn:
                value.history = _history(links, tensors)
            else:
                value.history = History(leaf=value)
            self._note_saver(value.history, value, tensors)

    def _note_saver(self, history: History, value: TensorValue, given: list[TensorValue]) -> None:
        """Note that an operator may have saved its result and what it was given."""
        for group in {value.alias_group, *(tensor.alias_group for tensor in given)}:
            self._savers.setdefault(group, []).append(history)

    def _rewrite(self, outcome: Outcome, tensors: list[TensorValue]) -> None:
        """Note what in-place operators do to the histories of their tensors and families."""
        for index in outcome.written:
            for history in self._savers.pop(tensors[index].alias_group, ()):
                history.rewritten = True
        made = [(index, _history(links, tensors)) for index, links in outcome.links]
        for index, history in made if outcome.recorded else ():
            value = tensors[index]
            self._note_saver(history, value, tensors)
            for member in self._by_view_group[value.view_group]:
                if member is value or member.history is None:
                    member.history = history
                else:
                    member.history = History((member.history, history))
        for index, meta in outcome.changed:
            value = tensors[index]
            if not meta.requires_grad:
                value.history = None
            elif not meta.has_grad_fn and value.history is None:
                value.history = History(leaf=value)

    def leaves_of(
        self, outputs: list[TensorValue], grad_outputs: list[TensorValue | None]
    ) -> list[tuple[TensorValue, torch.layout]]:
        """Return the leaves that a backward call gives gradients to, and the gradients' layouts.

        Raises:
            CannotPropagate: if that cannot be foretold.
        """
        ends = [value.history for value in outputs if value.history is not None]
        order = {id(node): place for place, node in enumerate(self.graph.nodes)}
        leaves = leaves_behind(ends)
        if any(id(leaf.node) not in order for leaf in leaves):
            raise CannotPropagate("a leaf belongs to the graph around this one")
        leaves.sort(key=lambda value: order[id(value.node)])
        if not is_open(ends):
            return [(leaf, torch.strided) for leaf in leaves]
        leaves = [leaf for leaf in leaves if leaf.meta.requires_grad]
        if not leaves:
            return []
        found = self._shadow_so_far().gradients(
            [value.node for value in outputs],
            [leaf.node for leaf in leaves],
            [None if value is None else value.node for value in grad_outputs],
            retain_graph=True,
        )
        pairs = zip(leaves, found, strict=True)
        return [(leaf, grad.layout) for leaf, grad in pairs if grad is not None]

    def _shadow_so_far(self) -> Shadow:
        """Return the run of the graph on fake tensors, up to its last node."""
        if self.shapes is not None or "inference_mode" in self.switches:
            raise CannotPropagate("some sizes are symbolic, or inference mode is switched")
        if self._shadow is None:
            self._shadow = Shadow(self.graph, self._initial_state)
        examples = zip(self.placeholders, self.examples, strict=True)
        self._shadow.catch_up({n: e for n, e in examples if not isinstance(e, torch.Tensor)})
        return self._shadow

    def _watched(
        self,
        outputs: list[TensorValue],
        grad_outputs: list[TensorValue | None],
        watched: Sequence[TensorValue],
    ) -> list[TensorMeta]:
        found = self._shadow_so_far().gradients(
            [value.node for value in outputs],
            [value.node for value in watched],
            [None if value is None else value.node for value in grad_outputs],
            retain_graph=True,
        )
        metas = []
        for gradient in found:
            if gradient is None or gradient.layout is not torch.strided:
                raise CannotPropagate("a tensor with hooks gets no gradient")
            meta = meta_of(gradient)._replace(cls=torch.Tensor, requires_grad=False)
            metas.append(meta._replace(is_leaf=True, has_grad_fn=False))
        return metas

    def histories_behind(self, outputs: list[TensorValue]) -> dict[int, History]:
        """Return what a backward call from ``outputs`` runs through, by ``id``."""
        return behind([value.history for value in outputs if value.history is not None])

    def frontiers(
        self, outputs: list[TensorValue], cuts: list[TensorValue], targets: list[TensorValue]
    ) -> list[tuple[int, ...]]:
        """Return where the gradient of each target comes from: the places of cuts, -1: outputs.

        Raises:
            CannotPropagate: if a gradient flows both through a cut and around it.
        """
        starts = [[v.history for v in outputs if v.history is not None]]
        starts += [[cut.history] for cut in cuts if cut.history is not None]
        stops = [history for start in starts[1:] for history in start]
        direct = [
            behind(start, [stop for stop in stops if n == 0 or stop is not start[0]])
            for n, start in enumerate(starts)
        ]
        whole = [behind(start) for start in starts]
        found = []
        for target in targets:
            end = id(target.history)
            sources = [n for n, reach in enumerate(direct) if end in reach]
            sources = [n for n in sources if n == 0 or id(starts[n][0]) != end]
            for source in sources:
                for n, cut in enumerate(stops, 1):
                    if n != source and id(cut) != end and id(cut) in whole[source]:
                        if end in whole[n]:
                            raise CannotPropagate("a gradient flows around a hook that changes it")
            found.append(tuple(n - 1 for n in sources))
        return found

    def release(self, outputs: list[TensorValue]) -> None:
        """Note that what the operators behind ``outputs`` saved is let go of."""
        release([value.history for value in outputs if value.history is not None])

    def arrivals(
        self,
        outputs: list[TensorValue],
        grad_outputs: list[TensorValue | None],
        leaves: list[TensorValue],
    ) -> list[int]:
        """Return the places of the leaves in the order in which a backward call reaches them.

        Raises:
            CannotPropagate: if that cannot be foretold.
        """
        return self._shadow_so_far().arrivals(
            [value.node for value in outputs],
            [leaf.node for leaf in leaves],
            [None if value is None else value.node for value in grad_outputs],
        )

    def add_leaf_gradients(
        self,
        outputs: list[TensorValue],
        grad_outputs: list[TensorValue | None],
        leaves: list[TensorValue],
        layouts: list[torch.layout],
        fresh: list[bool],
        retain_graph: bool,
        watched: Sequence[TensorValue] = (),
        frame_summary: FrameSummary = None,
    ) -> list[TensorValue]:
        """Add a backward call and return the gradients of ``leaves`` and of ``watched``.

        Args:
            outputs: what is differentiated; ``leaves_of`` them are the leaves.
            grad_outputs: the gradient of each output, or None for a single element.
            layouts: of each leaf's gradient.
            fresh: which gradients become the leaf's ``grad``, others are added to the one there.
            retain_graph: whether what the operators saved is kept.
            watched: tensors on the way, whose gradients are as they arrive.

        Raises:
            CannotPropagate: if it cannot be told what the gradients of watched tensors are.
        """
        metas = [
            self._gradient_meta(leaf.meta)
            if layout is torch.strided
            else gradient_meta(leaf.meta, layout)
            for leaf, layout in zip(leaves, layouts, strict=True)
        ]
        ends = [value.history for value in outputs if value.history is not None]
        arguments = (
            tuple(value.node for value in outputs),
            tuple(None if value is None else value.node for value in grad_outputs),
            tuple(value.node for value in leaves),
            tuple(fresh),
            retain_graph,
            *([tuple(value.node for value in watched)] if watched else []),
        )
        for gradient in self._watched(outputs, grad_outputs, watched) if watched else ():
            metas.append(gradient)
        node = self._node("call_function", leaf_gradients, arguments, {}, frame_summary)
        self.may_raise = self.may_raise or is_rewritten(ends) or is_open(ends)
        if not retain_graph:
            release(ends)
        self.backward_calls += 1
        found = []
        for position, meta in enumerate(metas):
            part = append_node(
                self.graph, "call_function", "getitem", operator.getitem, (node, position), {}
            )
            self._parts.append(part)
            group = self._new_group()
            found.append(self._value(part, meta, group, group, ViewKind.NOT_A_VIEW))
        return found

    def add_gradients(
        self,
        outputs: list[TensorValue],
        grad_outputs: list[TensorValue | None],
        inputs: list[TensorValue],
        options: dict[str, bool],
        frame_summary: FrameSummary = None,
    ) -> list[TensorValue | None]:
        """Add a call of ``torch.autograd.grad`` and return the gradients of ``inputs``.

        Args:
            outputs: what is differentiated.
            grad_outputs: the gradient of each output, or None for a single element.
            options: ``retain_graph``, ``create_graph`` and ``materialize_grads``.

        Raises:
            CannotPropagate: if what the call gives, or that it fails, cannot be told.
        """
        ends = [value.history for value in outputs if value.history is not None]
        check(ends)
        shadow = self._shadow_so_far()
        nodes = [value.node for value in outputs]
        wanted = [value.node for value in inputs]
        given = [None if value is None else value.node for value in grad_outputs]
        results = shadow.gradients(nodes, wanted, given, **options)
        values = [value for family in self._by_view_group.values() for value in family]
        described = _Gradients(shadow, values)
        arguments = (tuple(nodes), tuple(wanted), tuple(given))
        node = self._node("call_function", gradients, arguments, dict(options), frame_summary)
        shadow.set(node, results)
        if not options["retain_graph"]:
            release(ends)
        self.backward_calls += 1
        self.may_raise = self.may_raise or is_rewritten(ends) or is_open(ends)
        found: list[TensorValue | None] = []
        made: dict[int, TensorValue] = {}
        for position, result in enumerate(results):
            if result is None:
                found.append(None)
                continue
            value = described.same.get(id(result)) or made.get(id(result))
            if value is None:
                part = append_node(
                    self.graph, "call_function", "getitem", operator.getitem, (node, position), {}
                )
                self._parts.append(part)
                shadow.set(part, result)
                group = described.groups.get(result.untyped_storage()._cdata)
                if group is None:
                    group = self._new_group()
                    described.groups[result.untyped_storage()._cdata] = group
                meta = meta_of(result)._replace(cls=torch.Tensor)
                kind = ViewKind.NOT_A_VIEW
                if result._is_view():
                    kind = ViewKind.VIEW if options["create_graph"] else ViewKind.NO_GRAD
                value = self._value(part, meta, group, self._new_group(), kind)
                made[id(result)] = value
                if meta.requires_grad:
                    value.history = described.history(result, ends)
                    for savers in self._savers.values():  # the backward's operators save as well
                        savers.append(value.history)
                    self._savers.setdefault(group, []).append(value.history)
            found.append(value)
        return found


class _Gradients:
    """What is known of gradients that the shadow of a graph gave."""

    def __init__(self, shadow: Shadow, values: list[TensorValue]) -> None:
        self.shadow = shadow
        self.values = values
        self.groups: dict[int, int] = {}
        self.same: dict[int, TensorValue] = {}  # by the id of its tensor
        for value in values:
            tensor = shadow.env.get(value.node)
            if isinstance(tensor, torch.Tensor):
                self.same[id(tensor)] = value
                self.groups[tensor.untyped_storage()._cdata] = value.alias_group

    def history(self, result: torch.Tensor, ends: list[History]) -> History:
        """The history of a gradient that requires grad."""
        leaves, complete = self.shadow.leaves_of(result, self.values)
        if not complete:
            return History(untold="it runs through a gradient with a history of its own")
        if result.grad_fn is None:
            return History(untold="a gradient is a leaf")
        parents = [leaf.history for leaf in leaves if leaf.history is not None]
        return History(parents, through=ends)


def _history(links: tuple[int, ...], tensors: list[TensorValue]) -> History:
    parents = []
    for position in links:
        if position == UNKNOWN:
            parents.append(History(untold="it reaches a leaf that is no value of the graph"))
        elif position != MAYBE:
            history = tensors[position].history
            if history is not None:
                parents.append(history)
    return History(parents, open=MAYBE in links)
