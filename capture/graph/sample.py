"""Holds propagation by running a call on small real tensors of the same metadata.

On the CPU that is faster than fake tensors and exact by definition, error texts included, as long
as nothing that matters depends on data: ``Recording`` tells. Must not know graphs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from capture.graph.recording import Recording
from capture.graph.tensor_meta import TensorMeta

__all__ = [
    "DependsOnData",
    "affordable",
    "eager_exception",
    "make_real",
    "place_in_autograd",
    "quiet",
    "running",
    "small",
    "stop_spending",
]

LIMIT = 1 << 22  # elements of all arguments, or of a result as far as it can be foreseen
BUDGET = 1 << 31  # multiply-adds in large runs altogether

_spent = 0


class DependsOnData(Exception):
    """Stops a run on real tensors before an operator whose result depends on data."""


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operator before it runs."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recording = recording

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator would import torch's own frontend

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords: dict[str, Any] = dict(kwargs or {})
        self.recording.note(func, args, keywords)
        if self.recording.depends_on_data is not None:
            raise DependsOnData(self.recording.depends_on_data)
        return func(*args, **keywords)


def make_real(meta: TensorMeta, fill: int = 0) -> torch.Tensor:
    """Make a tensor with the given metadata; floats are ``fill``, all else is zero."""
    if meta.is_inference != torch.is_inference_mode_enabled():
        with torch.inference_mode(meta.is_inference):
            return make_real(meta, fill)
    length = 0 if 0 in meta.shape else 1
    for size, step in zip(meta.shape, meta.stride, strict=True):
        length += (size - 1) * step if length else 0
    memory = torch.zeros(length, dtype=meta.dtype, device=meta.device)
    if fill and meta.dtype.is_floating_point:
        memory.fill_(fill)
    with torch.no_grad():
        # not a view, whatever the strides
        tensor = memory.new_empty(0).set_(memory.untyped_storage(), 0, meta.shape, meta.stride)
    if meta.cls is torch.nn.Parameter and meta.is_leaf:
        return torch.nn.Parameter(tensor, meta.requires_grad)
    return place_in_autograd(tensor, meta)


def place_in_autograd(tensor: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
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


_QUIET: Any = ("ignore", None, Warning, None, 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Show no warnings: the graph will give them when it runs.

    The filter is inserted by hand, for ``warnings.catch_warnings`` would make warnings that were
    shown before be shown again.
    """
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    filters.insert(0, _QUIET)
    try:
        yield
    finally:
        if _QUIET in filters:
            filters.remove(_QUIET)


@contextmanager
def running(recording: Recording) -> Iterator[None]:
    """Run the ``with`` block on real tensors, quietly, and put the random state back."""
    saved: list[torch.Tensor] = []
    # waking and joining threads costs more than these runs, up to a time slice on a busy machine
    threads = torch.get_num_threads()
    if threads > 1:
        torch.set_num_threads(1)
    recording.before_rng = lambda: saved.append(torch.default_generator.get_state())
    try:
        with quiet(), _Watch(recording):
            yield
    finally:
        recording.before_rng = None
        if threads > 1:
            torch.set_num_threads(threads)
        if saved:
            torch.default_generator.set_state(saved[0])


def eager_exception(
    function: Callable[[], object], metas: Sequence[TensorMeta]
) -> Exception | None:
    """Run ``function`` for real and return what it raises, or None if it cannot be told."""
    if sum(meta.numel for meta in metas) > LIMIT or any(m.device.type != "cpu" for m in metas):
        return None
    try:
        with running(Recording()):
            function()
    except DependsOnData:
        return None
    except Exception as error:
        return error.with_traceback(None)
    return None


# --- what it costs -----------------------------------------------------------------------------

_NAMES: Any = str.split

