"""Tests of the FX graph: inputs, numbers, compiling, and letting go."""

from __future__ import annotations

import gc
import linecache
import math
import operator
import traceback
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx
from torch.fx import graph_module

from capture.config import settings
from capture.errors import BackendCompilerFailed, InternalError
from capture.graph import (
    CannotPropagate,
    OperatorError,
    OutputGraph,
    ScalarValue,
    TensorValue,
    fx_adapter,
)
from capture.graph.verify import verify


def as_given(gm: fx.GraphModule, inputs: list[Any]) -> Any:
    """Do nothing: the backend of these tests."""
    return gm


def small() -> tuple[OutputGraph, TensorValue]:
    graph = OutputGraph("small")
    x = graph.add_input("x", torch.ones(2), "x")
    return graph, graph.call("call_function", torch.add, (x, 1))


def test_unused_inputs_are_dropped() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2), "x")
    graph.add_input("unused", torch.ones(2), "unused")
    y = graph.call("call_function", torch.neg, (x,))
    late = graph.add_input("x", torch.full((2,), 3.0), "late")
    graph.add_scalar_input("n", 3, "n")
    z = graph.call("call_function", torch.add, (y, late))
    assert graph.inputs == ["x", "unused", "late", "n"]
    seen: list[Any] = []

    def backend(gm: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        seen.extend(inputs)
        return gm

    compiled = graph.compile([z, y], backend)
    assert compiled.input_keys == ["x", "late"]
    assert (compiled.n_inputs, compiled.n_outputs, compiled.boxed) == (2, 2, False)
    first, second = compiled.fn(*seen)
    assert torch.equal(first, torch.full((2,), 2.0))
    assert torch.equal(second, torch.full((2,), -1.0))
    assert [n.name for n in compiled.gm.graph.nodes if n.op == "placeholder"] == ["x", "x_1"]


def test_examples_can_be_given() -> None:
    graph, y = small()
    seen: list[Any] = []
    other = torch.zeros(2)

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        seen.extend(inputs)
        return gm

    graph.compile([y], backend, [other])
    assert seen[0] is other


def test_calls_run_in_order() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2), "x")
    y = graph.call("call_function", torch.mul, (x, 2))
    graph.call("call_method", "add_", (x, 10))
    z = graph.call("call_function", torch.mul, (x, 2))
    graph.call("call_function", operator.setitem, (x, 0, y[0] if False else 5))
    compiled = graph.compile([y, z, x], as_given)
    given = torch.ones(2)
    before, after, same = compiled.fn(given)
    assert before.tolist() == [2, 2]
    assert after.tolist() == [22, 22]
    assert same is given
    assert given.tolist() == [5, 11]


def test_stack_trace_is_that_of_the_call() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(2), "x")
    line = 1
    y = graph.call("call_function", torch.neg, (x,), None, lambda: f"line {line}")
    line = 2
    z = graph.call("call_function", torch.neg, (x,), None, "here")
    assert (y.node.meta["stack_trace"], z.node.meta["stack_trace"]) == ("line 1", "here")


def test_arguments_of_all_kinds() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(4, 4), "x")
    results = [
        graph.call("call_function", torch.cat, ([x, x],), {"dim": -1}),
        graph.call("call_function", operator.getitem, (x, (slice(0, 3, 2), None, ...))),
        graph.call("call_method", "to", (x, float)),
        graph.call("call_method", "to", (x,), {"memory_format": torch.contiguous_format}),
        graph.call("call_method", "to", (x, torch.device("cpu"), torch.float16)),
        graph.call("call_method", "view", (x, torch.Size([2, 8]))),
        graph.call("call_function", torch.full, ((2,), math.inf)),
        graph.call("call_function", torch.full, ((2,), -0.0)),
        graph.call("call_function", torch.full, ((2,), math.nan)),
        graph.call("call_function", F.pad, (x, [1, 1])),
        graph.call("call_function", torch.einsum, ("ij,jk", x, x)),
    ]
    compiled = graph.compile(results, as_given)
    outputs = compiled.fn(torch.ones(4, 4))
    for value, tensor in zip(results, outputs, strict=True):
        assert tuple(value.shape) == tuple(tensor.shape)
        assert value.meta.dtype == tensor.dtype
    assert math.copysign(1, outputs[7][0].item()) == -1
    assert outputs[8].isnan().all()


