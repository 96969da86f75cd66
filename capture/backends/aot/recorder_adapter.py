"""Holds every private name of torch that the fast tracer needs; must not know what it records.

The tracer stands in the slot that torch keeps for the mode of ``make_fx``, so that torch's own
modes come before and behind it in the same order.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "TracerMode",
    "decomposition_state",
    "describe",
    "graph_module",
    "is_composite",
    "is_decomposed",
    "is_operator",
    "is_pure_decomposition",
    "lazy_code",
    "make_fake",
    "making_fakes",
    "undisguised",
]


_META = torch.device("meta")


class _Tracer:
    """What torch's functional mode asks of the tracer below: it knows no tensor."""

    def __init__(self) -> None:
        self.tensor_tracker: dict[Any, Any] = {}


def undisguised(mode: Any) -> Any:
    """Let torch call a mode's ``__torch_dispatch__`` as it is written; decorates the class.

    Torch wraps it when the class is made, to keep its own frontend out; there is none here, and
    the wrapper costs as much as a small operator's record.
    """
    mode.__torch_dispatch__ = mode.dispatch
    return mode


class TracerMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode in the place of the one of ``make_fx``."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mode_key = torch._C._TorchDispatchModeKey.PROXY
        self.tracer = _Tracer()


# -- operators -------------------------------------------------------------------------------------


def is_operator(func: object) -> bool:
    """Tell whether this is an operator of the dispatcher, with all that comes with it."""
    return isinstance(func, torch._ops.OpOverload)


def is_composite(func: Any) -> bool:
    """Tell whether torch itself has a decomposition of an operator."""
    return bool(func._can_decompose())


def is_decomposed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether autograd would have run torch's own decomposition, given the device."""
    from torch.utils._python_dispatch import autograd_would_have_decomposed

    flat: list[Any] = []
    for value in (*args, *kwargs.values()):
        flat += value if isinstance(value, list | tuple) else (value,)
    return bool(autograd_would_have_decomposed(func, flat))


@functools.cache
def is_pure_decomposition(function: Callable[..., Any]) -> bool:
    """Tell whether this is torch's own: it depends on its arguments and on known state only."""
    inner = function.func if isinstance(function, functools.partial) else function
    module = getattr(inner, "__module__", None) or ""
    return module.partition(".")[0] == "torch"


def decomposition_state() -> tuple[object, ...]:
    """Return what torch's decompositions and shape functions depend on beside their arguments."""
    backends: Any = torch.backends
    inductor: Any = sys.modules.get("torch._inductor.config")
    return (
        torch.get_default_dtype(),
        torch.get_deterministic_debug_mode(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        backends.mkldnn.enabled,
        backends.cudnn.enabled,
        backends.cudnn.deterministic,
        backends.cudnn.benchmark,
        backends.cuda.flash_sdp_enabled(),
        backends.cuda.math_sdp_enabled(),
        backends.cuda.mem_efficient_sdp_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        None if inductor is None else inductor.get_hash(),
    )


# -- fake tensors ----------------------------------------------------------------------------------


def describe(tensor: Tensor) -> tuple[Any, ...]:
    """Return the metadata that shape functions see of a fake tensor; empty if there is more."""
    if (
        tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_complex()
        or tensor.is_neg()
        or tensor._has_symbolic_sizes_strides
        or tensor.requires_grad
    ):
        return ()
    return (
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.dtype,
        tensor.fake_device,  # type: ignore[attr-defined]
    )


def making_fakes(mode: Any) -> AbstractContextManager[object]:
    """Return the context in which ``make_fake`` may be called."""
    from torch._subclasses.fake_tensor import in_kernel_invocation_manager

    return cast("AbstractContextManager[object]", in_kernel_invocation_manager(mode))


def make_fake(mode: Any, meta: tuple[Any, ...], base: Tensor | None) -> Tensor:
    """Return a fake tensor of the described metadata: new, or a view of ``base``."""
    from torch._subclasses.fake_tensor import FakeTensor

    size, stride, offset, dtype, device = meta
    if base is None:
        inner = torch.empty_strided(size, stride, dtype=dtype, device=_META)
    else:
        inner = base.as_strided(size, stride, offset)
    return cast("Tensor", FakeTensor(mode, inner, device))


# -- graph modules ---------------------------------------------------------------------------------


@contextmanager
def lazy_code() -> Iterator[None]:
    """Let graph modules made in this context generate their code when it is first needed."""
    from torch.fx._lazy_graph_module import _use_lazy_graph_module

    with _use_lazy_graph_module(True):
        yield


def graph_module(root: Any, graph: fx.Graph) -> fx.GraphModule:
    """Return a graph module that generates its code when it is first needed."""
    from torch.fx._lazy_graph_module import _make_graph_module

    with lazy_code():
        return _make_graph_module(root, graph)
