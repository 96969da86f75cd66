"""Programs whose sizes change from call to call: eager's results, and at most two compilations."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import capture
from capture.backends import GraphCounter
from tests.comparison import difference

Program = Callable[..., Any]


class Compiled:
    """A program compiled with a backend that counts, and its eager twin."""

    def __init__(self, fn: Program, **settings: Any) -> None:
        self.fn = fn
        self.counter = GraphCounter()
        self.compiled: Any = capture.compile(fn, backend=self.counter, **settings)

    def agree(self, *args: Any) -> None:
        """Call both with copies of the arguments; results and gradients must be the same bits."""
        outcomes = []
        for fn in (self.fn, self.compiled):
            mine = [_copy(a) for a in args]
            torch.manual_seed(3)
            result = fn(*mine)
            losses = [t.sum() for t in _tensors(result) if t.requires_grad]
            grads = []
            if losses:
                torch.autograd.backward(losses)
                grads = [t.grad for t in _tensors(mine) if t.requires_grad]
                for fn_ in (self.fn, self.compiled):
                    if isinstance(fn_, nn.Module):
                        for p in fn_.parameters():
                            grads.append(None if p.grad is None else p.grad.clone())
                            p.grad = None
                        break
            outcomes.append((result, mine, grads))
        found = difference(outcomes[0], outcomes[1])
        assert found is None, found
        assert _kinds(outcomes[1][0]) == _kinds(outcomes[0][0])


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return type(value)(map(_copy, value)) if isinstance(value, list | tuple) else value


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    return (
        [t for item in items for t in _tensors(item)]
        if isinstance(value, list | tuple | dict)
        else []
    )


def _kinds(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value), [_kinds(item) for item in value]
    return type(value), value if isinstance(value, int | float | str) else None


@pytest.fixture(autouse=True)
def _strict() -> Any:
    with capture.config.patch(suppress_errors=False, verify=True):
        yield
    capture.reset()


def _data(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def views(x: Tensor) -> Any:
    """Views with -1 and with sizes."""
    b, t = x.shape[0], x.shape[1]
    y = x.view(b, t, 4, -1).transpose(1, 2).reshape(b * 4, t, -1)
    return y.reshape(b, -1), y.size(), x.flatten(1).shape[1], x.numel() // 2


def chunks(x: Tensor) -> Any:
    """chunk and split by numbers that stay, cat again."""
    a, b = x.chunk(2, -1)
    parts = torch.split(x, [3, 5], dim=-1)
    return torch.cat([a * 2, b], dim=0), torch.stack([a, b]), torch.cat(parts, -1)


def cat_lists(xs: list[Tensor]) -> Any:
    """cat of a list, lengths of its tensors vary."""
    return torch.cat(xs, 0).cumsum(0), sum(x.shape[0] for x in xs)


def pad_to_multiple(x: Tensor) -> Any:
    """Padding to a multiple of 8."""
    missing = -x.shape[1] % 8
    return F.pad(x, (0, 0, 0, missing)), missing


def windows(x: Tensor) -> Any:
    """Sliding windows."""
    return x.unfold(1, 3, 1).mean(-1), x[:, 1:] - x[:, :-1], x[:, -2:]


def resized(x: Tensor) -> Any:
    """Image sizes with interpolation."""
    y = F.interpolate(x, scale_factor=2.0, mode="nearest")
    return F.interpolate(y, size=x.shape[-2:], mode="bilinear"), y.shape


def bucketed(x: Tensor) -> Any:
    """A branch on a size."""
    if x.shape[0] > 32:
        return x * 2, "large"
    return x + 1, "small"


def masks(x: Tensor) -> Any:
    """Masks made of sizes."""
    n = x.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[-1])
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x, torch.arange(n)


def numbers(x: Tensor) -> Any:
    """Arithmetic on sizes, results as Python numbers."""
    a, b = x.shape[:2]
    return (
        a + b, a - b, a * b, a // 2, b % 3, -a, a / b, max(a, b), min(a, b, 7), sum([a, b, 1]),
        int(a), float(a), bool(a), a == b, a < b, abs(a - b), [a, (b, {"n": a})], x / a,
    )  # fmt: skip


def made(x: Tensor) -> Any:
    """Tensors made of sizes."""
    n = x.shape[0]
    return (
        torch.zeros(n, 2), x.new_full((n + 1,), 3.0), torch.arange(0, n * 2, 2), torch.eye(n),
        x.expand(2, *x.shape).sum(), torch.full((n,), n), x.repeat(2, 1, 1),
    )  # fmt: skip


def norms(x: Tensor) -> Any:
    """Reductions and norms over what varies."""
    return x.mean(0), x.sum(1), F.layer_norm(x, x.shape[-1:]), x.softmax(1)


def in_place(x: Tensor) -> Any:
    """Writes to parts of what varies."""
    y = x.clone()
    y[:, 0] = 1.0
    y[0, : x.shape[1] // 2] += 2.0
    return y


def texts(x: Tensor) -> Any:
    """A size in a text decides nothing."""
    return x + 1, f"{x.shape[0]} rows"


PROGRAMS: list[tuple[Program, int]] = [
    (views, 2), (chunks, 2), (pad_to_multiple, 2), (windows, 2), (masks, 2), (numbers, 9),
    (made, 2), (norms, 2), (in_place, 2),
]  # fmt: skip
SHAPES = [(5, 7), (6, 9), (6, 11), (9, 9), (13, 6), (4, 12), (8, 17)]


@pytest.mark.parametrize(
    ("program", "compiles"), PROGRAMS, ids=lambda p: getattr(p, "__name__", "")
)
def test_a_program_is_compiled_for_all_sizes(program: Program, compiles: int) -> None:
    both = Compiled(program)
    for b, t in SHAPES:
        both.agree(_data(b, t, 8))
    assert both.counter.graph_count <= compiles


@pytest.mark.parametrize("program", [p for p, n in PROGRAMS if n == 2])
def test_dynamic_compiles_once(program: Program) -> None:
    both = Compiled(program, dynamic=True, fullgraph=True)
    for b, t in SHAPES:
        both.agree(_data(b, t, 8))
    assert both.counter.graph_count == 1


def test_lists_of_different_lengths() -> None:
    both = Compiled(cat_lists)
    for sizes in [(2, 3), (4, 5), (6, 2), (9, 9), (3, 8)]:
        both.agree([_data(n, 4) for n in sizes])
    assert both.counter.graph_count == 2
    both.agree([_data(n, 4) for n in (2, 3, 4)])
    assert both.counter.graph_count == 3


def test_image_sizes() -> None:
    both = Compiled(resized)
    for h, w in [(8, 8), (8, 10), (12, 9), (16, 16)]:
        both.agree(_data(2, 3, h, w))
    assert both.counter.graph_count <= 3


def test_a_branch_on_a_size_has_a_graph_for_each_side() -> None:
    both = Compiled(bucketed)
    for n in (8, 9, 30, 33, 64, 12, 70, 32):
        both.agree(_data(n, 3))
    assert both.counter.graph_count == 3


def test_a_text_is_right_for_each_size() -> None:
    both = Compiled(texts)
    for n in (3, 4, 5, 3):
        both.agree(_data(n, 3))
    assert both.counter.graph_count == 2


def test_sizes_zero_and_one_have_graphs_of_their_own() -> None:
    both = Compiled(norms)
    for b, t in [(4, 5), (6, 5), (1, 5), (0, 5), (2, 5), (7, 5)]:
        both.agree(torch.randn(b, t, 8))


def test_a_loop_over_a_size_has_a_graph_for_each_count() -> None:
    def loop(x: Tensor) -> Tensor:
        for i in range(x.shape[0] // 4):
            x = x + i
        return x

    both = Compiled(loop)
    for n in (4, 5, 7, 8, 11, 6, 9):
        both.agree(_data(n, 3))
    assert both.counter.graph_count <= 4


def test_ragged_lists_have_a_graph_for_each_number_of_items() -> None:
    def ragged(xs: list[Tensor]) -> Any:
        longest = max(x.shape[0] for x in xs)
        return torch.stack([F.pad(x, (0, 0, 0, longest - x.shape[0])) for x in xs])

    both = Compiled(ragged)
    for sizes in [(2, 5), (4, 3), (6, 2), (9, 9), (3, 8), (2, 3, 4), (5, 6, 9), (8, 4, 3)]:
        both.agree([_data(n, 4) for n in sizes])
    assert both.counter.graph_count <= 5


def test_the_cache_of_a_decoder_grows() -> None:
    def step(x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, values = torch.cat([keys, x], 1), torch.cat([values, x], 1)
        return F.scaled_dot_product_attention(x, keys, values), keys, values

    counter = GraphCounter()
    compiled = capture.compile(step, backend=counter)
    for fn in (compiled,):
        mine = eager = (torch.randn(2, 1, 8), torch.randn(2, 1, 8), torch.randn(2, 1, 8))
        for _ in range(256):
            mine, eager = fn(*mine), step(*eager)
            torch.testing.assert_close(mine, eager, rtol=0, atol=0)
    assert counter.graph_count <= 3


class Mlp(nn.Module):
    """A perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Any:
        """Apply the layers."""
        return self.layers(x)


