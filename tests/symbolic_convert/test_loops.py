"""Loops: unrolled up to a budget, run as a body beyond it, at constant stack depth."""

# mypy: ignore-errors

from __future__ import annotations

import sys

import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def test_short_loop_is_one_graph(check):
    def f(x):
        for i in range(10):
            x = x * 1.5 + i
        return x

    assert check(f, (X,), fullgraph=True).graphs == 1


def test_long_for_loop_compiles_few_graphs(check):
    def f(x):
        for i in range(2000):
            x = x + i
        return x

    with capture.config.patch(unroll_node_limit=100):
        assert check(f, (X,)).graphs <= 4


def test_long_while_loop_compiles_few_graphs(check):
    def f(x):
        n = 0
        while n < 1000:
            x = x + n
            n += 1
        return x, n

    with capture.config.patch(unroll_node_limit=100):
        assert check(f, (X,)).graphs <= 4


def test_long_loop_in_a_callee(check):
    def g(x, n):
        for i in range(n):
            x = x + i
            if i == 400:
                break
        else:
            x = x * 2
        return x

    with capture.config.patch(unroll_node_limit=100):
        check(lambda x: g(x, 500) + g(x, 300), (X,))


def test_long_nested_loops(check):
    def f(x):
        for i in range(30):
            for j in range(30):
                if (i + j) % 7 == 0:
                    continue
                x = x + j
        return x

    with capture.config.patch(unroll_node_limit=100):
        check(f, (X,))


def test_long_loop_over_a_list_that_grows(check):
    def f(x, items):
        for item in items:
            x = x + item
            if len(items) < 300:
                items.append(item + 1)
        return x

    with capture.config.patch(unroll_node_limit=100):
        check(f, (X, [1, 2]))


def test_long_loop_inside_try_and_with(check):
    def f(x, log):
        with torch.no_grad():
            try:
                for i in range(400):
                    x = x + i
                    if i == 350:
                        raise ValueError(i)
            except ValueError as error:
                log.append(error.args)
            finally:
                log.append("finally")
        return x

    with capture.config.patch(unroll_node_limit=100):
        check(f, (X, []))


def test_long_comprehension(check):
    with capture.config.patch(unroll_node_limit=100):
        check(lambda x: sum([x * i for i in range(300)]), (X,))


def test_loop_without_tensors_is_cheap(check):
    def f(x):
        n = 0
        for i in range(3000):
            n += i % 3
        return x + n

    assert check(f, (X,)).graphs <= 3


def test_many_iterations_with_a_break_at_constant_depth():
    def f(x, n):
        for _ in range(n):
            x = x + 1
            capture.graph_break()
        return x

    limit = sys.getrecursionlimit()
    with capture.config.patch(suppress_errors=False):
        assert capture.compile(f, backend="eager")(torch.zeros(1), 5000).item() == 5000
    assert sys.getrecursionlimit() == limit


def test_loop_carries_python_numbers_without_new_graphs(check):
    def f(x, n):
        total = 0
        for i in range(n):
            x = x * 0.5 + total
            total += i
            capture.graph_break()
        return x, total

    assert check(f, (X, 40)).graphs <= 6


def test_deep_recursion(check):
    def down(x, n):
        return x if n == 0 else down(x, n - 1) + 1

    check(lambda x: down(x, 200), (X,))


def test_endless_recursion_raises_as_in_eager(check):
    def down(x):
        return down(x) + 1

    def f(x):
        y = x + 1
        try:
            down(y)
        except RecursionError:
            return y * 2

    check(f, (X,))


def test_tensors_of_a_loop_are_freed():
    """Rebinding frees: at no time do two results of earlier rounds live."""
    import gc
    import weakref

    class Watch:
        alive = 0

        def __init__(self):
            Watch.alive += 1
            weakref.finalize(self, Watch.drop)

        @staticmethod
        def drop():
            Watch.alive -= 1

    most = []

    @capture.disable
    def make(x):
        t = x + 1
        t.watch = Watch()
        most.append(Watch.alive)
        return t

    @capture.compile(backend="eager")
    def f(x):
        for _ in range(20):
            x = make(x * 2)
        return x

    gc.disable()
    try:
        f(X)
        f(X)
    finally:
        gc.enable()
    assert max(most) <= 2
