"""Errors that captured code raises and handles say what CPython's say."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import pytest
import torch

X = torch.tensor([1.0, 2.0])


class Plain:
    pass


class Whole(int):
    pass


class Many(list):
    pass


class Lazy:
    def __iter__(self):
        raise TypeError("not now")


def _two(v):
    a, b = v
    return a, b


def _rest(v):
    a, *b = v
    return a, b


def _delete(v, at=0):
    del v[at]
    return v


def _store(v, at=0):
    v[at] = 9
    return v


def _times(v, factor):
    v *= factor
    return v


def _slice(v, step=None):
    items = [1, 2, 3]
    items[::step] = v
    return items


OPERATIONS = {
    "two": _two,
    "rest": _rest,
    "star_list": lambda v: [*v],
    "star_call": lambda v: max(*v),
    "contains": lambda v: 1 in v,
    "mod": lambda v: "%s" % v,
    "mod_two": lambda v: "%s %s" % v,
    "mod_number": lambda v: "%d" % v,
    "list_index": lambda v: [1, 2][v],
    "tuple_index": lambda v: (1, 2)[v],
    "deque_index": lambda v: collections.deque([1, 2])[v],
    "key": lambda v: v["a"],
    "call": lambda v: v(),
    "negative": lambda v: -v,
    "times": lambda v: "a" * v,
    "times_list": lambda v: [1] * v,
    "plus": lambda v: [1] + v,
    "hash": lambda v: len({v: 1}),
    "join": lambda v: "-".join(v),
    "dict": dict,
    "update": lambda v: {}.update([v]),
    "delete": _delete,
    "delete_key": lambda v: _delete(v, "a"),
    "slice": _slice,
    "extended": lambda v: _slice(v, 2),
    "append": lambda v: list.append(v, 1),
    "iter": iter,
    "next": next,
    "length": len,
    "attribute": lambda v: v.nothing,
    "ones": lambda v: torch.ones(v).shape,
    "stack": lambda v: torch.stack(v),
    "add": lambda v: torch.add(v, 1),
    "map": lambda v: map(),
    "with": lambda v: v.__enter__,
    "power": lambda v: v**v,
    "tensor_power": lambda v: X**v,
    "times_in_place": lambda v: _times("a", v),
    "in_place_times": lambda v: _times(v, "a"),
    "store": lambda v: _store(v),
    "store_key": lambda v: _store(v, "a"),
    "store_at": lambda v: _store([1, 2], v),
    "store_place": lambda v: _store([1, 2], torch.tensor(1)),
    "size_plus": lambda v: torch.Size([1]) + v,
}
VALUES = {
    "int": lambda: 1,
    "huge": lambda: 1 << 70,
    "none": lambda: None,
    "str": lambda: "ab",
    "tuple": lambda: (1, 2),
    "list": lambda: [1, 2],
    "dict": lambda: {"a": 1},
    "range": lambda: range(2),
    "plain": Plain,
    "class": lambda: Plain,
    "whole": lambda: Whole(1),
    "many": lambda: Many([1, 2]),
    "lazy": Lazy,
    "deque": lambda: collections.deque([1, 2]),
    "ordered": lambda: collections.OrderedDict(a=1),
    "size": lambda: torch.Size([1, 2]),
    "dtype": lambda: torch.float32,
    "method": lambda: [].append,
}
# what would make a tensor or a text of so many items
_TOO_LARGE = {
    (name, "huge")
    for name in ("times", "times_list", "ones", "power", "times_in_place", "in_place_times")
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_text(check, operation):
    name = next(n for n, o in OPERATIONS.items() if o is operation)
    for kind, make in VALUES.items():
        if (name, kind) in _TOO_LARGE:
            continue

        def fn(x, value):
            try:
                found = operation(value)
            except Exception as error:
                return x + 1, type(error), str(error)
            return x + 2, type(found)

        try:
            check(fn, (X, make()))
        except AssertionError as error:
            raise AssertionError(f"{name} of {kind}: {error}") from error


def test_bound_methods_are_keys_by_identity(check):
    def fn(x):
        items = [1]
        known = {items.append: "a", x.size: "b"}
        return x + 1, known[items.append], items.append in known, [1].append in known

    check(fn, (X,))
