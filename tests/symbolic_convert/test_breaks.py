"""Graph breaks: everywhere in a program, with everything alive around them."""

# mypy: ignore-errors

from __future__ import annotations

import contextlib

import pytest
import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def brk(value=None):
    """A call that breaks the graph and gives its argument back."""
    capture.graph_break()
    return value


def test_break_in_the_middle_of_an_expression(check):
    def f(x):
        return (x + 1) * [x * 2, brk(x - 3)][1] + brk(5) * (x.sum(), brk(2))[1]

    assert check(f, (X,)).reasons == {"CAP0001"}


def test_break_among_the_operands_of_a_call(check):
    def g(*args, **kwargs):
        return args, kwargs

    check(lambda x: g(x + 1, brk(1), *[x * 2, brk(2)], k=brk(3), **{"z": brk(x - 1)}), (X,))


def test_break_in_a_comparison_chain(check):
    check(lambda x: (x + 1, 1 < brk(2) < brk(3) <= 3, 5 > brk(9) > brk(1)), (X,))


def test_break_in_a_conditional_expression_and_boolean_operators(check):
    check(
        lambda x, a: (x + 1 if brk(a) else x - 1, brk(0) or brk(a) or 7, brk(1) and brk(a)),
        (X, 0),
        (X, 2),
    )


def test_break_in_displays_and_subscripts(check):
    def f(x, d):
        d[brk("k")] = [x, brk(1), {brk("a"): brk(x)}, {brk(3)}, (brk(4), *brk([5]))]
        d[brk("k")][brk(0)] += brk(1)
        return d["k"][brk(1) : brk(3)], f"{brk(1)}-{brk('z'):>4}-{x.shape[0]}"

    check(f, (X, {}))


def test_break_in_an_assignment_with_many_targets(check):
    def f(x, o):
        a, (b, *c) = o["k"] = brk((x + 1, (2, 3, 4)))
        return a, b, c, o

    check(f, (X, {}))


def test_break_in_a_callee_goes_on_in_the_callee(check):
    def inner(x, n):
        y = x * n
        brk()
        return y + 1

    def middle(x):
        z = inner(x, 2)
        return z * inner(x, 3)

    def f(x):
        return middle(x + 1) - middle(x - 1)

    report = check(f, (X,))
    assert report.graphs >= 5


def test_break_in_a_callee_with_its_own_closures(check):
    def f(x):
        total = []

        def add(n):
            def inner():
                total.append(n)
                brk()
                return x * n + len(total)

            return inner

        return add(2)() + add(3)(), total

    check(f, (X,))