# results whose size follows from integers among the arguments
_SIZED_BY_NUMBERS = frozenset(
    _NAMES("""
        empty zeros ones full rand randn randint randperm arange range linspace logspace eye
        empty_strided tril_indices triu_indices hann_window hamming_window bartlett_window
        blackman_window kaiser_window new_empty new_zeros new_ones new_full new_empty_strided
        normal repeat tile repeat_interleave interpolate upsample upsample_nearest
        upsample_bilinear pad one_hot vander resize_ resize unfold fold affine_grid stft istft
        constant_pad_nd adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fft ifft fft2 ifft2 fftn ifftn
        rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft
    """)
)
# results as large as the arguments' sizes multiplied
_SIZED_BY_PRODUCT = frozenset(
    _NAMES("""
        outer ger kron cdist einsum tensordot cartesian_prod meshgrid combinations block_diag
        inner bilinear embedding embedding_bag getitem __getitem__ gather index_select take
        take_along_dim index unflatten gru lstm rnn_tanh rnn_relu gru_cell lstm_cell
        multi_head_attention_forward scaled_dot_product_attention chain_matmul multi_dot pdist
        grid_sample trapezoid convolve
    """)
)
_PREFIXES_BY_PRODUCT = ("_", "linalg_", "fft_", "special_")
# results no larger than the largest argument, whose other arguments do not broadcast against it
_SIZED_AS_LARGEST = frozenset(
    _NAMES("""
        batch_norm layer_norm group_norm instance_norm rms_norm native_batch_norm
        native_layer_norm native_group_norm
    """)
)
_CONVOLUTIONS = frozenset(_NAMES("conv1d conv2d conv3d"))


def affordable(
    name: str,
    metas: Sequence[TensorMeta],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> bool:
    """Tell whether a call can be run on real tensors: all on the CPU, and not too much work."""
    global _spent
    # fake tensors cost much once, then little: large runs may cost no more than that once
    limit = LIMIT if _spent < BUDGET else LIMIT >> 4
    for meta in metas:
        if meta.device.type != "cpu":
            return False
    if not _on_cpu((args, kwargs)):
        return False
    sizes = [meta.numel for meta in metas]
    if sum(sizes) > limit:
        return False
    elements, work = _elements(name, metas, sizes, args, kwargs), _work(name, metas)
    if elements > limit or work > limit << 6:
        return False
    _spent += work + 8 * elements
    return True


def small(metas: Sequence[TensorMeta]) -> bool:
    """Tell whether tensors of sizes that were made up to be small are so as a whole."""
    return sum(meta.numel for meta in metas) <= LIMIT >> 2


def stop_spending() -> None:
    """Let only small runs be affordable from now on: fake tensors have become cheap."""
    global _spent
    _spent = BUDGET


def _on_cpu(arg: Any) -> bool:
    kind = type(arg)
    if kind is str:
        return arg.partition(":")[0] not in ("cuda", "xpu", "mps", "mtia", "meta", "hpu", "xla")
    if kind is torch.device:
        return bool(arg.type == "cpu")
    if kind is tuple or kind is list:
        return all(map(_on_cpu, arg))
    if isinstance(arg, Mapping):
        return all(map(_on_cpu, arg.values()))
    return True


def _elements(
    name: str,
    metas: Sequence[TensorMeta],
    sizes: Sequence[int],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> int:
    """Return a bound on the elements of the result."""
    product = 1
    if not metas or name in _SIZED_BY_NUMBERS:
        product = _product_of_numbers((args, dict(kwargs)))
        return product * max(sum(sizes), 1)
    if name in _SIZED_AS_LARGEST:
        return max(sizes)
    if name in _CONVOLUTIONS and len(metas) > 1:
        image, weight = metas[0].shape, metas[1].shape
        if 2 < len(image) == len(weight):
            # padding adds little, as a rule, and strides take away
            return 2 * int(image[0]) * int(weight[0]) * math.prod(map(int, image[2:]))
    if name in _SIZED_BY_PRODUCT or name.startswith(_PREFIXES_BY_PRODUCT):
        sizes = sorted(sizes, reverse=True)
        return math.prod(max(size, 1) for size in sizes[:2])
    for n in range(max(meta.ndim for meta in metas)):
        product *= max((meta.shape[-1 - n] for meta in metas if n < meta.ndim), default=1)
    return product


def _product_of_numbers(arg: Any) -> int:
    kind = type(arg)
    if kind is int or kind is float:
        return max(math.ceil(abs(arg)), 1) if math.isfinite(arg) else 1
    if kind is tuple or kind is list or kind is torch.Size:
        return math.prod(map(_product_of_numbers, arg))
    if kind is dict:
        return math.prod(map(_product_of_numbers, arg.values()))
    return 1


def _work(name: str, metas: Sequence[TensorMeta]) -> int:
    """Return roughly the multiply-adds of a call that does many for an element."""
    if len(metas) < 2:
        return 0
    left, right = metas[0], metas[1]
    if name == "linear":
        return left.numel * int(right.shape[0] if right.shape else 1)
    if "mm" in name or "matmul" in name or name in ("baddbmm", "mv"):
        return left.numel * int(right.shape[-1] if right.shape else 1)
    if name.startswith("conv") and left.ndim > 1:
        return right.numel * left.numel // max(int(left.shape[1]), 1)
    return 0
