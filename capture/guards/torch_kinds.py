"""Holds the guards on tensors and on torch's global state; must not know variables or graphs."""

# ruff: noqa: D102 - what overrides do is what the base class says

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from capture.guards import native_setup
from capture.guards.guard import Guard, Reference, SourceGuard, shorten
from capture.sources import Scope, Source, has_type

__all__ = [
    "GlobalState",
    "StateIs",
    "TensorFacts",
    "TensorMatch",
    "read_state",
    "row_major",
]

Dims = tuple["int | None", ...]


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a graph relies on about a tensor.

    A dimension or stride that may vary is None; ``strides`` None demands nothing of them, and
    ``contiguous`` demands the row-major strides of whatever shape comes. ``plain`` tells that the
    tensor has no Python, nested, sparse or functorch dispatch: its fields are what they seem.
    ``sparse`` tells the same of a tensor in coordinate format, which has no strides.
    """

    cls: type
    dtype: torch.dtype
    device: torch.device
    shape: Dims
    strides: Dims | None
    requires_grad: bool
    layout: torch.layout
    dispatch_keys: int
    is_leaf: bool | None = None
    contiguous: bool = False
    plain: bool = field(default=True, compare=False)
    sparse: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls,
        tensor: torch.Tensor,
        dynamic: frozenset[int] | None = None,
        *,
        with_leaf: bool = False,
    ) -> TensorFacts:
        """Read a tensor's facts; ``dynamic`` names dimensions that may vary, and their strides."""
        with torch._C.DisableTorchFunction():
            layout = tensor.layout
            keys = torch._C._dispatch_keys(tensor).raw_repr()
            shape: Dims
            if tensor.is_nested and layout is torch.strided:
                # it has no sizes of its own, only its parts have
                shape = tuple(tensor._nested_tensor_size().flatten().tolist())
            else:
                shape = tuple(tensor.shape)
            strided = layout is torch.strided and not tensor.is_nested
            strides: Dims | None = tuple(tensor.stride()) if strided else None
            contiguous = False
            if dynamic:
                if strides is not None:
                    strides, contiguous = _strides_to_demand(tensor, dynamic)
                shape = tuple(None if i in dynamic else n for i, n in enumerate(shape))
            return cls(
                cls=type(tensor),
                dtype=tensor.dtype,
                device=tensor.device,
                shape=shape,
                strides=strides,
                requires_grad=tensor.requires_grad,
                layout=layout,
                dispatch_keys=keys,
                is_leaf=_is_leaf(tensor) if with_leaf else None,
                contiguous=contiguous,
                plain=strided and type(tensor) in _PLAIN_CLASSES and not keys & _UNUSUAL_KEYS,
                sparse=layout is torch.sparse_coo
                and type(tensor) in _PLAIN_CLASSES
                and not keys & _UNUSUAL_KEYS & ~_SPARSE_KEY,
            )

    def differences(self, tensor: torch.Tensor) -> list[str]:
        """How a tensor differs from these facts, one phrase each; empty if it does not."""
        if type(tensor) is not self.cls:
            return [f"type changed from {shorten(self.cls)} to {shorten(type(tensor))}"]
        new = TensorFacts.of(tensor, with_leaf=self.is_leaf is not None)
        found = []
        for name in ("dtype", "device", "layout", "requires_grad", "is_leaf"):
            old_value, new_value = getattr(self, name), getattr(new, name)
            if old_value != new_value:
                found.append(f"{name} changed from {old_value} to {new_value}")
        if len(self.shape) != len(new.shape):
            found.append(f"rank changed from {len(self.shape)} to {len(new.shape)}")
            return found
        for i, (old_size, size) in enumerate(zip(self.shape, new.shape, strict=True)):
            if old_size is not None and old_size != size:
                found.append(f"size of dimension {i} changed from {old_size} to {size}")
        if self.strides is not None:
            if new.strides is None:
                found.append("strides are no longer known")
            elif any(
                old is not None and old != stride
                for old, stride in zip(self.strides, new.strides, strict=True)
            ):
                found.append(f"strides changed from {_show(self.strides)} to {_show(new.strides)}")
        if self.contiguous and new.strides != row_major(new.shape):
            found.append(f"strides {_show(new.strides)} are no longer row-major")
        if not found and self.dispatch_keys != new.dispatch_keys:
            found.append(
                f"dispatch keys changed from {_key_set(self.dispatch_keys)} "
                f"to {_key_set(new.dispatch_keys)}"
            )
        return found


def _is_leaf(tensor: torch.Tensor) -> bool | None:
    """Tell whether a tensor is a leaf; None where autograd refuses to say.

    That is a view which autograd cannot give a history any more, as its base was written to.
    """
    try:
        return tensor.is_leaf
    except RuntimeError:
        return None


