"""Holds the comparison that the tests of the graph rest on: capture a call, run it, compare."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from capture.graph import OperatorError, OutputGraph, TensorMeta, TensorValue, meta_of

Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]


def plain(meta: TensorMeta) -> TensorMeta:
    """Return ``meta`` without the class: results are plain tensors."""
    return meta._replace(cls=torch.Tensor)


class Pair:
    """A graph being captured and, in step with it, eager execution of the same calls."""

    def __init__(self) -> None:
        self.graph = OutputGraph("test")
        self.pairs: list[tuple[TensorValue, torch.Tensor]] = []
        self.real: dict[int, torch.Tensor] = {}

    def input(self, tensor: torch.Tensor) -> TensorValue:
        """Make ``tensor`` an input of both."""
        value = self.graph.add_input("x", tensor, len(self.pairs))
        self._bind(value, tensor)
        return value

    def _bind(self, value: TensorValue, tensor: torch.Tensor) -> None:
        self.pairs.append((value, tensor))
        self.real[id(value)] = tensor

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a call in both and compare; a string names a method."""
        kind = "call_method" if isinstance(target, str) else "call_function"
        real_args, real_kwargs = pytree.tree_map_only(
            TensorValue, lambda value: self.real[id(value)], (args, kwargs)
        )

        def eager() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if kind == "call_method":
                    return getattr(real_args[0], target)(*real_args[1:], **real_kwargs)
                return target(*real_args, **real_kwargs)

        try:
            result = self.graph.call(kind, target, args, kwargs)
        except OperatorError as error:
            same_exception(eager, error.original_exception)
            raise
        self.compare(result, eager())
        return result

    def compare(self, result: Any, real: Any) -> None:
        """Compare a result, and all tensors so far, with eager's."""
        left, left_spec = pytree.tree_flatten(result)
        right, right_spec = pytree.tree_flatten(real)
        assert left_spec == right_spec
        for value, tensor in zip(left, right, strict=True):
            if not isinstance(tensor, torch.Tensor):
                assert type(value) is type(tensor)
                assert value == tensor or value != value
                continue
            assert isinstance(value, TensorValue)
            for known_value, known in self.pairs:
                assert (known_value is value) == (known is tensor), "identity"
                if known.numel() and tensor.numel():
                    shared = known.untyped_storage()._cdata == tensor.untyped_storage()._cdata
                    assert (known_value.alias_group == value.alias_group) == shared, "memory"
            if id(value) not in self.real:
                self._bind(value, tensor)
        for value, tensor in self.pairs:
            assert plain(value.meta) == plain(meta_of(tensor))


def same_exception(eager: Callable[[], Any], expected: BaseException) -> None:
    """Check that ``eager`` raises just ``expected``."""
    with pytest.raises(type(expected)) as caught:
        eager()
    assert type(caught.value) is type(expected)
    assert str(caught.value) == str(expected)
