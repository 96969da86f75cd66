"""Sets and frozensets: algebra, order, identity, subclasses, elements that are objects."""

# mypy: ignore-errors
# ruff: noqa: B023, E731, PLW0603

from __future__ import annotations

import collections.abc

import pytest
import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])
HOWS = ("union", "intersection", "difference", "symmetric_difference")


class Bag(set):
    pass


class Frozen(frozenset):
    pass


class Loud(set):
    def __or__(self, other):
        return "loud"


class Point:
    pass


FLAG = 0


class Flagged:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n

    def __eq__(self, other):
        if FLAG:
            raise ZeroDivisionError
        return self is other


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", [set, frozenset, Bag, Frozen])
def test_algebra_gives_eagers_elements_order_and_type(check, how, kind):
    def f(x, s):
        made = [getattr(s, how)(o) for o in ({1, 2, 40}, [2, 2, 9], {2: 0, 7: 0}, range(30, 33))]
        made.append(getattr(kind(range(20)), how)(s))
        return x + 1, [(type(m).__name__, list(m)) for m in made]

    check(f, (X, kind([1, 2, 3])), (X, kind([2, 33])), fullgraph=True)


@pytest.mark.parametrize("how", HOWS[1:])
def test_in_place_algebra_of_a_set_made_here(check, how):
    def f(x):
        s = set(range(30))
        t = s
        getattr(s, f"{how}_update")({1, 2, 77}, *([[2, 78]] if how != HOWS[3] else []))
        s ^= {500, 2}
        s -= {500}
        s |= {501}
        s &= {501, 1, 5, 78}
        return x * len(s), list(s), t is s

    check(f, (X,), fullgraph=True)


def test_in_place_algebra_of_an_outer_set(check):
    def f(x, s):
        s |= {7, 100}
        s -= {1}
        s.intersection_update(range(120))
        s.update([3, 4])
        return x + len(s)

    check(f, (X, {1, 2}), (X, {1, 2, 3}))


@pytest.mark.parametrize(
    "change",
    [
        lambda s, o: s.update(o),
        lambda s, o: s.update({3: 0, 700: 1}),
        lambda s, o: s.update({n * 7 for n in range(40)}),
        lambda s, o: s.difference_update(o, [5]),
        lambda s, o: s.difference_update(range(90)),
        lambda s, o: s.intersection_update(o),
        lambda s, o: s.intersection_update(range(50, 5, -1)),
        lambda s, o: s.intersection_update(set(range(1000))),
        lambda s, o: s.symmetric_difference_update(o),
        lambda s, o: s.symmetric_difference_update([9, 9, 800]),
        lambda s, o: (
            s.update(o),
            s.discard(4),
            s.update(range(3000, 3004)),
            s.clear(),
            s.update(o),
        ),
        lambda s, o: (s.update(o), o.add(5)),
        lambda s, o: s.intersection_update(s),
        lambda s, o: s.update(s),
    ],
)
def test_in_place_algebra_leaves_an_outer_set_in_eagers_order(change):
    def f(x, s, o):
        change(s, o)
        return x + len(s)

    def given():
        s = set(range(100))
        s.difference_update(range(0, 100, 3))
        return s, {1, 2, 4, 8, 4096, 515, 99}

    expected, actual = given(), given()
    compiled = capture.compile(f, backend="eager")
    assert torch.equal(f(X, *expected), compiled(X, *actual))
    assert list(expected[0]) == list(actual[0])
    assert list(expected[1]) == list(actual[1])
    f(X, *expected)
    compiled(X, *actual)
    assert list(expected[0]) == list(actual[0])


def test_a_set_that_shrank_keeps_its_order(check):
    def f(x):
        s = set(range(100))
        for i in range(95):
            s.discard(i)
        for i in (8, 0, 16):
            s.add(i)
        return x, s, list(s)

    def order(x):
        made = f(x)
        return x, list(made[1]), made[2]

    check(order, (X,))


def test_pop_gives_what_eager_gives(check):
    def f(x):
        s = set("abcdefgh")
        got = [s.pop(), s.pop()]
        s.add("z")
        got.append(s.pop())
        return x, got, s

    check(f, (X,))


def test_pop_of_an_outer_set(check):
    def f(x, s):
        return x, s.pop(), len(s)

    check(f, (X, {5}), (X, {5, 6, 7}))


def test_clear_then_fill_an_outer_set(check):
    def f(x, s):
        s.clear()
        s.add(3)
        s.add(4)
        return x, list(s)

    check(f, (X, {1, 2}), (X, set()))


def test_init_empties_the_set(check):
    def f(x):
        s = {1, 2}
        s.__init__([5])
        return x, s

    check(f, (X,), fullgraph=True)


def test_a_frozenset_is_its_own_copy(check):
    def f(x, s):
        return x, frozenset(s) is s, s.copy() is s, frozenset(Frozen(s)) is s

    check(f, (X, frozenset([1, 2])), fullgraph=True)


def test_an_overridden_operator_is_called(check):
    check(lambda x, s: (x, s | {1}, s & {1}), (X, Loud([1])))


def test_an_outer_set_of_objects():
    a, b, c = Point(), Point(), Point()

    def f(x, s, p):
        return len(s), p in s, sum(q is p for q in s), s.isdisjoint([p]), s.issubset([a, b, c])

    compiled = capture.compile(f, backend="eager", fullgraph=True)
    for s, p in (({a, b, 1}, a), ({a, b, 1}, c), ({a}, a), ({a, b, 1}, b), ({c}, a)):
        assert compiled(X, s, p) == f(X, s, p)


def test_a_set_is_found_in_a_set_of_frozensets(check):
    def f(x):
        s = {frozenset([1]), frozenset([2])}
        s.discard({2})
        return x, {1} in s, {2} in s, len(s)

    check(f, (X,), fullgraph=True)


def test_what_is_no_set_is_refused_by_operators(check):
    def f(x):
        texts = []
        for attempt in (lambda: {1} | [1], lambda: {1} - "a", lambda: None & {1}):
            try:
                attempt()
            except TypeError as error:
                texts.append(str(error))
        s = {1}
        try:
            s |= [2]
        except TypeError as error:
            texts.append(str(error))
        return x, texts, s

    check(f, (X,))


def test_isdisjoint_stops_early(check):
    def f(x):
        seen = []

        def items():
            for i in (5, 1, 6):
                seen.append(i)
                yield i

        return x, {1}.isdisjoint(items()), seen

    check(f, (X,), fullgraph=True)


def test_keys_that_look_at_a_global_see_it_as_eager_does(check):
    def f(x):
        global FLAG
        FLAG = 0
        s = {Flagged(1), Flagged(1)}
        FLAG = 1
        return x, len(s)

    check(f, (X,))


def test_a_class_registered_later_is_seen(check):
    class Plain:
        pass

    def f(x, p):
        return x, isinstance(p, collections.abc.Sized), issubclass(Plain, collections.abc.Sized)

    def g(x, p):
        before = f(x, p)
        collections.abc.Sized.register(Plain)
        return before, f(x, p)

    p = Plain()
    compiled = capture.compile(f, backend="eager")
    assert compiled(X, p)[1:] == (False, False)
    collections.abc.Sized.register(Plain)
    assert compiled(X, p)[1:] == (True, True)
