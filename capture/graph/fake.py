"""Holds the adapter to torch's fake tensors; must not know graphs.

The only module that knows ``torch._subclasses``. Checked on torch 2.13 and 2.14. The first fake
operator makes torch import much; ``sample`` is tried first.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from capture import logs
from capture.graph.fake_convolution import BATCHED, without_batch
from capture.graph.packed import pack
from capture.graph.recording import Decisions, Recording, decides
from capture.graph.sample import place_in_autograd, quiet, stop_spending
from capture.graph.symbols import Shapes
from capture.graph.tensor_meta import CannotPropagate, TensorMeta

__all__ = ["asks_for_data", "lacks_rule", "make_fake", "mode_of", "reason_of", "running"]

KNOWN_VERSIONS = ("2.13.", "2.14.")


_HIGHER_ORDER: Any = torch._ops.HigherOrderOperator


class _RecordingMode(FakeTensorMode):
    """A fake tensor mode that notes which ATen operators run."""

    recording: Recording | None = None
    decisions: Decisions | None = None
    supports_higher_order_operators = True  # torch has rules for the exact class only

    def __init__(self, shape_env: Any = None) -> None:
        if not torch.__version__.startswith(KNOWN_VERSIONS):
            super().__init__(
                allow_fallback_kernels=False, shape_env=shape_env, static_shapes=shape_env is None
            )
            self.cache_enabled = False
            return
        # FakeTensorMode.__init__ imports torch's own frontend, a second of CPU time, for nothing
        # but two of its settings. These are the attributes it sets; a test compares them.
        TorchDispatchMode.__init__(self)  # type: ignore[no-untyped-call]
        self.allow_fallback_kernels = False
        self.propagate_real_tensors = False
        self.fake_tensor_converter = FakeTensorConverter(copy_data=False, export=False)
        self.static_shapes = shape_env is None
        self.allow_scalar_outputs = False
        self._allow_unsafe_data_ptr_access = True
        self.allow_meta = True
        self.cache_enabled = False  # our memo stands before it
        self.cache_crosscheck_enabled = False
        self.allow_non_fake_inputs = False
        self.in_kernel_invocation = False
        self.enter_stack = []
        self.shape_env = shape_env
        self._stack_trace = traceback.StackSummary()
        self._stack = None
        self._mode_key = torch._C._TorchDispatchModeKey.FAKE
        self.nt_tensor_id_initial_count = 0
        self.nt_tensor_id_counter = 0

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
        if isinstance(func, _HIGHER_ORDER):
            if func in registered_hop_fake_fns:
                return super().__torch_dispatch__(func, types, args, kwargs)
            rule = func.python_key_table.get(FakeTensorMode)
            if rule is None:
                raise CannotPropagate(f"{func} has no rule for metadata")
            return rule(self, *args, **kwargs)
        recording = self.recording
        if self.decisions is not None and decides(func, args):
            return self.decisions.ask()
        stand_in = _STAND_INS.get(func._schema.name)
        if stand_in is not None:
            if recording is not None:
                recording.names.add(func._schema.name)
            given: Any = args
            return stand_in(self, *given)
        if self.shape_env is not None and func._schema.name in BATCHED:
            found = self._convolution(func, args, kwargs)
            if found is not None:
                return found
        if recording is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        # operators that a decomposition calls come through here as well: only the outermost count
        self.recording = None
        try:
            recording.note(func, args, dict(kwargs or {}))
            found = super().__torch_dispatch__(func, types, args, kwargs)
            correction = _CORRECTIONS.get(func._schema.name)
            return found if correction is None else correction(found, *args)
        except Exception:
            recording.failed = True
            raise
        finally:
            self.recording = recording

    def _convolution(self, func: Any, args: Sequence[Any], kwargs: Any) -> Any:
        recording, self.recording = self.recording, None
        try:
            found = without_batch(self._fake, self.shape_env, func, args, kwargs)
        finally:
            self.recording = recording
        if found is not None and recording is not None:
            recording.note(func, args, dict(kwargs or {}))
        return found

    def _fake(self, meta: torch.Tensor, device: torch.device) -> torch.Tensor:
        return FakeTensor(self, meta, device)


def _ctc_loss(mode: FakeTensorMode, log_probs: torch.Tensor, *rest: object) -> Any:
    """The losses, and a table whose size depends on data: what uses it cannot be propagated."""
    batch = log_probs.shape[1:2] if log_probs.ndim == 3 else ()
    with mode:
        losses = log_probs.new_empty(batch)
    return losses, _Unknown("the size of _ctc_loss's table depends on data")


class _Unknown(torch.Tensor):
    """A part of an operator's result that is not known; who uses it gives up."""

    reason: str

    @staticmethod
    def __new__(cls, reason: str) -> Any:
        """Make one; it has a form, since operators return no other."""
        made = torch.Tensor._make_wrapper_subclass(cls, ())
        made.reason = reason
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raise CannotPropagate(next(arg.reason for arg in args if isinstance(arg, cls)))


