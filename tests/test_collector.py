"""The garbage collector during capture: off, and afterwards as the program had it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("capture._native")

import torch

import capture


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def _add(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def _seen(backend: Callable[[], None]) -> list[bool]:
    """Compile and call a function; what the collector was in the backend, and afterwards."""
    seen: list[bool] = []

    def watching(gm: Any, inputs: Any) -> Any:
        seen.append(gc.isenabled())
        backend()
        return gm.forward

    compiled = capture.compile(_add, backend=watching)
    try:
        compiled(torch.ones(2))
    finally:
        seen.append(gc.isenabled())
    return seen


@pytest.mark.parametrize("enabled", [True, False])
def test_backends_and_what_follows_have_the_programs_setting(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    assert _seen(lambda: None) == [enabled, enabled]


def test_capture_does_not_collect() -> None:
    def collections() -> int:
        return sum(generation["collections"] for generation in gc.get_stats())

    gc.enable()
    counted: list[int] = []

    def backend(gm: Any, inputs: Any) -> Any:
        counted.append(collections())
        return gm.forward

    net = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(30)))
    compiled = capture.compile(net, backend=backend)
    thresholds = gc.get_threshold()
    gc.set_threshold(20, 10, 10)
    try:
        before = collections()
        compiled(torch.ones(1, 2))
    finally:
        gc.set_threshold(*thresholds)
    assert counted[0] - before < 10, "a collection or two on the way in and out"


@pytest.mark.parametrize("enabled", [True, False])
def test_setting_survives_a_failing_backend(enabled: bool) -> None:
    def fail() -> None:
        raise ValueError("no")

    (gc.enable if enabled else gc.disable)()
    with pytest.raises(capture.errors.BackendCompilerFailed):
        _seen(fail)
    assert gc.isenabled() is enabled


def test_a_backend_that_turns_the_collector_off_is_obeyed() -> None:
    gc.enable()
    assert _seen(gc.disable) == [True, False]


def test_a_backend_that_turns_the_collector_on_is_obeyed() -> None:
    gc.disable()
    assert _seen(gc.enable) == [False, True]


def test_setting_survives_a_frame_that_is_left_to_python() -> None:
    gc.enable()

    @capture.compile(backend="eager")
    def fn(x: torch.Tensor) -> Any:
        total = x.sum().item()
        return x + total

    fn(torch.ones(3))
    assert gc.isenabled()
