"""Holds small programs, one per construct of the language; ``K`` is called where they may break.

Each takes a tensor and ``K``, an identity function that is captured in one run and a graph break in
the next, so that every construct is met with a break inside. Must not hold what needs a newer
syntax than the oldest supported Python's: see ``NEWER``.
"""

# mypy: ignore-errors
# ruff: noqa

from __future__ import annotations

import contextlib
import functools
import operator
import torch

LIMIT = 3
STATE = {"n": 0}


# --- comprehensions -------------------------------------------------------------------------------


def comprehension_shadows_local(x, K):
    i = 5
    kept = [K(i) * 2 for i in range(LIMIT)]
    return x * i, kept


def comprehension_leaves_unbound(x, K):
    kept = [K(x) + j for j in range(2)]
    try:
        j
    except NameError as e:
        return kept, type(e).__name__
    return kept


def comprehension_of_lambdas(x, K):
    fns = [lambda: x * i for i in range(LIMIT)]
    return [K(f()) for f in fns]


def comprehension_cell_shadows_cell(x, K):
    i = 7
    fns = [lambda: K(i) for i in range(LIMIT)]

    def outer():
        return i

    return x * outer(), [f() for f in fns]


def comprehension_cell_and_plain(x, K):
    plain = [K(i) + 1 for i in range(LIMIT)]
    bound = [lambda i=i: K(i) for i in range(LIMIT)]
    free = [lambda: K(i) for i in range(LIMIT)]
    K(1)
    again = [[K(i) for i in range(i)] for i in range(2)]
    return plain, [f() for f in bound], [f() for f in free], again, x * 2


def comprehension_cell_and_plain_of_cell(x, K):
    i = K(7)

    def outer():
        return i

    plain = [K(i) + 1 for i in range(LIMIT)]
    K(outer())
    free = [lambda: K(i) for i in range(LIMIT)]
    K(i)
    nested = [[K(i) for i in range(i)] for i in range(2)]
    both = [(i, (lambda: i)(), [K(i) for i in range(i)]) for i in range(2)]
    return plain, outer(), [f() for f in free], nested, both, i, x * 2


def comprehension_of_outer_cell(x, K):
    scale = 2

    def get():
        return scale

    rows = [K(scale) * y for y in (1, 2)]
    scale = 5
    return [x * r for r in rows], get()


def comprehension_nested(x, K):
    return [[K(a) * b for a in range(2)] for b in range(LIMIT)], x + 1


def comprehension_two_loops(x, K):
    return {(a, b): K(x) + a * b for a in range(2) for b in range(2) if a or b}


def comprehension_set_and_dict(x, K):
    return {K(a) % 2 for a in range(4)}, {a: K(x) * a for a in range(2)}


def comprehension_walrus(x, K):
    kept = [last := K(x) + a for a in range(2)]
    return last, kept


def comprehension_condition_on_tensor(x, K):
    return [K(r) for r in x if r.sum() > 0]


