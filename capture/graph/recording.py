"""Holds the record of the ATen operators that one propagated call came down to.

Must not know whether the operators run on fake or on real tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from capture.graph.op_rules import RAISING_ON_INTEGERS
from capture.graph.tensor_meta import CannotPropagate

__all__ = ["Decisions", "Recording", "decides"]

_MOST_QUESTIONS = 8

# a probability out of range makes these raise
_RAISING_ON_TENSORS = frozenset({"bernoulli_"})
# their schemas do not say that running statistics are updated; positions: mean, var, training
_NORMS_WITH_STATISTICS = {
    "aten::native_batch_norm": (3, 4, 5),
    "aten::cudnn_batch_norm": (3, 4, 5),
    "aten::miopen_batch_norm": (3, 4, 5),
}


class Decisions:
    """The answers to the yes-or-no questions about data that a call asks on its way.

    Runs that answer in all possible ways show what the call does whatever the data is.
    """

    def __init__(self) -> None:
        self.answers: list[bool] = []
        self._asked = 0

    def ask(self) -> bool:
        """Answer the next question of this run."""
        if self._asked == _MOST_QUESTIONS:
            raise CannotPropagate("a call that asks much about data")
        if self._asked == len(self.answers):
            self.answers.append(True)
        self._asked += 1
        return self.answers[self._asked - 1]

    def again(self) -> None:
        """Start the same run again."""
        self._asked = 0

    def another(self) -> bool:
        """Go on to the next way to answer; False if there is none."""
        del self.answers[self._asked :]
        self._asked = 0
        while self.answers and not self.answers[-1]:
            self.answers.pop()
        if self.answers:
            self.answers[-1] = False
        return bool(self.answers)


def decides(func: Any, args: Sequence[Any]) -> bool:
    """Tell whether an operator gives a Python bool that depends on data."""
    if torch.Tag.data_dependent_output not in func.tags:
        return False
    if func._schema.name == "aten::_local_scalar_dense":
        return bool(args[0].dtype is torch.bool)
    return [str(given.type) for given in func._schema.returns] == ["bool"]


_BY_MASK = frozenset(("index_put", "index_put_", "_index_put_impl_"))


class Recording:
    """What is noted of each operator before it runs.

    Attributes:
        names: qualified names such as ``aten::add``.
        uses_rng: whether one of them draws random numbers.
        depends_on_data: the first operator whose result's shape or value depends on data.
        asks: whether that operator's result is a bool.
        checks: whether numbers are read out of tensors only to be checked.
        failed: whether an operator raised, rather than what called it.
        written: storages written to, as ``untyped_storage()._cdata``.
        before_rng: called once, before the first operator that draws random numbers.
    """

    def __init__(self, checks: bool = False) -> None:
        self.names: set[str] = set()
        self.checks = checks
        self.uses_rng = False
        self.depends_on_data: str | None = None
        self.asks = False
        self.failed = False
        self.written: set[int] = set()
        self.before_rng: Callable[[], None] | None = None

    def note(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Note one operator."""
        schema = func._schema
        name = schema.name
        base = name.removeprefix("aten::")
        if base in _BY_MASK and _only_masks(args):
            self.names.add("aten::add")  # what was broadcast to a mask's shape always fits
        elif base in RAISING_ON_INTEGERS and _floating(args):
            self.names.add("aten::add")  # on floats these cannot raise
        elif base in _RAISING_ON_TENSORS and not _has_tensor(args[1:]):
            self.names.add("aten::uniform")  # a Python number is checked when the call is captured
        else:
            self.names.add(name)
        # by equality: the members of a func's tags are not always the same objects
        tags = func.tags
        if torch.Tag.nondeterministic_seeded in tags:
            if not self.uses_rng and self.before_rng is not None:
                self.before_rng()
            self.uses_rng = True
        if self.checks and name == "aten::_local_scalar_dense":
            return
        if self.depends_on_data is None and (
            torch.Tag.data_dependent_output in tags
            or (torch.Tag.dynamic_output_shape in tags and (base != "index" or _has_mask(args)))
        ):
            self.depends_on_data = name
            self.asks = decides(func, args)
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


def _only_masks(args: Sequence[Any]) -> bool:
    """Tell whether one number is written where masks say so; the shapes are checked anyway."""
    return args[2].numel() == 1 and all(
        index is None or (isinstance(index, torch.Tensor) and index.dtype is torch.bool)
        for index in args[1]
    )


def _has_mask(args: Sequence[Any]) -> bool:
    return any(
        isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)
        for index in args[1]
    )


def _has_tensor(args: Sequence[Any]) -> bool:
    return any(isinstance(arg, torch.Tensor) for arg in args)
