"""Tests that quickly generated source is what FX generates."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from capture.backends.boxed import BoxedCodeGen
from capture.graph import source
from capture.graph.fx_adapter import make_graph_module


def scale(x: torch.Tensor) -> torch.Tensor:
    """Stand for a function of the user's."""
    return x * 2


def example() -> fx.Graph:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    call: Any = graph.call_function
    a = call(torch.add, (x, y), {"alpha": 2})
    b = call(F.linear, (a, y))
    c = call(F.dropout, (b, 0.5), {"training": False})
    d = call(operator.getitem, (c, (slice(None, 2, None), None, ..., 0)))
    call(operator.setitem, (x, 0, 1.5))
    e = call(operator.iadd, (d, math.inf))
    f = call(operator.neg, (e,))
    g = call(getattr, (f, "T"))
    h = call(torch.cat, ([g, g],), {"dim": -1})
    i = graph.call_method("to", (h, torch.float64), {"memory_format": torch.preserve_format})
    j = graph.call_method("view", (i, (2,)))
    k = call(torch.zeros, ((1,),), {"device": torch.device("cpu"), "dtype": torch.float32})
    m = call(math.sqrt, (4.0,))
    n = call(scale, (k,))
    o = call(torch.ops.aten.add.Tensor, (n, m))
    p = call(torch.einsum, ("i,j->ij", o, o))
    q = call(torch._C._set_grad_enabled, (True,))
    assert q is not None
    graph.output((j, p, k, a))
    return graph


@pytest.mark.parametrize("boxed", [False, True])
def test_source_is_that_of_fx(boxed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = example()
    if boxed:
        graph.set_codegen(BoxedCodeGen())
    expected = fx.GraphModule({}, graph)
    used: list[str] = []
    write = source._Writer.write

    def spy(self: Any) -> Any:
        result = write(self)
        used.append(result.src)
        return result

    monkeypatch.setattr(source._Writer, "write", spy)
    found = make_graph_module(graph, "GraphModule")
    assert used
    assert [line.rstrip() for line in found.code.strip().split("\n")] == [
        line.rstrip() for line in expected.code.strip().split("\n")
    ]
    assert found._lineno_map is not None
    assert expected._lineno_map is not None
    numbers = {line: number for line, number in expected._lineno_map.items() if number}
    assert set(found._lineno_map.values()) <= set(numbers.values())
    assert "_gen_python_code" not in vars(graph._codegen)


def test_unusual_graphs_are_left_to_fx() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x", default_value=1)
    graph.output((graph.call_function(torch.add, (x, 1)),))
    gm = make_graph_module(graph, "Name")
    assert "x = 1" in gm.code
    assert gm(torch.ones(1))[0].item() == 2
    assert type(gm).__name__ == "Name"


def test_globals_do_not_clash_with_nodes() -> None:
    graph = fx.Graph()
    x = graph.placeholder("math_sqrt")
    y = graph.call_function(math.sqrt, (4.0,))
    graph.output((graph.call_function(torch.mul, (x, y)),))
    gm = make_graph_module(graph, "Name")
    assert gm(torch.ones(1))[0].item() == 2
