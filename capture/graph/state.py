"""Holds torch's process state as far as it decides results, and how to apply it for a moment.

Must not know graphs. A graph tracks its own ``TorchState``: the state that the program being
captured would be in, whatever state the capturing process is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

__all__ = ["TorchState", "applied", "put_back", "restored", "snapshot"]


class TorchState(NamedTuple):
    """One state of torch; a part of every memo key."""

    grad_enabled: bool
    inference_mode: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...]  # device type, enabled, dtype
    autocast_cache: bool
    autocast_nesting: int
    default_dtype: torch.dtype
    default_device: torch.device
    others: tuple[object, ...]  # not changed inside a graph


_autocast_devices: tuple[str, ...] = ()


def autocast_devices() -> tuple[str, ...]:
    """Return the device types whose autocast state is tracked: the CPU and the accelerator."""
    global _autocast_devices
    if not _autocast_devices:
        accelerator = torch.accelerator.current_accelerator()
        found = {"cpu", "cuda"} | ({accelerator.type} if accelerator is not None else set())
        _autocast_devices = tuple(sorted(found))
    return _autocast_devices


def autocast_nesting() -> int:
    """Return how many autocast contexts are open."""
    depth: int = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def snapshot() -> TorchState:
    """Read the process's state."""
    native = torch._C
    return TorchState(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple(
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in autocast_devices()
        ),
        torch.is_autocast_cache_enabled(),
        autocast_nesting(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            native._get_mkldnn_enabled(),
            native._get_cudnn_enabled(),
            native._get_flash_sdp_enabled(),
            native._get_mem_efficient_sdp_enabled(),
            native._get_math_sdp_enabled(),
        ),
    )


@contextmanager
def applied(state: TorchState) -> Iterator[None]:
    """Put the process into ``state`` for the ``with`` block; ``others`` and the device stay."""
    before = snapshot()
    if before == state:
        yield
        return
    guard = None
    if state.inference_mode != before.inference_mode:
        guard = torch._C._InferenceMode(state.inference_mode)
        guard.__enter__()  # type: ignore[no-untyped-call]
    try:
        _set(state)
        yield
    finally:
        if guard is not None:
            guard.__exit__(None, None, None)
        _set(before)


@contextmanager
def restored() -> Iterator[None]:
    """Put the process back into its state after the ``with`` block."""
    before = snapshot()
    try:
        yield
    finally:
        _set(before)


def put_back(state: TorchState) -> None:
    """Put the process into a state it was in before; inference mode is not followed."""
    _set(state)


def _set(state: TorchState) -> None:
    """Set what has a plain setter."""
    torch._C._set_grad_enabled(state.grad_enabled)
    for device, enabled, dtype in state.autocast:
        if torch.is_autocast_enabled(device) != enabled:
            torch.set_autocast_enabled(device, enabled)
        if torch.get_autocast_dtype(device) != dtype:
            torch.set_autocast_dtype(device, dtype)
    if torch.is_autocast_cache_enabled() != state.autocast_cache:
        torch.set_autocast_cache_enabled(state.autocast_cache)
    depth = autocast_nesting()
    while depth < state.autocast_nesting:
        depth = torch.autocast_increment_nesting()
    while depth > state.autocast_nesting:
        depth = torch.autocast_decrement_nesting()
    if torch.get_default_dtype() is not state.default_dtype:
        torch.set_default_dtype(state.default_dtype)
