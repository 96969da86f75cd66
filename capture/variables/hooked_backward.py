"""Holds backward calls in the graph that run hooks on tensors on the way to the leaves.

The gradients of hooked tensors are results of the same node as those of leaves; hooks are executed
behind it, as the gradients arrive in eager. A hook that gives another gradient *cuts*: what lies
behind its tensor is differentiated by a node of its own, from the gradient that the hook gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture.graph.tensor_meta import CannotPropagate
from capture.variables.containers import TupleVariable
from capture.variables.gradients import is_none
from capture.variables.leaf_hooks import LeafHooks, accumulate, fits, set_grad_mode
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    import torch

    from capture.variables.base import Tracer, Variable
    from capture.variables.watches import Watch

__all__ = ["HookedLeaf", "reached", "run"]

HookedLeaf = tuple[TensorVariable, "torch.layout", LeafHooks, bool]
"""A leaf, the layout of its gradient, its hooks, and whether it gets a gradient of its own."""


class _Stop:
    """A hooked tensor on the way, with its hooks in the order in which they were registered."""

    __slots__ = ("cuts", "given", "tensor", "watches")

    def __init__(self, tracer: Tracer, watches: list[Watch]) -> None:
        self.tensor = watches[0].tensor
        self.watches = watches
        self.cuts = any(tracer.cuts(watch.ordinal) for watch in watches)
        self.given: TensorVariable | None = None


def reached(
    tracer: Tracer, outputs: list[TensorVariable], leave: Callable[[str], NoReturn]
) -> list[list[Watch]]:
    """The hooks on tensors that a backward call from ``outputs`` runs into, by tensor."""
    watches = [watch for watch in tracer.watches if not watch.settled]
    if not watches:
        return []
    histories = tracer.graph.histories_behind([v.value for v in outputs])
    found: dict[int, list[Watch]] = {}
    for watch in watches:
        if id(watch.history) in histories:
            if watch.tensor.value.history is not watch.history:
                leave("a tensor with hooks was written to")
            found.setdefault(id(watch.tensor), []).append(watch)
    return list(found.values())


def run(
    tracer: Tracer,
    outputs: list[TensorVariable],
    grad_outputs: list[TensorVariable | None],
    leaves: list[HookedLeaf],
    watches: list[list[Watch]],
    retain_graph: bool,
    leave: Callable[[str], NoReturn],
) -> None:
    """Differentiate, run the hooks, accumulate: all as the gradients arrive."""
    stops = [_Stop(tracer, group) for group in watches]
    targets = [leaf for leaf, *_ in leaves] + [stop.tensor for stop in stops]
    cuts = [stop for stop in stops if stop.cuts]
    graph = tracer.graph
    values = [v.value for v in outputs]
    given = [None if v is None else v.value for v in grad_outputs]
    try:
        order = graph.arrivals(values, given, [v.value for v in targets])
        behind = graph.frontiers(
            values, [stop.tensor.value for stop in cuts], [v.value for v in targets]
        )
    except CannotPropagate as error:
        leave(error.reason)
    groups: dict[tuple[int, ...], list[int]] = {}
    for place in order:
        groups.setdefault(behind[place], []).append(place)
    last = next(reversed(groups))
    found: dict[int, TensorVariable] = {}
    grad_mode = graph.state.grad_enabled
    if grad_mode:
        set_grad_mode(tracer, False)
    for place in order:
        if place not in found:
            key = behind[place]
            sources = [cuts[n] for n in key if n >= 0]
            ends = [stop.tensor for stop in sources]
            starts: list[TensorVariable | None] = [stop.given for stop in sources]
            if -1 in key:
                ends, starts = [*outputs, *ends], [*grad_outputs, *starts]
            found.update(
                _differentiate(
                    tracer,
                    ends,
                    starts,
                    groups[key],
                    leaves,
                    targets,
                    retain_graph or key != last,
                    leave,
                )
            )
        if place < len(leaves):
            leaf, _, hooks, _ = leaves[place]
            accumulate(tracer, [(leaf, found[place], hooks)], leave)
        else:
            stop = stops[place - len(leaves)]
            stop.given = _run_hooks(tracer, stop, found[place], leave)
    if grad_mode:
        set_grad_mode(tracer, True)
    if not retain_graph:
        graph.release(values)


def _differentiate(
    tracer: Tracer,
    ends: list[TensorVariable],
    starts: list[TensorVariable | None],
    places: list[int],
    leaves: list[HookedLeaf],
    targets: list[TensorVariable],
    retain_graph: bool,
    leave: Callable[[str], NoReturn],
) -> dict[int, TensorVariable]:
    """Add the node that gives the gradients of some targets."""
    own = [place for place in places if place < len(leaves)]
    on_the_way = [place for place in places if place >= len(leaves)]
    try:
        gradients = tracer.add_leaf_gradients(
            ends,
            starts,
            [targets[place] for place in own],
            [leaves[place][1] for place in own],
            [leaves[place][3] for place in own],
            retain_graph,
            [targets[place] for place in on_the_way],
        )
    except CannotPropagate as error:
        leave(error.reason)
    return dict(zip([*own, *on_the_way], gradients, strict=True))


def _run_hooks(
    tracer: Tracer, stop: _Stop, gradient: TensorVariable, leave: Callable[[str], NoReturn]
) -> TensorVariable:
    """Run the hooks of a tensor; the gradient that flows on."""
    group = gradient.value.alias_group
    for watch in stop.watches:
        if watch.removed:
            continue
        before = len(tracer.graph.writes)
        changed: Variable = watch.run(tracer, gradient)
        if any(group in written for written in list(tracer.graph.writes.values())[before:]):
            leave("a hook writes to the gradient that it is given")
        if is_none(changed) or changed is gradient:
            continue
        if isinstance(changed, TupleVariable) or not fits(changed, gradient):
            leave("a hook gives no gradient that fits")
        if not stop.cuts:
            tracer.cut(watch.ordinal)
        assert isinstance(changed, TensorVariable)
        gradient = changed
        group = gradient.value.alias_group
    return gradient
