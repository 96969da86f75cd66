"""The attribute ``grad`` of tensors: read, set, deleted, shared, and seen from outside."""

# mypy: ignore-errors

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn

X = torch.tensor([1.0, -2.0, 3.0])
P = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
G = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)  # a copy of a parameter loses its grad
G.grad = torch.full((3,), 5.0)


def one_graph(report):
    assert report.breaks == []
    return report


def test_grad_is_set_and_read_back(check):
    def f(p, x):
        p.grad = x * 2
        return p.grad + 1, p.grad

    one_graph(check(f, (P, X), (G, X), fullgraph=True))


def test_the_grad_read_is_the_object_that_was_set(check):
    def f(p, x):
        y = x * 2
        p.grad = y
        return p.grad is y, p.grad is p.grad, y

    one_graph(check(f, (P, X)))


def test_grad_is_set_to_an_input(check):
    def f(p, x):
        p.grad = x
        return p.grad is x

    one_graph(check(f, (P, X)))


def test_grad_is_deleted(check):
    def f(p):
        before = p.grad
        del p.grad
        return before, p.grad

    one_graph(check(f, (P,), (G,)))


def test_grad_that_was_there_is_used_after_it_was_dropped(check):
    def f(p):
        old = p.grad
        p.grad = None
        return old * 2, p.grad is None

    one_graph(check(f, (G,)))


def test_grad_set_and_dropped_again_leaves_none(check):
    def f(p, x):
        p.grad = x + 1
        y = p.grad * 2
        p.grad = None
        return y

    one_graph(check(f, (P, X), (G, X)))


def test_grad_moves_from_one_tensor_to_another(check):
    def f(p, q):
        q.grad, p.grad = p.grad, None
        return q.grad

    one_graph(check(f, (G, P)))


def test_one_object_as_the_grad_of_two(check):
    def f(p, q, x):
        p.grad = q.grad = x * 3
        return p.grad is q.grad

    one_graph(check(f, (P, copy.deepcopy(P), X)))


def test_two_names_for_one_tensor_recompile(check):
    def f(p, q, x):
        p.grad = x * 2
        q.grad = None
        return p.grad

    report = check(f, (P, copy.deepcopy(P), X), (P, P, X))
    assert report.graphs == 2


def test_grad_that_appears_later_recompiles_once(check):
    def f(p, x):
        if p.grad is None:
            p.grad = x * 2
        else:
            p.grad = p.grad + x
        return x + 1

    assert check(f, (P, X), (G, X)).graphs == 2


def test_grad_in_place(check):
    def f(p, x):
        p.grad.add_(x)
        p.grad.zero_()
        return p.grad

    one_graph(check(f, (G, X)))


def test_zero_grad_of_a_module_with_and_without_none(check):
    def f(module, x, to_none):
        y = module(x)
        module.zero_grad(set_to_none=to_none)
        return y

    module = nn.Linear(3, 2)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    one_graph(check(f, (module, X, True), (module, X, False), backward=False))


def test_tensor_made_in_the_graph_keeps_its_grad(check):
    def f(x):
        y = x.detach() * 2
        before = y.grad
        y.grad = x + 1
        return y, before, y.grad

    one_graph(check(f, (X,)))


def test_grad_fn_of_a_leaf_is_none(check):
    one_graph(check(lambda p, x: (p.grad_fn, x.grad_fn, x + 1), (P, X)))


def test_misfits_raise_as_in_eager(check):
    def f(p, x, value):
        try:
            p.grad = value
        except (RuntimeError, TypeError) as error:
            return str(error), x + 1
        return x + 2

    for value in (torch.ones(2), torch.ones(3, dtype=torch.float64), 1.0, X):
        check(f, (P, X, value))


def test_tensor_is_not_its_own_grad(check):
    def f(p):
        try:
            p.grad = p
        except RuntimeError as error:
            return str(error)

    check(f, (P,))


def test_leaf_and_inner_tensor_are_told_apart(check):
    def f(x):
        return x * 2, x.is_leaf

    leaf = torch.ones(3, requires_grad=True)
    report = check(f, (leaf,), backward=False)
    compiled_for = report.graphs
    assert compiled_for == 1

    def script(decorate):
        g = decorate(f)
        return [g(leaf)[1], g(leaf * 1)[1], g(leaf)[1]]

    check.script(script)


def test_frame_that_breaks_sees_the_grad(check):
    def f(p, x):
        p.grad = x * 2
        print(p.grad.sum().item())
        p.grad = None
        return p.grad

    check(f, (P, X), (G, X))


def test_looking_why_an_entry_does_not_fit_warns_of_nothing(check):
    def f(x, keeps):
        y = x * 2
        z = y.relu()
        if keeps:
            y.retain_grad()
        z.retain_grad()
        z.sum().backward()
        return y.grad if keeps else None, z.grad

    def script(decorate):
        fn = decorate(f)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [fn(torch.ones(3, requires_grad=True), keeps) for keeps in (True, False)]
        return found, [str(each.message) for each in caught]

    check.script(script)
