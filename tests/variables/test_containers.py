"""Lists, tuples, dicts, sets and deques: contents, order, identity, errors and guards."""

# mypy: ignore-errors
# ruff: noqa: E741, E711, E402

from __future__ import annotations

import collections

import torch

X = torch.tensor([1.0, -2.0, 3.0])
NAN = float("nan")


class Bag(list):
    pass


class Config(dict):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __missing__(self, key):
        return "missing " + key


def test_list_length_is_guarded(check):
    check(lambda x, items: x + len(items), (X, [1]), (X, [1, 2]), fullgraph=True)


def test_list_item_is_guarded(check):
    check(lambda x, items: x + items[0], (X, [1, 5]), (X, [2, 5]), (X, [2.0, 5]), fullgraph=True)


def test_bool_and_int_and_float_items_differ(check):
    def f(x, items):
        return x + 1, [type(i).__name__ for i in items], items

    check(f, (X, [1]), (X, [True]), (X, [1.0]), fullgraph=True)


def test_negative_zero_and_nan_are_kept(check):
    check(lambda x, v: (x * v, v, [v]), (X, -0.0), (X, 0.0), (X, NAN))


def test_list_methods(check):
    def f(x, items):
        items.append(x)
        items.insert(0, 5)
        items.extend([7, 8])
        last = items.pop()
        first = items.pop(0)
        items.reverse()
        items.remove(7)
        copy = items.copy()
        copy.sort(key=lambda v: 0)
        return last, first, copy, items.index(3), items.count(3), 3 in items

    check(f, (X, [3, 4]), (X, [4, 3, 3]))


def test_list_slices(check):
    def f(x, items):
        items[1:3] = [x, x + 1, 9]
        del items[0]
        items[::2] = ["a" for _ in items[::2]]
        del items[-1:]
        return items[::-1], items[5:], items * 2, items + [1]

    check(f, (X, [1, 2, 3, 4, 5]))


def test_list_errors(check):
    def f(x, items):
        y = x + 1
        caught = []
        for action in (
            lambda: items[10],
            lambda: items.pop(10),
            lambda: items.remove(99),
            lambda: items.index(99),
            lambda: items["a"],
        ):
            try:
                action()
            except (IndexError, ValueError, TypeError) as error:
                caught.append((type(error).__name__, str(error)))
        return y, caught

    check(f, (X, [1, 2]))


def test_pop_from_an_empty_list_leaves_the_frame(check):
    check(lambda x, items: (x + 1, items.pop()), (X, []))


def test_list_is_extended_by_itself(check):
    def f(x, items):
        items.extend(items)
        items += items
        return x + len(items)

    check(f, (X, [1, 2]), fullgraph=True)


def test_list_extended_by_a_generator_that_raises(check):
    def f(x, items):
        def gen():
            yield x
            raise ValueError("stop")

        try:
            items.extend(gen())
        except ValueError:
            pass
        return x + len(items)

    check(f, (X, [1]))


def test_list_grows_while_iterated(check):
    def f(x, items):
        for item in items:
            if len(items) < 6:
                items.append(item * 10)
            x = x + item
        return x

    check(f, (X, [1, 2]), fullgraph=True)


def test_list_shrinks_while_iterated(check):
    def f(x, items):
        seen = []
        for item in items:
            seen.append(item)
            items.remove(item)
        return x + 1, seen

    check(f, (X, [1, 2, 3, 4]), fullgraph=True)


def test_same_list_twice_after_two_lists(check):
    def f(x, a, b):
        a.append(1)
        return x + len(b), len(a), a is b

    shared = [5]
    check(f, (X, [5], [5]), (X, shared, shared), fullgraph=True)


def test_write_through_one_alias_is_read_through_the_other(check):
    def f(x, a, b):
        a[0] = x + 1
        return b[0]

    shared = [1]
    check(f, (X, [1], [1]), (X, shared, shared), fullgraph=True)


