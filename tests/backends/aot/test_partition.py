"""What the partitioners save and compute again, and that the gradients are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from capture.backends.aot import adapter, aot_autograd, core_aten_decompositions, run_graph
from capture.backends.aot.described import Joint
from capture.backends.aot.joint import trace_joint
from capture.backends.aot.partition import PARTITIONERS, default_partition, fast_partition
from capture.errors import UserError
from tests.backends.aot.canonical import canonical


def _joint(function: Callable[..., Any], *tensors: Tensor) -> Joint:
    gm = fx.symbolic_trace(function)
    return trace_joint(gm, gm.forward, list(tensors), core_aten_decompositions())


def _saved(forward: fx.GraphModule, outputs: int) -> list[fx.Node]:
    results: Any = forward.graph.output_node().args[0]
    return list(results[outputs:])


def _bytes(nodes: list[fx.Node]) -> int:
    return sum(n.meta["val"].numel() for n in nodes if n.op != "placeholder")


def layers(x: Tensor, w: Tensor, b: Tensor) -> Any:
    h = F.gelu(F.linear(F.layer_norm(x, (4,)), w, b))
    return F.log_softmax(F.relu(h) @ w, -1), h.mean(0)


def dropped(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return (F.dropout(torch.sigmoid(x @ w), 0.5) * b,)


def _inputs() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*size, requires_grad=True) for size in ((5, 4), (4, 4), (4,))]


@pytest.mark.parametrize("function", [layers, dropped])
def test_the_default_saves_what_torchs_saves(function: Any) -> None:
    ours, theirs = (_joint(function, *_inputs()) for _ in range(2))
    split = default_partition(ours.gm, ours.fakes, num_fwd_outputs=ours.forward_outputs)
    expected = adapter.torch_default_partition(
        theirs.gm, theirs.fakes, num_fwd_outputs=theirs.forward_outputs
    )
    assert [canonical(part) for part in split] == [canonical(part) for part in expected]


@pytest.mark.parametrize("function", [layers, dropped])
def test_the_fast_one_saves_less(function: Any) -> None:
    kept = []
    for partition in (default_partition, fast_partition):
        joint = _joint(function, *_inputs())
        forward, _ = partition(joint.gm, joint.fakes, num_fwd_outputs=joint.forward_outputs)
        kept.append(_bytes(_saved(forward, joint.forward_outputs)))
    assert kept[1] < kept[0]


def test_random_numbers_are_saved_not_drawn_again() -> None:
    joint = _joint(dropped, *_inputs())
    _, backward = fast_partition(joint.gm, joint.fakes, num_fwd_outputs=joint.forward_outputs)
    tags = [getattr(node.target, "tags", ()) for node in backward.graph.nodes]
    assert not any(torch.Tag.nondeterministic_seeded in each for each in tags)


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("function", [layers, dropped])
def test_gradients(function: Any, name: str) -> None:
    backend: Any = aot_autograd(
        fw_compiler=run_graph, partition_fn=name, decompositions=core_aten_decompositions
    )
    compiled = backend(fx.symbolic_trace(function), _inputs())
    found = []
    for ours in (False, True):
        inputs = _inputs()
        torch.manual_seed(1)
        out: Any = compiled(list(inputs)) if ours else function(*inputs)
        loss: Any = torch.stack([each.square().sum() for each in out]).sum()
        loss.backward()
        found.append([*out, *[each.grad for each in inputs]])
    torch.testing.assert_close(found[1], found[0])


def test_inputs_that_are_written_to() -> None:
    module = nn.BatchNorm1d(4)

    def function(x: Tensor, mean: Tensor, var: Tensor) -> Any:
        return (F.relu(F.batch_norm(x, mean, var, training=True)),)

    backend: Any = aot_autograd(fw_compiler=run_graph, partition_fn="fast")
    x = torch.randn(5, 4, requires_grad=True)
    mean, var = torch.zeros(4), torch.ones(4)
    compiled = backend(fx.symbolic_trace(function), [x, mean, var])
    (out,) = compiled([x, mean, var])
    out.sum().backward()
    y = x.detach().requires_grad_()
    expected: Any = F.relu(module(y))
    expected.sum().backward()
    torch.testing.assert_close(
        [out, mean, var], [expected, module.running_mean, module.running_var]
    )
    torch.testing.assert_close(x.grad, y.grad)


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UserError, match="default, fast, min_cut"):
        aot_autograd(fw_compiler=run_graph, partition_fn="mincut")
