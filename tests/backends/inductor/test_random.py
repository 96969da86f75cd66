"""Inductor draws eager's random numbers, in eager's order, and reads them after they are drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import capture

Draw = Callable[[Tensor], Tensor]


def _probabilities(x: Tensor) -> Tensor:
    return x.detach().sigmoid()


DRAWS: dict[str, Draw] = {
    "rand": lambda x: torch.rand(3, 4),
    "randn_like": torch.randn_like,
    "randint": lambda x: torch.randint(0, 10, (3, 4)),
    "randperm": lambda x: torch.randperm(4),
    "bernoulli": lambda x: torch.bernoulli(_probabilities(x)),
    "bernoulli of a transposed": lambda x: torch.bernoulli(_probabilities(x).t()).t(),
    "bernoulli with a number": lambda x: torch.bernoulli(x.detach(), 0.3),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.4),
    "bernoulli_ by a tensor": lambda x: torch.zeros(3, 4).bernoulli_(_probabilities(x)),
    "normal": lambda x: torch.normal(x.detach(), 2.0),
    "normal by tensors": lambda x: torch.normal(x.detach(), _probabilities(x)),
    "multinomial": lambda x: torch.multinomial(_probabilities(x), 4),
    "uniform_": lambda x: torch.empty_like(x.t()).uniform_(-1, 1).t(),
    "exponential_": lambda x: torch.empty(3, 4).exponential_(),
    "geometric_": lambda x: torch.empty(3, 4).geometric_(0.5),
    "random_": lambda x: torch.empty(3, 4).random_(5),
    "poisson": lambda x: torch.poisson(_probabilities(x)),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout of a transposed": lambda x: F.dropout(x.t(), 0.3).t(),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.3, True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel softmax": F.gumbel_softmax,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2)[
        0
    ],
}


def _compare(draws: dict[str, Draw]) -> None:
    functions = list(draws.values())

    def program(x: Tensor) -> list[Tensor]:
        return [draw(x) * x for draw in functions]

    def run(function: Callable[[Tensor], list[Tensor]]) -> tuple[list[Tensor], Tensor, Tensor]:
        torch.manual_seed(5)
        x = torch.randn(3, 4, requires_grad=True)
        results = function(x)
        after = torch.rand(1)
        torch.autograd.backward([each.sum() for each in results])
        assert x.grad is not None
        return results, after, x.grad

    eagers, eager_after, eager_grad = run(program)
    ours, after, grad = run(capture.compile(program, backend="inductor", fullgraph=True))
    for name, left, right in zip(draws, eagers, ours, strict=True):
        assert torch.allclose(right, left), name
    assert torch.equal(after, eager_after)
    torch.testing.assert_close(grad, eager_grad)


def test_attention_with_dropout() -> None:
    _compare({"attention": DRAWS["attention"]})


@pytest.mark.slow  # one graph with all operators takes the C++ compiler half a minute
def test_all_operators() -> None:
    _compare(DRAWS)
