"""The fast tracer records the graph that ``make_fx`` traces, the first time and from the memo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import capture
from capture.backends.aot import aot_autograd, core_aten_decompositions, memo, run_graph
from capture.backends.aot.described import CannotTrace, Joint
from capture.backends.inductor import adapter as inductor
from capture.errors import UserError
from tests.backends.aot.traces import described, trace


def _inductor() -> Any:
    inductor.inner()  # its decompositions look for its other modules
    return inductor.decompositions()


TABLES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "core": core_aten_decompositions,
    "inductor": _inductor,
}
table = pytest.mark.parametrize("table", TABLES)


def same(call: Any, tensors: Sequence[Tensor], table: Any) -> Joint:
    """Trace with both tracers, twice with ours, and compare all that is found out."""
    try:
        expected = described(trace(call, tensors, table, "make_fx"))
    except CannotTrace as error:
        with pytest.raises(CannotTrace, match=str(error)):
            trace(call, tensors, table, "recorder")
        pytest.skip("both refuse it")
    first = trace(call, tensors, table, "recorder")
    assert described(first) == expected
    assert described(trace(call, tensors, table, "recorder")) == expected
    return first


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was left to ``make_fx``."""
    found: list[str] = []

    class Artifact:
        def debug(self, text: str, *arguments: Any) -> None:
            if text.startswith("left to make_fx"):
                found.append(text % arguments)

    monkeypatch.setattr("capture.backends.aot.joint._artifact", Artifact())
    return found


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3 if i == 0 else 4, 4, 3, padding=1) for i in (0, 1)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.GroupNorm(2, 4)])
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(x)), inplace=True)
        return F.log_softmax(self.head(F.max_pool2d(x, 2).mean((2, 3))), -1)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 2)),
        lambda: torch.randn(3, 4),
    ),
    "conv net": (ConvNet, lambda: torch.randn(2, 3, 8, 8)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
        lambda: torch.randn(2, 5, 8),
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4), nn.Flatten(), nn.Linear(12, 2)),
        lambda: torch.randint(0, 10, (2, 3)),
    ),
    "lstm": (lambda: nn.LSTM(4, 3, batch_first=True), lambda: torch.randn(2, 3, 4)),
}


@table
@pytest.mark.parametrize("model", MODELS)
def test_models(model: str, table: str, left: list[str]) -> None:
    torch.manual_seed(0)
    made, sample = MODELS[model]
    module, x = made(), sample()
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = list(state)

    def call(x: Tensor, *values: Tensor) -> Any:
        out = torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))
        return tuple(pytree.tree_leaves(out))

    same(call, [x, *state.values()], TABLES[table]())
    assert not left


def _view_is_written(x: Tensor, y: Tensor) -> Any:
    z = x * 2
    z[1].mul_(y[0])
    return z, z.t(), z.view(-1)[2:]