def _pack(mode: FakeTensorMode, *args: Any) -> Any:
    if mode.shape_env is None or not mode.shape_env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(torch.ops.aten._pack_padded_sequence.default)
    return pack(mode, *args)


def _attention(found: Any, *args: Any) -> Any:
    """Torch's rule makes a tensor of the weights that are not asked for; the kernel, nothing."""
    return found if len(args) <= _NEED_WEIGHTS or args[_NEED_WEIGHTS] else (found[0], None)


_NEED_WEIGHTS = 10
_CORRECTIONS: dict[str, Any] = {"aten::_native_multi_head_attention": _attention}
_STAND_INS: dict[str, Any] = {"aten::_ctc_loss": _ctc_loss, "aten::_pack_padded_sequence": _pack}


class _SettingsStandIn:
    """The one setting that every operator reads; others come from the real module."""

    _custom_ops_profile = None

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{_FRONTEND}.config"), name)


class _FrontendStandIn(types.ModuleType):
    """Stands in for torch's frontend where torch asks it only not to trace a function.

    Anything else that is asked of it makes it give way to the real module.
    """

    def __init__(self) -> None:
        super().__init__(_FRONTEND)
        self.config = _SettingsStandIn()
        self.marked: list[Any] = []

    def disable(self, fn: Any, recursive: bool = True, **kwargs: Any) -> Any:
        """Return ``fn``: nothing is tracing it."""
        self.marked.append(fn)
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)  # the inspect module asks all modules for their files
        if sys.modules.get(_FRONTEND) is self:
            del sys.modules[_FRONTEND]
        return getattr(importlib.import_module(_FRONTEND), name)


_FRONTEND = "torch._dynamo"


@contextmanager
def _without_frontend() -> Iterator[None]:
    """Keep torch from importing its frontend inside the ``with`` block, if it has not yet."""
    if _FRONTEND in sys.modules or not torch.__version__.startswith(KNOWN_VERSIONS):
        yield
        return
    stand_in = _FrontendStandIn()
    sys.modules[_FRONTEND] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(_FRONTEND) is stand_in:
            del sys.modules[_FRONTEND]
        short = _FRONTEND.removeprefix("torch.")
        if vars(torch).get(short) is stand_in:
            del vars(torch)[short]
        for fn in stand_in.marked:  # torch keeps the answer with the function
            fn.__dict__.pop("__dynamo_disable", None)


def needs_frontend(error: BaseException) -> bool:
    """Tell whether a run failed for want of torch's frontend; if so it is there from now on."""
    if not isinstance(error, ImportError) or _FRONTEND in sys.modules:
        return False
    importlib.import_module(_FRONTEND)
    return True


_mode: _RecordingMode | None = None


def _the_mode() -> _RecordingMode:
    global _mode
    if _mode is None:
        _mode = _RecordingMode()
        stop_spending()
    return _mode


def mode_of(shapes: Shapes | None) -> _RecordingMode:
    """Return the mode for static sizes, or the one for a graph's symbolic ones."""
    if shapes is None:
        return _the_mode()
    mode: _RecordingMode | None = shapes.mode
    if mode is None:
        mode = shapes.mode = _RecordingMode(shapes.env)
    return mode


def make_fake(meta: TensorMeta, shapes: Shapes | None = None) -> torch.Tensor:
    """Make a fake tensor with the given metadata."""
    if meta.is_inference != torch.is_inference_mode_enabled():
        with torch.inference_mode(meta.is_inference):
            return make_fake(meta, shapes)
    shape, stride = meta.shape, meta.stride
    if shapes is not None:
        shape, stride = tuple(map(shapes.symint, shape)), tuple(map(shapes.symint, stride))
    tensor = torch.empty_strided(shape, stride, dtype=meta.dtype, device="meta")
    return place_in_autograd(FakeTensor(mode_of(shapes), tensor, meta.device), meta)


@contextmanager
def running(
    recording: Recording,
    decisions: Decisions | None = None,
    shapes: Shapes | None = None,
) -> Iterator[None]:
    """Run the ``with`` block under the fake mode, quietly, and record what runs."""
    mode = mode_of(shapes)
    mode.recording, mode.decisions = recording, decisions
    try:
        # symbolic sizes need Python's decompositions: some C++ ones want concrete numbers
        dispatcher = contextlib.nullcontext() if shapes is None else enable_python_dispatcher()
        with logs.silenced(*logs.FAKE_RUNS), quiet(), _without_frontend(), dispatcher, mode:
            yield
    finally:
        mode.recording = mode.decisions = None


def lacks_rule(error: BaseException) -> bool:
    """Tell whether a run failed because an operator has no rule for metadata."""
    return isinstance(error, UnsupportedOperatorException)


def asks_for_data(error: BaseException) -> bool:
    """Tell whether a run failed because data decides something."""
    if isinstance(error, DynamicOutputShapeException | DataDependentOutputException):
        return True
    shapes = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    return shapes is not None and isinstance(error, shapes.GuardOnDataDependentSymNode)


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
