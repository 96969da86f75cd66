"""Holds the adapter to torch's fake tensors and their stand-ins, small real tensors.

The only module that knows ``torch._subclasses``; imported at the first propagation that needs it,
because it is heavy. Checked on torch 2.13 and 2.14. Must not know graphs.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)

from capture.graph.op_rules import RAISING_ON_INTEGERS
from capture.graph.tensor_meta import CannotPropagate, TensorMeta

__all__ = ["Recording", "make_fake", "make_real", "reason_of", "running"]


class _RecordingMode(FakeTensorMode):
    """A fake tensor mode that notes which ATen operators ran, and on what."""

    def __init__(self) -> None:
        super().__init__(allow_fallback_kernels=False, allow_non_fake_inputs=False)
        self.recording: Recording | None = None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        recording = self.recording
        if recording is None:
            return super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        # operators that a decomposition calls come through here as well: only the outermost count
        self.recording = None
        try:
            recording.note(func, args, kwargs or {})
            return super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        finally:
            self.recording = recording


class Recording:
    """The ATen operators that one call came down to.

    Attributes:
        names: overload packet names such as ``aten::add``.
        uses_rng: whether one of them draws random numbers.
        written: storages written to, as ``untyped_storage()._cdata``.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.uses_rng = False
        self.written: set[int] = set()

    def note(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Note one operator."""
        schema = func._schema
        name = schema.name
        if not (name[6:] in RAISING_ON_INTEGERS and name.startswith("aten::") and _floating(args)):
            self.names.add(name)
        else:
            self.names.add(_HARMLESS)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.uses_rng = True
        if schema.is_mutable:
            for position, argument in enumerate(schema.arguments):
                if argument.is_write:
                    value = (
                        args[position]
                        if position < len(args) and not argument.kwarg_only
                        else kwargs.get(argument.name)
                    )
                    self._write(value)
        elif name in _NORMS_WITH_STATISTICS and len(args) > 5 and args[5]:
            # their schemas do not say that running statistics are updated
            self._write(args[3])
            self._write(args[4])

    def _write(self, value: object) -> None:
        if isinstance(value, torch.Tensor):
            self.written.add(value.untyped_storage()._cdata)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._write(item)


_NORMS_WITH_STATISTICS = frozenset(
    {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"}
)

_torch_log = logging.getLogger("torch._subclasses.fake_tensor")
_HARMLESS = "aten::add"  # stands for operators on floats that would raise on integers only


def _floating(args: Sequence[Any]) -> bool:
    return any(
        isinstance(arg, torch.Tensor) and (arg.is_floating_point() or arg.is_complex())
        for arg in args
    )


_mode: _RecordingMode | None = None


def mode() -> _RecordingMode:
    """Return the one fake tensor mode of the process."""
    global _mode
    if _mode is None:
        _mode = _RecordingMode()
    return _mode


def make_fake(meta: TensorMeta) -> torch.Tensor:
    """Make a fake tensor, not a view of anything, with the given metadata."""
    if meta.is_inference != torch.is_inference_mode_enabled():
        with torch.inference_mode(meta.is_inference):
            return make_fake(meta)
    meta_tensor = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
    result: torch.Tensor = FakeTensor(mode(), meta_tensor, meta.device)
    return _finish(result, meta)


def make_real(meta: TensorMeta) -> torch.Tensor:
    """Make a real tensor with the given metadata; floats are one, all else is zero."""
    if meta.is_inference != torch.is_inference_mode_enabled():
        with torch.inference_mode(meta.is_inference):
            return make_real(meta)
    result = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device=meta.device)
    storage = result.untyped_storage()
    if meta.dtype.is_floating_point and storage.nbytes():
        with torch.no_grad():
            torch.empty(0, dtype=meta.dtype, device=meta.device).set_(storage).fill_(1)
    else:
        storage.fill_(0)
    if meta.cls is torch.nn.Parameter and meta.is_leaf:
        return torch.nn.Parameter(result, meta.requires_grad)
    return _finish(result, meta)


def _finish(tensor: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """Give ``tensor`` the conjugate and negative bits and the place in autograd's graph."""
    if meta.is_conj:
        tensor = tensor.conj()
    if meta.is_neg:
        tensor = tensor._neg_view()
    if meta.requires_grad:
        tensor.requires_grad_(True)
        if meta.has_grad_fn:
            # the cheapest operator that gives a non-leaf with the same strides and no base
            with torch.enable_grad():
                tensor = torch._C._functions.DelayedError("", 1)(tensor)
    return tensor


@contextmanager
def running(recording: Recording) -> Iterator[None]:
    """Run the ``with`` block under the fake mode, quietly, and record what runs."""
    fake_mode = mode()
    # Inserted by hand: warnings.catch_warnings would make warnings that were shown show again.
    quiet: Any = ("ignore", None, Warning, None, 0)
    warnings.filters.insert(0, quiet)  # type: ignore[attr-defined]
    fake_mode.recording = recording
    was_disabled = _torch_log.disabled
    _torch_log.disabled = True  # failures are ours to report
    try:
        with fake_mode:
            yield
    finally:
        fake_mode.recording = None
        _torch_log.disabled = was_disabled
        if quiet in warnings.filters:
            warnings.filters.remove(quiet)  # type: ignore[attr-defined]


def reason_of(error: BaseException) -> str | None:
    """Say why the metadata cannot be known, or None if ``error`` is the operator's own."""
    if isinstance(error, CannotPropagate):
        return error.reason
    if isinstance(error, DynamicOutputShapeException):
        return f"the shape of {error.func}'s result depends on data"
    if isinstance(error, DataDependentOutputException):
        return f"the value of {error.func} is a Python number that depends on data"
    if isinstance(error, UnsupportedOperatorException):
        return f"{error.func} has no rule for metadata"
    if isinstance(error, (UnsupportedFakeTensorException, UnsupportedMutationAliasingException)):
        return f"metadata cannot be propagated: {error}"
    experimental = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if experimental is not None and isinstance(error, experimental.GuardOnDataDependentSymNode):
        return "the result depends on data"
    return None


def eager_exception(
    function: Callable[[], object], small: bool, device_types: set[str]
) -> BaseException | None:
    """Run ``function`` for real and return what it raises, or None if it cannot be told."""
    if not small or not device_types <= {"cpu"}:
        return None
    rng_state = torch.random.default_generator.get_state()
    quiet: Any = ("ignore", None, Warning, None, 0)
    warnings.filters.insert(0, quiet)  # type: ignore[attr-defined]
    try:
        function()
    except Exception as error:
        error.__traceback__ = None
        error.__context__ = None
        return error
    finally:
        torch.random.default_generator.set_state(rng_state)
        if quiet in warnings.filters:
            warnings.filters.remove(quiet)  # type: ignore[attr-defined]
    return None
