"""Torch's own modules as people use them: equal to eager, in as few graphs as there can be."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

import capture
from capture import counters
from capture.backends import GraphCounter


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


def sequence(requires_grad=True):
    return torch.randn(3, 5, 8, requires_grad=requires_grad)


def leaves(value):
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def train_twice(module, call, *args):
    """Outputs, gradients and buffers of two calls, with backward."""
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        outputs = leaves(call(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args]))
        sum(t.sum() for t in outputs if t.requires_grad).backward()
        seen += [t.detach() for t in outputs]
    seen += [p.grad for p in module.parameters()]
    return seen + list(module.buffers())


def same(module, *args):
    """Run a module eagerly and compiled; return the number of graphs."""
    other, counter = copy.deepcopy(module), GraphCounter()
    compiled = capture.compile(other, backend=counter)
    expected, actual = train_twice(module, module, *args), train_twice(other, compiled, *args)
    for a, b in zip(expected, actual, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)
    return counter.graph_count


class Wrapped(nn.Module):
    """A linear layer used by a function."""

    def __init__(self, use):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.use = use

    def forward(self, x):
        return self.use(self.linear, x)


def under_autocast(linear, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = linear(x)
    return y.float() + 1


def checkpointed(linear, x):
    inner = torch.utils.checkpoint.checkpoint(lambda y: F.gelu(linear(y)), x, use_reentrant=False)
    return inner * 2


MODULES = {
    "lstm": lambda: nn.LSTM(8, 6, 2, batch_first=True),
    "gru": lambda: nn.GRU(8, 6, bidirectional=True),
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4)),
    "running instance norm": lambda: nn.InstanceNorm1d(5, track_running_stats=True),
    "autocast": lambda: Wrapped(under_autocast),
}


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())
def test_module_is_one_graph(make):
    torch.manual_seed(0)
    assert same(make(), sequence()) == 1


def test_attention_with_three_inputs_is_one_graph():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    assert same(module, *[sequence() for _ in range(3)]) == 1


def test_checkpoint_recomputes_what_forward_saved():
    torch.manual_seed(0)
    same(Wrapped(checkpointed), sequence())


def test_saved_tensor_hooks_see_only_the_program_s_tensors():
    seen = []

    def pack(tensor):
        seen.append(tuple(tensor.shape))
        return tensor

    def f(x):
        return (x * x).sin()

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        f(x)
    eager, seen = seen, []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        capture.compile(f, backend="eager")(x)
    assert seen == eager


def test_function_mode_sees_only_the_program_s_calls():
    class Log(torch.overrides.TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    def f(x):
        return torch.relu(x) + 1

    with Log() as eager:
        f(torch.ones(2))
    with Log() as captured:
        capture.compile(f, backend="eager")(torch.ones(2))
    assert captured.names == eager.names


def test_clipping_the_gradient_norm_is_one_graph():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    model(torch.ones(2, 4)).sum().backward()
    other = copy.deepcopy(model)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        q.grad = p.grad.clone()
    counter = GraphCounter()

    def clip(parameters):
        return nn.utils.clip_grad_norm_(parameters, 0.5)

    expected = clip(list(model.parameters()))
    assert torch.equal(capture.compile(clip, backend=counter)(list(other.parameters())), expected)
    assert counter.graph_count == 1
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad)


def test_compiled_module_inside_a_compiled_module_is_one_graph():
    inner = capture.compile(nn.Linear(8, 8), backend="eager")
    counter = GraphCounter()
    outer = capture.compile(nn.Sequential(nn.Linear(8, 8), inner), backend=counter)
    outer(sequence())
    assert counter.graph_count == 1
    assert counters.snapshot().breaks == []


def test_a_module_whose_class_constructs_another_one_is_compiled():
    """Classes of FSDP2 do, so that indexing a container gives plain containers."""

    class Sharded(nn.Sequential):
        def __new__(cls, *args):
            return nn.Sequential.__new__(nn.Sequential)

    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    module.__class__ = Sharded
    counter = GraphCounter("eager")
    compiled = capture.compile(module, backend=counter)
    x = torch.randn(2, 4)
    assert isinstance(compiled, Sharded)
    assert torch.equal(compiled(x), module(x))
    assert counter.graph_count == 1
