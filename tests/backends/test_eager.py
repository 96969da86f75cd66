"""The eager backend: right results, one boxed list, nothing kept longer than eager would."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx

from capture.backends import BoxedCodeGen, eager, takes_boxed_graph


def _graph(build: Callable[[fx.Graph], object]) -> fx.Graph:
    graph = fx.Graph()
    graph.output(build(graph))  # type: ignore[arg-type]
    return graph


def _add_relu(graph: fx.Graph) -> object:
    x, y = graph.placeholder("x"), graph.placeholder("y")
    total = graph.call_function(torch.add, (x, y))
    return (graph.call_method("relu", (total,)), total)


@pytest.fixture(params=["made boxed", "made plain"])
def module_of(request: pytest.FixtureRequest) -> Callable[[fx.Graph], fx.GraphModule]:
    def make(graph: fx.Graph) -> fx.GraphModule:
        if request.param == "made boxed":
            graph.set_codegen(BoxedCodeGen())
        return fx.GraphModule({}, graph)

    return make


def test_results_are_those_of_the_graph(module_of: Callable[[fx.Graph], fx.GraphModule]) -> None:
    compiled = eager(module_of(_graph(_add_relu)), [])
    assert compiled._boxed_call  # type: ignore[attr-defined]
    x, y = torch.randn(3), torch.randn(3)
    inputs = [x, y]
    relu, total = compiled(inputs)
    assert inputs == []
    assert torch.equal(total, x + y)  # type: ignore[arg-type]
    assert torch.equal(relu, (x + y).relu())  # type: ignore[arg-type]


def test_values_are_freed_after_their_last_use(
    module_of: Callable[[fx.Graph], fx.GraphModule],
) -> None:
    alive: list[list[bool]] = []
    watched: list[weakref.ref[Tensor]] = []

    def watch(value: Tensor) -> Tensor:
        alive.append([each() is not None for each in watched])
        result = value + 1
        watched.append(weakref.ref(result))
        return result

    def build(graph: fx.Graph) -> object:
        value = graph.placeholder("x")
        graph.placeholder("unused")
        for _ in range(3):
            value = graph.call_function(watch, (value,))
        return (value,)

    x = torch.zeros(2)
    watched.append(weakref.ref(x))
    compiled = eager(module_of(_graph(build)), [])
    inputs = [x, torch.ones(1)]
    del x
    (result,) = compiled(inputs)
    # Each call sees its own argument and nothing older.
    assert alive == [[True], [False, True], [False, False, True]]
    assert torch.equal(result, torch.full((2,), 3.0))  # type: ignore[arg-type]


def test_unused_input_of_a_plain_graph_is_freed_at_once() -> None:
    seen: list[bool] = []
    big = torch.zeros(4)
    reference = weakref.ref(big)

    def look(value: Tensor) -> Tensor:
        seen.append(reference() is None)
        return value

    def build(graph: fx.Graph) -> object:
        graph.placeholder("unused")
        x = graph.placeholder("x")
        return (graph.call_function(look, (x,)),)

    compiled = eager(fx.GraphModule({}, _graph(build)), [])
    inputs = [big, torch.ones(1)]
    del big
    compiled(inputs)
    assert seen == [True]


def test_plain_module_keeps_its_own_calling_convention() -> None:
    gm = fx.GraphModule({}, _graph(_add_relu))
    code = gm.code
    eager(gm, [])
    assert gm.code == code
    assert torch.equal(gm(torch.ones(2), torch.ones(2))[1], torch.full((2,), 2.0))


def test_boxed_module_is_not_generated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert takes_boxed_graph(eager)
    graph = _graph(_add_relu)
    graph.set_codegen(BoxedCodeGen())
    gm = fx.GraphModule({}, graph)

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("code generated again")

    monkeypatch.setattr(fx.Graph, "python_code", fail)
    compiled = eager(gm, [])
    assert torch.equal(compiled([torch.ones(2), torch.ones(2)])[1], torch.full((2,), 2.0))  # type: ignore[arg-type]


def test_graph_without_inputs() -> None:
    graph = _graph(lambda g: (g.call_function(torch.ones, (2,)),))
    graph.set_codegen(BoxedCodeGen())
    assert torch.equal(eager(fx.GraphModule({}, graph), [])([])[0], torch.ones(2))  # type: ignore[arg-type]


def test_attributes_of_the_module_are_reached() -> None:
    root = torch.nn.Module()
    root.register_buffer("scale", torch.full((2,), 3.0))

    def build(graph: fx.Graph) -> object:
        x = graph.placeholder("x")
        return (graph.call_function(torch.mul, (x, graph.get_attr("scale"))),)

    compiled = eager(fx.GraphModule(root, _graph(build)), [])
    assert torch.equal(compiled([torch.ones(2)])[0], torch.full((2,), 3.0))  # type: ignore[arg-type]


def test_boxed_graph_runs_in_the_fx_interpreter_either_way() -> None:
    graph = _graph(_add_relu)
    graph.set_codegen(BoxedCodeGen())
    gm = fx.GraphModule({}, graph)
    x, y = torch.ones(2), torch.ones(2)
    assert torch.equal(fx.Interpreter(gm).run(x, y)[1], x + y)
    assert torch.equal(fx.Interpreter(gm).run([x, y])[1], x + y)


def test_dropped_callable_frees_the_module() -> None:
    gm = fx.GraphModule({}, _graph(_add_relu))
    reference = weakref.ref(gm)
    compiled = eager(gm, [])
    del gm
    assert reference() is not None
    del compiled
    gc.collect()
    assert reference() is None