def test_dict_alias(check):
    def f(x, a, b):
        a["k"] = x + 1
        return b.get("k")

    shared = {"z": 1}
    check(f, (X, {"z": 1}, {"z": 1}), (X, shared, shared), fullgraph=True)


def test_the_same_object_is_returned_twice(check):
    def f(x):
        a = [x]
        return a, a, (a,), {"k": a}, [a, [x]]

    check(f, (X,), fullgraph=True)


def test_self_referring_list(check):
    def f(x):
        a = [x + 1]
        a.append(a)
        b = {"a": a}
        b["self"] = b
        return a, b

    check(f, (X,), fullgraph=True)


def test_list_and_tuple_refer_to_each_other(check):
    def f(x):
        items = []
        pair = (items, x + 1)
        items.append(pair)
        return pair

    check(f, (X,))


def test_list_subclass(check):
    def f(x, bag):
        bag.append(x)
        bag.note = "n"
        new = Bag([1, x])
        new.note = bag.note
        return new, len(bag), bag[0], Bag([1]) == [1], [1] == Bag([1])

    check(f, (X, Bag([4])))


def test_list_comparison_and_membership(check):
    def f(x, a):
        return (
            x + 1,
            a == [1, 2.0],
            a < [1, 3],
            a != [1],
            NAN in [NAN],
            [NAN] == [NAN],
            True in a,
            a == (1, 2),
        )

    check(f, (X, [1, 2]), (X, [True, 2]))


def test_tuple_operations(check):
    def f(x, t):
        a, *b = t
        (c, d), e = (1, 2), 3
        return (
            x + a,
            b,
            t[1:],
            t + (1,),
            t * 2,
            t.index(2),
            t.count(2),
            (c, d, e),
            t == (1, 2),
            hash((1, "a")) == hash((1, "a")),
        )

    check(f, (X, (1, 2)), (X, (1, 2, 3)))


def test_unpacking_errors(check):
    def f(x, t):
        y = x + 1
        try:
            a, b = t
        except ValueError as error:
            return y, str(error)
        return y, a, b

    check(f, (X, (1,)), (X, (1, 2, 3)), (X, (1, 2)), (X, [1]), (X, {1: 2, 3: 4, 5: 6}), (X, "abc"))


def test_starred_unpacking_errors(check):
    def f(x, t):
        y = x + 1
        try:
            a, b, *c = t
        except ValueError as error:
            return y, str(error)
        return y, a, b, c

    check(f, (X, (1,)), (X, (1, 2)), (X, "abcd"))


def test_dict_order_of_new_keys(check):
    def f(x, d):
        d["new"] = x + 1
        d.setdefault("other", []).append(2)
        return list(d), list(d.values()), list(d.items())

    check(f, (X, {"a": 1, "b": 2}), (X, {"b": 2, "a": 1}), fullgraph=True)


def test_dict_key_deleted_and_set_again(check):
    def f(x, d):
        del d["a"]
        d["a"] = x + 1
        return list(d)

    check(f, (X, {"a": 1, "b": 2}), fullgraph=True)


def test_dict_key_deleted_and_set_again_after_reading(check):
    def f(x, d):
        n = len(d)
        del d["a"]
        d["a"] = x + n
        return list(d)

    check(f, (X, {"a": 1, "b": 2}), fullgraph=True)


def test_dict_keeps_the_first_of_equal_keys(check):
    def f(x, d):
        d[True] = "true"
        d[1.0] = "float"
        new = {1: "a", True: "b", 1.0: "c"}
        new[0.0] = 1
        new[-0.0] = 2
        new[False] = 3
        return x + 1, list(d.items()), list(new.items())

    check(f, (X, {1: "one"}), (X, {}), (X, {2: 2}))


def test_dict_order_is_guarded(check):
    check(lambda x, d: x * next(iter(d)), (X, {1: 0, 2: 0}), (X, {2: 0, 1: 0}))


