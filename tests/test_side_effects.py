"""Side effects: what the program writes is there afterwards, once, in order, under every alias."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])
COUNTER = 0
REGISTRY = {}


class Box:
    def __init__(self, **attrs):
        self.__dict__.update(attrs)


def test_global_is_rebound(check):
    def program(compile):
        global COUNTER
        COUNTER = 0

        @compile
        def f(x):
            global COUNTER
            COUNTER += 1
            return x * COUNTER

        return [f(X) for _ in range(4)], COUNTER

    check.script(program)


def test_global_is_deleted_and_made(check):
    def program(compile):
        namespace = {}
        exec("def f(x):\n    global a, b\n    b = x + a\n    del a\n    return b", namespace)
        f = compile(namespace["f"])
        namespace["a"] = 1
        first = f(X)
        try:
            f(X)
        except NameError as error:
            message = str(error)
        return first, message, "a" in namespace, namespace["b"] is first

    check.script(program)


def test_global_container_is_changed(check):
    def program(compile):
        REGISTRY.clear()

        @compile
        def f(x, name):
            REGISTRY.setdefault(name, []).append(x + 1)
            return len(REGISTRY)

        return f(X, "a"), f(X, "a"), f(X, "b"), dict(REGISTRY)

    check.script(program)


def test_nonlocal_of_an_outer_function(check):
    def program(compile):
        def make():
            total = 0

            @compile
            def add(x):
                nonlocal total
                total = total + x
                return total * 2

            return add, lambda: total

        add, read = make()
        return add(X), read(), add(X), read()

    check.script(program)


def test_two_closures_over_one_cell(check):
    def program(compile):
        def make():
            n = 0

            def up():
                nonlocal n
                n += 1

            def read():
                return n

            return up, read

        up, read = make()

        @compile
        def f(x, up, read):
            up()
            a = read()
            up()
            return x * a, read()

        return f(X, up, read), f(X, up, read), read()

    check.script(program)


def test_cells_of_two_closures_then_of_one(check):
    def program(compile):
        def make():
            n = 1

            def get():
                return n

            def put(v):
                nonlocal n
                n = v

            return get, put

        get1, put1 = make()
        get2, put2 = make()

        @compile
        def f(x, get, put):
            put(5)
            return x * get()

        return f(X, get1, put2), f(X, get1, put1), get1(), get2()

    check.script(program)


def test_writes_to_one_object_in_order(check):
    def program(compile):
        log = []

        class Logged:
            def __setattr__(self, name, value):
                log.append((name, value))
                object.__setattr__(self, name, value)

            def __delattr__(self, name):
                log.append(("del", name))
                object.__delattr__(self, name)

        @compile
        def f(x, o):
            o.a = 1
            o.b = x.shape[0]
            o.a = 2
            del o.b
            return x + o.a

        o = Logged()
        return f(X, o), f(X, o), log, o.__dict__

    check.script(program)


def test_swap_of_attributes(check):
    def f(x, a, b):
        a.v, b.v = b.v, a.v
        return x + 1

    check(f, (X, Box(v=1), Box(v=[2])), fullgraph=True)


def test_old_item_is_returned_after_a_write(check):
    def f(x, items, d):
        old, items[0] = items[0], x + 1
        gone = d.pop("k")
        d["k"] = old
        return old, gone

    check(f, (X, [X * 2], {"k": X * 3}), fullgraph=True)


def test_new_objects_refer_to_old_ones_and_back(check):
    def f(x, old):
        new = Box(parent=old, value=x + 1)
        old.child = new
        new.me = new
        old.all = [old, new]
        return new

    check(f, (X, Box()))


def test_new_object_is_stored_in_two_places(check):
    def f(x, a, b):
        new = [x + 1]
        a["k"] = new
        b.append(new)
        new.append(2)
        return a["k"] is b[-1]

    check(f, (X, {}, []), fullgraph=True)


def test_list_held_by_two_containers(check):
    shared = [1]

    def f(x, a, b):
        a["s"].append(x + 1)
        return len(b[0])

    check(f, (X, {"s": shared}, [shared]), (X, {"s": [1]}, [[1]]), fullgraph=True)


def test_clear_then_fill(check):
    def f(x, items, d, s):
        items.clear()
        items.append(x)
        d.clear()
        d["z"] = 1
        s.clear()
        s.add(5)
        return x + len(items) + len(d) + len(s)

    check(f, (X, [1, 2], {"a": 1, "z": 0}, {1, 5}))


def test_deque_with_a_limit(check):
    def f(x, d):
        for i in range(4):
            d.append(x + i)
        d.appendleft(0)
        return len(d)

    check(f, (X, collections.deque(maxlen=3)), (X, collections.deque([1])))


def test_effects_of_a_call_that_returns_nothing(check):
    def f(x, items):
        items.append(x * 2)

    check(f, (X, []), fullgraph=True)


def test_effects_without_tensor_work(check):
    def f(items, d):
        items.append(1)
        d["n"] = len(items)

    check(f, ([], {}))


def test_effects_on_both_sides_of_a_break(check):
    def f(x, items):
        items.append("a")
        capture.graph_break()
        items.append("b")
        capture.graph_break()
        items += ["c", len(items)]
        return x + len(items)

    check(f, (X, []))


def test_inplace_tensor_change_is_seen_by_a_stored_alias(check):
    def f(x, o):
        o.kept = x
        x.add_(1)
        y = x * 2
        x.mul_(3)
        return y, o.kept

    check(f, (X, Box()), fullgraph=True)


def test_inplace_change_through_a_view(check):
    def f(x):
        v = x[1:]
        v.add_(10)
        w = x.view(-1)
        w[0] = 5
        return x * 2, v, w

    check(f, (X,), fullgraph=True)


def test_two_tensors_then_one_tensor_twice(check):
    def f(a, b):
        a.add_(1)
        return a * b, a is b

    same = X.clone()
    check(f, (X.clone(), X.clone()), (same, same), fullgraph=True)


def test_two_tensors_then_overlapping_views(check):
    base = torch.arange(6.0)

    def f(a, b):
        a.mul_(2)
        b.add_(a.sum())
        return a + b

    check(f, (torch.ones(4), torch.ones(4)), (base[:4], base[2:]))


def test_returned_input_and_view_of_an_input(check):
    def f(x, y):
        return (
            x,
            x.view(3),
            x.t(),
            x.detach(),
            y.contiguous() is y,
            x.to(torch.float32) is x,
            x.reshape(3) is x,
        )

    check(f, (X, X), (X.clone().requires_grad_(), X))


def test_out_argument(check):
    def f(x, out):
        return torch.add(x, 1, out=out) is out

    check(f, (X, torch.empty(3)))


def test_attribute_of_a_module_and_its_buffers(check):
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.calls = 0
            self.last = None

        def forward(self, x):
            self.calls += 1
            self.mean = self.mean * 0.9 + x * 0.1
            self.mean += 1
            self.last = x
            return x - self.mean

    def program(compile):
        m = M()
        f = compile(m)
        return [f(X) for _ in range(3)], m.calls, m.mean, m.last is X, list(m.state_dict())

    check.script(program)


def test_parameter_and_module_assigned_in_forward(check):
    class M(torch.nn.Module):
        def forward(self, x):
            if not hasattr(self, "lin"):
                torch.manual_seed(0)
                self.lin = torch.nn.Linear(3, 2)
                self.scale = torch.nn.Parameter(torch.ones(2) * 3)
            return self.lin(x) * self.scale

    def program(compile):
        m = M()
        f = compile(m)
        return f(X), f(X), list(m.state_dict())

    check.script(program)


def test_exception_between_effects_keeps_the_first_only(check):
    def f(x, items):
        items.append(1)
        y = x + 1
        raise_here = [][0]
        items.append(2)
        return y + raise_here

    check(f, (X, []))


def test_finalizer_and_weak_dictionary(check):
    import weakref

    def program(compile):
        d = weakref.WeakKeyDictionary()

        @compile
        def f(x, key):
            d[key] = x.shape[0]
            return x + d[key]

        key = Box()
        return f(X, key), f(X, key), len(d)

    check.script(program)


def test_class_attribute_assigned(check):
    def program(compile):
        class C:
            n = 0

        @compile
        def f(x):
            C.n += 1
            C.last = x
            return x * C.n

        return f(X), f(X), C.n, C.last is X

    check.script(program)


def test_function_attribute_and_module_attribute(check):
    def program(compile):
        import types

        module = types.ModuleType("m")
        module.n = 1

        def helper():
            pass

        @compile
        def f(x):
            module.n += 1
            module.new = x
            helper.count = module.n
            return x * helper.count

        return f(X), f(X), module.n, module.new is X, helper.count

    check.script(program)


def test_attribute_on_a_tensor(check):
    def f(x):
        y = x + 1
        y.tag = "t"
        x.mark = y.tag
        return y.tag, x.mark, y

    check(f, (X,))


def test_mutation_of_the_arguments_of_star_args(check):
    def f(x, *args, **kw):
        kw["k"].append(1)
        kw["new"] = 2
        args[0].append(x)
        return args, kw

    check(f, (X, []), kwargs={"k": []})


def test_environment_and_time_are_not_frozen(check):
    def program(compile):
        import os

        f = compile(lambda x: (x + 1, os.environ.get("CAPTURE_TEST_VALUE")))
        os.environ["CAPTURE_TEST_VALUE"] = "1"
        first = f(X)
        os.environ["CAPTURE_TEST_VALUE"] = "2"
        second = f(X)
        del os.environ["CAPTURE_TEST_VALUE"]
        return first, second, f(X)

    check.script(program)


def test_clock_and_random_are_not_frozen():
    import itertools
    import random
    import time

    ids = itertools.count()
    f = capture.compile(
        lambda x: (x + 1, time.perf_counter(), random.random(), next(ids)), backend="eager"
    )
    a, b = f(X), f(X)
    assert a[1] < b[1]
    assert a[2] != b[2]
    assert (a[3], b[3]) == (0, 1)


def test_random_numbers_follow_the_seed(check):
    import random

    def f(x):
        random.seed(3)
        return x + random.random(), random.randint(0, 10), random.choice([1, 2, 3])

    check(f, (X,))
