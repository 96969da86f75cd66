"""Holds what the AOT stage asks of operators that are not torch's own; must not know the trace.

Without a formula autograd lets such an operator's kernel run as it is, with a warning, and what its
parts record there is eager's gradient: a trace sees the operator only, and would find no gradient.
And an operator whose result nobody uses may still do something that others wait for, as a
collective does: a trace would leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx

__all__ = ["reason_against"]

_KNOWN = frozenset(("aten", "prim", "prims"))
_FORMULAS = ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd")


def reason_against(gm: fx.GraphModule, needs_gradient: bool) -> str | None:
    """Return why a graph of torch calls must not be traced, None if nothing speaks against it."""
    live: set[fx.Node] = set()
    for node in reversed(gm.graph.nodes):
        overloads = [each for each in _overloads(node.target) if each.namespace not in _KNOWN]
        if node.op == "output" or node in live:
            live.update(node.all_input_nodes)
        elif overloads:
            return f"nobody uses the result of {overloads[0]}"
        if needs_gradient:
            for each in overloads:
                if _makes_tensors(each) and not _has_formula(each):
                    return f"autograd has no formula for {each}"
    return None


def _overloads(target: object) -> Iterable[torch._ops.OpOverload]:
    if isinstance(target, torch._ops.OpOverload):
        return (target,)
    if isinstance(target, torch._ops.OpOverloadPacket):
        names: list[str] = target.overloads()  # type: ignore[no-untyped-call]
        return [getattr(target, name) for name in names]
    return ()


def _makes_tensors(overload: torch._ops.OpOverload) -> bool:
    return any("Tensor" in str(result.type) for result in overload._schema.returns)


def _has_formula(overload: torch._ops.OpOverload) -> bool:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name: str = overload.name()  # type: ignore[no-untyped-call]
    return any(has_kernel(name, key) for key in _FORMULAS)
