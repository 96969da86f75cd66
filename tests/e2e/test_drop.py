"""What is compiled and dropped leaves nothing behind."""

# mypy: ignore-errors

from __future__ import annotations

import gc
import linecache
import weakref

import pytest
import torch
from torch import nn
from torch.fx import graph_module

import capture

X = torch.ones(3)


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


@capture.disable
def brk(*_):
    pass


def shared(x):
    return x * 2 + 1


def shared_breaking(x):
    y = x * 2
    brk(y)

    def inner(z):
        return z + y

    return inner(x)


def fresh(i):
    namespace = {}
    exec(f"def f(x):\n    y = x * {i % 7}\n    return y + 1", namespace)
    return namespace["f"]


def fresh_breaking(i):
    namespace = {"brk": brk}
    exec(f"def f(x):\n    y = x * {i % 7}\n    brk(y)\n    return y + 1", namespace)
    return namespace["f"]


def model():
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 64))


MAKERS = {
    "shared": lambda i: shared,
    "shared_breaking": lambda i: shared_breaking,
    "fresh": fresh,
    "fresh_breaking": fresh_breaking,
}


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(s.split()[1]) for s in status if s.startswith("VmRSS")) / 1024


def cycles(make, n):
    for i in range(n):
        capture.compile(make(i), backend="eager")(X)
    gc.collect()
    return resident_mib(), len(graph_module._loader.eval_cache), len(linecache.cache)


@pytest.mark.parametrize("kind", MAKERS)
def test_sources_of_dropped_graphs_are_evicted(kind):
    cycles(MAKERS[kind], 5)
    _, evals, lines = cycles(MAKERS[kind], 5)
    _, more_evals, more_lines = cycles(MAKERS[kind], 40)
    assert (more_evals, more_lines) == (evals, lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n"), [("fresh", 10_000), ("shared", 2000), ("fresh_breaking", 2000)]
)
def test_compiling_and_dropping_keeps_memory_flat(kind, n):
    before, *_ = cycles(MAKERS[kind], 600)
    after, *_ = cycles(MAKERS[kind], n)
    assert after - before < 6


def compiled_module():
    m = model()
    capture.compile(m, backend="eager")(torch.ones(2, 16)).sum().backward()
    return weakref.ref(m), weakref.ref(m[0].weight)


def closed_over():
    m = model()

    @capture.compile(backend="eager")
    def step(x):
        loss = m(x).sum()
        loss.backward()
        return loss

    step(torch.ones(2, 16))
    return weakref.ref(m), weakref.ref(m[0].weight)


@capture.compile(backend="eager")
def apply(m, x):
    return m(x)


def argument_of_a_living_function():
    m = model()
    apply(m, torch.ones(2, 16))
    return weakref.ref(m), weakref.ref(m[0].weight)


MODELS = [compiled_module, closed_over, argument_of_a_living_function]


@pytest.mark.parametrize("use", MODELS, ids=lambda f: f.__name__)
def test_model_goes_with_its_last_reference(use):
    gc.collect()
    gc.disable()
    try:
        assert [ref() for ref in use()] == [None, None]
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("use", MODELS, ids=lambda f: f.__name__)
def test_two_hundred_models(use):
    for _ in range(20):
        use()
    gc.collect()
    before = resident_mib()
    for _ in range(200):
        assert [ref() for ref in use()] == [None, None]
    gc.collect()
    assert resident_mib() - before < 6


def test_one_entry_serves_equal_models():
    capture.reset()
    for _ in range(5):
        argument_of_a_living_function()
    assert capture.counters.snapshot().graphs <= 1
