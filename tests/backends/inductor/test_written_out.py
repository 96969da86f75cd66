"""Arguments that Inductor forgets in some of its replacements reach it as nodes of their own."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import capture
from capture.backends.aot.adapter import fake_mode
from capture.backends.inductor.written_out import write_out

P, A, B = torch.randn(3, 4), torch.randn(3, 5), torch.randn(5, 4)


@pytest.mark.parametrize(
    "fn",
    [
        lambda p, a, b: torch.add(p, a @ b, alpha=-0.1),
        lambda p, a, b: torch.sub(p, a @ b, alpha=0.5),
        lambda p, a, b: torch._foreach_add([p], [a @ b], alpha=-0.1)[0],
    ],
)
def test_factor_of_a_matrix_product(fn):
    capture.reset()
    torch.testing.assert_close(capture.compile(fn, backend="inductor")(P, A, B), fn(P, A, B))


@pytest.mark.parametrize("fn", [torch.cumsum, torch.cumprod])
def test_dtype_of_a_cumulative_sum_of_a_constant(fn):
    def program(x):
        return fn(torch.full((3, 4), 2.0), 1, dtype=torch.float64), (x * 2).sum()

    capture.reset()
    x = torch.ones(3, requires_grad=True)
    (found, loss), (expected, _) = capture.compile(program, backend="inductor")(x), program(x)
    loss.backward()
    assert found.dtype is torch.float64
    torch.testing.assert_close(found, expected)


def test_factors_are_nodes():
    mode = fake_mode(False)

    def fn(x, y):
        return torch.add(x, y, alpha=2) + torch.sub(x, y, alpha=1)

    fakes = [mode.from_tensor(torch.ones(2)) for _ in range(2)]
    with mode:
        gm = make_fx(fn)(*fakes)
    write_out(gm, mode)
    nodes = [node for node in gm.graph.nodes if node.op == "call_function"]
    assert [str(node.target) for node in nodes] == [
        "aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor", "aten.add.Tensor",
    ]  # fmt: skip
    assert not any(node.kwargs for node in nodes)
    assert nodes[0].meta["val"].shape == (2,)
    x, y = torch.randn(2), torch.randn(2)
    assert torch.equal(gm(x, y), fn(x, y))


@pytest.mark.parametrize("steps", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_plain_gradient_descent(steps):
    """Gradients that nobody reads afterwards leave nothing but such sums."""

    def train(decorate):
        torch.manual_seed(0)
        net, x = nn.Linear(4, 3), torch.randn(5, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        @decorate
        def step(x):
            for _ in range(steps):
                loss = net(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            return loss.detach()

        return [step(x) for _ in range(4)], [p.detach() for p in net.parameters()]

    capture.reset()
    torch.testing.assert_close(
        train(lambda fn: capture.compile(fn, backend="inductor")), train(lambda fn: fn)
    )
