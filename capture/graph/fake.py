"""Holds the adapter to torch's fake tensors; must not know graphs.

The only module that knows ``torch._subclasses``. Checked on torch 2.13 and 2.14. The first fake
operator makes torch import much; ``sample`` is tried first.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
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

from capture.graph.recording import Recording
from capture.graph.sample import place_in_autograd, quiet
from capture.graph.tensor_meta import CannotPropagate, TensorMeta

__all__ = ["make_fake", "reason_of", "running"]


class _RecordingMode(FakeTensorMode):
    """A fake tensor mode that notes which ATen operators run."""

    recording: Recording | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator would import torch's own frontend

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] = {},
    ) -> object:
        recording = self.recording
        if recording is None:
            return super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        # operators that a decomposition calls come through here as well: only the outermost count
        self.recording = None
        try:
            recording.note(func, args, dict(kwargs or {}))
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.recording = recording


_log = logging.getLogger("torch._subclasses.fake_tensor")
_mode: _RecordingMode | None = None


def is_loaded() -> bool:
    """Tell whether fake tensors have been used before, so that they are cheap."""
    return _mode is not None


def _the_mode() -> _RecordingMode:
    global _mode
    if _mode is None:
        _mode = _RecordingMode(allow_fallback_kernels=False, allow_non_fake_inputs=False)
    return _mode


def make_fake(meta: TensorMeta) -> torch.Tensor:
    """Make a fake tensor with the given metadata."""
    if meta.is_inference != torch.is_inference_mode_enabled():
        with torch.inference_mode(meta.is_inference):
            return make_fake(meta)
    tensor = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
    return place_in_autograd(FakeTensor(_the_mode(), tensor, meta.device), meta)


@contextmanager
def running(recording: Recording) -> Iterator[None]:
    """Run the ``with`` block under the fake mode, quietly, and record what runs."""
    mode = _the_mode()
    was_disabled = _log.disabled
    _log.disabled = True  # failures are ours to report
    mode.recording = recording
    try:
        with quiet(), mode:
            yield
    finally:
        mode.recording = None
        _log.disabled = was_disabled


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
    if isinstance(error, UnsupportedFakeTensorException | UnsupportedMutationAliasingException):
        return f"metadata cannot be propagated: {error}"
    shapes = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if shapes is not None and isinstance(error, shapes.GuardOnDataDependentSymNode):
        return "the result depends on data"
    return None