def _input_is_written(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        y.add_(x.detach())
        y.view(-1)[0] = 3
    return y * x


def _foreach(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        torch._foreach_mul_([y], 0.5)
        torch._foreach_addcdiv_([y], [x.detach()], [y.exp()], 0.1)
    return (x.sum(),)


def _autocast(x: Tensor, y: Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ y, (x @ y).float().exp()


def _several(x: Tensor, y: Tensor) -> Any:
    a, b = torch.split(x, 1)
    values, places = y.sort()
    return a, b, values * x, places, x.unbind(1)[0], None, 3


def _constants(x: Tensor, y: Tensor) -> Any:
    scale = torch.tensor([1.0, 2.0])
    scale.add_(1)
    return x * scale + torch.arange(2) + torch.full((2,), 0.5)


def _random(x: Tensor, y: Tensor) -> Any:
    return F.dropout(x, 0.5) + torch.rand_like(y) + torch.bernoulli(y.sigmoid()), torch.randn(2)


def _dtypes(x: Tensor, y: Tensor) -> Any:
    return x.double() + y, x.half(), x > y, (x > y).sum(), x.view(torch.int32), torch.complex(x, y)


def _without_result(x: Tensor, y: Tensor) -> Any:
    return ()


FUNCTIONS = [
    _view_is_written, _input_is_written, _foreach, _autocast, _several, _constants, _random,
    _dtypes, _without_result,
]  # fmt: skip


@table
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: Any, table: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 2, requires_grad=True), torch.randn(2, 2)
    same(function, [x, y], TABLES[table]())


# -- the memo --------------------------------------------------------------------------------------


def test_equal_layers_are_recorded_once() -> None:
    def call(x: Tensor, *weights: Tensor) -> Any:
        for weight in weights:
            x = torch.tanh(F.linear(x, weight))
        return (x,)

    x = torch.randn(2, 7)
    known = memo.memo_for(dict(core_aten_decompositions())).templates
    sizes = []
    for layers in (2, 3, 8):
        weights = [torch.randn(7, 7, requires_grad=True) for _ in range(layers)]
        trace(call, [x, *weights], core_aten_decompositions(), "recorder")
        sizes.append(len(known))
    assert sizes[1] == sizes[2]


@pytest.mark.parametrize("scalars", [(1, 1.0), (1, True), (0.0, -0.0)])
def test_numbers_that_are_equal_are_told_apart(scalars: tuple[Any, Any]) -> None:
    x = torch.arange(3)
    for scalar in scalars:
        same(lambda x, s=scalar: (torch.full_like(x, s), x * s, torch.full((2,), s)), [x], None)


def test_the_same_tensor_twice_is_told_from_two() -> None:
    x, y = torch.randn(3), torch.randn(3)
    same(lambda x, y: (x * y,), [x, y], None)
    same(lambda x, y: (x * x, y * y), [x, y], None)


def test_the_default_dtype_is_part_of_the_state() -> None:
    x = torch.arange(3)
    table = core_aten_decompositions()
    same(lambda x: (x / 2, torch.sin(x)), [x], table)
    torch.set_default_dtype(torch.float64)
    try:
        joint = same(lambda x: (x / 2, torch.sin(x)), [x], table)
    finally:
        torch.set_default_dtype(torch.float32)
    results: Any = joint.gm.graph.output_node().args[0]
    assert all(node.meta["val"].dtype == torch.float64 for node in results)


def test_a_decomposition_of_the_users_runs_each_time() -> None:
    factor = 2.0

    def scaled(x: Tensor) -> Tensor:
        return x * factor

    table = {torch.ops.aten.sin.default: scaled}
    x = torch.randn(3)
    for factor in (2.0, 3.0):
        joint = trace(lambda x: (torch.sin(x),), [x], table, "recorder")
        (product,) = (n for n in joint.gm.graph.nodes if n.op == "call_function")
        assert product.args[1] == factor


def test_views_share_memory_with_their_base_when_they_come_from_the_memo() -> None:
    for _ in range(2):
        joint = trace(lambda x: (x.exp().t(), x.t()), [torch.randn(2, 3)], None, "recorder")
        values = {n.target: n.meta["val"] for n in joint.gm.graph.nodes if n.op == "call_function"}
        exp = values[torch.ops.aten.exp.default].untyped_storage()._cdata
        transposed = [
            n.meta["val"].untyped_storage()._cdata
            for n in joint.gm.graph.nodes
            if n.target is torch.ops.aten.t.default
        ]
        assert exp in transposed


# -- which tracer ----------------------------------------------------------------------------------


def test_what_it_cannot_do_is_left_to_make_fx(left: list[str]) -> None:
    joint = trace(lambda x: (x * torch.tensor(2.0).item(),), [torch.randn(3)], None, "recorder")
    assert len(left) == 1
    (product,) = (n for n in joint.gm.graph.nodes if n.target is torch.ops.aten.mul.Tensor)
    assert product.args[1] == 2.0


def test_make_fx_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("capture.backends.aot.joint.record", refuse)
    x = torch.randn(3, requires_grad=True)
    with capture.config.patch(aot_tracer="make_fx"):
        compiled: Any = capture.compile(lambda x: x.sin(), backend="aot_eager")
        assert torch.equal(compiled(x), x.sin())


def test_a_tracer_that_is_not_there_is_an_error() -> None:
    gm = fx.symbolic_trace(lambda x: (x + 1,))
    with capture.config.patch(aot_tracer="fastest"), pytest.raises(UserError, match="make_fx"):
        aot_autograd(fw_compiler=run_graph)(gm, [torch.ones(2)])


def test_the_trace_changes_nothing_outside() -> None:
    seed = torch.random.get_rng_state()
    x, y = torch.randn(2, 2, requires_grad=True), torch.randn(2, 2)
    torch.random.set_rng_state(seed)
    version = y._version
    trace(_input_is_written, [x, y], None, "recorder")
    assert y._version == version
    assert torch.equal(torch.random.get_rng_state(), seed)
    assert torch.is_autocast_cache_enabled()


def test_graph_modules_have_their_code() -> None:
    codes: list[str] = []

    def compiler(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        codes.append(gm.code)
        return run_graph(gm, inputs)

    gm = fx.symbolic_trace(lambda x: (x.sin(),))
    x = torch.randn(3, requires_grad=True)
    toolchain: Any = aot_autograd(fw_compiler=compiler)
    out: Any = toolchain(gm, [x])([x])[0]
    out.sum().backward()
    assert "sin" in codes[0]
    assert "cos" in codes[1]
