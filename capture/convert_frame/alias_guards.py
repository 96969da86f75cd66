"""Holds the guards that two names in the piece stay names of two things."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from capture.errors import SkipFrame
from capture.guards.kinds import AllDistinct, ExprHolds, IsNotSame
from capture.sources import DictItemSource, InstanceDictSource, Source
from capture.symbolic_convert.translator import Translator
from capture.variables.base import Variable
from capture.variables.containers import DictVariable, ListVariable, SetVariable
from capture.variables.functions import CellVariable, FunctionVariable, IteratorVariable
from capture.variables.objects import ClassVariable, ModuleVariable, ObjectVariable
from capture.variables.tensor import TensorVariable

__all__ = ["guard_aliases"]


def guard_aliases(tracer: Translator) -> None:
    """What is written to through one name must not be reached through another one later."""
    _guard_gradients(tracer)
    if len(tracer.keys_used) > 1:
        tracer.guard(AllDistinct(tuple(tracer.keys_used)))
    for source in tracer.graph.no_views:
        assert isinstance(source, Source)
        tracer.guard(ExprHolds((source,), is_no_view, f"{source.name} is no view"))
    changed = [v for v in tracer.effects.changed_objects() if v.source is not None]
    if not changed:
        return
    others = [
        v
        for v in tracer.identity.values()
        if v.source is not None
        and isinstance(
            v,
            (
                ListVariable,
                DictVariable,
                SetVariable,
                ObjectVariable,
                CellVariable,
                IteratorVariable,
            ),
        )
        and not isinstance(v, (ClassVariable, ModuleVariable, FunctionVariable))
    ]
    for v in changed:
        for other in others:
            if other is not v and v.python_type() is other.python_type():
                assert v.source is not None
                assert other.source is not None
                if _may_alias(v.source, other.source):
                    tracer.guard(IsNotSame(v.source, other.source))
    _guard_instance_dicts(tracer, others)


def _guard_gradients(tracer: Translator) -> None:
    """Where some ``grad`` is written, the tensors whose ``grad`` was used stay different."""
    if any(effect.kind == "grad" for effect in tracer.effects.journal):
        sources = [
            v.source
            for v in tracer.tensors.values()
            if isinstance(v, TensorVariable) and v.source is not None and v.grad is not None
        ]
        if len(sources) > 1:
            tracer.guard(AllDistinct(tuple(sources)))


def _guard_instance_dicts(tracer: Translator, others: Sequence[Variable]) -> None:
    """A dict passed in may be the ``__dict__`` of an object: two names for one thing."""
    journal = tracer.effects.journal
    names = {
        id(e.target): e.target for e in journal if e.kind == "attr" or e.kind.startswith("dict")
    }
    keys = {e.key for e in journal if type(e.key) is str}
    for v in others:
        if type(v) is not DictVariable or v.cls is not dict or _is_attribute(v.source):
            continue
        for other in others:
            if isinstance(other, DictVariable) or not isinstance(other, ObjectVariable):
                continue
            real = other.real_dict()
            if real is None or not (id(v) in names or id(other) in names):
                continue
            if real is v.value:
                raise SkipFrame("an object and its __dict__ are reached by two ways")
            if not keys.isdisjoint(real) and v.source is not None and other.source is not None:
                tracer.guard(IsNotSame(InstanceDictSource(other.source), v.source))


def is_no_view(tensor: torch.Tensor) -> bool:
    """True for a tensor that is no view of another one."""
    return not tensor._is_view()


def _is_attribute(source: Source | None) -> bool:
    return isinstance(source, InstanceDictSource) or (
        isinstance(source, DictItemSource) and isinstance(source.parent, InstanceDictSource)
    )


def _may_alias(first: Source, second: Source) -> bool:
    """False if one source lies within the other: a part is not the whole."""
    for inner, outer in ((first, second), (second, first)):
        step: Source | None = inner
        while step is not None:
            if step == outer:
                return False
            step = step.parent
    return True
