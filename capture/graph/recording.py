"""Holds the record of the ATen operators that one propagated call came down to.

Must not know whether the operators run on fake or on real tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from capture.graph.op_rules import RAISING_ON_INTEGERS

__all__ = ["Recording"]

# their schemas do not say that running statistics are updated; positions: mean, var, training
_NORMS_WITH_STATISTICS = {
    "aten::native_batch_norm": (3, 4, 5),
    "aten::cudnn_batch_norm": (3, 4, 5),
    "aten::miopen_batch_norm": (3, 4, 5),
}


class Recording:
    """What is noted of each operator before it runs.

    Attributes:
        names: qualified names such as ``aten::add``.
        uses_rng: whether one of them draws random numbers.
        depends_on_data: the first operator whose result's shape or value depends on data.
        written: storages written to, as ``untyped_storage()._cdata``.
        before_rng: called once, before the first operator that draws random numbers.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.uses_rng = False
        self.depends_on_data: str | None = None
        self.written: set[int] = set()
        self.before_rng: Callable[[], None] | None = None

    def note(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Note one operator."""
        schema = func._schema
        name = schema.name
        base = name.removeprefix("aten::")
        if base not in RAISING_ON_INTEGERS or not _floating(args):
            self.names.add(name)
        else:
            self.names.add("aten::add")  # on floats these cannot raise
        # by equality: the members of a func's tags are not always the same objects
        tags = func.tags
        if torch.Tag.nondeterministic_seeded in tags:
            if not self.uses_rng and self.before_rng is not None:
                self.before_rng()
            self.uses_rng = True
        if self.depends_on_data is None and (
            torch.Tag.data_dependent_output in tags
            or (torch.Tag.dynamic_output_shape in tags and (base != "index" or _has_mask(args)))
        ):
            self.depends_on_data = name
        if schema.is_mutable:
            for position, argument in enumerate(schema.arguments):
                if argument.is_write:
                    self._write(
                        args[position]
                        if position < len(args) and not argument.kwarg_only
                        else kwargs.get(argument.name)
                    )
        elif name in _NORMS_WITH_STATISTICS:
            *statistics, training = (args[n] for n in _NORMS_WITH_STATISTICS[name])
            if training:
                self._write(statistics)

    def _write(self, value: object) -> None:
        if isinstance(value, torch.Tensor):
            self.written.add(value.untyped_storage()._cdata)
        elif isinstance(value, list | tuple):
            for item in value:
                self._write(item)


def _floating(args: Sequence[Any]) -> bool:
    return any(
        isinstance(arg, torch.Tensor) and (arg.is_floating_point() or arg.is_complex())
        for arg in args
    )


def _has_mask(args: Sequence[Any]) -> bool:
    return any(
        isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)
        for index in args[1]
    )
