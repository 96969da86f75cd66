"""Tests that the graph follows torch's state, and leaves the process's alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from capture.graph import OperatorError, OutputGraph, snapshot
from capture.graph.state import applied


def test_grad_mode() -> None:
    graph = OutputGraph("test")
    before = snapshot()
    x = graph.add_input("x", torch.ones(2, requires_grad=True), 0)
    graph.call("call_function", torch._C._set_grad_enabled, (False,))
    assert graph.state.grad_enabled is False
    assert graph.call("call_function", torch.is_grad_enabled) is False
    assert not graph.call("call_function", torch.mul, (x, 2)).meta.requires_grad
    graph.call("call_function", torch._C._set_grad_enabled, (True,))
    assert graph.call("call_function", torch.mul, (x, 2)).meta.requires_grad
    assert snapshot() == before
    assert graph.num_ops == 4


def test_autocast_token() -> None:
    graph = OutputGraph("test")
    before = snapshot()
    x = graph.add_input("x", torch.ones(2, 2), 0)
    w = graph.add_input("w", torch.nn.Parameter(torch.ones(2, 2)), 1)
    token = graph.call("call_function", _enter_autocast, ("cpu", torch.bfloat16, True, None))
    assert graph.call("call_function", torch.is_autocast_enabled, ("cpu",)) is True
    assert graph.call("call_function", F.linear, (x, w)).meta.dtype is torch.bfloat16
    inside = graph.call("call_function", F.linear, (x, w))
    graph.call("call_function", _exit_autocast, (token,))
    assert graph.call("call_function", F.linear, (x, w)).meta.dtype is torch.float32
    assert graph.state == before == snapshot()
    compiled = graph.compile([inside], lambda gm, inputs: gm)
    (result,) = compiled.fn(torch.ones(2, 2), torch.ones(2, 2))
    assert result.dtype is torch.bfloat16
    assert snapshot() == before


def test_autocast_by_single_calls() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2, 2), 0)
    for target, args in [
        (torch.set_autocast_enabled, ("cpu", True)),
        (torch.set_autocast_dtype, ("cpu", torch.float16)),
        (torch.set_autocast_cache_enabled, (True,)),
    ]:
        graph.call("call_function", target, args)
    assert graph.call("call_function", torch.autocast_increment_nesting) == 1
    assert graph.call("call_function", torch.mm, (x, x)).meta.dtype is torch.float16
    assert graph.call("call_function", torch.autocast_decrement_nesting) == 0
    graph.call("call_function", torch.clear_autocast_cache)


def test_inference_mode_token() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2, requires_grad=True), 0)
    token = graph.call("call_function", _enter_inference_mode, (True,))
    assert graph.state.inference_mode
    y = graph.call("call_function", torch.mul, (x, 2))
    assert y.meta.is_inference
    assert graph.call("call_method", "add_", (y, 1)) is y
    graph.call("call_function", _exit_inference_mode, (token,))
    assert not graph.state.inference_mode
    assert not graph.call("call_function", torch.mul, (x, 2)).meta.is_inference
    assert not torch.is_inference_mode_enabled()


def test_captured_in_inference_mode() -> None:
    with torch.inference_mode():
        graph = OutputGraph("test")
        x = graph.add_input("x", torch.ones(2), 0)
        y = graph.add_input("y", torch.ones(2), 1)
        assert graph.call("call_function", torch.add, (x, y)).meta.is_inference
    assert not OutputGraph("other").state.inference_mode


def test_default_dtype_counts() -> None:
    graph = OutputGraph("test")
    assert graph.call("call_function", torch.zeros, (2,)).meta.dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        graph = OutputGraph("test")
    finally:
        torch.set_default_dtype(torch.float32)
    assert graph.call("call_function", torch.zeros, (2,)).meta.dtype is torch.float64
    assert graph.call("call_function", torch.get_default_dtype) is torch.float64
    assert graph.state_value(torch.get_default_dtype) is torch.float64


def test_errors_of_state_calls() -> None:
    graph = OutputGraph("test")
    with pytest.raises(OperatorError) as caught:
        graph.call("call_function", torch._C._set_grad_enabled, ("no",))
    assert isinstance(caught.value.original_exception, TypeError)
    assert graph.num_ops == 0


def test_applied_restores_after_an_exception() -> None:
    before = snapshot()
    other = before._replace(
        grad_enabled=False, inference_mode=True, default_dtype=torch.float64, autocast_nesting=2
    )
    with pytest.raises(KeyError), applied(other):
        assert snapshot() == other
        raise KeyError
    assert snapshot() == before
