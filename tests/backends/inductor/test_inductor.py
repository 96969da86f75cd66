"""Programs through Inductor: results, errors, and what is handed over.

Each graph costs seconds of a C++ compiler, so only what is Inductor's own is tried here; what the
AOT stage does is tested with cheaper backends, and with this one among the slow tests.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import capture
from capture.backends.inductor import InductorFailed, MissingCompiler, adapter, inductor
from capture.backends.registry import list_backends


def _compile(function: Callable[..., Any], *inputs: Any) -> Callable[..., Any]:
    compiled = inductor(fx.symbolic_trace(function), list(inputs))
    return lambda *args: compiled(list(args))


def test_is_registered() -> None:
    assert "inductor" in list_backends()


def test_training_step_is_eagers() -> None:
    def loss(x: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return (torch.nn.functional.gelu(x @ w).mm(v).square().mean(),)

    torch.manual_seed(0)
    x, w, v = torch.randn(8, 6), torch.randn(6, 5), torch.randn(5, 3)
    given = [each.clone().requires_grad_() for each in (w, v)]
    expected = [each.clone().requires_grad_() for each in (w, v)]
    compiled = _compile(loss, x, *given)
    for _ in range(2):
        compiled(x, *given)[0].backward()
        loss(x, *expected)[0].backward()  # type: ignore[no-untyped-call]
    for ours, eagers in zip(given, expected, strict=True):
        torch.testing.assert_close(ours.grad, eagers.grad)


def test_inputs_are_written_by_the_compiled_code() -> None:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.mul_(2)
        return (x + y,)

    x, y = torch.ones(4), torch.ones(4)
    version = x._version
    compiled = _compile(step, x, y)
    (z,) = compiled(x, y)
    assert x.tolist() == [2] * 4
    assert z.tolist() == [3] * 4
    assert x._version > version
    # The same memory twice is another program: it does not run on the compiled code.
    (z,) = compiled(x, x)
    assert z.tolist() == [8] * 4


def test_saved_view_of_an_output_is_known_to_autograd() -> None:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        return y, y.t() @ w

    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    y, z = _compile(function, x, w)(x, w)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.sum().backward()


def test_random_numbers_and_strides_are_eagers() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x),)

    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    compiled = _compile(function, x)
    torch.manual_seed(3)
    (ours,) = compiled(x)
    after = torch.rand(1)
    torch.manual_seed(3)
    eagers = function(x)[0]
    assert torch.equal(after, torch.rand(1))
    torch.testing.assert_close(ours, eagers)
    assert ours.stride() == eagers.stride()


def test_front_door_serves_where_names_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch._inductor.compile_fx")
    monkeypatch.delattr(module, "compile_fx_backward")
    x = torch.randn(5)
    (y,) = _compile(lambda x: (x.sin() * 2,), x)(x)
    torch.testing.assert_close(y, 2 * x.sin())


def test_error_carries_the_graph_and_a_way_on(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = adapter.inner()
    assert functions is not None

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("no lowering for that")

    broken = functions._replace(compile_fx_forward=fail)
    monkeypatch.setattr(adapter, "inner", lambda: broken)
    compiled: Any = capture.compile(lambda x: x.sin(), backend="inductor")
    with pytest.raises(capture.BackendCompilerFailed) as caught:
        compiled(torch.ones(2))
    assert "backend 'inductor' raised" in str(caught.value)
    inner = caught.value.inner
    assert isinstance(inner, InductorFailed)
    assert inner.part == "inference"
    assert any(node.target is torch.ops.aten.sin.default for node in inner.graph.nodes)
    for text in ("no lowering for that", "aten.sin", 'backend="aot_eager"'):
        assert text in str(inner)


def test_missing_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config
    from torch._inductor.exc import InvalidCxxCompiler

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise InvalidCxxCompiler()

    builder = importlib.import_module("torch._inductor.cpp_builder")
    monkeypatch.setattr(builder, "get_cpp_compiler", fail)
    importlib.import_module("torch._inductor.cpu_vec_isa").valid_vec_isa_list.cache_clear()
    with config.patch(fx_graph_cache=False), pytest.raises(MissingCompiler) as caught:
        _compile(lambda x: (x.sin().cos().tan() - 12345.0,), torch.ones(2))
    assert 'backend="aot_eager"' in str(caught.value)