def comprehension_raises(x, K):
    i = 9
    try:
        kept = [K(1) // i for i in (1, 0)]
    except ZeroDivisionError as e:
        return x + i, str(e)
    return kept


def comprehension_raises_cell(x, K):
    i = 9
    try:
        kept = [(lambda: i)() // K(i) for i in (1, 0)]
    except ZeroDivisionError:
        return x + i
    return kept


def comprehension_in_with(x, K):
    with torch.no_grad():
        kept = [K(x) * a for a in range(2)]
    return kept


def comprehension_self_iterates(x, K):
    xs = [1, 2]
    return [K(xs) for xs in xs], xs, x


def comprehension_starred(x, K):
    return [*[K(a) for a in range(2)], *(K(b) for b in range(2))], x


def comprehension_argument_is_cell(x, K):
    def read():
        return x

    return [K(x) + a for a in range(2)], read()


def comprehension_iterates_over_call(x, K):
    return [a + b for a, b in zip(K((1, 2)), K((3, 4)), strict=True)], x


def comprehension_break_in_iterable(x, K):
    return [a * x for a in K([1, 2])]


def comprehension_locals(x, K):
    return [sorted(locals())[-1] for a in range(1)][0] != "", K(x)


def generator_expression(x, K):
    return sum(K(a) * x for a in range(LIMIT))


def generator_expression_closure(x, K):
    k = 3
    return list(a * k + K(1) for a in range(2)), any(a > 1 for a in (1, 2, 3)), x


# --- generators -------------------------------------------------------------------------------------


def _count(n, K):
    got = []
    for i in range(n):
        got.append((yield K(i)))
    return got


def _delegate(n, K):
    first = yield from _count(n, K)
    second = yield from [K("a"), "b"]
    return first, second


def yield_from(x, K):
    return list(_delegate(2, K)), x + 1


def yield_from_result(x, K):
    def outer():
        value = yield from _delegate(1, K)
        yield value

    return list(outer()), x


def generator_send(x, K):
    g = _delegate(2, K)
    seen = [next(g), g.send(K(x)), g.send(2)]
    return seen, list(g)


def generator_throw(x, K):
    def inner():
        try:
            yield K(1)
        except KeyError as e:
            yield K(e.args)
        yield 3

    def outer():
        yield from inner()

    g = outer()
    return next(g), g.throw(KeyError("k")), list(g), x * 2


def generator_throw_out(x, K):
    def inner():
        try:
            yield 1
        finally:
            K(0)

    g = inner()
    next(g)
    try:
        g.throw(ValueError("v"))
    except ValueError as e:
        return x, e.args


def generator_close(x, K):
    log = []

    def inner():
        try:
            yield 1
        except GeneratorExit:
            log.append(K("closed"))
            raise
        finally:
            log.append("done")

    def outer():
        yield from inner()

    g = outer()
    next(g)
    g.close()
    return log, x * 2


def generator_throw_delegated(x, K):
    log = []

    def inner():
        while True:
            try:
                yield K(1)
            except KeyError as e:
                log.append(e.args)
            except ValueError:
                return "ended"

    def outer():
        log.append((yield from inner()))
        yield "last"

    def passing():
        return (yield from outer())

    g = passing()
    seen = [next(g), g.throw(KeyError("k")), g.throw(ValueError), next(g, "over")]
    return seen, log, x * 2


def generator_throw_delegated_out(x, K):
    log = []

    def inner():
        try:
            yield 1
        finally:
            log.append(K("inner"))

    def outer():
        try:
            yield from inner()
        except KeyError as e:
            log.append(e.args)
            yield "caught"
        finally:
            log.append("outer")

    g = outer()
    return next(g), g.throw(KeyError("k")), list(g), log, x * 2


def generator_throw_delegated_to_list(x, K):
    def outer():
        try:
            yield from [1, K(2)]
        except KeyError:
            yield "caught"

    g = outer()
    return next(g), g.throw(KeyError("k")), list(g), x * 2


def generator_close_delegated_raises(x, K):
    def inner():
        try:
            yield 1
        finally:
            raise KeyError(K("closing"))

    def outer():
        try:
            yield from inner()
        except KeyError as e:
            yield e.args

    g = outer()
    next(g)
    try:
        g.close()
    except RuntimeError as e:
        return str(e), x * 2


def generator_ended_by_close(x, K):
    def inner():
        try:
            yield 1
        except GeneratorExit:
            return K("quiet")

    def outer():
        result = yield from inner()
        yield result

    g = outer()
    next(g)
    return g.close() is None or "value", list(g), x * 2


def generator_closed_to_result(x, K):
    def gen():
        try:
            yield 1
        except GeneratorExit:
            return K("result")

    g = gen()
    next(g)
    return g.close(), g.close(), x * 2


def generator_stop_iteration(x, K):
    def bad():
        yield K(1)
        raise StopIteration("s")

    try:
        return list(bad())
    except RuntimeError as e:
        return x, e.args, type(e.__cause__).__name__


def generator_return(x, K):
    g = _count(0, K)
    try:
        next(g)
    except StopIteration as e:
        return e.value, x


def generator_unpacked(x, K):
    a, *b = _count(3, K)
    return a * x, b


def generator_in_for(x, K):
    for i in _count(3, K):
        x = x + K(i)
    return x


def generator_left_early(x, K):
    for i in _count(3, K):
        x = x + i
        if i == 1:
            break
    return K(x)


def generator_with_context(x, K):
    @contextlib.contextmanager
    def scope(v):
        STATE["n"] += 1
        try:
            yield K(v)
        finally:
            STATE["n"] -= 1

    with scope(x + 1) as y:
        z = y * 2
    return z, STATE["n"]


# --- calls ----------------------------------------------------------------------------------------------


def _many(a, b=2, *rest, c=3, d, **more):
    return a, b, rest, c, d, sorted(more.items())


def call_keywords(x, K):
    return _many(x, K(1), d=K(2)), _many(1, d=4, z=K(5), c=x)


def call_stars(x, K):
    args, named = [1, K(2), 3], {"d": K(4), "e": 5}
    return _many(*args, **named), _many(*args, 4, *args, c=x, **named, f=6), max(*args)


def call_method_keywords(x, K):
    return x.sum(dim=K(0), keepdim=True), "{a}".format(a=K(1)), "a-b".split(sep="-", maxsplit=K(1))


def call_keyword_defaults_changed(x, K):
    def f(a, *, b=1):
        return a + b

    f.__kwdefaults__ = {"b": K(5)}
    g = f(x)
    f.__defaults__ = (x,)
    return g, f()


def call_positional_only(x, K):
    def f(a, /, b, *, a_=1, **kw):
        return a + b, a_, sorted(kw)

    return f(x, b=K(2), a=3), f(x, 1, a_=K(4))


def call_unpacked_generator(x, K):
    return max(*(K(i) for i in range(3))), dict(**{"a": K(1)}, **dict(b=2)), x * 2


def call_unpacked_mapping(x, K):
    class_ = Mapping(K)
    return dict(**class_), {**class_}, x * 2


class Mapping:
    def __init__(self, K):
        self.K = K

    def keys(self):
        return ["a", "b"]

    def __getitem__(self, key):
        return self.K(key * 2)


def call_star_tensor(x, K):
    return torch.stack([*x, K(x[0])])


def call_defaults(x, K):
    def f(a, b=K(2), *, c=x, d=4):
        return a + b, c, d

    return f(1), f(1, 3, d=K(5)), (lambda a, b=K(1): a + b)(x)


def call_annotated(x, K):
    def f(a: int, b: "str" = "s") -> float:
        return a

    return f(K(x)), sorted(f.__annotations__)


def call_wrong_arguments(x, K):
    try:
        _many(K(1))
    except TypeError as e:
        return str(e), x


def call_decorated(x, K):
    def deco(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return K(fn(*args, **kwargs))

        return wrapper

    @deco
    def f(a):
        return a * 2

    return f(x), f.__name__


def call_nested_breaks(x, K):
    def inner(a):
        b = a + 1
        return K(b) * 2

    def outer(a):
        return inner(a) + inner(a * 2)

    return outer(x) - 1


def call_recursive(x, K):
    def down(n):
        return x if n == 0 else down(n - 1) + K(n)

    return down(3)


def call_partial(x, K):
    f = functools.partial(_many, K(1), d=x)
    return f(), f(2, c=K(4))


def call_operator(x, K):
    return (
        operator.add(x, K(1)),
        operator.itemgetter(1)([K(1), 2]),
        functools.reduce(operator.add, [x, K(x), x]),
    )


# --- super --------------------------------------------------------------------------------------------------


class Base:
    limit = 4

    def __init__(self, a=0):
        self.a = a

    @property
    def twice(self):
        return self.a * 2

    @classmethod
    def make(cls, a):
        return cls(a)

    @staticmethod
    def plain(a):
        return a

    def go(self, y, *, k=1):
        return y + self.a * k


class Derived(Base):
    limit = 5

    def __init__(self, a, K):
        super().__init__(K(a))
        self.K = K

    @property
    def twice(self):
        return super().twice + self.K(1)

    @classmethod
    def make(cls, a, K):
        made = super().make
        return super().plain(a), made.__name__, cls.__name__

    def go(self, y, *, k=1):
        K = self.K
        z = K(super().go(y, k=K(k))) + super().limit
        return z + super(Derived, self).go(y)

    def nested(self, y):
        def inner():
            return super(Derived, self).go(self.K(y))

        return inner()

    def in_comprehension(self, y):
        return [super(Derived, self).go(self.K(y)) for _ in range(2)]

    def self_in_cell(self, y):
        def read():
            return self.a

        return super().go(self.K(y)) + read()

    def rebound(self, y):
        self = Derived(self.a + 1, self.K)
        return super().go(self.K(y))


def super_init(x, K):
    return Derived(x, K).a


def super_method(x, K):
    return Derived(2, K).go(x, k=3)


def super_property(x, K):
    return Derived(x, K).twice


def super_nested(x, K):
    d = Derived(2, K)
    return d.nested(x), d.in_comprehension(x), d.self_in_cell(x)


def super_rebound(x, K):
    return Derived(2, K).rebound(x)


def super_classmethod(x, K):
    return Derived.make(K(2), K), x


def super_missing(x, K):
    class_ = Derived(1, K)
    try:
        super(Derived, class_).nothing
    except AttributeError as e:
        return str(e), x


# --- text ----------------------------------------------------------------------------------------------------


def text_formats(x, K):
    n, w, s = K(3), 6, "é"
    return f"{n}|{n:>{w}}|{s!r}|{s!s:>4}|{s!a}|{n=}|{1.5:.2f}|{x.shape}|{'nested ' + f'{n}'}", x


def text_percent(x, K):
    return "%s-%d-%5.2f" % ("a", K(2), 1.5), "ab", "x" * K(3), x


def text_custom_format(x, K):
    class_ = Formatted(K)
    return f"{class_:abc}", f"{class_!r}", x


class Formatted:
    def __init__(self, K):
        self.K = K

    def __format__(self, spec):
        return self.K("<" + spec + ">")

    def __repr__(self):
        return self.K("R")


# --- items ------------------------------------------------------------------------------------------------------


class Sliced:
    def __init__(self, K):
        self.K = K
        self.log = []

    def __getitem__(self, key):
        self.log.append(key)
        return self.K(key)

    def __setitem__(self, key, value):
        self.log.append((self.K(key), value))

    def __delitem__(self, key):
        self.log.append(self.K(key))


def slices(x, K):
    xs = list(range(6))
    xs[1:3] = [K(9)]
    del xs[K(3) :]
    y = x[K(0) : 2, ..., None]
    return xs, y, x[:, 1], "abc"[K(1) :], (1, 2, 3)[:-1], xs[::2]


def slices_of_objects(x, K):
    s = Sliced(K)
    a, b = s[1 : K(2)], s[K("k")]
    s[3:4] = 5
    s[::2] = 7
    del s[K(6)]
    return a, b, [str(v) for v in s.log], x


def slices_of_tensors_set(x, K):
    y = x.clone()
    y[1:2] = K(0.0)
    y[K(0)] = 1
    y[:, 0] += 2
    return y


def augmented(x, K):
    o = Base(x)
    o.a += K(1)
    xs = [1, 2]
    xs[K(0)] += 5
    xs += [K(3)]
    d = {"a": 1}
    d["a"] -= K(1)
    d |= {"b": 2}
    n = 7
    n //= K(2)
    n <<= 1
    return o.a, xs, d, n


def unpacking(x, K):
    a, (b, *c), d = 1, K((2, 3, 4)), 5
    (e, f) = x.unbind(0)[:2]
    [*g], h = [K(1)], 2
    return a, b, c, d, e + f, g, h


def unpacking_fails(x, K):
    out = []
    for value in [(1,), (1, 2, 3)]:
        try:
            a, b = K(value)
        except ValueError as e:
            out.append(str(e))
    return out, x


def containers(x, K):
    return (
        [K(1), x],
        (K(2), x),
        {K(3), 4},
        {"a": K(5), **{"b": x}},
        {**{"c": 1}},
        [*(1, 2), K(3)],
        {1, *[2, 3]},
    )


def deletes(x, K):
    o, d, xs = Base(1), {"a": 1, "b": 2}, [1, 2, 3]
    del o.a, d["a"], xs[K(0)]
    y = x + 1
    del x
    try:
        x
    except UnboundLocalError as e:
        return hasattr(o, "a"), d, xs, y, str(e)


# --- operators -----------------------------------------------------------------------------------------------------


def unary(x, K):
    return +x, -K(x), ~(x > 0), not K(1), +True, -K(2), ~5, +K(1.5)


def comparisons(x, K):
    return (
        1 < K(2) < 3,
        1 < K(5) < 3,
        K(None) is None,
        x is not K(None),
        2 in [K(2)],
        3 not in (1, K(2)),
        x == x,
    )


def booleans(x, K):
    return (
        K(0) or 5,
        K(1) and 6,
        (K(None) or x),
        not (K([]) or ()),
        (x if K(True) else None),
        K("") or None,
    )


class Number:
    def __init__(self, v, K):
        self.v, self.K = v, K

    def __add__(self, other):
        return self.K(("add", self.v, other))

    def __radd__(self, other):
        return self.K(("radd", self.v, other))

    def __iadd__(self, other):
        self.v = self.K(self.v + other)
        return self

    def __pos__(self):
        return self.K(("pos", self.v))

    def __invert__(self):
        return self.K(("invert", self.v))

    def __bool__(self):
        return self.K(self.v > 0)

    def __eq__(self, other):
        return self.K(("eq", other))

    def __lt__(self, other):
        return self.K(self.v < other)

    def __contains__(self, item):
        return self.K(item == self.v)

    def __len__(self):
        return self.K(self.v)

    def __call__(self, *args, **kwargs):
        return self.K((args, kwargs))

    def __iter__(self):
        return iter([self.K(1), 2])


def operators_of_objects(x, K):
    n, z = Number(2, K), Number(0, K)
    m = n
    m += 3
    return (
        n + 1,
        1 + n,
        +n,
        ~n,
        not n,
        n and 1,
        z or 2,
        n == 3,
        n != 3,
        n < 9,
        1 < n < 9,
        5 in n,
        5 not in n,
        len(n),
        n(1, k=2),
        [*n],
        (1 if z else 2),
        bool(n),
        n.v,
        x * 2,
    )


def branches_of_objects(x, K):
    n, out = Number(2, K), []
    if n:
        out.append("if")
    while n:
        n += -1
        out.append(n.v)
    if not n:
        out.append("not")
    a, b = Number(1, K)
    for c in Number(1, K):
        out.append(c)
    assert Number(1, K)
    return out, a, b, x * 2


def booleans_of_tensors(x, K):
    a = x.sum() > 0 and K(1)
    b = (x.sum() > 1e9) or K(2)
    return bool(a), b, (3 if x.mean() < 0 else 4)


def matrix(x, K):
    return x @ K(x), x**2, x // 2, x % 2, (x > 0) | K(x > 1), (x > 0) & (x > 1), (x > 0) ^ (x > 1)


def chained_assignment(x, K):
    a = b = K([x])
    a.append(1)
    return a, b


def assertion(x, K):
    assert K(1), "never"
    try:
        assert K(0), f"message {K(2)}"
    except AssertionError as e:
        return str(e), x
    return x


# --- loops ---------------------------------------------------------------------------------------------------------------


def loop_else(x, K):
    for i in range(2):
        x = x + K(i)
    else:
        x = x * 2
    for i in range(3):
        if i == 1:
            break
    else:
        x = x * 100
    return x, i


def loop_continue(x, K):
    out = []
    for i in range(4):
        if i % 2:
            continue
        out.append(K(x) * i)
    return out


def loop_while(x, K):
    n = 0
    while True:
        n += 1
        if K(n) > 3:
            break
        x = x + n
    while n:
        n -= 1
    else:
        x = x * 2
    return x, n


def loop_nested(x, K):
    for i in range(2):
        for j in [1, 2]:
            if j == 2 and i == 0:
                continue
            x = x + K(i * j)
    return x


def loop_over_tensor(x, K):
    out = []
    for row in x:
        out.append(K(row) * 2)
    return out


def loop_with_try(x, K):
    log = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            log.append(K(i))
            if i == 2:
                raise KeyError(i)
        except KeyError:
            log.append("k")
        else:
            log.append("e")
        finally:
            log.append(K("f"))
    return log, x


def loop_over_dict(x, K):
    d = {"a": 1, "b": 2}
    return [(k, K(v) * x) for k, v in d.items()], [*d], list(d.values())


# --- exceptions -------------------------------------------------------------------------------------------------------------------


def try_else_finally(x, K):
    log = []
    try:
        y = K(x) + 1
    except ValueError:
        log.append("no")
    else:
        log.append(K("else"))
    finally:
        log.append(K("finally"))
    return y, log


def try_raise_handled(x, K):
    try:
        K(1)
        raise ValueError("v", K(2))
    except (KeyError, ValueError) as e:
        K(3)
        caught = e
    try:
        e
    except UnboundLocalError:
        return x + 1, caught.args, type(caught).__name__


def try_reraise(x, K):
    log = []
    try:
        try:
            raise KeyError("a")
        except KeyError:
            log.append(K("in"))
            raise
        finally:
            log.append(K("fin"))
    except KeyError as e:
        return x, log, e.args


def try_chain(x, K):
    try:
        try:
            raise KeyError("a")
        except KeyError as e:
            K(1)
            raise ValueError("b") from e
    except ValueError as e:
        K(2)
        return type(e.__cause__).__name__, type(e.__context__).__name__, e.__suppress_context__, x


def try_context(x, K):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError(K("b"))
    except ValueError as e:
        return type(e.__context__).__name__, e.__cause__, x


def try_nested_handlers(x, K):
    log = []
    try:
        raise KeyError("outer")
    except KeyError as outer:
        try:
            raise ValueError(K("inner"))
        except ValueError as inner:
            log.append((K(outer.args), inner.args))
        log.append(K(outer.args))
    return log, x


def try_return_in_finally(x, K):
    try:
        raise KeyError(K("lost"))
    finally:
        return x + K(1)


def try_return_through_finally(x, K):
    log = []

    def f():
        try:
            return K(x) * 2
        finally:
            log.append(K("f"))

    return f(), log


def try_leaves(x, K):
    y = x + 1
    K(y)
    raise ValueError("leaves", K(3))


def try_leaves_callee(x, K):
    def f(a):
        K(a)
        raise KeyError("callee")

    y = x + 1
    f(y)


def try_leaves_finally(x, K):
    log = []
    try:
        try:
            K(x)
            raise KeyError("a")
        finally:
            log.append(K("f"))
    except ZeroDivisionError:
        log.append("no")


def try_operator_error(x, K):
    try:
        return K(x).view(7, 7)
    except RuntimeError as e:
        return x + 1, type(e).__name__


def try_not_matching_class(x, K):
    try:
        try:
            raise KeyError(K("a"))
        except 5:
            pass
    except TypeError as e:
        return str(e), x


def try_groups(x, K):
    log = []
    try:
        try:
            raise ExceptionGroup("g", [KeyError(K("k")), ValueError("v"), TypeError("t")])
        except* KeyError as e:
            log.append([repr(part) for part in e.exceptions])
        except* (ValueError, OSError):
            log.append(K("v"))
    except ExceptionGroup as rest:
        log.append([repr(part) for part in rest.exceptions])
    return log, x * 2


def try_group_of_one(x, K):
    log = []
    try:
        raise KeyError(K("k"))
    except* KeyError as e:
        log.append((type(e).__name__, len(e.exceptions)))
    else:
        log.append("else")
    finally:
        log.append(K("finally"))
    return log, x * 2


def try_group_reraised(x, K):
    try:
        try:
            raise ExceptionGroup("g", [KeyError("k"), ValueError("v")])
        except* KeyError:
            K(1)
            raise
        except* ValueError:
            raise TypeError("new")
    except ExceptionGroup as group:
        return [type(part).__name__ for part in group.exceptions], x * 2


def try_in_handler_of_caller(x, K):
    def f(a):
        try:
            raise ValueError(K("b"))
        except ValueError as e:
            return type(e.__context__).__name__

    try:
        raise KeyError("a")
    except KeyError:
        return f(x), x * 2


def try_known_exception(x, K):
    error = STATE.setdefault("error", KeyError("kept"))
    try:
        K(1)
        raise error
    except KeyError as e:
        return e is error, e.args, x * 2


def with_known_exception(x, K):
    error = STATE.setdefault("error2", KeyError("kept"))
    s = Silent(K, True)
    with s:
        raise error
    return x * 2, len(s.log)


def with_traceback_seen(x, K):
    class_ = Seen(K)
    with class_:
        raise KeyError(K("k"))
    return class_.seen, x * 2


class Seen:
    def __init__(self, K):
        self.K, self.seen = K, None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        self.seen = self.K(tb.tb_lineno - value.__traceback__.tb_lineno), tb is value.__traceback__
        return True


class Silent:
    def __init__(self, K, swallow):
        self.K, self.swallow, self.log = K, swallow, []

    def __enter__(self):
        self.log.append(self.K("enter"))
        return self

    def __exit__(self, kind, value, tb):
        self.log.append((self.K("exit"), kind and kind.__name__, value and value.args, tb is None))
        return self.swallow


def with_object(x, K):
    s = Silent(K, False)
    with s as t:
        y = K(x) * 2
    return y, s.log, t is s


def with_swallows(x, K):
    s = Silent(K, True)
    with s:
        K(1)
        raise KeyError("k")
    return x, [v[:3] if isinstance(v, tuple) else v for v in s.log]


def with_passes_on(x, K):
    s = Silent(K, False)
    try:
        with s:
            raise KeyError(K("k"))
    except KeyError as e:
        return x, e.args, len(s.log)


def with_return_inside(x, K):
    s = Silent(K, False)

    def f():
        with s:
            return K(x) + 1

    return f(), s.log


def with_several(x, K):
    a, b = Silent(K, False), Silent(K, True)
    with a as p, b as q, torch.no_grad():
        y = K(x) * 2
    return y, a.log, b.log


def with_in_loop(x, K):
    s = Silent(K, True)
    for i in range(3):
        with s:
            if i == 0:
                continue
            if i == 2:
                break
            x = x + K(i)
            raise ValueError(i)
    return x, len(s.log)


def with_suppress(x, K):
    with contextlib.suppress(KeyError):
        K(1)
        raise KeyError
    return x + 1


def with_no_manager(x, K):
    try:
        with K(5):
            pass
    except (TypeError, AttributeError) as e:
        return str(e), x


def with_grad_modes(x, K):
    x = x.clone().requires_grad_()
    with torch.no_grad():
        a = K(x) * 2
        with torch.enable_grad():
            b = K(x) * 3
        c = x * 4
    return a.requires_grad, b.requires_grad, c.requires_grad, (x * K(5)).requires_grad


# --- names ----------------------------------------------------------------------------------------------------------------------------


def nonlocals(x, K):
    n = 0

    def bump():
        nonlocal n
        n += K(1)
        return n

    return bump() + bump(), n, x * n


def cells_shared(x, K):
    value = 1

    def get():
        return value

    def put(v):
        nonlocal value
        value = v

    put(K(5))
    return get(), value, x * get()


def cell_deleted(x, K):
    v = 1

    def get():
        return v

    del v
    try:
        get()
    except NameError as e:
        return str(e), K(x)


def cell_of_argument(x, K):
    def get():
        return x

    x = x + K(1)
    return get()


def globals_written(x, K):
    global LIMIT
    before = LIMIT
    LIMIT = K(before)
    return LIMIT, x


def imports(x, K):
    import math
    from operator import add as plus

    return plus(math.floor(2.5), K(1)), x


def class_statement(x, K):
    class Local(Base):
        kind = K("local")

        def go(self, y):
            return super().go(y) + 1

    return Local(2).go(K(x)), Local.kind


def class_statement_closure(x, K):
    k = 3

    class Local:
        v = k

        def get(self):
            return k + self.v

    return Local().get() * x, K(1)


def annotated_local(x, K):
    y: int = K(3)
    z: float
    return x * y


def locals_seen(x, K):
    y = K(2)
    seen = locals()
    return sorted(seen), seen["y"], x


def evaluated(x, K):
    y = K(2)
    return eval("y + 1"), x


def lambdas(x, K):
    return (lambda a, *b, c=K(1), **d: (a, b, c, d))(x, 2, e=3)


def unbound(x, K):
    if K(0):
        z = 1
    try:
        return z
    except UnboundLocalError as e:
        return str(e), x


def missing_global(x, K):
    try:
        return not_there  # noqa: F821
    except NameError as e:
        return str(e), K(x)


# --- patterns -------------------------------------------------------------------------------------------------------------------------------


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


def _match(subject):
    match subject:
        case 0 | 1:
            return "small"
        case int(n) if n > 100:
            return "big", n
        case str() as s:
            return "text", s
        case [a, b]:
            return "two", a, b
        case [a, *rest]:
            return "many", a, rest
        case {"k": v, **more}:
            return "map", v, more
        case Point(a, b=[c, *_]):
            return "point", a, c
        case Point(a=5):
            return "five"
        case None:
            return "none"
        case _:
            return "other"


def patterns(x, K):
    subjects = [
        0,
        5,
        200,
        "s",
        [1, 2],
        (1, 2, 3),
        {"k": x, "z": 1},
        {"q": 1},
        Point(1, [2, 3]),
        Point(5, 6),
        None,
        1.5,
    ]
    return [_match(K(s)) for s in subjects], x


# --- attributes -----------------------------------------------------------------------------------------------------------------------------


class Managed:
    __slots__ = ("n", "__dict__")

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return name[4:]
        raise AttributeError(name)


def attribute_protocols(x, K):
    m = Managed()
    m.n = K(x)
    m.other = 2
    out = [m.n, m.other, m.dyn_a, hasattr(m, "nope"), getattr(m, "nope", K(7))]
    del m.other
    return out, hasattr(m, "other")


def attribute_missing(x, K):
    try:
        return Base(1).nothing
    except AttributeError as e:
        return str(e), K(x)


def bound_method_kept(x, K):
    go = Base(2).go
    K(1)
    return go(x, k=K(2)), Base.go(Base(1), x), Base.plain(K(x)), Base.make(3).a


PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", None) == __name__
    and not isinstance(value, type)
    and not name.startswith("_")
]

#: Programs in a newer syntax: source texts, left out where they do not compile.
NEWER = {
    "type_parameters": """
def type_parameters(x, K):
    def f[T](a: T) -> T:
        return K(a)
    return f(x), len(f.__type_params__)
""",
    "type_parameters_bound": """
def type_parameters_bound(x, K):
    def f[T: int, *Ts, **P](a: T = K(1)) -> T:
        return K(a)
    return f(x), [type(t).__name__ for t in f.__type_params__]
""",
    "type_alias": """
def type_alias(x, K):
    type Pair[T] = tuple[T, T]
    return Pair.__name__, K(x)
""",
    "generic_class": """
def generic_class(x, K):
    class Box[T]:
        def __init__(self, v: T):
            self.v = v
    return Box(K(x)).v, len(Box.__type_params__)
""",
    "nested_quotes": """
def nested_quotes(x, K):
    d = {"a": K(1)}
    return f"{d["a"]} {f"{d["a"]:>{3}}"}", x
""",
    "class_scope_comprehension": """
def class_scope_comprehension(x, K):
    k = 2
    class Local:
        n = 3
        values = [a * k for a in range(n)]
    return Local.values, K(x)
""",
    "type_parameter_default": """
def type_parameter_default(x, K):
    def f[T = int](a: T) -> T:
        return K(a)
    return f(x), f.__type_params__[0].__default__
""",
}