class Conv(nn.Module):
    """Convolutions and global pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = (
            nn.Conv2d(3, 8, 3),
            nn.Conv2d(8, 8, 3, stride=2),
            nn.Linear(8, 2),
        )

    def forward(self, x: Tensor) -> Any:
        """Apply the layers."""
        x = F.relu(self.b(F.relu(self.a(x))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Block(nn.Module):
    """A transformer layer with a causal and a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x: Tensor, attention: Tensor) -> Any:
        """Attend."""
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, 4, c // 4).transpose(1, 2) for z in (q, k, v))
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        mask = causal[None, None] & attention[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))


def _image(b: int, t: int) -> tuple[Any, ...]:
    return (torch.randn(b, 3, t + 8, t + 9),)


def _sequence(b: int, t: int) -> tuple[Any, ...]:
    attention = torch.ones(b, t, dtype=torch.bool)
    attention[0, t // 2 :] = False
    attention[:, 0] = True
    return torch.randn(b, t, 16), attention


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int, int], tuple[Any, ...]]]] = {
    "mlp": (Mlp, lambda b, t: (torch.randn(b, t, 8),)),
    "conv": (Conv, _image),
    "block": (Block, _sequence),
    "lstm": (lambda: nn.LSTM(8, 6, batch_first=True), lambda b, t: (torch.randn(b, t, 8),)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("dynamic", [None, True])
def test_models(name: str, backend: str, dynamic: bool | None) -> None:
    """Batch and length vary; forward and backward are eager's."""
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model = make()
    compiled: Any = capture.compile(model, backend=backend, dynamic=dynamic)
    generator = random.Random(5)
    shapes = [(generator.randint(2, 9), generator.randint(3, 20)) for _ in range(12)]
    for b, t in shapes:
        args = inputs(b, t)
        grads = []
        for fn in (model, compiled):
            results = _tensors(fn(*args))
            sum(r.sum() for r in results).backward()  # type: ignore[union-attr]
            grads.append(([r.detach() for r in results], [p.grad for p in model.parameters()]))
            model.zero_grad(set_to_none=True)
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-5, atol=1e-5)
    assert capture.stats().graphs <= (1 if dynamic else 2)


def test_a_tensor_of_another_rank_follows_symbolic_sizes() -> None:
    program = Compiled(lambda x: (x * 2).sum() + x.dim())
    for shape in ((2, 3), (4, 3), (5,), (), (6, 3), (2, 3, 4), (7,)):
        program.agree(torch.ones(shape))
