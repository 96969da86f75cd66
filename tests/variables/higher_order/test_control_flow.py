"""Control flow on tensors: branches and loops as graphs of their own."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as mapped

UP = torch.tensor([1.0, 2.0, 3.0])
DOWN = -UP


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    """The oracle, on each backend that must give eager's bits."""
    check.inner = request.param
    return check


def leaf(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, requires_grad=True)


# --- cond ----------------------------------------------------------------------------------------


def test_branch_is_taken_by_the_data_within_one_graph(check):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,)) + 1

    assert check(f, (UP,), (DOWN,), fullgraph=True).graphs == 1


def test_branches_close_over_tensors_and_constants(check):
    def f(x, y, n):
        return torch.cond(x.sum() > 0, lambda x: x + y, lambda x: x * y.sum() - n, (x,))

    check(f, (UP, torch.ones(3), 2), (DOWN, torch.ones(3), 2), fullgraph=True)


def test_gradients_flow_through_the_branch_taken(check):
    def f(x, y):
        return torch.cond(x.sum() > 0, lambda x: (x * y).sin(), lambda x: x.cos(), (x,))

    check(f, (leaf(3), leaf(3, seed=1)), (leaf(3, seed=3), leaf(3, seed=4)), fullgraph=True)


@pytest.mark.filterwarnings("ignore:Guards may run slower")  # eager torch.cond compiles on 3.13.0
def test_branches_of_a_module_in_a_training_step(check):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.left, self.right, (x,))

    def program(decorate):
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @decorate
        def step(x):
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return [step(x) for x in (UP, DOWN, UP)], list(model.parameters())

    assert check.script(program, fullgraph=True).breaks == []


def test_branches_give_containers(check):
    def f(x):
        return torch.cond(
            x.sum() > 0, lambda x: {"a": (x + 1, x * 2)}, lambda x: {"a": (x - 1, x / 2)}, (x,)
        )

    check(f, (UP,), (DOWN,), fullgraph=True)


def test_branches_have_branches(check):
    def f(x):
        def inner(x):
            return torch.cond(x.max() > 2, lambda x: x * 3, lambda x: x * 5, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x.sin(), (x,))

    check(f, (UP,), (DOWN,), (UP / 2,), fullgraph=True)


def test_python_truth_value_decides_at_capture(check):
    def f(x):
        return torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))

    report = check(f, (UP,), (torch.ones(2),))
    assert report.breaks == []


def test_what_torch_refuses_is_refused_by_torch(check):
    def different(x):
        return torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x.long(), (x,))

    def no_truth_value(x):
        return torch.cond(x, lambda x: x.sum(), lambda x: x.sum(), (x,))

    for f in (different, no_truth_value):
        with pytest.raises(Exception) as expected:
            f(UP)
        report = check.script(lambda decorate, f=f: _error_of(decorate(f)))
        assert type(expected.value).__name__ in report.values[0]


def _error_of(fn):
    try:
        fn(UP)
    except Exception as error:
        return type(error).__name__


def test_branch_that_gives_back_its_argument_is_left_to_python(check):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,))

    assert check.script(lambda decorate: _error_of(decorate(f))).breaks


# --- loops ---------------------------------------------------------------------------------------


def test_while_loop_runs_as_often_as_the_data_says(check):
    def f(n, x, y):
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2 + y), (n * 0, x))

    rounds = [(torch.tensor(n), UP, DOWN) for n in (3, 0, 7)]
    assert check(f, *rounds, fullgraph=True).graphs == 1


def test_while_loop_of_what_requires_grad_is_left_to_python(check):
    def f(x):
        return while_loop(lambda x: x.sum() < 3, lambda x: (x + 1,), (x,))

    report = check(f, (leaf(3),))
    assert report.breaks


def test_map_over_containers_with_something_more(check):
    def f(xs, y):
        return mapped(lambda x, y: {"sum": x[0] + x[1] * y, "sin": x[0].sin()}, xs, y)

    xs = (torch.randn(4, 3), torch.randn(4, 3))
    assert check(f, (xs, torch.ones(3)), fullgraph=True).graphs == 1


def test_gradients_flow_through_map(check):
    def f(xs, y):
        return mapped(lambda x, y: (x * y).sin(), xs, y)

    check(f, (leaf(4, 3), leaf(3, seed=1)), fullgraph=True)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"dim": 1}])
def test_scan_carries_and_stacks(check, options):
    def f(init, xs):
        return scan(lambda c, x: (c + x, (c * x).sin()), init, xs, **options)

    init = torch.zeros(3)
    assert check(f, (init, torch.randn(3, 3)), fullgraph=True).graphs == 1


def test_gradients_flow_through_scan(check):
    def f(init, xs, w):
        carry, ys = scan(lambda c, x: (c + x, (c * x * w).sin()), init, xs)
        return carry, ys

    check(f, (leaf(3), leaf(4, 3, seed=1), leaf(3, seed=2)), fullgraph=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(check, reverse):
    def f(xs):
        return associative_scan(lambda a, b: (a[0] + b[0], a[1] * b[1]), xs, 0, reverse, "generic")

    xs = (torch.randn(5, 2), leaf(5, 2))
    assert check(f, (xs,), fullgraph=True).graphs == 1


def test_loop_with_a_side_effect_is_left_to_python(check):
    def program(decorate):
        seen = []

        def step(x):
            seen.append(1)
            return x + 1

        f = decorate(lambda xs: mapped(step, xs))
        try:
            f(torch.ones(3, 2))
        except Exception as error:
            return type(error).__name__, len(seen)
        return len(seen)

    assert check.script(program).breaks
