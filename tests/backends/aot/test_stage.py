"""The AOT stage against eager: results, gradients, what is written to and what aliases what."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from capture import logs
from capture.backends.aot import (
    aot_autograd,
    aot_eager,
    aot_eager_decomp_partition,
    make_boxed,
    run_graph,
)
from capture.backends.aot.stage import Stage
from capture.backends.inductor import inductor
from capture.backends.registry import Backend, list_backends

BACKENDS = {
    "aot_eager": aot_eager,
    "decomposed": aot_eager_decomp_partition,
    "inductor": inductor,
}


@pytest.fixture(
    params=[
        "aot_eager",
        "decomposed",
        pytest.param("inductor", marks=pytest.mark.slow),  # seconds of a C++ compiler a graph
    ]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why graphs were run eagerly."""
    found: list[str] = []
    original = Stage._run_eagerly

    def record(self: Stage, reason: str) -> Any:
        found.append(reason)
        return original(self, reason)

    monkeypatch.setattr(Stage, "_run_eagerly", record)
    return found


def _compile(
    function: Callable[..., Any], inputs: list[Any], backend: Backend = aot_eager
) -> Callable[..., Any]:
    compiled = backend(fx.symbolic_trace(function), inputs)
    return lambda *args: compiled(list(args))


def _run(function: Callable[..., Any], *inputs: Any, backend: Backend = aot_eager) -> Any:
    return _compile(function, list(inputs), backend)(*inputs)