@dataclass(frozen=True)
class TensorMatch(SourceGuard):
    """The value is a tensor with these facts."""

    __slots__ = ("facts",)
    facts: TensorFacts

    @classmethod
    def of(
        cls, source: Source, tensor: torch.Tensor, dynamic: frozenset[int] | None = None
    ) -> TensorMatch:
        """The guard that a tensor at hand fulfils."""
        return cls(source, TensorFacts.of(tensor, dynamic))

    def holds(self, value: object) -> bool:
        return has_type(value, torch.Tensor) and not self.facts.differences(value)

    def difference(self, value: object) -> str:
        if not has_type(value, torch.Tensor):
            return f"`{self.source}` changed from a tensor to {shorten(value)}"
        return f"`{self.source}`: {'; '.join(self.facts.differences(value))}"

    def describe(self) -> str:
        facts = self.facts
        return (
            f"{self.source}: {facts.dtype} {_show(facts.shape)} strides {_show(facts.strides)} "
            f"on {facts.device}, requires_grad={facts.requires_grad}, {shorten(facts.cls)}"
        )


# other classes may have a __torch_function__ that a reader of theirs would call
_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


def _strides_to_demand(tensor: torch.Tensor, dynamic: frozenset[int]) -> tuple[Dims | None, bool]:
    """Return the strides to demand when some sizes may vary, and whether row-major order is."""
    strides = tuple(tensor.stride())
    if strides == row_major(tuple(tensor.shape)):
        return None, True
    inner = min(strides[i] for i in dynamic)
    return tuple(stride if stride <= inner else None for stride in strides), False


def row_major(shape: Dims) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor of this shape."""
    strides: list[int] = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size or 1, 1)
    return tuple(reversed(strides))


def _show(dims: Dims | None) -> str:
    if dims is None:
        return "(any)"
    return "(" + ", ".join("any" if dim is None else str(dim) for dim in dims) + ")"


def _unusual_keys() -> int:
    return _mask(
        "Python",
        "PythonTLSSnapshot",
        "NestedTensor",
        "AutogradNestedTensor",
        "FuncTorchBatched",
        "FuncTorchGradWrapper",
        "FuncTorchDynamicLayerFrontMode",
        "FuncTorchDynamicLayerBackMode",
        "Functionalize",
        "Sparse",
        "SparseCsr",
        "Quantized",
        "ZeroTensor",
    )


def _mask(*names: str) -> int:
    known: Mapping[str, Any] = torch._C.DispatchKey.__members__
    mask = 0
    for name in names:
        if name in known:
            mask |= torch._C.DispatchKeySet(known[name]).raw_repr()
    return mask


_UNUSUAL_KEYS = _unusual_keys()
_SPARSE_KEY = _mask("Sparse")


def _key_set(raw: int) -> str:
    from_raw = getattr(torch._C.DispatchKeySet, "from_raw_repr", None)
    return str(from_raw(raw)) if from_raw is not None else hex(raw)


@dataclass(frozen=True, slots=True)
class GlobalState:
    """Torch's global and thread-local state, as far as it changes what an operator does.

    ``modes`` and ``hooks`` hold what tells their entries apart, without keeping user objects alive.
    """

    grad_mode: bool
    inference_mode: bool
    forward_grad_mode: bool
    default_dtype: torch.dtype
    default_device: str
    deterministic: bool
    deterministic_warn_only: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    autocast_cache: bool
    torch_function: str
    function_modes: tuple[object, ...]
    dispatch_modes: tuple[object, ...]
    functorch: tuple[str, ...]
    forward_ad_level: int
    saved_tensor_hooks: tuple[object, ...]

    def differences(self, new: GlobalState) -> list[str]:
        """One phrase for each part that is another in ``new``."""
        found = []
        for part, title in _STATE_TITLES.items():
            old_value, new_value = getattr(self, part), getattr(new, part)
            if old_value != new_value:
                found.append(f"{title} changed from {_plain(old_value)} to {_plain(new_value)}")
        return found

    def is_current(self) -> bool:
        """Whether this is the state now, in this thread."""
        return read_state() == self

    def snapshot(self) -> Any:
        """Return a native snapshot of the state now, which must be this one; None if not built.

        Its words tell how many modes, hooks and transforms there are, but not which: when there
        are any, they are compared in Python behind the words.
        """
        native_setup.readers()
        if not native_setup.built():
            return None
        in_use = self.function_modes or self.dispatch_modes or self.functorch
        exotic = any(device not in ("cpu", "cuda") for device, _ in self.autocast)
        by_python = bool(in_use or exotic or self.saved_tensor_hooks)
        return native_setup.native().state_snapshot(
            under_autocast=bool(self.autocast), details=self.is_current if by_python else None
        )


_STATE_TITLES = {
    "grad_mode": "grad mode",
    "inference_mode": "inference mode",
    "forward_grad_mode": "forward-mode grad",
    "default_dtype": "the default dtype",
    "default_device": "the default device",
    "deterministic": "deterministic algorithms",
    "deterministic_warn_only": "deterministic warn-only",
    "autocast": "autocast",
    "autocast_cache": "the autocast cache",
    "torch_function": "__torch_function__ handling",
    "function_modes": "the stack of torch function modes",
    "dispatch_modes": "the stack of torch dispatch modes",
    "functorch": "the stack of function transforms",
    "forward_ad_level": "the forward AD level",
    "saved_tensor_hooks": "the saved-tensor hooks",
}


def state_is_foreign() -> bool:
    """Whether operators called now would reach somebody else's code: modes, transforms, hooks.

    Describing an operator means calling it, which such code would see; a mode that only sets the
    default device is no one else's.
    """
    state = read_state()
    modes = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return bool(
        state.dispatch_modes
        or state.functorch
        or state.forward_ad_level >= 0
        or state.saved_tensor_hooks
        or any(type(mode) is not torch.utils._device.DeviceContext for mode in modes)
    )


def read_state() -> GlobalState:
    """Read the state by torch's Python functions, the oracle of the native snapshot."""
    c: Any = torch._C
    function_modes = tuple(
        _mode_key(c._get_function_stack_at(i)) for i in range(c._len_torch_function_stack())
    )
    dispatch_modes = tuple(
        _mode_key(c._get_dispatch_stack_at(i)) for i in range(c._len_torch_dispatch_stack())
    )
    transforms = c._functorch.get_interpreter_stack() or ()
    autocast = _autocast_state()
    return GlobalState(
        grad_mode=torch.is_grad_enabled(),
        inference_mode=torch.is_inference_mode_enabled(),
        forward_grad_mode=c._is_fwd_grad_enabled(),
        default_dtype=torch.get_default_dtype(),
        default_device=str(c._get_default_device()),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        deterministic_warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        autocast=autocast,
        autocast_cache=not autocast or torch.is_autocast_cache_enabled(),
        torch_function=_torch_function_state(),
        function_modes=function_modes,
        dispatch_modes=dispatch_modes,
        functorch=tuple(f"{t.key()} {t.level()}" for t in transforms),
        forward_ad_level=torch.autograd.forward_ad._current_level,
        saved_tensor_hooks=_saved_tensor_hooks(),
    )


