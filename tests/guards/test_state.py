"""Tests of the guard on torch's global state: each part is noticed, in each thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from capture.guards import GuardSet, StateIs, native_setup, read_state
from capture.guards.native_setup import readers


class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def identity(value: Any) -> Any:
    return value


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def default_dtype() -> Any:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic(warn_only: bool) -> Any:
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    yield
    torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def default_device() -> Any:
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


@contextlib.contextmanager
def inside_grad_transform() -> Any:
    torch._C._functorch._grad_increment_nesting()
    yield
    torch._C._functorch._grad_decrement_nesting()


@contextlib.contextmanager
def no_forward_grad() -> Any:
    torch._C._set_fwd_grad_enabled(False)
    yield
    torch._C._set_fwd_grad_enabled(True)


def autocast(dtype: torch.dtype, cache: bool = True) -> Any:
    return torch.autocast("cpu", dtype=dtype, cache_enabled=cache)


STATES: dict[str, Callable[[], Any]] = {
    "usual": contextlib.nullcontext,
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast bfloat16": lambda: autocast(torch.bfloat16),
    "autocast float16": lambda: autocast(torch.float16),
    "autocast without cache": lambda: autocast(torch.bfloat16, cache=False),
    "default dtype": default_dtype,
    "default device": default_device,
    "device context": lambda: torch.device("cpu"),
    "deterministic": lambda: deterministic(False),
    "deterministic warn": lambda: deterministic(True),
    "function mode": FunctionMode,
    "dispatch mode": DispatchMode,
    "function disabled": torch._C.DisableTorchFunction,
    "subclasses disabled": torch._C.DisableTorchFunctionSubclass,
    "functorch": inside_grad_transform,
    "forward AD": torch.autograd.forward_ad.dual_level,
    "no forward AD": no_forward_grad,
    "saved hooks": lambda: torch.autograd.graph.saved_tensors_hooks(identity, identity),
    "no saved hooks": lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"),
}


def test_all_words_are_read_natively() -> None:
    assert readers().state_words == set(native_setup.fallback_words())


@pytest.mark.parametrize("name", STATES)
def test_each_state_is_itself_only(agree: Any, name: str) -> None:
    with STATES[name]():
        guard = StateIs.now()
        guards = GuardSet()
        guards.add(guard)
        tree = guards.compile()
        assert agree(guard, (), tree=tree)
    for other, enter in STATES.items():
        with enter():
            # entered anew, a mode or hook is another object, and so another state
            anew = ("function mode", "dispatch mode")
            expected = other == name and name not in anew
            assert agree(guard, (), tree=tree) == expected, other


def test_the_same_mode_object_is_the_same_state(agree: Any) -> None:
    mode = FunctionMode()
    with mode:
        guard = StateIs.now()
        assert agree(guard, ())
    with mode:
        assert agree(guard, ())
    with FunctionMode():
        assert not agree(guard, ())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("grad mode", "grad mode changed from True to False"),
        ("default dtype", "the default dtype changed from torch.float32 to torch.float64"),
        ("autocast bfloat16", "autocast changed from () to ((cpu, torch.bfloat16))"),
        ("default device", "the stack of torch function modes changed from () to (meta)"),
        ("deterministic", "deterministic algorithms changed from False to True"),
        ("forward AD", "the forward AD level changed from -1 to 0"),
        ("functorch", "the stack of function transforms changed from () to (TransformType.Grad 1)"),
    ],
)
def test_explains_what_changed(name: str, sentence: str) -> None:
    guards = GuardSet()
    guards.add(StateIs.now())
    with STATES[name]():
        failure = guards.first_failure(None)  # type: ignore[arg-type]
        assert failure is not None
        assert failure[1] == sentence


def test_native_snapshot_names_its_words() -> None:
    snapshot: Any = StateIs.now().snapshot
    assert snapshot.changed() == []
    assert snapshot.holds()
    with torch.no_grad():
        assert snapshot.changed() == ["autograd"]
        assert not snapshot.holds()
        assert snapshot != StateIs.now().snapshot
    assert snapshot == StateIs.now().snapshot
    assert hash(snapshot) == hash(StateIs.now().snapshot)


def test_each_thread_has_its_own_state() -> None:
    guards = GuardSet()
    guards.add(StateIs.now())
    tree = guards.compile()
    seen: list[bool] = []

    def look() -> None:
        seen.append(tree.check(()) is not None)
        with torch.no_grad():
            seen.append(tree.check(()) is not None)
        seen.append(tree.check(()) is not None)

    with torch.no_grad():
        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        assert tree.check(()) is None
    assert seen == [True, False, True] * 3


def test_python_words_stand_in_for_native_ones() -> None:
    from capture import _native

    enabled = readers().state_words
    try:
        for word in enabled:
            _native.state_enable(enabled - {word})
            guards = GuardSet()
            guards.add(StateIs.now())
            tree = guards.compile()
            assert tree.check(()) is not None
            for name, enter in STATES.items():
                with enter():
                    assert (tree.check(()) is not None) == (name == "usual"), (word, name)
        _native.state_enable([])
        guards = GuardSet()
        guards.add(StateIs.now())
        tree = guards.compile()
        assert tree.check(()) is not None
        with torch.no_grad():
            assert tree.check(()) is None
    finally:
        _native.state_enable(enabled)


def test_reading_the_state_runs_no_mode() -> None:
    class Loud(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            raise AssertionError("user code ran")

    with Loud():
        state = read_state()
        guard = StateIs.now()
        guards = GuardSet()
        guards.add(guard)
        tree = guards.compile()
        assert tree.check(()) is not None
    assert len(state.function_modes) == 1


@pytest.mark.parametrize("name", [name for name in STATES if name != "functorch"])
def test_self_tests_pass_in_any_state(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    usual = readers()
    monkeypatch.setattr(native_setup, "_found", None)
    before = read_state()
    with STATES[name]():
        inside = read_state()
        found = readers()
        if name not in ("function mode", "dispatch mode", "device context", "default device"):
            assert read_state() == inside
    assert read_state() == before
    assert found == usual


def test_self_tests_wait_until_no_transform_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_setup, "_found", None)
    with inside_grad_transform():
        assert not readers().metadata
    assert readers().metadata
