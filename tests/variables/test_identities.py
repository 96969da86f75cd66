"""``id()``: compared within a piece, and a number like eager's behind a break."""

# mypy: ignore-errors

from __future__ import annotations

import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def test_ids_of_living_objects_are_compared(check):
    def f(x, a, b):
        c, d = [1], [1]
        e = c
        return x + 1, id(a) == id(b), id(c) == id(d), id(c) == id(e), id(a) != id(c)

    shared = [2]
    check(f, (X, shared, shared), (X, [2], [2]), fullgraph=True)


def test_an_id_leaves_the_piece(check):
    def f(x, a):
        made = [1]
        found = id(made)
        given = id(a)
        x = x + 1
        print("break")
        return x, found == id(made), given == id(a), {id(made): 1}[found], f"{found}" == str(found)

    check(f, (X, [2]))


def test_ids_of_what_is_gone_are_not_compared(check):
    def f(x):
        first = id([])
        return x + 1, type(first == id([])).__name__, isinstance(first, int), first is None

    check(f, (X,))


def test_ids_as_keys(check):
    def f(x, a):
        made = [a, [3]]
        memo = {id(v): v for v in made}
        return x + 1, memo[id(a)] is a, memo.get(id(made[1])), memo.get(id(memo)), len(memo)

    check(f, (X, [2]))


def test_tuples_of_constants_are_one_object_where_eagers_are():
    def pair():
        return 4, 5

    def f(x, n):
        a, b = tuple([4, None]), tuple([4, None])
        return x + n, a, b, pair(), pair() is pair()

    compiled = capture.compile(f, backend="eager")
    for _ in range(2):
        got = compiled(X, 1)
        assert got[1] is not got[2]
        assert got[3] is pair()
        assert got[4]
    assert compiled(X, 1)[1] is not compiled(X, 1)[1]
