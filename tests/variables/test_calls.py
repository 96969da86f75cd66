"""Calls: binding of arguments, defaults, closures, and the guards on what was called."""

# mypy: ignore-errors

from __future__ import annotations

import functools

import torch

X = torch.tensor([1.0, -2.0, 3.0])


def helper(x, y=1, *rest, key=2, **more):
    return x * y + key, rest, more


def test_all_kinds_of_arguments(check):
    def f(x):
        return helper(x), helper(x, 2, 3, 4, key=5, a=6), helper(*[x, 7], **{"key": 8, "b": 9})

    check(f, (X,), fullgraph=True)


def test_star_arguments_of_the_compiled_function(check):
    def f(*args, scale=2, **kwargs):
        return args[0] * scale, args, kwargs

    check(f, (X,), (X, 1), kwargs={"k": 3})


def test_keyword_arguments_keep_their_order(check):
    check(lambda x, **kw: (x + 1, list(kw), kw), (X,), kwargs={"z": 1, "a": 2, "m": X})


def test_unpacking_several_iterables(check):
    def f(x, a, b):
        return helper(*a, *b, **{"key": 1}, **{"extra": x})

    check(f, (X, [X, 2], (3, 4)))


def test_wrong_argument_count_raises_as_in_eager(check):
    def g(a, b):
        return a

    def f(x):
        y = x + 1
        return g(y)

    check(f, (X,))


def test_unexpected_keyword_raises_as_in_eager(check):
    def g(a):
        return a

    check(lambda x: g(x + 1, nope=1), (X,))


def test_repeated_keyword_raises_as_in_eager(check):
    check(lambda x, kw: helper(x + 1, **kw, **kw), (X, {"key": 1}))


def test_wrong_arguments_of_the_compiled_function(check):
    check(lambda x, y: x, (X,))


def test_positional_only(check):
    def g(a, /, b, **kw):
        return a + b, kw

    check(lambda x: g(x, b=2, a=3), (X,))


def test_mutable_default_is_shared_between_calls(check):
    def program(compile):
        @compile
        def f(x, seen=[]):  # noqa: B006
            seen.append(x.shape[0])
            return x + len(seen), seen

        return [f(X), f(X), f(X[:2])]

    check.script(program)


def test_defaults_changed_later(check):
    def program(compile):
        def g(x, y=1):
            return x * y

        f = compile(lambda x: g(x))
        first = f(X)
        g.__defaults__ = (5,)
        return first, f(X)

    check.script(program)


def test_defaults_added_later(check):
    def program(compile):
        def g(x, *args, **kw):
            return x + 1

        def h(x, y=None):
            return x if y is None else x * y

        f = compile(lambda x: h(x) + g(x))
        first = f(X)
        h.__defaults__ = (4.0,)
        return first, f(X)

    check.script(program)


def test_keyword_defaults_changed_later(check):
    def program(compile):
        def g(x, *, y=1):
            return x * y

        f = compile(lambda x: g(x))
        first = f(X)
        g.__kwdefaults__["y"] = 5
        second = f(X)
        g.__kwdefaults__ = {"y": 6}
        return first, second, f(X)

    check.script(program)


def test_keyword_defaults_removed_later(check):
    def program(compile):
        def g(x, *, y=1):
            return x * y

        f = compile(lambda x: g(x))
        first = f(X)
        g.__kwdefaults__ = None
        try:
            f(X)
        except TypeError as error:
            return first, str(error)

    check.script(program)


def test_code_replaced_later(check):
    def program(compile):
        def g(x):
            return x + 1

        def h(x):
            return x - 1

        f = compile(lambda x: g(x))
        first = f(X)
        g.__code__ = h.__code__
        return first, f(X)

    check.script(program)


GLOBAL_FUNCTION = helper


def test_global_function_replaced(check):
    def program(compile):
        global GLOBAL_FUNCTION
        GLOBAL_FUNCTION = lambda x: x + 1  # noqa: E731
        f = compile(lambda x: GLOBAL_FUNCTION(x))
        first = f(X)
        GLOBAL_FUNCTION = lambda x: x - 1  # noqa: E731
        return first, f(X)

    check.script(program)


