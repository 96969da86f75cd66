"""``capture.aot``: the AOT stage on its own, for authors of backends."""

# mypy: ignore-errors

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import fx, nn

import capture
from capture import aot


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return torch.tanh(self.layer(x) * self.scale)


def traced():
    torch.manual_seed(0)
    net = Net()
    return net, fx.symbolic_trace(net), torch.randn(2, 4)


def test_module_can_be_imported():
    code = "import capture.aot as aot; print(aot.aot_autograd.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "aot_autograd\n"


@pytest.mark.parametrize("tracer", [None, "recorder", "make_fx"])
def test_joint_graph(tracer):
    net, gm, x = traced()
    joint, count = aot.joint_graph(gm, [x], tracer=tracer)
    names = [node.name for node in joint.graph.nodes if node.op == "placeholder"]
    assert names == ["primals_1", "primals_2", "primals_3", "primals_4", "tangents_1"]
    weight, bias = net.layer.weight.detach(), net.layer.bias.detach()
    out, *grads = joint(x, weight, bias, net.scale, torch.ones(2, 3))
    assert count == 1
    expected = net(x)
    expected.sum().backward()
    torch.testing.assert_close(out, expected.detach())
    found = [grad for grad in grads if grad is not None]
    torch.testing.assert_close(found, [net.layer.weight.grad, net.layer.bias.grad])


def test_decompositions_are_applied():
    _, gm, x = traced()

    def operators(**settings):
        joint, _ = aot.joint_graph(gm, [x], **settings)
        return {str(node.target) for node in joint.graph.nodes if node.op == "call_function"}

    table = {torch.ops.aten.tanh.default: lambda x: 2 * torch.sigmoid(2 * x) - 1}
    assert "aten.tanh.default" in operators()
    assert "aten.tanh.default" not in operators(decompositions=table)


@pytest.mark.parametrize("name", ["default_partition", "fast_partition", "min_cut_partition"])
def test_partitioners_split_a_joint_graph(name):
    net, gm, x = traced()
    joint, count = aot.joint_graph(gm, [x])
    forward, backward = getattr(aot, name)(joint, [], num_fwd_outputs=count)
    weight, bias = net.layer.weight.detach(), net.layer.bias.detach()
    out, *saved = forward(x, weight, bias, net.scale)
    torch.testing.assert_close(out, net(x).detach())
    grads = backward(*saved, torch.ones(2, 3))
    net(x).sum().backward()
    found = [grad for grad in grads if grad is not None]
    torch.testing.assert_close(found, [net.layer.weight.grad, net.layer.bias.grad])


def test_backend_without_capture():
    net, gm, x = traced()
    seen = []

    def compiler(gm, inputs):
        seen.append(len(inputs))
        return aot.make_boxed(gm.forward)

    compiled = aot.aot_autograd(fw_compiler=compiler)(gm, [x])
    out = compiled(x)
    out.sum().backward()
    found = [p.grad for p in net.parameters()]
    net.zero_grad()
    expected = net(x)
    expected.sum().backward()
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(found, [p.grad for p in net.parameters()])
    assert len(seen) == 2


@pytest.mark.parametrize("given", [lambda x: x, Net(), 3])
def test_anything_but_a_graph_module_is_refused(given):
    with pytest.raises(capture.UserError, match="takes a torch.fx.GraphModule"):
        aot.joint_graph(given, [torch.ones(2)])


def test_numbers_are_no_inputs():
    _, gm, _ = traced()
    with pytest.raises(capture.UserError, match="takes tensors as inputs, not int"):
        aot.joint_graph(gm, [3])


def test_graph_that_has_to_run_eagerly_is_told():
    gm = fx.symbolic_trace(lambda x: x.resize_(2, 2))
    with pytest.raises(aot.CannotTrace):
        aot.joint_graph(gm, [torch.ones(3)])


def failure(**settings):
    backend = aot.aot_autograd(**settings)
    with pytest.raises(capture.CaptureError) as caught:
        capture.compile(lambda x: x.sin(), backend=backend)(torch.ones(3, requires_grad=True))
    return str(caught.value)


def test_errors_of_compilers_are_told():
    def raising(gm, inputs):
        raise RuntimeError("no")

    assert "RuntimeError: no" in failure(fw_compiler=raising)
    assert "RuntimeError: no" in failure(fw_compiler=aot.run_graph, bw_compiler=raising)
    nothing = failure(fw_compiler=lambda gm, inputs: None)
    assert "a compiler must return a callable, not a NoneType" in nothing


def test_wrong_settings_are_told():
    wrong = failure(fw_compiler=aot.run_graph, decompositions="core")
    assert "decompositions are a table of operators, not 'core'" in wrong
    with pytest.raises(capture.UserError, match="no partitioner 'mincut'; there are: default"):
        aot.aot_autograd(fw_compiler=aot.run_graph, partition_fn="mincut")
