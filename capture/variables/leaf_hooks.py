"""Holds hooks on the leaves that a backward call in the graph reaches.

They are code of the program that autograd would call, one leaf after the other as their gradients
arrive; here they are executed behind the node that gives all gradients. What they do to the program
is done in eager's order; a hook that cannot be captured leaves the whole call to Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from capture.graph.tensor_meta import CannotPropagate
from capture.guards.kinds import Equals, IsEmpty
from capture.sources import AttrSource
from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.constant import ConstantVariable, boolean
from capture.variables.containers import DictVariable
from capture.variables.functions import BuiltinVariable
from capture.variables.gradients import is_none, read_grad, store_grad
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

__all__ = ["LeafHooks", "accumulate", "arrivals", "fits", "hooks_of", "set_grad_mode"]

_BEFORE, _AFTER = "_backward_hooks", "_post_accumulate_grad_hooks"
_NEW = BuiltinVariable(torch.empty_like)


class LeafHooks:
    """The hooks of one leaf: on its gradient, and behind its accumulation."""

    __slots__ = ("after", "before")

    def __init__(self, before: list[Variable], after: list[Variable]) -> None:
        self.before = before
        self.after = after

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


def hooks_of(tracer: Tracer, leaf: TensorVariable) -> LeafHooks:
    """The hooks of a leaf, guarded."""
    real = tracer.real_value(leaf)
    if real is MISSING or leaf.source is None:
        return LeafHooks([], [])
    return LeafHooks(_listed(tracer, leaf, real, _BEFORE), _listed(tracer, leaf, real, _AFTER))


def _listed(tracer: Tracer, leaf: TensorVariable, real: Any, name: str) -> list[Variable]:
    hooks = getattr(real, name)
    assert leaf.source is not None
    source = AttrSource(leaf.source, name)
    if hooks is None:
        tracer.guard(Equals(source, None))
        return []
    if not hooks:
        tracer.guard(IsEmpty(source, True))
        return []
    found = tracer.wrap(hooks, source).realize(tracer)
    assert isinstance(found, DictVariable)
    return [hook for _, hook in found.load(tracer).values()]


def arrivals(
    tracer: Tracer,
    outputs: list[TensorVariable],
    grad_outputs: list[TensorVariable | None],
    leaves: list[TensorVariable],
    hooks: Sequence[LeafHooks],
) -> list[int] | None:
    """The order in which gradients reach the leaves; None if it cannot be told."""
    if sum(map(bool, hooks)) < 2:
        return list(range(len(leaves)))
    try:
        return tracer.graph.arrivals(
            [v.value for v in outputs],
            [None if v is None else v.value for v in grad_outputs],
            [v.value for v in leaves],
        )
    except CannotPropagate:
        return None


def accumulate(
    tracer: Tracer,
    leaves: list[tuple[TensorVariable, TensorVariable, LeafHooks]],
    leave: Callable[[str], NoReturn],
) -> None:
    """Do to the leaves, in this order, what a backward call does with their gradients."""
    hooked = any(hooks for _, _, hooks in leaves)
    grad_mode = tracer.graph.state.grad_enabled
    if hooked and grad_mode:
        set_grad_mode(tracer, False)
    for leaf, gradient, hooks in leaves:
        _accumulate(tracer, leaf, gradient, hooks, leave)
    if hooked and tracer.graph.state.grad_enabled != grad_mode:
        set_grad_mode(tracer, grad_mode)


def set_grad_mode(tracer: Tracer, enabled: bool) -> None:
    """Switch grad mode: hooks run with it off."""
    tracer.call(tracer.wrap_static(torch.set_grad_enabled, None), [boolean(enabled)], {})


def _accumulate(
    tracer: Tracer,
    leaf: TensorVariable,
    gradient: TensorVariable,
    hooks: LeafHooks,
    leave: Callable[[str], NoReturn],
) -> None:
    for hook in hooks.before:
        changed = tracer.call(hook, [gradient], {}).realize(tracer)
        if is_none(changed):
            continue
        if not isinstance(changed, TensorVariable) or not fits(changed, gradient):
            leave("a hook gives no gradient that fits")
        gradient = changed
    grad = read_grad(tracer, leaf)
    if not is_none(grad):
        tracer.graph_call("call_method", "add_", [grad, gradient], {})
    else:
        store_grad(tracer, leaf, _own(tracer, leaf, gradient) if hooks.before else gradient)
    for hook in hooks.after:
        if not is_none(tracer.call(hook, [leaf], {}).realize(tracer)):
            leave("a hook gives something back")


def _own(tracer: Tracer, leaf: TensorVariable, gradient: TensorVariable) -> Variable:
    """A gradient that no hook has kept."""
    detached = ConstantVariable(False)
    copy = tracer.call(_NEW, [leaf], {"requires_grad": detached})
    return tracer.graph_call("call_method", "copy_", [copy, gradient], {})


def fits(changed: Variable, gradient: TensorVariable) -> bool:
    """True if autograd takes what a hook gave in place of the gradient it was given."""
    if not isinstance(changed, TensorVariable):
        return False
    have, want = changed.meta, gradient.meta
    if not have.is_plain or have.requires_grad:
        return False
    return (have.shape, have.dtype, have.device) == (want.shape, want.dtype, want.device)
