"""Deques: all their methods, their iterators, and what makes those invalid."""

# mypy: ignore-errors

from __future__ import annotations

from collections import deque

import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def test_methods(check):
    def f(x, d):
        d.extendleft([1, 2])
        d.rotate()
        d.rotate(-3)
        d.insert(1, 9)
        d.reverse()
        d.remove(9)
        c = d.copy()
        c.rotate(2)
        return x, list(d), list(c), d.index(2), d.count(2), 2 in d, list(reversed(d)), len(d)

    check(f, (X, deque([5, 6, 7])), (X, deque([5, 6, 7], 20)), fullgraph=True)


def test_errors(check):
    def f(x, d):
        texts = []
        for attempt in (
            lambda: d.remove(99),
            lambda: d.index(99),
            lambda: d.insert(0, 1),
            lambda: d.index(1, 2),
            lambda: d.count(),
        ):
            try:
                attempt()
            except (ValueError, IndexError, TypeError) as error:
                texts.append(str(error))
        return x, texts

    check(f, (X, deque([1, 2], 2)))


def test_iterators_know_that_the_deque_changed(check):
    def f(x):
        d = deque([1, 2, 3])
        it = iter(d)
        next(it)
        d[0] = 7
        second = next(it)
        d.append(4)
        try:
            next(it)
        except RuntimeError as error:
            return x, second, str(error)

    check(f, (X,), fullgraph=True)


def test_an_iterator_of_a_changed_deque_leaves_the_frame(check):
    def f(x, d):
        it = iter(d)
        d.append(1)
        return x, it

    def g(x, d):
        it = f(x, d)[1]
        try:
            return next(it)
        except RuntimeError as error:
            return str(error)

    check(g, (X, deque()), (X, deque([3])))


def test_items_replaced_in_an_outer_deque_keep_its_iterators(check):
    def f(x, d, it):
        d[0], d[1] = 8, 9
        return x, list(it)

    d = deque([1, 2])
    compiled = capture.compile(f, backend="eager")
    assert compiled(X, d, iter(d))[1] == [8, 9]


def test_init_again(check):
    def f(x):
        d = deque([1, 2])
        d.__init__([3, 4, 5], 2)
        d.append(6)
        return x, d, d.maxlen

    check(f, (X,))