@dataclass(frozen=True)
class StateIs(Guard):
    """Torch's global state is this one. A native snapshot of it is taken if it is so now."""

    state: GlobalState
    snapshot: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.snapshot is None and self.state.is_current():
            object.__setattr__(self, "snapshot", self.state.snapshot())

    @classmethod
    def now(cls) -> StateIs:
        """The guard on the state at this moment, in this thread."""
        state = read_state()
        return cls(state, state.snapshot())

    def check(self, scope: Scope) -> bool:
        return self.state.is_current()

    def explain(self, scope: Scope) -> str:
        return "; ".join(self.state.differences(read_state()))

    def describe(self) -> str:
        return "torch's global state is as captured"


_AUTOCAST_DEVICES = (
    "cpu",
    "cuda",
    "xpu",
    "mps",
    "hpu",
    "mtia",
    "maia",
    "xla",
    "ipu",
    "privateuseone",
)


def _autocast_state() -> tuple[tuple[str, torch.dtype], ...]:
    if not torch._C._is_any_autocast_enabled():
        return ()
    found = []
    for device in _AUTOCAST_DEVICES:
        try:
            if torch.is_autocast_enabled(device):
                found.append((device, torch.get_autocast_dtype(device)))
        except RuntimeError:  # a device type this torch has no autocast for
            continue
    return tuple(found)


def _torch_function_state() -> str:
    c: Any = torch._C
    if c._is_torch_function_enabled():
        return "enabled"
    return "all disabled" if c._is_torch_function_all_disabled() else "subclasses disabled"


def _mode_key(mode: object) -> object:
    # a device context is made anew by each `with torch.device(...)`; its device is all it is
    device = getattr(mode, "__dict__", {}).get("device")
    if type(mode).__module__ == "torch.utils._device" and isinstance(device, torch.device):
        return device
    return Reference(mode)


def _saved_tensor_hooks() -> tuple[object, ...]:
    c: Any = torch._C._autograd
    hooks = c._top_saved_tensors_default_hooks(True)
    if not c._saved_tensors_hooks_is_enabled():
        return ("disabled",)
    return () if hooks is None else tuple(Reference(hook) for hook in hooks)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_plain(item) for item in value) + ")"
    return value.text if isinstance(value, Reference) else str(value)
