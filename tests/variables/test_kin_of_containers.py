"""Ordered and default dicts, views, and whole-container calls: text, copies, pickles, fromkeys."""

# mypy: ignore-errors

from __future__ import annotations

import collections
import copy
import itertools
import operator
import pickle
from collections import OrderedDict, defaultdict, deque

import torch

X = torch.tensor([1.0, -2.0, 3.0])


class Sub(dict):
    pass


class Ordered(OrderedDict):
    pass


class Default(defaultdict):
    pass


def test_fromkeys(check):
    def f(x):
        kinds = (dict, Sub, OrderedDict, Ordered, collections.UserDict)
        made = [k.fromkeys("ab", 1) for k in kinds]
        make = dict.fromkeys
        return x + 1, made, make([3]), [type(m).__name__ for m in made]

    check(f, (X,), fullgraph=True)


def test_union_of_dicts_gives_eagers_type(check):
    def f(x, *dicts):
        made = [a | b for a in dicts for b in dicts]
        return x + 1, [(type(m).__name__, list(m.items())) for m in made]

    check(f, (X, {1: 2}, Sub({3: 4}), OrderedDict({1: 5, 6: 7})), fullgraph=True)
    check(f, (X, {1: 2}, Sub({3: 4}), Default(int, {1: 5}), defaultdict(list)))
    check(f, (X, Ordered(a=1), Default(int, {1: 5})))


def test_update_in_place(check):
    def f(x, d):
        d |= {9: 9}
        d |= [(8, 8)]
        return x + 1, d

    check(f, (X, OrderedDict({1: 2})), (X, defaultdict(list, {1: 2})), (X, {1: 2}))


def test_deques_are_added_and_repeated(check):
    def f(x, d):
        texts = []
        try:
            d + [1]
        except TypeError as error:
            texts.append(str(error))
        made = [d + d, d * 2, 2 * d, d * 0, d + deque([7, 8, 9], 2)]
        d += [5]
        d *= 2
        return x + 1, [(list(m), m.maxlen) for m in made], d, texts

    check(f, (X, deque([1, 2])), (X, deque([1, 2, 3], 4)))


def test_text(check):
    def f(x):
        d = {1: "a"}
        made = [
            d.keys(), d.items(), d.values(), OrderedDict(d), defaultdict(int, d), Sub(d),
            deque([1], 3), deque("ab"), collections.Counter("aab"),
        ]  # fmt: skip
        return x + 1, [repr(m) for m in made], [str(m) for m in made], [repr(m) for m in [Sub(d)]]

    check(f, (X,), fullgraph=True)


def test_views_are_sets(check):
    def f(x):
        d = {1: 2, 3: 4, 5: 6}
        e = {3: 4, 7: 8}
        keys = [d.keys() & {1, 9}, d.keys() | [9], d.keys() - e.keys(), {1, 9} ^ d.keys()]
        items = [d.items() & e.items(), d.items() | {(0, 0)}, d.items() - e.items()]
        return (
            x + 1, keys, items, [list(k) for k in keys], d.keys().isdisjoint([9]),
            d.items().isdisjoint(e.items()),
        )  # fmt: skip

    check(f, (X,))


def test_length_hints(check):
    class Hint:
        def __length_hint__(self):
            return 7

    def f(x):
        it = iter([1, 2, 3])
        next(it)
        return (
            x + 1, operator.length_hint(it), operator.length_hint(Hint()),
            operator.length_hint(5, 3),
            iter({1}).__length_hint__(), operator.length_hint(iter(deque([1]))),
            operator.length_hint(iter({1: 2})), operator.length_hint(reversed([1, 2])),
        )  # fmt: skip

    check(f, (X,), fullgraph=True)


def test_length_hint_of_an_iterator_that_is_inlined(check):
    def f(x):
        it = itertools.repeat(None, 50)
        return x + 1, operator.length_hint(it), operator.length_hint(itertools.count(), 3)

    check(f, (X,))


def test_deepcopy_of_plain_containers(check):
    def f(x, config):
        shared = [1]
        value = {"a": shared, "b": (shared, 2), "c": (1, (2, "x")), "d": {3, 4}}
        value["self"] = [value]
        made = copy.deepcopy(value)
        other = copy.deepcopy(config)
        other["k"].append(5)
        return (
            x + 1, made["a"] is made["b"][0], made["a"] is shared, made["self"][0] is made,
            made["c"] is value["c"], made["d"], other, config,
        )  # fmt: skip

    check(f, (X, {"k": [1], "name": "a"}), (X, {"k": [2, 3], "name": "b"}), fullgraph=True)


def test_deepcopy_of_what_is_not_plain(check):
    class Own:
        def __deepcopy__(self, memo):
            return "own"

    check(lambda x: (x + 1, copy.deepcopy([Own(), 1]), copy.deepcopy(Sub({1: [2]}))), (X,))


def test_pickles_of_constants(check):
    def f(x):
        plain = [1, 2.5, None, {"a": (1, "b")}]
        twice = ["a", "a"]
        shared = [[]] * 2
        dumped = [pickle.dumps(v, p) for v in (plain, twice, shared) for p in range(5)]
        loaded = [pickle.loads(d) for d in dumped]
        return x + 1, dumped, loaded, [v[0] is v[1] for v in loaded[10:]]

    check(f, (X,))


def test_a_pickle_that_names_a_class(check):
    data = pickle.dumps(OrderedDict(a=1))
    check(lambda x: (x + 1, pickle.loads(pickle.dumps(Sub(a=1))), pickle.loads(data)), (X,))


def test_constants_in_containers_are_compared_by_value(check):
    big = 10**9

    def f(x, items, wanted):
        return x + 1, wanted in items, items.index(wanted), items == [5, 10**9], items.count(wanted)

    check(f, (X, [5, big], int("1000000000")), (X, [5, big], 5), fullgraph=True)


def test_text_of_bytes_and_escapes(check):
    class Own:
        def __repr__(self):
            return "\u00a2"

    def f(x):
        return x + 1, str(b"\xc2\xa2", errors="strict"), ascii(Own()), str(b"a", "ascii")

    check(f, (X,))


def test_keys_that_empty_their_dict(check):
    class Key(int):
        def __hash__(self):
            return 13

        def __eq__(self, other):
            if len(d) > 1:
                d.clear()
            return False

    d = {}

    def f(x):
        nonlocal d
        d = {}
        d = {Key(1): 1, Key(2): 2}
        try:
            return x + 1, len(dict.fromkeys(d))
        except RuntimeError as error:
            return x + 1, str(error)

    check(f, (X,))


def test_an_ordered_dict_changed_behind_its_back(check):
    def f(x):
        d = OrderedDict(a=1)
        dict.clear(d)
        try:
            return x + 1, len(d), list(dict.items(d)), list(d.items())
        except (KeyError, RuntimeError) as error:
            return x + 1, type(error).__name__

    check(f, (X,))