def _shared(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_both_backends_are_registered() -> None:
    assert {"aot_eager", "aot_eager_decomp_partition"} <= set(list_backends())


def test_gradients_are_those_of_eager(backend: Backend) -> None:
    x, w = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
    (y,) = _run(lambda x, w: (torch.nn.functional.gelu(x @ w),), x, w, backend=backend)
    y.sum().backward()
    v = w.detach().clone().requires_grad_()
    torch.nn.functional.gelu(x @ v).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(w.grad, v.grad)


def test_no_autograd_function_where_no_gradient_is_needed(backend: Backend) -> None:
    (y,) = _run(lambda x: (x.sin(),), torch.randn(3), backend=backend)
    assert y.grad_fn is None


def test_backward_is_compiled_by_its_own_compiler() -> None:
    seen: list[str] = []

    def compiler(name: str) -> Any:
        def compile(gm: fx.GraphModule, inputs: list[Any]) -> Any:
            seen.append(name)
            assert all(isinstance(value, Tensor) for value in inputs)
            return gm.forward

        return compile

    own = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
    x = torch.randn(3, requires_grad=True)
    _run(lambda x: (x.sin(),), x, backend=own)[0].sum().backward()
    assert seen == ["forward", "backward"]
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_compilers_see_functional_graphs() -> None:
    graphs: list[fx.GraphModule] = []

    def compiler(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(gm)
        return run_graph(gm, inputs)

    _run(lambda x: (x.add_(1).mul_(2),), torch.zeros(2), backend=aot_autograd(fw_compiler=compiler))
    schemas = [n.target._schema for n in graphs[0].graph.nodes if n.op == "call_function"]
    assert schemas
    assert not any(schema.is_mutable for schema in schemas)


def test_error_of_a_compiler_is_not_hidden() -> None:
    def compiler(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _run(lambda x: (x + 1,), torch.zeros(2), backend=aot_autograd(fw_compiler=compiler))


def test_make_boxed_empties_the_list() -> None:
    inputs = [1, 2]
    assert make_boxed(lambda a, b: a + b)(inputs) == 3  # type: ignore[comparison-overlap]
    assert inputs == []


# -- writes to inputs ------------------------------------------------------------------------------


def test_write_reaches_the_input(backend: Backend) -> None:
    x = torch.ones(3)
    (y,) = _run(lambda x: (x.mul_(2) + 1,), x, backend=backend)
    assert x.tolist() == [2.0] * 3
    assert y.tolist() == [3.0] * 3


def test_write_into_a_view_of_an_input(backend: Backend) -> None:
    x = torch.ones(2, 2)
    _run(lambda x: (x[0].zero_(),), x, backend=backend)
    assert x.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_differentiable_write(backend: Backend) -> None:
    a = torch.ones(3, requires_grad=True)
    x = a.clone()
    (y,) = _run(lambda x: (x.mul_(2).sin(),), x, backend=backend)
    (y.sum() + x.sum()).backward()
    torch.testing.assert_close(a.grad, 2 * (2 * a).cos().detach() + 2)


def test_write_to_a_leaf_is_eagers_error(reasons: list[str]) -> None:
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        _run(lambda x: (x.mul_(2),), torch.ones(3, requires_grad=True))
    assert reasons == ["a leaf that requires grad is written to"]


def test_value_saved_before_a_write_is_the_old_one(backend: Backend) -> None:
    w, x = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)

    def function(x: Any, w: Any) -> Any:
        y = x.clone() * w
        x.zero_()
        return (y,)

    _run(function, x, w, backend=backend)[0].sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3.0, 3.0]


def test_geometry_of_an_input_changes() -> None:
    x = torch.randn(2, 3)
    (y,) = _run(lambda x: (x.t_() + 1,), x)
    assert x.shape == y.shape == (3, 2)


def test_inputs_that_share_memory_run_eagerly() -> None:
    call = _compile(lambda a, b: (a.add_(1), b * 2), [torch.zeros(2), torch.zeros(2)])
    y = torch.zeros(4)
    assert call(y[:2], y[1:3])[1].tolist() == [2.0, 0.0]


def test_resize_runs_eagerly(reasons: list[str]) -> None:
    x = torch.zeros(2)
    _run(lambda x: (x.resize_(4),), x)
    assert x.shape == (4,)
    assert reasons == ["resize_ gives a tensor other memory"]


# -- outputs that alias ----------------------------------------------------------------------------


def test_input_is_returned_itself(backend: Backend) -> None:
    x = torch.randn(3)
    assert _run(lambda x: (x, x + 1), x, backend=backend)[0] is x


def test_view_of_an_input_is_one(backend: Backend) -> None:
    x = torch.randn(2, 3)
    (y,) = _run(lambda x: (x.t(),), x, backend=backend)
    assert y._base is x
    assert y.stride() == (1, 3)


def test_same_output_twice_is_one_tensor(backend: Backend) -> None:
    def function(x: Any) -> Any:
        y = x.sin()
        return y, y

    a, b = _run(function, torch.randn(3, requires_grad=True), backend=backend)
    assert a is b


def test_views_of_a_hidden_base_share_gradients(backend: Backend) -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y[0], y[1]

    x = torch.randn(2, 3, requires_grad=True)
    a, b = _run(function, x, backend=backend)
    assert _shared(a, b)
    a.mul_(5)
    (a.sum() + b.sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[10.0] * 3, [2.0] * 3]


def test_detached_output_shares_memory(backend: Backend) -> None:
    def function(x: Any) -> Any:
        y = x.sin()
        return y, y.detach()

    a, b = _run(function, torch.randn(3, requires_grad=True), backend=backend)
    assert _shared(a, b)
    assert (a.requires_grad, b.requires_grad) == (True, False)


def test_lone_view_of_an_intermediate_may_be_written_to(backend: Backend) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    (y,) = _run(lambda x: ((x * 2).view(-1),), x, backend=backend)
    y.mul_(3)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[6.0] * 2] * 2


def test_one_of_several_views_may_not_be_written_to(backend: Backend) -> None:
    def function(x: Any) -> Any:
        y = (x * 2).unbind(0)
        return y[0], y[1]

    a, _ = _run(function, torch.randn(2, 3, requires_grad=True), backend=backend)
    with pytest.raises(RuntimeError, match="view"):
        a.mul_(2)


# -- autograd --------------------------------------------------------------------------------------


def test_integer_and_constant_outputs(backend: Backend) -> None:
    x = torch.randn(3, requires_grad=True)
    y, i, n = _run(lambda x: (x.sin(), x.argmax(), 3), x, backend=backend)
    assert (y.requires_grad, i.requires_grad, n) == (True, False, 3)


def test_absent_and_odd_tangents(backend: Backend) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    a, _ = _run(lambda x: (x.sin(), x.cos()), x, backend=backend)
    tangent = torch.randn(4, 3).t()
    a.backward(tangent)
    torch.testing.assert_close(x.grad, tangent * x.detach().cos())


