"""What may raise behind writes: one graph where the backend writes all or nothing, else a break."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import capture
from capture.backends import is_all_or_nothing, lookup_backend
from capture.backends.aot import aot_autograd, run_graph

X = torch.arange(24.0).reshape(3, 8) / 10
GOOD, BAD = torch.tensor([0, 1, 3]), torch.tensor([0, 9, 3])


@pytest.fixture
def check(check):
    check.inner = "aot_eager"
    return check


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))


def steps(decorate, labels, optimizer=torch.optim.Adam):
    """Two updates a call; labels may be refused in either, in any call."""
    net = model()
    optimizer = optimizer(net.parameters(), lr=0.1)

    @decorate
    def step(x, first, second):
        for y in (first, second):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        return loss.detach()

    seen = []
    for first, second in labels:
        try:
            seen.append(step(X, first, second))
        except IndexError as error:
            seen.append(str(error))
        seen += [p.detach().clone() for p in net.parameters()]
        seen += [None if p.grad is None else p.grad.clone() for p in net.parameters()]
        seen += [len(optimizer.state)]
    return seen, optimizer.state_dict()


def test_several_updates_are_one_graph(check):
    report = check.script(lambda decorate: steps(decorate, [(GOOD, GOOD)] * 4))
    assert (report.graphs, report.breaks) == (2, [])


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("labels", [(BAD, GOOD), (GOOD, BAD)])
def test_data_that_is_refused_leaves_what_eager_leaves(check, optimizer, call, labels):
    given = [(GOOD, GOOD)] * 4
    given[call] = labels
    check.script(lambda decorate: steps(decorate, given, optimizer))


def test_handler_of_the_program_sees_what_eager_shows(check):
    def program(decorate):
        net, log = model(), []
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

        @decorate
        def step(x, y):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
            try:
                return F.cross_entropy(net(x), y).detach()
            except IndexError:
                log.append(len(optimizer.state))
                return None

        return [step(X, y) for y in (GOOD, BAD, GOOD, BAD)], log, list(net.parameters())

    check.script(program)


def test_random_numbers_are_drawn_once(check):
    def program(decorate):
        net = model()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

        @decorate
        def step(x, y):
            optimizer.zero_grad()
            F.dropout(net(x), 0.5).sum().backward()
            optimizer.step()
            return F.cross_entropy(F.dropout(net(x), 0.5), y).detach()

        torch.manual_seed(3)
        seen = []
        for y in (GOOD, BAD, GOOD):
            try:
                seen.append(step(X, y))
            except IndexError as error:
                seen.append(str(error))
            seen.append(torch.rand(1))
        return seen, list(net.parameters())

    check.script(program)


def test_backend_that_writes_as_it_goes_gets_graphs_with_a_break(check):
    check.inner = "eager"
    report = check.script(lambda decorate: steps(decorate, [(GOOD, GOOD), (GOOD, BAD)]))
    assert "CAP0023" in report.reasons


def test_graph_that_the_stage_runs_as_it_is_breaks(check):
    def program(decorate):
        net = model()
        buffer = torch.zeros(0)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

        @decorate
        def step(x, y):
            buffer.resize_(2)  # the stage cannot trace it
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
            return F.cross_entropy(net(x), y).detach()

        return [step(X, GOOD) for _ in range(3)], list(net.parameters())

    assert "CAP0023" in check.script(program).reasons


def test_who_promises_it():
    assert not is_all_or_nothing(lookup_backend("eager"))
    for name in ("aot_eager", "aot_eager_decomp_partition", "inductor"):
        assert is_all_or_nothing(lookup_backend(name))
    assert is_all_or_nothing(aot_autograd(fw_compiler=run_graph))
    assert is_all_or_nothing(capture.backends.GraphCounter("aot_eager"))


def test_inductor_writes_all_or_nothing():
    def program(decorate):
        return steps(decorate, [(GOOD, GOOD), (GOOD, GOOD)], torch.optim.SGD)

    capture.reset()
    torch.testing.assert_close(
        program(lambda fn: capture.compile(fn, backend="inductor")), program(lambda fn: fn)
    )
    assert capture.stats().breaks == []
