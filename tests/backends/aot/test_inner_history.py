"""Hooks on, and gradients of, tensors inside of a graph that the AOT stage compiled as a whole."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

from capture.backends.aot import stage

X = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)


def grad_behind_a_break(x):
    y = x * 2
    z = y.sin().sum()
    print("break")
    return torch.autograd.grad(z, y)


def kept_gradient(x):
    y = x * 2
    z = y.sin().sum()
    y.retain_grad()
    z.backward()
    return y.grad, x.grad


def kept_gradient_behind_a_break(x):
    y = x * 2
    z = y.sin().sum()
    print("break")
    y.retain_grad()
    z.backward()
    return y.grad, x.grad


def hook_that_notes(x):
    seen = []
    y = x * 2
    z = y.sin().sum()
    y.register_hook(seen.append)
    z.backward()
    return seen, x.grad


def noted(y, z, seen):
    y.register_hook(lambda grad: seen.append(grad.sum().item()))
    z.backward()


def hook_in_a_function(x):
    seen = []
    y = x * 2
    z = y.sin().sum()
    print("break")
    noted(y, z, seen)
    return seen, x.grad


def chosen_inputs(x):
    y = x * 2
    y.retain_grad()
    z = (y.sin() * x).sum()
    print("break")
    z.backward(inputs=[y])
    return y.grad, x.grad


def node_of_a_tensor(x):
    y = (x * 2).sum()
    return type(y.grad_fn).__name__, len(y.grad_fn.next_functions), y.grad_fn.name()


def hidden_state(module, x):
    kept = module(x).exp()
    kept.retain_grad()
    kept.sum().backward()
    return kept.grad


def inlined_function(x):
    return hidden_state(torch.nn.Tanh(), x * 2), x.grad


PROGRAMS = [
    grad_behind_a_break, kept_gradient, kept_gradient_behind_a_break, hook_that_notes,
    hook_in_a_function, chosen_inputs, node_of_a_tensor, inlined_function,
]  # fmt: skip


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_code_behind_a_break_sees_the_history(check, fn, inner):
    check.inner = inner
    check(fn, (X,), (X.detach()[:2].requires_grad_(),), backward=False)


def losses_behind_a_break(x):
    y = x * 2
    z = y.sin().sum()
    print(z.item())
    z.backward()
    return y, [p.grad.clone() for p in [x]]


@pytest.mark.parametrize(
    ("fn", "whole"), [(losses_behind_a_break, True), (kept_gradient_behind_a_break, False)]
)
def test_only_code_that_asks_makes_a_graph_run_eagerly(check, fn, whole, monkeypatch):
    reasons = []
    run_eagerly = stage.Stage._run_eagerly
    monkeypatch.setattr(
        stage.Stage,
        "_run_eagerly",
        lambda self, reason: (reasons.append(reason), run_eagerly(self, reason))[1],
    )
    check.inner = "aot_eager"
    check(fn, (X,), backward=False)
    assert any("history" in reason for reason in reasons) is not whole