def test_no_grad_inside(backend: Backend) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    y = graph.call_method("mul", (x, 3))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((graph.call_method("mul", (x, y)),))
    value = torch.ones(2, requires_grad=True)
    (result,) = backend(fx.GraphModule({}, graph), [value])([value])
    assert isinstance(result, Tensor)
    result.sum().backward()  # type: ignore[no-untyped-call]
    assert value.grad is not None
    assert value.grad.tolist() == [3.0, 3.0]


def test_grad_mode_left_behind() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output((graph.call_method("sin", (x,)),))
    value = torch.ones(2, requires_grad=True)
    compiled = aot_eager(fx.GraphModule({}, graph), [value])
    assert torch.is_grad_enabled()
    try:
        compiled([value])
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_caller_casts_only_once() -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        (y,) = _run(lambda x, w: (x @ w,), x, w)
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert w.grad is not None
    assert w.grad.dtype is torch.float32


def test_double_backward() -> None:
    x = torch.randn(3, requires_grad=True)
    (y,) = _run(lambda x: (x.pow(3).sum(),), x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(h, 6 * x.detach())


def test_double_backward_of_a_random_graph_is_an_error() -> None:
    x = torch.randn(3, requires_grad=True)
    (y,) = _run(lambda x: (torch.nn.functional.dropout(x, 0.5).pow(3).sum(),), x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="no double backward"):
        g.sum().backward()  # type: ignore[no-untyped-call]


def test_graph_dies_with_its_outputs() -> None:
    x = torch.randn(3, requires_grad=True)
    (y,) = _run(lambda x: (x.exp().sin(),), x)
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert node() is None


# -- random numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
def test_dropout_is_eagers(backend: Backend, transposed: bool) -> None:
    x = torch.ones(20, 10)
    x = (x.t() if transposed else x).requires_grad_()
    call = _compile(lambda x: (torch.nn.functional.dropout(x, 0.5),), [x], backend)
    torch.manual_seed(1)
    expected = torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(1)
    (y,) = call(x)
    assert torch.equal(y, expected)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_backward_draws_no_random_numbers(backend: Backend) -> None:
    x = torch.ones(8, requires_grad=True)
    (y,) = _run(lambda x: (torch.nn.functional.dropout(x.sin(), 0.5),), x, backend=backend)
    before = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(before, torch.get_rng_state())


def test_compiling_draws_no_random_numbers(backend: Backend) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.nn.functional.dropout, (x, 0.5)),))
    before = torch.get_rng_state()
    backend(fx.GraphModule({}, graph), [torch.zeros(3, requires_grad=True)])
    assert torch.equal(before, torch.get_rng_state())


# -- inputs of other kinds -------------------------------------------------------------------------


def test_numbers_are_not_burnt_in() -> None:
    call = _compile(lambda x, n: (x * n,), [torch.ones(2), 2.0])
    assert [call(torch.ones(2), n)[0][0].item() for n in (2.0, 3.0, True, -0.0)] == [2, 3, 1, 0]


def test_many_numbers_run_eagerly() -> None:
    call = _compile(lambda x, n: (x * n,), [torch.ones(2), 0])
    assert [call(torch.ones(2), n)[0][0].item() for n in range(12)] == list(range(12))


def test_parameters_of_a_module_get_gradients(backend: Backend) -> None:
    module = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    y: Any = backend(fx.symbolic_trace(module), [x])([x])
    y.sum().backward()
    assert module.weight.grad is not None
    assert module.bias.grad is not None
    torch.testing.assert_close(module.weight.grad, x.sum(0).expand(2, 3))


def test_data_dependent_shape_runs_eagerly(reasons: list[str]) -> None:
    x = torch.tensor([-1.0, 2.0])
    assert _run(lambda x: (x[x > 0],), x)[0].tolist() == [2.0]
    assert len(reasons) == 1


def test_a_trace_that_fails_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    w = torch.ones(2, requires_grad=True)
    _run(lambda w: (w.requires_grad_(False) * 2,), w)
    assert not w.requires_grad
    assert capfd.readouterr() == ("", "")


def test_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    artifact = logs.artifact("aot")
    with caplog.at_level("INFO", logger=artifact.logger.name):
        _run(lambda x: (x[x > 0],), torch.tensor([-1.0, 2.0]))
    assert sum("runs eagerly" in record.getMessage() for record in caplog.records) == 1