@pytest.mark.parametrize("constant", [object(), len, {1, 2}, torch.Generator(), {(): 1}])
def test_arguments_that_a_graph_cannot_hold(constant: Any) -> None:
    graph, y = small()
    with pytest.raises(CannotPropagate):
        graph.call("call_function", torch.add, (y, constant))
    assert graph.num_ops == 1


def test_failed_calls_leave_nothing() -> None:
    graph, y = small()
    for args in [(y, torch.Generator()), (y, "x")]:
        with pytest.raises((CannotPropagate, OperatorError)):
            graph.call("call_function", torch.add, args)
    assert len(graph.graph.nodes) == 2
    assert graph.call("call_function", torch.add, (y, 1)).node.name == "add_1"


# --- numbers -----------------------------------------------------------------------------------


def test_arithmetic_on_numbers() -> None:
    graph = OutputGraph("test")
    lr = graph.add_scalar_input("lr", 0.5, "lr")
    n = graph.add_scalar_input("n", 3, "n")
    half = graph.call("call_function", operator.truediv, (n, 2))
    assert isinstance(half, ScalarValue)
    assert (half.pytype, half.example) == (float, 1.5)
    total = graph.call("call_function", operator.mul, (half, lr))
    root = graph.call("call_function", math.sqrt, (total,))
    large = graph.call("call_function", operator.gt, (n, 2))
    assert (large.pytype, large.example) == (bool, True)
    x = graph.add_input("x", torch.ones(2), "x")
    y = graph.call("call_function", torch.mul, (x, root))
    compiled = graph.compile([y, large, total], as_given)
    assert compiled.input_keys == ["lr", "n", "x"]
    tensor, flag, number = compiled.fn(4.0, 2, torch.ones(2))
    assert tensor.tolist() == [2.0, 2.0]
    assert flag is False
    assert number == 4.0


def test_errors_of_numbers_are_eagers() -> None:
    graph = OutputGraph("test")
    n = graph.add_scalar_input("n", 0, "n")
    with pytest.raises(OperatorError) as caught:
        graph.call("call_function", operator.truediv, (1, n))
    assert isinstance(caught.value.original_exception, ZeroDivisionError)
    assert graph.num_ops == 0
    assert not graph.may_raise


def test_numbers_that_decide_shapes_step_aside() -> None:
    graph = OutputGraph("test")
    n = graph.add_scalar_input("n", 2, "n")
    x = graph.add_input("x", torch.ones(4, 4), "x")
    for target, args in [
        (torch.zeros, (n,)),
        (torch.sum, (x, n)),
        (torch.arange, (n,)),
        (operator.getitem, (x, n)),
        (operator.pow, (n, n)),
    ]:
        with pytest.raises(CannotPropagate):
            graph.call("call_function", target, args)
    assert graph.call("call_function", torch.add, (x, n)).meta.dtype is torch.float32


def test_a_number_promotes_by_its_type_only() -> None:
    graph = OutputGraph("test")
    x = graph.add_input("x", torch.ones(4, dtype=torch.int64), "x")
    for number, dtype in [(2, torch.int64), (2.0, torch.float32), (True, torch.int64)]:
        scalar = graph.add_scalar_input("s", number, number)
        assert graph.call("call_function", torch.mul, (x, scalar)).meta.dtype is dtype


# --- compiling ---------------------------------------------------------------------------------