def test_dict_methods(check):
    def f(x, d):
        a = d.pop("a", None)
        b = d.pop("zz", 5)
        c = d.popitem()
        d.update({"q": x}, r=2)
        d.update([("s", 3)])
        e = d.get("q"), d.get("none"), d.get("none", 7)
        copy = d.copy()
        d.clear()
        d["after"] = 1
        return (
            a,
            b,
            c,
            e,
            copy,
            "q" in copy,
            copy.keys() & {"q", "r"},
            dict(copy, z=1),
            copy | {"q": 0},
            len(copy),
        )

    check(f, (X, {"a": 1, "b": 2}))


def test_dict_errors(check):
    def f(x, d):
        y = x + 1
        caught = []
        for action in (
            lambda: d["none"],
            lambda: d.pop("none"),
            lambda: {}.popitem(),
            lambda: d[[]],
            lambda: d.__delitem__("none"),
        ):
            try:
                action()
            except (KeyError, TypeError) as error:
                caught.append((type(error).__name__, error.args))
        return y, caught

    check(f, (X, {"a": 1}))


def test_dict_changes_size_while_iterated(check):
    def f(x, d):
        y = x + 1
        for k in d:
            d[k + "x"] = 1
        return y

    check(f, (X, {"a": 1}))


def test_dict_value_replaced_while_iterated(check):
    def f(x, d):
        for k in d:
            d[k] = x * d[k]
        return d

    check(f, (X, {"a": 1, "b": 2}), fullgraph=True)


def test_dict_comprehension_and_views(check):
    def f(x, d):
        e = {k: x * v for k, v in d.items() if v}
        view = d.keys()
        d["late"] = 1
        return (
            e,
            list(view),
            "late" in view,
            len(d.items()),
            d.keys() == {"a": 0, "b": 0, "late": 0}.keys(),
            list(reversed(d)),
        )

    check(f, (X, {"a": 1, "b": 0}))


def test_dict_view_is_returned(check):
    def program(compile):
        @compile
        def f(x, d):
            d["k"] = x + 1
            return d.values(), d.items()

        d = {}
        values, items = f(X, d)
        d["z"] = 1
        return list(values), list(items)

    check.script(program)


def test_dict_equality(check):
    def f(x, a, b):
        return x + 1, a == b, a != b, a == {"k": 1}

    check(
        f,
        (X, {"k": 1}, {"k": 1}),
        (X, {"k": 1}, {"k": True}),
        (X, {"k": 1, "j": 2}, {"j": 2, "k": 1}),
    )


def test_ordered_dict(check):
    def f(x, d):
        d.move_to_end("a")
        d["z"] = x
        d.move_to_end("z", last=False)
        first = d.popitem(last=False)
        new = collections.OrderedDict(a=1, b=2)
        return (
            first,
            list(d),
            new,
            new == {"b": 2, "a": 1},
            new == collections.OrderedDict(b=2, a=1),
            new == collections.OrderedDict(a=1, b=2),
        )

    check(f, (X, collections.OrderedDict(a=1, b=2)))


def test_default_dict(check):
    def f(x, d):
        d["new"].append(x)
        d["old"].append(1)
        new = collections.defaultdict(lambda: 5)
        new["a"] += 1
        return (
            d,
            dict(new),
            d.get("none"),
            "none" in d,
            collections.defaultdict(int, a=1) == {"a": 1},
        )

    check(f, (X, collections.defaultdict(list, old=[0])))


def test_default_dict_without_factory_raises(check):
    def f(x):
        d = collections.defaultdict(None)
        try:
            return d["k"]
        except KeyError as error:
            return x + 1, error.args

    check(f, (X,))


def test_counter(check):
    def f(x):
        c = collections.Counter("abca")
        c.update("a")
        return x + c["a"], c["zzz"], c.most_common(1), dict(c)

    check(f, (X,))


def test_dict_subclass_with_missing_and_getattr(check):
    def f(x, c):
        c.update(late=x)
        c["more"] = 2
        return x * c.scale, c["nope"], c.late, dict(c), c.get("nope")

    check(f, (X, Config(scale=2)), (X, Config(scale=3)))


