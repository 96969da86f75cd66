"""Holds process groups of ``torch.distributed``: what never changes about one is a constant.

A group is guarded by identity; its ranks, size and name belong to it for good. Whatever
communicates is left to Python, but for functional collectives, which are operators of the graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds, IdIs
from capture.sources import Source
from capture.variables.attributes.lookup import generic_getattr, register_getattr
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.objects import ObjectVariable

__all__ = [
    "RESOLVE",
    "ProcessGroupVariable",
    "is_process_group",
    "resolve_name",
    "wrap_process_group",
]

_AVAILABLE = torch.distributed.is_available()
#: Torch's function from a group's name to the group.
RESOLVE: Callable[[str], Any] | None = getattr(
    getattr(torch._C, "_distributed_c10d", None), "_resolve_process_group", None
)
_CONSTANTS = frozenset(("group_name", "group_desc"))
_CONSTANT_METHODS = frozenset(("rank", "size", "name", "__hash__"))


def is_process_group(kind: type) -> bool:
    """Tell whether instances of a type are process groups made by torch's native code."""
    return (
        _AVAILABLE
        and issubclass(kind, torch.distributed.ProcessGroup)
        and kind.__module__ == torch.distributed.ProcessGroup.__module__
    )


class ProcessGroupVariable(ObjectVariable):
    """A process group, known by identity."""

    __slots__ = ()


def wrap_process_group(
    tracer: Tracer, kind: type, value: Any, source: Source
) -> ProcessGroupVariable:
    """Return the variable of a group, guarded."""
    tracer.guard(IdIs(source, value))
    return ProcessGroupVariable(kind, value, source)


def resolve_name(
    tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]
) -> ProcessGroupVariable:
    """Return the group of a name, guarded: after ``destroy_process_group`` it may be another."""
    name = args[0].realize(tracer) if len(args) == 1 and not kwargs else None
    if not isinstance(name, ConstantVariable) or type(name.value) is not str or RESOLVE is None:
        unsupported(reasons.UNKNOWN_CALLABLE, "_resolve_process_group")
    try:
        group = RESOLVE(name.value)
    except Exception as error:
        tracer.raise_real(error)
    text = f"the process group {name.value!r} is the same"
    tracer.guard(ExprHolds((), _Resolves(name.value, weakref.ref(group)), text))
    return ProcessGroupVariable(type(group), group)


@dataclass(frozen=True)
class _Resolves:
    """Whether a name still belongs to the group."""

    name: str
    group: weakref.ref[Any]

    def __call__(self) -> bool:
        assert RESOLVE is not None
        return RESOLVE(self.name) is self.group()


def _getattr(tracer: Tracer, group: ProcessGroupVariable, name: str) -> Variable:
    if name in _CONSTANTS:
        return tracer.wrap_static(getattr(group.value, name), None)
    if name in _CONSTANT_METHODS:
        return tracer.wrap_static(_gives(getattr(group.value, name)()), None)
    return generic_getattr(tracer, group, name)


def _gives(constant: object) -> Callable[[], object]:
    def method() -> object:
        return constant

    return method


register_getattr(ProcessGroupVariable, _getattr)
