"""``copy.copy`` and ``copy.deepcopy`` of objects; dicts keyed by ``id()`` of what is made here."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import torch

X = torch.tensor([1.0, -2.0, 3.0])


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Stateful:
    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        return {"kept": self.value}

    def __setstate__(self, state):
        self.value = state["kept"] * 2


class Made:
    def __new__(cls, value=0):
        made = super().__new__(cls)
        made.value = value
        return made

    def __getnewargs__(self):
        return (self.value + 1,)


class Reduced:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Reduced, (self.value * 3,)


class Items(list):
    pass


def test_a_shallow_copy_shares_its_parts(check):
    def f(x):
        point = Point([1], x)
        twin = copy.copy(point)
        return x + 1, twin is point, twin.x is point.x, twin.y is x, type(twin) is Point

    assert not check(f, (X,)).breaks


def test_a_deep_copy_keeps_what_is_shared_within(check):
    def f(x):
        shared = [1, 2]
        point = Point(shared, Point(shared, None))
        twin = copy.deepcopy(point)
        twin.x.append(3)
        return x + 1, twin.y.x, twin.x is twin.y.x, shared

    assert not check(f, (X,)).breaks


def test_a_deep_copy_of_a_ring(check):
    def f(x):
        point = Point(None, 1)
        point.x = point
        twin = copy.deepcopy(point)
        return x + 1, twin.x is twin, twin is point

    assert not check(f, (X,)).breaks


def test_slots_state_arguments_and_reduction(check):
    def f(x):
        slotted = copy.copy(Slotted(3))
        return (
            x + 1, slotted.a, hasattr(slotted, "b"), copy.copy(Stateful(4)).value,
            copy.deepcopy(Made(5)).value, copy.copy(Reduced(6)).value,
        )  # fmt: skip

    assert not check(f, (X,)).breaks


def test_a_copy_of_a_subclass_of_list(check):
    def f(x):
        items = Items([1, 2])
        items.name = "n"
        twin = copy.copy(items)
        twin.append(3)
        return x + 1, list(twin), twin.name, list(items)

    check(f, (X,))


def test_an_object_passed_in_is_copied(check):
    def f(x, point):
        twin = copy.copy(point)
        twin.x = 5
        return x + twin.y, point.x, twin.x

    check(f, (X, Point(1, 2)), (X, Point(1, 3)))


def test_ids_of_objects_made_here_are_keys(check):
    def f(x):
        first, second = Point(1, 2), Point(1, 2)
        table = {id(first): "first", id(second): "second"}
        return x + 1, table[id(first)], table[id(second)], id([]) in table, len(table)

    check(f, (X,))


def test_ids_of_what_is_gone_are_left_to_python(check):
    def f(x):
        return x + 1, len({id(Point(i, i)) for i in range(1)}), id(x) == id(X)

    check(f, (X,))


def test_the_dict_of_an_object_is_one(check):
    def f(x):
        point = Point(1, 2)
        return x + 1, point.__dict__ is point.__dict__, id(vars(point)) == id(point.__dict__)

    assert not check(f, (X,)).breaks


def test_what_cannot_be_copied_here_is_copied_by_python_as_a_whole(check):
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))

    def fn(x):
        twin = copy.deepcopy(net)
        return twin(x) * 2, twin is net, copy.deepcopy({"a": [net]})["a"][0] is net

    report = check(fn, (X,))
    assert [record.count for record in report.breaks] == [2]
    assert report.recompiles == []