def test_break_in_a_method_and_its_super(check):
    class A:
        def go(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            brk()
            return x * self.calls

    class B(A):
        def go(self, x):
            y = super().go(x + 1)
            brk()
            return super().go(y) + self.calls

    check(lambda x, o: o.go(x), (X, B()))


def test_break_in_init(check):
    class C:
        def __init__(self, v):
            self.v = v
            brk()
            self.w = v + 1

    check(lambda x: (C(x).w * 2, C(x)), (X,))


def test_break_in_init_called_in_an_expression(check):
    class C:
        def __init__(self, v):
            brk()
            self.v = v

    def f(x):
        return [C(x), C(x + 1)][1].v * C(2).v

    check(f, (X,))


def test_break_inside_special_methods(check):
    class Odd:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            brk()
            return Odd(self.v + other)

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            brk()
            return len(name)

        def __bool__(self):
            brk()
            return self.v > 3

        def __getitem__(self, key):
            brk()
            return key

        def __iter__(self):
            brk()
            return iter([1, self.v])

        def __enter__(self):
            brk()
            return 8

        def __exit__(self, *details):
            brk()

        def __eq__(self, other):
            brk()
            return True

        def __hash__(self):
            brk()
            return 3

        def __len__(self):
            brk()
            return 4

        def __contains__(self, v):
            brk()
            return v == 1

        def __call__(self, v):
            brk()
            return v

    def f(x, o):
        a = o + 1
        with o as n:
            x = x + n
        return x, a.v, o.abc, 1 if o else 2, o[5], list(o), o == 3, {o: 1}[o], len(o), 1 in o, o(x)

    check(f, (X, Odd(2)), (X, Odd(5)))


def test_break_in_a_property_and_its_setter(check):
    class C:
        @property
        def p(self):
            brk()
            return self._p

        @p.setter
        def p(self, v):
            brk()
            self._p = v

    def f(x, c):
        c.p = x + 1
        return c.p * 2

    check(f, (X, C()))


def test_break_in_for_loops(check):
    def f(x, items):
        seen = []
        for i, item in enumerate(items):
            for j in range(2):
                x = x + item * j
                brk()
                seen.append((i, j))
            else:
                seen.append("else")
        return x, seen

    check(f, (X, [1, 2, 3]), (X, [4]))


def test_break_in_a_while_loop(check):
    def f(x, n):
        while n:
            x = x * 2
            if brk(n) == 2:
                n -= 1
                continue
            n -= 1
            if n == 10:
                break
        else:
            x = x + 100
        return x

    check(f, (X, 4), (X, 12))


def test_loop_with_a_break_compiles_its_body_once(check):
    def f(x, n):
        for i in range(n):
            x = x + i
            brk()
        return x

    report = check(f, (X, 30))
    assert report.graphs <= 5


def test_break_in_comprehensions(check):
    def f(x):
        return (
            [brk(i) * x for i in range(3) if brk(i) != 1],
            {brk(i): x for i in range(2)},
            [[brk(j) for j in range(i)] for i in range(3)],
        )

    check(f, (X,))


def test_break_in_a_generator_expression(check):
    check(lambda x: (x + 1, sum(brk(i) for i in range(3)), list(brk(i) for i in "ab")), (X,))


def test_break_in_a_lambda_given_to_map_and_sorted(check):
    check(
        lambda x: (
            x + 1,
            list(map(lambda i: brk(i) * 2, [1, 2])),
            sorted([3, 1, 2], key=lambda v: brk(-v)),
            max([1, 3], key=lambda v: brk(v)),
        ),
        (X,),
    )


def test_break_with_live_iterators_on_the_stack(check):
    def f(x, d):
        out = []
        for a in [1, 2]:
            for b, c in d.items():
                for e in zip("ab", reversed([1, 2])):
                    brk()
                    out.append((a, b, c, e))
        return x + 1, out

    check(f, (X, {"k": 1, "l": 2}))


def test_break_inside_try_and_its_clauses(check):
    def f(x, bad):
        log = []
        try:
            log.append(brk("try"))
            if bad:
                raise ValueError(brk("v"))
            y = x + 1
        except ValueError as error:
            log.append(brk("except"))
            y = x - 1
            log.append(str(error))
        else:
            log.append(brk("else"))
        finally:
            log.append(brk("finally"))
        return y, log

    check(f, (X, False), (X, True))


def test_break_that_raises_into_a_handler(check):
    def boom(x):
        capture.graph_break()
        raise KeyError("boom")

    def f(x):
        y = x * 2
        try:
            y = y + boom(x)
        except KeyError as error:
            return y + 1, error.args
        finally:
            y = y * 0

    check(f, (X,))


def test_native_call_that_raises_is_caught(check):
    def f(x):
        y = x + 1
        try:
            int("no number")
        except ValueError as error:
            y = y * 2
            return y, str(error)

    check(f, (X,))


def test_native_call_that_raises_leaves_the_frame(check):
    def g(x):
        z = x * 2
        print("about to fail")
        open("/nonexistent/file")
        return z

    check(lambda x: g(x + 1), (X,))


def test_break_inside_nested_handlers_keeps_the_exception_state(check):
    import sys

    def f(x):
        log = []
        try:
            raise KeyError("outer")
        except KeyError:
            log.append(repr(sys.exc_info()[1]))
            try:
                raise ValueError("inner")
            except ValueError:
                brk()
                log.append(repr(sys.exc_info()[1]))
            brk()
            log.append(repr(sys.exc_info()[1]))
        log.append(repr(sys.exc_info()[1]))
        return x + 1, log

    check(f, (X,))


def test_reraise_after_a_break_in_the_handler(check):
    def f(x):
        y = x + 1
        try:
            raise KeyError("again")
        except KeyError:
            brk()
            raise

    check(f, (X,))


def test_return_in_finally_after_a_break(check):
    def f(x):
        try:
            raise KeyError
        finally:
            brk()
            return x + 1  # noqa: B012

    check(f, (X,))


def test_break_inside_with_blocks(check):
    class Manager:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("in")
            return len(self.log)

        def __exit__(self, kind, error, trace):
            self.log.append(kind and kind.__name__)
            return kind is KeyError

    def f(x, log, bad):
        with Manager(log) as a, Manager(log) as b:
            x = x + a
            brk()
            if bad:
                raise KeyError
            x = x * b
        brk()
        return x

    check(f, (X, [], False), (X, [], True))


def test_break_inside_no_grad_and_set_grad_enabled(check):
    def f(x):
        with torch.no_grad():
            a = x * 2
            brk()
            b = x * 3
            with torch.enable_grad():
                c = x * 4
                brk()
                d = x * 5
            e = x * 6
        brk()
        return a, b, c, d, e, x * 7, torch.is_grad_enabled()

    check(f, (X.clone().requires_grad_(),))


def test_break_inside_no_grad_in_a_callee(check):
    @torch.no_grad()
    def g(x):
        y = x * 2
        brk()
        return y + x * 3

    check(lambda x: g(x) + x, (X.clone().requires_grad_(),))


def test_exception_out_of_no_grad_restores_the_mode(check):
    def f(x):
        with torch.no_grad():
            y = x * 2
            brk()
            raise ValueError("out")

    check(f, (X.clone().requires_grad_(),))
    assert torch.is_grad_enabled()


def test_break_inside_autocast(check):
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ w
            brk()
            b = x @ w
        return a, b, x @ w

    check(f, (torch.ones(2, 2), torch.ones(2, 2)))


def test_break_inside_a_generator_context_manager(check):
    @contextlib.contextmanager
    def scope(log):
        log.append("in")
        try:
            yield 5
        finally:
            log.append("out")

    def f(x, log):
        with scope(log) as n:
            x = x + n
            brk()
            x = x * n
        return x

    check(f, (X, []))


def test_locals_unbound_before_a_break_stay_unbound(check):
    def f(x, flag):
        if flag:
            y = 1
        brk()
        try:
            return x + y
        except UnboundLocalError as error:
            return x, str(error)

    check(f, (X, True), (X, False))


def test_deleted_local_stays_deleted_after_a_break(check):
    def f(x):
        y = x + 1
        del y
        brk()
        try:
            return y  # noqa: F821
        except UnboundLocalError as error:
            return x + 2, str(error)

    check(f, (X,))


def test_argument_deleted_and_rebound_around_a_break(check):
    def f(x, n):
        del n
        brk()
        n = x + 1
        brk()
        x = None
        brk()
        return n, x

    check(f, (X, 2))


def test_closure_cells_across_a_break(check):
    def f(x):
        n = 1

        def bump():
            nonlocal n
            n += 1
            return n

        def late():
            return later  # bound below

        bump()
        brk()
        bump()
        later = x * n
        brk()
        return late(), n, bump.__closure__[0].cell_contents

    check(f, (X,))


def test_unbound_cell_across_a_break(check):
    def f(x):
        def read():
            return missing

        brk()
        try:
            read()
        except NameError as error:
            message = str(error)
        missing = 1
        return x + missing, message

    check(f, (X,))


def test_argument_that_is_a_cell(check):
    def f(self, x):
        def inner():
            return self * x

        self = self + 1
        brk()
        x = x + inner()
        brk()
        return inner()

    check(f, (X, X * 2))


def test_locals_call_sees_all_variables(check):
    def f(x, a, *args, k=1, **kw):
        y = x + 1
        z = [y]
        names = sorted(locals())
        return y, names, locals()["z"] is z

    check(f, (X, 2, 3), kwargs={"q": 4})


def test_locals_call_in_a_callee(check):
    def g(p):
        q = p * 2
        return sorted(locals()), q

    check(lambda x: g(x + 1), (X,))


def test_globals_eval_and_exec(check):
    def f(x, n):
        y = x + n
        exec("n = 100")
        return eval("y * 2 + n"), "__name__" in globals(), vars().get("n")

    check(f, (X, 3))


def test_printing_order(check):
    def f(x):
        print("one", x.shape)
        y = x + 1
        print("two", y)
        for i in range(2):
            print(i, (y * i).sum().item())
        return y

    check(f, (X,))


def test_side_effects_before_a_break_are_visible_to_it(check):
    def f(x, items, d):
        items.append(x + 1)
        d["k"] = len(items)
        print(len(items), d, items[-1])
        items.pop()
        print(items)
        return d

    check(f, (X, [1], {}))


def test_objects_made_before_a_break_keep_their_identity(check):
    def f(x):
        a = [x + 1]
        b = (a, a)
        brk()
        b[0].append(2)
        brk()
        return a, b, b[0] is b[1], b[1] is a

    check(f, (X,))


def test_self_referring_object_across_a_break(check):
    def f(x):
        a = [x]
        a.append(a)
        brk()
        a.append(len(a[1]))
        return a

    check(f, (X,))


def test_data_dependent_branch_in_a_callee(check):
    def choose(x):
        if x.sum() > 0:
            return x * 2
        elif x.max() > 0:
            return x * 3
        return -x

    check(lambda x: choose(x + 1) + choose(x - 1), (X,), (-X,), (X * 0,))


def test_data_dependent_loop(check):
    def f(x):
        steps = 0
        while x.abs().sum() > 1:
            x = x * 0.5
            steps += 1
        return x, steps

    check(f, (X,), (X * 8,), (X * 0,))


def test_data_dependent_boolean_operators_and_assert(check):
    def f(x):
        if not x.sum() > -100:
            raise AssertionError("small")
        y = x if (x > 0).any() and not (x > 100).any() else -x
        return y, bool((x == x).all()), x.max() or 3, len(x)

    check(f, (X,), (-X,), (X * 0,), (X * 1000,), (X * -100,))


def test_item_tolist_and_float(check):
    check(
        lambda x: (x * x.sum().item(), x.tolist(), float(x[0]), int(x[0]), x[0].item() + 1),
        (X,),
        (X * 2,),
        (X * 3,),
    )


def test_numpy_round_trip(check):
    pytest.importorskip("numpy")

    def f(x):
        a = (x * 2).numpy()
        a = a + 1
        return torch.from_numpy(a) * 2

    check(f, (X,))


def test_import_inside_a_function(check):
    def f(x):
        import math
        from os import path

        return x * math.pi, path.basename("a/b")

    check(f, (X,))


def test_break_in_an_argument_default_and_decorator(check):
    def f(x):
        def g(a=brk(x + 1), *, k=brk(2)):
            return a * k

        return g()

    check(f, (X,))


def test_break_inside_match(check):
    def f(x, v):
        match brk(v):
            case [a, b] if brk(a) > 0:
                return x + a + brk(b)
            case {"k": k}:
                return x * brk(k)
            case _:
                return brk(x)

    check(f, (X, [1, 2]), (X, [-1, 2]), (X, {"k": 3}))


def test_break_while_unpacking_an_iterator(check):
    class Pair:
        def __iter__(self):
            print("iter")
            yield 1
            print("between")
            yield 2

    def f(x, p):
        a, b = p
        first, *rest = p
        return x + a + b, first, rest

    check(f, (X, Pair()))


def test_disabled_method_and_lambda(check):
    class C:
        @capture.disable
        def skip(self, x):
            return x + 1

    off = capture.disable(lambda x: x * 3)
    check(lambda x, c: off(c.skip(x * 2)) + 1, (X, C()))


def test_compiled_function_inside_a_compiled_function(check):
    inner = capture.compile(lambda x: x * 2 + 1, backend="eager")
    check(lambda x: inner(x + 1) * inner(x), (X,))


def test_super_after_a_break(check):
    class A:
        def go(self, x):
            return x + 1

    class B(A):
        def go(self, x):
            brk()
            y = super().go(x)
            brk()
            return y * super().go(x)

    check(lambda x, o: o.go(x), (X, B()))


def test_compiled_method_with_super_and_a_break(check):
    class A:
        def go(self, x):
            return x + 1

    class B(A):
        def go(self, x):
            brk()
            y = super().go(x)
            return y, __class__.__name__

    check(B().go, (X,))


def test_keyword_only_and_star_arguments_across_a_break(check):
    def f(x, /, *args, key, **kw):
        brk()
        args += (x,)
        kw["new"] = key
        brk()
        return args, kw, key * x

    check(f, (X, 1, 2), kwargs={"key": 3, "other": 4})


def test_global_written_around_a_break(check):
    def program(compile):
        namespace = {"brk": brk, "n": 1}
        exec(
            "def f(x):\n    global n\n    n += 1\n    brk()\n    n *= 2\n"
            "    del globals()['gone']\n    return x * n\ngone = 1",
            namespace,
        )
        f = compile(namespace["f"])
        first = f(X)
        namespace["gone"] = 1
        return first, f(X), namespace["n"]

    check.script(program)


def test_fullgraph_reports_each_kind_with_its_id_and_line():
    cases = {
        "CAP0001": lambda x: capture.graph_break(),
        "CAP0002": lambda x: 1 if x.sum() > 0 else 2,
        "CAP0003": lambda x: print(x),
    }
    for reason, fn in cases.items():
        with pytest.raises(
            capture.Unsupported, match=rf"test_breaks.py:{fn.__code__.co_firstlineno}: {reason}"
        ):
            capture.compile(fn, fullgraph=True, backend="eager")(X)


def test_fullgraph_error_comes_at_every_call():
    f = capture.compile(lambda x: str(x.sum().item()), fullgraph=True, backend="eager")
    for _ in range(2):
        with pytest.raises(capture.Unsupported):
            f(X)


def test_fullgraph_lets_the_programs_own_exception_through():
    def f(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        capture.compile(f, fullgraph=True, backend="eager")(X)