def test_backend_errors_are_wrapped() -> None:
    def broken(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        raise KeyError("oops")

    graph, y = small()
    with pytest.raises(BackendCompilerFailed) as caught:
        graph.compile([y], broken)
    assert caught.value.backend_name == "broken"
    assert isinstance(caught.value.inner, KeyError)
    graph, y = small()
    with pytest.raises(BackendCompilerFailed):
        graph.compile([y], lambda gm, inputs: None)  # type: ignore[arg-type, return-value]


def test_boxed_callables_are_noticed() -> None:
    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        def boxed(values: list[Any]) -> Any:
            return gm(*values)

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed

    graph, y = small()
    assert graph.compile([y], backend).boxed


def test_code_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    original = fx.GraphModule.recompile

    def counting(self: fx.GraphModule) -> Any:
        nonlocal count
        count += 1
        return original(self)

    monkeypatch.setattr(fx.GraphModule, "recompile", counting)
    graph, y = small()
    graph.compile([y], as_given)
    assert count == 1


def test_source_goes_with_the_module() -> None:
    graph, y = small()
    compiled = graph.compile([y], as_given)
    filename = type(compiled.gm).forward.__code__.co_filename
    assert filename in graph_module._loader.eval_cache
    linecache.getlines(filename)
    del graph, y, compiled
    gc.collect()
    assert filename not in graph_module._loader.eval_cache
    assert filename not in linecache.cache


def test_the_line_cache_is_left_as_it_was() -> None:
    before = set(linecache.cache)
    graph, y = small()
    graph.compile([y], as_given)
    assert set(linecache.cache) <= before


def test_tracebacks_show_the_generated_source() -> None:
    graph, y = small()
    compiled = graph.compile([y], as_given)
    assert compiled.gm is not None
    forward = type(compiled.gm).forward
    with pytest.raises(TypeError) as caught:
        forward(compiled.gm, *["text"] * (forward.__code__.co_argcount - 1))
    line = traceback.extract_tb(caught.value.__traceback__)[-1].line
    assert line
    assert " = " in line


def test_generated_source_stays_while_the_line_cache_is_checked() -> None:
    linecache.cache["<first>"] = (0, None, [], "<first>")
    linecache.cache["<second>"] = (0, None, [], "<second>")
    scope: dict[str, Any] = {"evict": fx_adapter._evict, "linecache": linecache}
    text = "def check():\n evict('<second>')\n return linecache.cache['<second>']\n"
    exec(compile(text, linecache.__file__, "exec"), scope)
    assert scope["check"]()
    fx_adapter._evict("<first>")
    assert not {"<first>", "<second>"} & linecache.cache.keys()


def test_verify_finds_faults() -> None:
    with settings.patch(verify=True):
        graph, y = small()
        compiled = graph.compile([y], as_given)
    with pytest.raises(InternalError):
        verify(compiled.gm, [], 1)
    with pytest.raises(InternalError):
        verify(compiled.gm, [torch.ones(2)], 2)
    compiled.gm.graph.placeholder("late")
    with pytest.raises((InternalError, RuntimeError)):
        verify(compiled.gm, [torch.ones(2)], 1)


def test_verify_recomputes_metadata() -> None:
    graph, y = small()
    compiled = graph.compile([y], as_given)
    y.node.meta["capture_meta"] = y.meta._replace(shape=(3,), stride=(1,))
    with pytest.raises(InternalError, match="add"):
        verify(compiled.gm, [torch.ones(2)], 1)


def test_views_of_one_base_as_inputs() -> None:
    base = torch.zeros(2, 2)
    graph = OutputGraph("test")
    first, second = graph.add_input("a", base[0], 0), graph.add_input("b", base[1], 1)
    other = graph.add_input("c", torch.ones(2), 2)
    assert first.alias_group == second.alias_group != other.alias_group
    assert first.view_group == second.view_group
    w = graph.add_input("w", torch.ones(2, requires_grad=True), 3)
    graph.call("call_method", "mul_", (first, w))
    assert second.meta.has_grad_fn
    assert graph.may_raise
    assert graph.mutates_inputs


def test_speed_of_a_remembered_call() -> None:
    """A guard against a slow path creeping in; the figure is some 10 us on a slow machine."""
    import time

    best = 1.0
    for _ in range(3):
        graph = OutputGraph("test")
        x = graph.add_input("x", torch.ones(2, 2), "x")
        graph.call("call_function", F.linear, (x, x))
        start = time.process_time()
        for _ in range(200):
            graph.call("call_function", F.linear, (x, x))
        best = min(best, (time.process_time() - start) / 200)
    assert best < 100e-6
