"""Branches on data that only raise: the graph checks that they are not taken."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import distributions as dist

GOOD, BAD = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -2.0, 3.0])
DATA_DEPENDENT = "CAP0002"


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    """The oracle, on each backend that must give eager's bits."""
    check.inner = request.param
    return check


def raising(x):
    y = x.sin() + x
    if (x < 0).any():
        raise ValueError(f"negative numbers in {x}")
    return y * 2


# pytest writes the assertions of test files anew
_ASSERTING = """
def asserting(x):
    assert (x.cumsum(0) > 0).all(), "not positive"
    return x.sqrt()
"""
exec(_ASSERTING, globals())
asserting = globals()["asserting"]


def negated(x):
    if not (x.cumsum(0) > -5).all():
        raise ValueError("too small")
    return x * 2


def within_callee(x):
    return raising(x + 0.5) + asserting(x)


@pytest.mark.parametrize("program", [raising, asserting, negated, within_callee])
def test_check_is_a_part_of_the_graph(check, program):
    report = check(program, (GOOD,), fullgraph=True)
    assert report.graphs == 1


@pytest.mark.parametrize("program", [raising, asserting, negated, within_callee])
def test_exception_is_the_programs_own(check, program):
    check(program, (GOOD,), (BAD,), (BAD * 10,))


def test_failure_is_met_at_the_first_call(check):
    check(raising, (BAD,), (GOOD,))


def test_handler_of_the_program_gets_the_exception(check):
    def f(x):
        try:
            return raising(x)
        except ValueError as error:
            return str(error), x + 1

    check(f, (GOOD,), (BAD,))


def test_random_numbers_are_those_of_eager_behind_a_failure(check):
    def program(decorate):
        @decorate
        def f(x):
            noise = torch.rand(3)
            if (x < 0).any():
                raise ValueError
            return noise + x

        torch.manual_seed(0)
        found = [f(GOOD)]
        with pytest.raises(ValueError):
            f(BAD)
        return [*found, torch.rand(2), f(GOOD)]

    check.script(program)


def test_writes_in_front_of_a_check_stay(check):
    def f(x, seen):
        seen.append(1)
        if (x < 0).any():
            raise ValueError
        x.add_(1)
        seen.append(2)
        return x

    check(f, (GOOD, []), (BAD, []))


def test_check_behind_a_write_to_an_input_is_left_to_python(check):
    def f(x):
        x.add_(1)
        if (x < 0).any():
            raise ValueError
        return x * 2

    assert DATA_DEPENDENT in check(f, (GOOD,), (BAD,)).reasons


def test_checked_training_step_is_one_graph(check):
    def program(decorate):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @decorate
        def step(x):
            posterior = dist.Normal(model(x), torch.ones(2))
            z = posterior.rsample()
            loss = -posterior.log_prob(z).sum() + z.pow(2).sum()
            if loss.isnan().any():
                raise ValueError("the loss is nan")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        found = [step(GOOD), step(GOOD)]
        before = [p.clone() for p in model.parameters()]
        with pytest.raises(ValueError):
            step(GOOD * float("nan"))
        assert all(map(torch.equal, before, model.parameters()))
        return [*found, step(BAD)], list(model.parameters()), torch.rand(2)

    assert check.script(program).breaks == []


def test_branch_that_does_not_raise_breaks(check):
    def f(x):
        if (x < 0).any():
            return x * 2
        return x * 3

    assert DATA_DEPENDENT in check(f, (GOOD,), (BAD,)).reasons


def test_check_inside_of_a_function_of_the_graph_is_left_to_python(check):
    def f(x):
        return torch.func.vmap(lambda row: raising(row))(x)

    def program(decorate):
        try:
            return decorate(f)(torch.ones(2, 3))
        except RuntimeError as error:
            return str(error)[:20]

    check.script(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: dist.Normal(x, x.exp()),
        lambda x: dist.Categorical(logits=x),
        lambda x: dist.Bernoulli(logits=x),
        lambda x: dist.Exponential(x.exp()),
        lambda x: dist.Independent(dist.Laplace(x, x.exp()), 1),
        lambda x: dist.TransformedDistribution(dist.Normal(x, x.exp()), [dist.ExpTransform()]),
    ],
)
def test_distributions_are_captured_with_their_checks(check, make):
    def f(x):
        d = make(x)
        sample = d.sample()
        return sample, d.log_prob(sample)

    assert check(f, (GOOD.clone().requires_grad_(),), fullgraph=True).graphs == 1


def test_distribution_refuses_what_it_refuses_in_eager(check):
    def f(x):
        return dist.Normal(x, x).log_prob(x)

    check(f, (GOOD,), (BAD,))