def test_dict_subclass_with_setitem(check):
    class Upper(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    def f(x, d):
        d["a"] = x + 1
        d.update(b=1)
        d.setdefault("c", 2)
        new = Upper(z=1)
        new["y"] = 3
        return d, new

    check(f, (X, Upper()))


def test_objects_as_keys(check):
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return isinstance(other, Key) and self.n == other.n

    def f(x, d, k):
        d[k] = x + 1
        return d[Key(1)], Key(2) in d, len(d)

    check(f, (X, {Key(1): 5}, Key(1)), (X, {Key(1): 5}, Key(3)))


def test_tensors_and_modules_as_keys(check):
    def f(x, y):
        d = {x: 1, y: 2}
        d[x] += 5
        return x + d[x] + d[y], len(d)

    check(f, (X, X + 1))


def test_tuple_keys(check):
    def f(x, d):
        d[(1, "a")] = x
        d[1, ("b", None)] = 2
        return d, d.get((1, "a")) is x, (1, "c") in d

    check(f, (X, {(1, "a"): 0}), fullgraph=True)


def test_set_operations(check):
    def f(x, s):
        s.add(3)
        s.discard(1)
        s.update([5, 6], (7,))
        t = s | {9}
        u = (s & {3, 5}, s - {3}, s ^ {3, 100}, s <= t, s.isdisjoint({0}), 3 in s, len(s))
        s.remove(5)
        return x + len(t), u, sorted(t), frozenset(s)

    check(f, (X, {1, 2}), (X, {2}))


def test_set_errors(check):
    def f(x, s):
        y = x + 1
        try:
            s.remove(99)
        except KeyError as error:
            return y, error.args

    check(f, (X, {1}))


def test_set_contents_are_guarded_by_type(check):
    check(lambda x, s: (x + 1, [repr(v) for v in s]), (X, {1}), (X, {True}), (X, {1.0}))


def test_set_iteration_order_of_equal_sets(check):
    def program(compile):
        @compile
        def f(x, s):
            return x + 1, list(s)

        one, two = set(), set()
        one.add(0)
        one.add(8)
        two.add(8)
        two.add(0)
        assert list(one) != list(two)
        return f(X, one), f(X, two)

    check.script(program)


def test_iteration_order_of_a_set_made_here(check):
    def f(x):
        a = {8, 0, 16}
        a.discard(8)
        a.add(8)
        return (
            x + 1,
            list(a),
            list({0, 8} | {16}),
            list({8, 0} & {0, 8, 16}),
            list(set("hello")),
            list({8, 0} - {1}),
        )

    check(f, (X,))


def test_set_changes_size_while_iterated(check):
    def f(x):
        s = {1, 2}
        y = x + 1
        for v in s:
            s.add(v + 10)
        return y

    check(f, (X,))


def test_set_argument_changes_size_while_iterated(check):
    def f(x, s):
        y = x + 1
        try:
            for v in s:
                s.add(v + 10)
        except RuntimeError as error:
            return y, str(error)

    check(f, (X, {1, 2}))


def test_frozenset(check):
    def f(x, s):
        return x + len(s), s | {3}, {s: 1}[frozenset({1, 2})] if len(s) == 2 else None

    check(f, (X, frozenset({1, 2})), (X, frozenset({1})))


def test_deque(check):
    def f(x, d):
        d.append(x)
        d.appendleft(0)
        left = d.popleft()
        d.extend([1, 2])
        d.rotate(1)
        new = collections.deque([1, 2, 3], maxlen=2)
        new.append(4)
        new.appendleft(9)
        return (
            left,
            d[0],
            len(d),
            new,
            new == collections.deque([9, 3], 2),
            new == collections.deque([9, 4], 2),
            new.maxlen,
        )

    check(f, (X, collections.deque([5])), (X, collections.deque([5], maxlen=3)))


def test_deque_changes_while_iterated(check):
    def f(x, d):
        y = x + 1
        for v in d:
            d.append(v)
        return y

    check(f, (X, collections.deque([1, 2])))


def test_deque_extendleft_and_index(check):
    def f(x, d):
        d.extendleft([x, 2])
        return list(d), d.count(5), d.index(5)

    check(f, (X, collections.deque([5])))


def test_named_tuple(check):
    Point = collections.namedtuple("Point", "x y")

    class Named(Point):
        @property
        def total(self):
            return self.x + self.y

    def f(t, p):
        q = Point(t, y=2)
        return (
            p.x + t,
            q,
            q._replace(y=3),
            q._asdict(),
            Named(1, 2).total,
            p == (1, 2),
            p[0],
            tuple(q),
            Point._fields,
            isinstance(q, tuple),
        )

    check(f, (X, Point(1, 2)))


def test_slice_and_range_objects(check):
    def f(x, s, r):
        return (
            x[s],
            s.start,
            list(r),
            r[1],
            3 in r,
            len(r),
            r.step,
            slice(1, 2) == slice(1, 2),
            range(3) == range(0, 3),
        )

    check(f, (X, slice(0, 2), range(1, 9, 2)), (X, slice(1, None), range(3)))


def test_container_constants_in_the_code(check):
    def f(x, v):
        return x + 1, v in {1, 2, 3}, v in (1, "a"), (1, (2.0, None))

    check(f, (X, 1), (X, "a"), (X, None))


def test_nested_containers_of_tensors(check):
    def f(x, tree):
        tree["a"][0]["b"] = (x, [x + 1])
        return tree["a"], [t * 2 for t in tree["list"]]

    check(f, (X, {"a": [{}], "list": [X, X + 1]}), fullgraph=True)


def test_list_of_tensors_gets_longer(check):
    check(lambda items: torch.stack(items).sum(0), ([X],), ([X, X],), ([X, X, X],), fullgraph=True)


def test_multiplied_list_shares_its_items(check):
    def f(x):
        rows = [[x]] * 2
        rows[0].append(1)
        return rows, x + 1

    check(f, (X,), fullgraph=True)


def test_augmented_item_assignment(check):
    def f(x, d, items):
        d["n"] += 1
        items[-1] *= 2
        items[0] += x
        return d

    check(f, (X, {"n": 1}, [X, 3]), fullgraph=True)


def test_tuple_item_augmented_assignment_changes_and_raises(check):
    def f(x, t):
        y = x + 1
        try:
            t[0] += [5]
        except TypeError as error:
            return y, str(error), t

    check(f, (X, ([1],)))


def test_deleting_items(check):
    def f(x, d, items):
        del d["a"], items[0]
        return x + len(d) + len(items)

    check(f, (X, {"a": 1}, [1, 2]), fullgraph=True)


def test_argument_of_a_call_is_not_reread_after_a_write(check):
    def f(x, d):
        old = d["k"]
        d["k"] = x + 1
        del d["k"]
        return old, "k" in d

    check(f, (X, {"k": X * 3}), fullgraph=True)


def test_text_of_containers(check):
    def f(x, d):
        return x + 1, str(d), repr([1, "a", None, 2.5]), f"{d!r:>30}", str({1: (2,)}), str({3})

    check(f, (X, {"a": [1, 2]}))


def test_iterators_are_returned_where_they_stand(check):
    def program(compile):
        @compile
        def f(x, items, d):
            a, b, c = iter(items), enumerate(items, 3), zip(items, "abc")
            e, g, h, r = iter(d.items()), map(str, items), reversed(items), iter(range(5))
            for it in (a, b, c, e, r, h):
                next(it)
            return x + 1, a, b, c, e, g, h, r

        return [
            list(v) if not isinstance(v, torch.Tensor) else v
            for v in f(X, [1, 2, 3], {"a": 1, "b": 2})
        ]

    check.script(program)


def test_list_subclass_that_overrides_everything(check):
    class L(list):
        def __iter__(self):
            return iter([7, 8])

        def __len__(self):
            return 99

        def __getitem__(self, i):
            return "g"

        def __contains__(self, v):
            return False

    def f(x, l):
        return x + 1, list(l), len(l), l[0], 1 in l, [*l], tuple(l), sum(l), sorted(l), bool(l)

    check(f, (X, L([1, 2])))


def test_list_subclass_is_unpacked_by_its_iter(check):
    class L(list):
        def __iter__(self):
            return iter([7, 8])

    def f(x, l):
        a, b = l
        m = []
        m.extend(l)
        m += l
        return (
            x + a,
            m,
            max(l),
            dict.fromkeys(l),
            set(l),
            list(zip(l, l)),
            list(map(str, l)),
            ",".join(map(str, l)),
            list(enumerate(l)),
            list(reversed(l)),
        )

    check(f, (X, L([1, 2])))


def test_dict_subclass_that_overrides_everything(check):
    class D(dict):
        def keys(self):
            return ["q"]

        def __iter__(self):
            return iter(["it"])

        def items(self):
            return [("i", 1)]

        def get(self, k, d=None):
            return "got"

        def __contains__(self, k):
            return True

        def __len__(self):
            return 50

    def f(x, d):
        return (
            x + 1,
            list(d),
            d.get("z"),
            "zz" in d,
            len(d),
            [k for k in d],
            dict(d.items()),
            list(d.items()),
            d.keys(),
        )

    check(f, (X, D(a=1)))


def test_dict_subclass_is_unpacked_as_c_code_does(check):
    class D(dict):
        def keys(self):
            return ["a"]

        def __getitem__(self, k):
            return k * 2

    def g(**k):
        return k

    def f(x, d):
        return x + 1, {**d}, g(**d), dict(d), {"z": 1} | d

    check(f, (X, D(a=1, b=2)))


def test_mapping_is_unpacked(check):
    class M:
        def keys(self):
            return ["a", "b"]

        def __getitem__(self, k):
            return k + "!"

    def g(**k):
        return k

    check(lambda x, m: (x + 1, {**m}, g(**m), dict(m)), (X, M()))


def test_user_equality_inside_containers(check):
    class Q:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            return isinstance(o, Q) and o.n == self.n

    def f(x, a, b):
        return (
            x + 1,
            a in [b],
            [a].index(b),
            [a, b].count(a),
            [a] == [b],
            (a,) == (b,),
            {"k": a} == {"k": b},
            [a] != [b],
        )

    check(f, (X, Q(1), Q(1)))
    check(lambda x, a, b: (x + 1, a in [b], [a] == [b]), (X, Q(1), Q(2)))


def test_sorting_by_less_than_alone(check):
    class Q:
        def __init__(self, n):
            self.n = n

        def __lt__(self, o):
            return self.n < o.n

    def f(x, l):
        s = sorted(l)
        l.sort(reverse=True)
        return x + 1, [q.n for q in s], [q.n for q in l], min(l).n, max(l).n

    check(f, (X, [Q(3), Q(1), Q(2)]))


def test_nan_as_a_key(check):
    n = float("nan")
    check(lambda x, d: (x + 1, [v for v in d.values()], n in d, d.get(n)), (X, {n: 1}))


def test_global_dict_is_also_an_argument(check):
    def program(compile):
        G = {"n": 1}
        ns = {"G": G}
        exec("def f(x, d):\n    d['n'] += 1\n    return x * G['n']", ns)
        f = compile(ns["f"])
        return f(X, {"n": 5}), f(X, G), f(X, G), G

    check.script(program)


def test_list_of_a_closure_is_also_an_argument(check):
    def program(compile):
        items = [1]

        @compile
        def f(x, a):
            a.append(2)
            return x + len(items)

        return f(X, [0]), f(X, items), items

    check.script(program)
