"""Holds what of a program's inputs is symbolic: what was seen to change, the user's marks, options.

Must not know the interpreter or the cache; a site's ``Seen`` is kept by its history.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import Any

import torch

from capture import logs
from capture.config import settings as config
from capture.errors import UserError
from capture.guards.guard import Guard
from capture.guards.kinds import Equals
from capture.guards.torch_kinds import TensorFacts, TensorMatch
from capture.sources import DictItemSource, ItemSource, LocalSource, Scope, Source, UnreadableError
from capture.variables.base import SizePlan

__all__ = ["Policy", "Seen", "is_count"]

_log = logs.artifact("dynamic")


@dataclass
class Seen:
    """What a site has seen to change from call to call.

    Attributes:
        numbers: ints and floats.
        carried: numbers that change from round to round of a loop, once something did change.
        sizes: dimensions of tensors.
        strides: dimensions whose strides changed though the sizes did not.
    """

    numbers: set[Source] = field(default_factory=set)
    carried: set[Source] = field(default_factory=set)
    sizes: dict[Source, set[int]] = field(default_factory=dict)
    strides: dict[Source, set[int]] = field(default_factory=dict)

    def learn(self, guards: list[Guard], scope: Scope) -> None:
        """Note everything at once that is not what the guards of an entry demand."""
        self.numbers |= self.carried
        for guard in guards:
            if isinstance(guard, Equals):
                if type(guard.value) in (int, float) and guard.source not in self.numbers:
                    if not guard.check(scope):
                        _log.info("%s varies: %s", guard.source, guard.explain(scope))
                        self.numbers.add(guard.source)
            elif isinstance(guard, TensorMatch) and not guard.check(scope):
                self._learn_tensor(guard, scope)

    def _learn_tensor(self, guard: TensorMatch, scope: Scope) -> None:
        source, facts = guard.source, guard.facts
        try:
            value = source.read(scope)
        except UnreadableError:
            return
        if type(value) is not facts.cls or not isinstance(value, torch.Tensor):
            return
        if type(value) is torch.nn.Parameter or len(facts.shape) != value.dim():
            return
        new = TensorFacts.of(value)
        if not new.plain or new.strides is None:
            return
        sizes = {
            i
            for i, (old, n) in enumerate(zip(facts.shape, new.shape, strict=True))
            if old is not None and old != n
        }
        if sizes:
            _log.info("%s varies: %s", source, guard.explain(scope))
            self.sizes.setdefault(source, set()).update(sizes)
            return
        if facts.strides is not None and not facts.contiguous:
            strides = {
                i
                for i, (old, n) in enumerate(zip(facts.strides, new.strides, strict=True))
                if old is not None and n is not None and old != n and min(old, n) > 1
            }
            if strides:
                self.strides.setdefault(source, set()).update(strides)


class Policy:
    """Decides what is symbolic at one site.

    Args:
        dynamic: the option of ``capture.compile``: True for all sizes of arguments, False for none
            but what is marked, None for what was seen to change.
        static: the backend takes static sizes only, whatever is marked.
        seen: what the site has seen; marks are noted there, so that they last.
    """

    def __init__(self, dynamic: bool | None, seen: Seen, *, static: bool = False) -> None:
        self.dynamic = dynamic
        self.static = static
        self.seen = seen

    def number(self, source: Source, value: object) -> bool:
        """Tell whether an int or float is an input of the graph."""
        if source in self.seen.numbers:
            return True
        if self.dynamic and type(source) is LocalSource and type(value) in (int, float):
            return not source.name.startswith("<")
        return _matches(source)

    def sizes(self, source: Source, value: torch.Tensor) -> SizePlan | None:
        """Say what of a tensor is symbolic; None if nothing is.

        Raises:
            UserError: if a dimension is marked that cannot vary.
        """
        if self.static:
            return None
        marks = _Marks.of(value)
        shape = tuple(value.shape)
        if 0 in shape and not marks.dynamic:
            return None
        wanted = set(self.seen.sizes.get(source, ()))
        if _matches(source) or (self.dynamic and _is_argument(source)):
            if type(value) is not torch.nn.Parameter:
                wanted.update(range(len(shape)))
        wanted |= marks.maybe | marks.dynamic
        wanted -= marks.static
        for i in marks.dynamic:
            if shape[i] < 2:
                raise UserError(
                    f"dimension {i} of {source.name} is marked dynamic, but has size {shape[i]} in "
                    "the first call: sizes 0 and 1 are always specialised. Call with a larger one "
                    "first, or use capture.maybe_mark_dynamic."
                )
        if marks.dynamic | marks.maybe:
            self.seen.sizes.setdefault(source, set()).update(marks.dynamic | marks.maybe)
        # what was seen may have been of a tensor of a higher rank
        rank = len(shape)
        sizes = frozenset(i for i in wanted if i < rank and shape[i] > 1)
        strides = frozenset(i for i in self.seen.strides.get(source, ()) if i < rank)
        if not sizes and not strides:
            return None
        return SizePlan(sizes, strides, marks.bounds, frozenset(marks.dynamic))


def is_count(source: Source, value: object) -> bool:
    """True for an int in the state of an optimizer: a count, so the next call changes it."""
    if type(value) is not int:
        return False
    step = source.parent if isinstance(source, DictItemSource) else None
    while step is not None:
        if isinstance(step, DictItemSource) and step.key == "state":
            return True
        step = step.parent
    return False


def _is_argument(source: Source) -> bool:
    """True for what is passed in, also inside of containers, and not reached through an object."""
    step: Source | None = source
    while step is not None:
        if isinstance(step, LocalSource):
            return True
        if not isinstance(step, (ItemSource, DictItemSource)):
            return False
        step = step.parent
    return False


def _matches(source: Source) -> bool:
    """Tell whether the setting ``dynamic_sources`` names a source."""
    patterns = config.dynamic_sources
    if not patterns:
        return False
    return any(fnmatch.fnmatchcase(source.name, p.strip()) for p in patterns.split(","))


@dataclass
class _Marks:
    """What users marked on a tensor, by this package's functions or by torch's own."""

    dynamic: set[int]
    maybe: set[int]
    static: set[int]
    bounds: dict[int, tuple[int | None, int | None]]

    @classmethod
    def of(cls, tensor: Any) -> _Marks:
        def indices(name: str) -> set[int]:
            found = attributes.get(name) or ()
            return {i % rank for i in found if -rank <= i < rank}

        attributes = getattr(tensor, "__dict__", None) or {}
        rank = tensor.dim()
        if not attributes:
            return cls(set(), set(), set(), {})
        bounds: dict[int, tuple[int | None, int | None]] = {}
        for each in attributes.get("_dynamo_dynamic_range") or ():
            bounds[each.dim] = (each.min, each.max)
        bounds.update(attributes.get("_capture_bounds") or {})
        return cls(
            indices("_dynamo_dynamic_indices"),
            indices("_dynamo_weak_dynamic_indices"),
            indices("_dynamo_static_indices"),
            bounds,
        )