def test_function_passed_in(check):
    def plus(x):
        return x + 1

    def minus(x):
        return x - 1

    check(lambda x, g: g(x) * 2, (X, plus), (X, minus), fullgraph=True)


def test_closures_of_one_code_differ(check):
    def make(n, flag):
        return lambda x: x * n if flag else x / n

    check(
        lambda x, g: g(x) + 1,
        (X, make(2, True)),
        (X, make(3, True)),
        (X, make(3, False)),
        fullgraph=True,
    )


def test_name_of_a_passed_function_is_guarded(check):
    def make(name):
        def g(x):
            return x + 1

        g.__name__ = name
        return g

    check(lambda x, g: (g(x), g.__name__), (X, make("a")), (X, make("b")))


def test_attributes_of_functions(check):
    def program(compile):
        def g(x):
            return x + g.offset

        g.offset = 1
        f = compile(lambda x: g(x))
        first = f(X)
        g.offset = 2
        return first, f(X)

    check.script(program)


def test_function_counts_its_calls_in_an_attribute(check):
    def program(compile):
        def g(x):
            g.calls += 1
            return x + 1

        g.calls = 0
        f = compile(lambda x: g(g(x)))
        return f(X), f(X), g.calls

    check.script(program)


def test_partial_objects(check):
    def f(x):
        p = functools.partial(helper, x, key=3)
        q = functools.partial(p, 4, key=5)
        return p(), q(9), p.args, q.keywords, p.func is helper

    check(f, (X,))


def test_partial_passed_in(check):
    check(
        lambda x, p: p(x),
        (X, functools.partial(torch.add, 1.0)),
        (X, functools.partial(torch.add, 2.0)),
    )


def test_partial_is_returned(check):
    def program(compile):
        @compile
        def f(x):
            return functools.partial(helper, x + 1, 2, key=4)

        p = f(X)
        return p(), p.args, p.keywords

    check.script(program)


def test_callable_object_and_its_change(check):
    def program(compile):
        class Scale:
            def __init__(self, n):
                self.n = n

            def __call__(self, x):
                return x * self.n

        o = Scale(2)
        f = compile(lambda x: o(x))
        first = f(X)
        o.n = 3
        second = f(X)
        Scale.__call__ = lambda self, x: x - self.n
        return first, second, f(X)

    check.script(program)


