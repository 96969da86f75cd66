"""Long loops: constant stack depth, few graphs, flat memory, with breaks and without."""

# mypy: ignore-errors

from __future__ import annotations

import sys
import time

import pytest
import torch

import capture
from capture import counters


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


@capture.disable
def brk(*_):
    pass


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(s.split()[1]) for s in status if s.startswith("VmRSS")) / 1024


def for_with_break(x, n):
    for _ in range(n):
        x = x + 1
        brk()
        x = x * 0.999
    return x


def while_with_break(x, n):
    i = 0
    while i < n:
        x = x + 1
        brk()
        i += 1
    return x, i


def carried_numbers(x, n):
    c = 0
    s = 0.0
    for i in range(n):
        c += i
        s = s * 0.5 + c
        x = x + s
        brk()
        x = x - s
    return x, c, s


def item_in_loop(x, n):
    total = 0.0
    for _ in range(n):
        x = x * 0.5 + 1
        total += x.sum().item()
    return x, total


def nested_with_breaks(x, n):
    for _ in range(n // 20):
        for j in range(20):
            x = x * 0.5 + j
            brk()
        x = x * 0.25
        brk()
    return x


def handler_in_loop(x, n):
    caught = 0
    for i in range(n):
        try:
            x = x * 0.5 + 1
            brk()
            if i % 3 == 0:
                raise ValueError(i)
            x = x - 1
        except ValueError:
            caught += 1
    return x, caught


def state_manager_in_loop(x, n):
    for _ in range(n):
        with torch.no_grad():
            x = x + 1
            brk()
            x = x * 0.5
    return x


def callee_breaks(x, n):
    def step(v, k):
        v = v * 0.5 + k
        brk()
        return v - 1

    for i in range(n):
        x = step(x, i)
    return x


def plain_for(x, n):
    for _ in range(n):
        x = x * 0.5 + 1
    return x


def plain_while(x, n):
    i = 0
    while i < n:
        x = x * 0.5 + 1
        i += 1
    return x


def five_operators(x, n):
    for _ in range(n):
        y = torch.sin(x * 0.5)
        x = torch.tanh(y + x)
    return x


def nested_plain(x, n):
    side = int(n**0.5)
    for _ in range(side):
        for _ in range(side):
            x = x + 1
        x = x * 0.5
    return x


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def run(f, n):
    """The graphs of the first call, after comparing two calls with eager."""
    limit = sys.getrecursionlimit()
    expected = f(torch.zeros(3), n)
    compiled = capture.compile(f, backend="eager")
    assert same(expected, compiled(torch.zeros(3), n))
    graphs = counters.snapshot().graphs
    assert same(expected, compiled(torch.zeros(3), n))
    assert counters.snapshot().graphs == graphs
    assert sys.getrecursionlimit() == limit
    return graphs


WITH_BREAKS = [
    for_with_break,
    while_with_break,
    carried_numbers,
    item_in_loop,
    nested_with_breaks,
    handler_in_loop,
    state_manager_in_loop,
    callee_breaks,
]


@pytest.mark.parametrize("f", WITH_BREAKS, ids=lambda f: f.__name__)
def test_loop_with_a_break_compiles_its_body_once(f):
    assert run(f, 1200) <= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "f", [for_with_break, while_with_break, carried_numbers], ids=lambda f: f.__name__
)
def test_hundred_thousand_iterations_with_a_break(f):
    run(f, 2000)  # whatever grows once has grown
    before = resident_mib()
    counters.reset()
    assert run(f, 100_000) <= 4
    assert resident_mib() - before < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "f", [plain_for, plain_while, five_operators, nested_plain], ids=lambda f: f.__name__
)
def test_ten_thousand_iterations_without_a_break(f):
    started = time.perf_counter()
    assert run(f, 10_000) <= 3
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize("f", [plain_for, plain_while, five_operators], ids=lambda f: f.__name__)
def test_loop_beyond_the_unrolling_limit_is_run_as_a_body(f):
    with capture.config.patch(unroll_node_limit=200, unroll_instruction_limit=2000):
        assert run(f, 2000) <= 3
