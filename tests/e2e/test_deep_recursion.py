"""Recursion under capture: as deep as eager, the same RecursionError, and never a crash."""

# mypy: ignore-errors

from __future__ import annotations

import sys
import threading

import pytest
import torch

import capture


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


@capture.disable
def brk(*_):
    pass


def plain(x, n):
    return x if n == 0 else plain(x + 1, n - 1) * 1


def breaking(x, n):
    brk(n)
    return x if n == 0 else breaking(x + 1, n - 1) * 1


def endless(x):
    return endless(x + 1)


def endless_breaking(x):
    brk()
    return endless_breaking(x + 1)


class Chain:
    def __init__(self, n):
        self.n = n

    def __getattr__(self, name):
        return getattr(Chain(self.n - 1), name) if self.n else 7

    def __repr__(self):
        return repr(Chain(self.n - 1)) if self.n else "end"


def in_thread(target, stack_mib=512):
    """Run in a thread with a large stack; what it raises is raised here."""
    errors = []

    def run():
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threading.stack_size(stack_mib * 1024 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(0)
    thread.join()
    if errors:
        raise errors[0]


def depth_left():
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return sys.getrecursionlimit() - depth


@pytest.mark.parametrize("f", [plain, breaking], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [30, 300, 900])
def test_recursion_of_a_captured_function(f, n):
    n = min(n, depth_left() - 40)
    compiled = capture.compile(f, backend="eager")
    for _ in range(2):
        assert compiled(torch.zeros(1), n).item() == n


@pytest.mark.parametrize("f", [endless, endless_breaking], ids=lambda f: f.__name__)
def test_endless_recursion_raises_as_eager(f):
    compiled = capture.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
            compiled(torch.zeros(1))
    assert (
        capture.compile(plain, backend="eager")(torch.zeros(1), 5).item() == 5
    )  # all is well again


def test_recursion_error_is_caught_in_the_program():
    def f(x):
        try:
            return endless(x)
        except RecursionError:
            return x - 1

    assert capture.compile(f, backend="eager")(torch.zeros(1)).item() == -1


def test_native_recursion_as_deep_as_eager():
    n = min(900, depth_left() - 40)
    compiled = capture.compile(lambda k: Chain(k).anything, backend="eager")
    assert [compiled(k) for k in (3, n, n)] == [7, 7, 7]


def test_native_recursion_too_deep_raises_as_eager():
    for call in (repr, capture.compile(lambda o: repr(o), backend="eager")):
        with pytest.raises(RecursionError):
            call(Chain(2000))


@pytest.mark.parametrize(
    ("f", "n"),
    [(plain, 3000), (breaking, 3000), pytest.param(breaking, 40_000, marks=pytest.mark.slow)],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_thread_with_a_raised_limit(f, n):
    before = sys.getrecursionlimit()

    def run():
        sys.setrecursionlimit(100_000)
        compiled = capture.compile(f, backend="eager")
        for _ in range(2):
            assert compiled(torch.zeros(1), n).item() == n
        assert sys.getrecursionlimit() == 100_000

    try:
        in_thread(run)
    finally:
        sys.setrecursionlimit(before)


def test_endless_recursion_under_a_raised_limit():
    before = sys.getrecursionlimit()

    def run():
        sys.setrecursionlimit(100_000)
        with pytest.raises(RecursionError):
            capture.compile(endless_breaking, backend="eager")(torch.zeros(1))

    try:
        in_thread(run, stack_mib=32)
    finally:
        sys.setrecursionlimit(before)


def counts(items):
    items.append(1)
    counts(items)


def counts_in_turn(items):
    items.append(1)
    brk()
    counts_in_turn(items)


@pytest.mark.parametrize("function", [counts, counts_in_turn])
@pytest.mark.parametrize("limit", [30, 47, 200])
def test_side_effects_end_where_the_stack_does(function, limit):
    def reached(fn):
        items = []
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before - depth_left() + limit)
        try:
            with pytest.raises(RecursionError):
                fn(items)
        finally:
            sys.setrecursionlimit(before)
        return len(items)

    expected = reached(function)
    fn = capture.compile(function, backend="eager")
    # the call of the compiled function may take a frame of its own
    assert all(abs(reached(fn) - expected) <= 2 for _ in range(3))