def test_wraps_and_decorated_functions(check):
    def twice(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(fn(*args, **kwargs), **kwargs)

        return inner

    @twice
    def g(x, k=1):
        return x + k

    check(lambda x: (g(x, k=3), g.__name__, g.__wrapped__(x)), (X,))


def test_lru_cache_runs_once(check):
    def program(compile):
        calls = []

        @functools.lru_cache
        def g(n):
            calls.append(n)
            return n * 2

        f = compile(lambda x, n: x * g(n))
        return [f(X, 1), f(X, 1), f(X, 2), f(X, 1)], calls, g.cache_info()

    check.script(program)


def test_reduce_and_operator_functions(check):
    import operator

    check(
        lambda x: (
            functools.reduce(operator.add, [x, x * 2, x * 3]),
            functools.reduce(lambda a, b: a * b, [1, 2, 3], 4),
        ),
        (X,),
    )


def test_singledispatch(check):
    @functools.singledispatch
    def show(value):
        return "object"

    @show.register
    def _(value: int):
        return "int"

    @show.register
    def _(value: list):
        return "list"

    check(lambda x: (x + 1, show(1), show([]), show("s")), (X,))


def test_singledispatch_registered_later(check):
    def program(compile):
        @functools.singledispatch
        def scale(value):
            return 1

        f = compile(lambda x: x * scale(2))
        first = f(X)
        scale.register(int, lambda value: 9)
        return first, f(X)

    check.script(program)


def test_recursion(check):
    def fact(x, n):
        return x if n == 0 else fact(x, n - 1) * n

    check(lambda x: fact(x, 5), (X,), fullgraph=True)


def test_mutual_recursion_through_closures(check):
    def f(x):
        def even(n):
            return x if n == 0 else odd(n - 1) + 1

        def odd(n):
            return -x if n == 0 else even(n - 1) * 2

        return even(5)

    check(f, (X,), fullgraph=True)


def test_evaluation_order_of_call_operands(check):
    def f(x, log):
        def note(name, value):
            log.append(name)
            return value

        return note("fn", helper)(
            note("a", x), *note("star", [2]), key=note("k", 3), **note("kw", {"z": 4})
        )

    check(f, (X, []))


def test_lambda_default_binding_in_a_loop(check):
    def f(x):
        early = [lambda i=i: x * i for i in range(3)]
        late = [lambda: x * i for i in range(3)]  # noqa: B023
        return [g() for g in early], [g() for g in late]

    check(f, (X,), fullgraph=True)


def test_returned_closure_shares_its_cell(check):
    def program(compile):
        @compile
        def f(x):
            n = 0

            def bump():
                nonlocal n
                n += 1
                return x * n

            def read():
                return n

            bump()
            return bump, read

        bump, read = f(X)
        return bump(), read(), bump(), read(), bump.__closure__[0] is read.__closure__[0]

    check.script(program)


def test_returned_function_keeps_its_metadata(check):
    def program(compile):
        @compile
        def f(x):
            y = x + 1

            def inner(a: int, b=y, *, c=3) -> str:
                """Doc."""
                return a, b, c

            inner.tag = "t"
            return inner

        g = f(X)
        return (
            g(1),
            g.__name__,
            g.__qualname__,
            g.__doc__,
            g.__defaults__,
            g.__kwdefaults__,
            g.__annotations__,
            g.tag,
            g.__module__,
        )

    check.script(program)


def test_builtin_replaced_in_globals(check):
    def program(compile):
        namespace = {"torch": torch}
        exec("def g(x):\n    return x + len([1, 2])", namespace)
        f = compile(lambda x: namespace["g"](x))
        first = f(X)
        namespace["len"] = lambda v: 100
        return first, f(X)

    check.script(program)


def test_builtin_replaced_in_builtins(check):
    def program(compile):
        import builtins

        f = compile(lambda x: x + abs(-1))
        first = f(X)
        kept = builtins.abs
        try:
            builtins.abs = lambda v: 50
            return first, f(X)
        finally:
            builtins.abs = kept

    check.script(program)


def test_module_attribute_patched(check):
    def program(compile):
        import types

        module = types.ModuleType("mine")
        module.scale = lambda x: x * 2
        f = compile(lambda x: module.scale(x))
        first = f(X)
        module.scale = lambda x: x * 3
        second = f(X)
        del module.scale
        try:
            f(X)
        except AttributeError as error:
            return first, second, str(error)

    check.script(program)


def test_map_filter_zip_enumerate(check):
    def f(x):
        a = list(map(lambda v, w: v * w, [x, x + 1], [2, 3]))
        b = list(filter(None, [0, 1, "", 2]))
        c = list(zip([1, 2], (x, x * 2)))
        return a, b, c, list(enumerate([x], 5)), dict(zip("ab", [x, 1]))

    check(f, (X,))


def test_sorted_min_max_with_keys(check):
    def f(x):
        items = [(3, "c"), (1, "z"), (2, "b"), (1, "a")]
        return (
            x + 1,
            sorted(items),
            sorted(items, key=lambda t: t[0]),
            sorted(items, key=lambda t: t[1], reverse=True),
            min(items, key=lambda t: -t[0]),
            max(items, key=lambda t: t[1]),
            min([], default=x),
            max(2, 5.0, 5),
        )

    check(f, (X,))


def test_code_of_a_global_function_and_of_a_method_replaced(check):
    def program(compile):
        space = {}
        exec(
            "def g(x):\n    return x + 1\n"
            "class C:\n    def go(self, x):\n        return x * 2\n"
            "def f(x, o):\n    return g(x) + o.go(x)",
            space,
        )
        f, o = compile(space["f"]), space["C"]()
        first = f(X, o)
        space["g"].__code__ = (lambda x: x - 1).__code__
        second = f(X, o)
        space["C"].go.__code__ = (lambda self, x: x * 9).__code__
        return first, second, f(X, o)

    check.script(program)
