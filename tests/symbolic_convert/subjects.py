"""Holds functions to break and resume anywhere; written like users write, so not checked."""

# ruff: noqa
# mypy: ignore-errors

import sys

log: list[object] = []


class Manager:
    """Notes what it is told; swallows errors if asked."""

    def __init__(self, name: str, swallow: bool = False) -> None:
        self.name, self.swallow = name, swallow

    def __enter__(self) -> str:
        log.append(("enter", self.name))
        return self.name

    def __exit__(self, kind: type | None, value: object, trace: object) -> bool:
        log.append(("exit", self.name, kind, str(value), str(sys.exception())))
        return self.swallow


def arithmetic(a, b):
    c = a + b * 2
    c -= a
    d = -c if a < b else ~c
    e = (a, b, c)[1:]
    return c, d, e, not e, a is b, a in e, f"{a!r:>5}{b}{c:{a}}"


def loops(a, b):
    total = 0
    for i in range(a):
        if i == 3:
            continue
        for j in (1, 2, 3):
            if j == 2 and i > 3:
                break
            total += i * j
        else:
            total += 100
    while b:
        b -= 1
        if b == 2:
            total += 7
    return total, i


def empty_loop(a, b):
    for _ in ():
        pass
    for a in range(b):
        pass
    else:
        log.append(a)
    return a


def withs(a, b):
    with Manager("one") as one, Manager("two", swallow=True) as two:
        log.append(one + two)
        a / b
        log.append("not reached if b is zero")
    with Manager("three"):
        for i in range(2):
            with Manager("four"):
                if i:
                    return i
    return "end"


def with_raises(a, b):
    try:
        with Manager("a"):
            with Manager("b"):
                raise KeyError(a)
    except KeyError as error:
        log.append(str(error))
        raise ValueError(b) from error


def tries(a, b):
    result = []
    for divisor in (a, 0, "x", b):
        try:
            result.append(10 // divisor)
        except ZeroDivisionError as error:
            result.append(str(error))
            try:
                raise RuntimeError("inner")
            except RuntimeError:
                result.append(str(sys.exception()))
            result.append(str(sys.exception()))
            continue
        except TypeError:
            result.append(str(sys.exception()))
        else:
            result.append("else")
        finally:
            result.append("finally")
            log.append(str(sys.exception()))
    return result, sys.exception()


def reraises(a, b):
    try:
        try:
            a / b
        except ZeroDivisionError:
            log.append(str(sys.exception()))
            raise
        finally:
            log.append("cleanup")
    except ArithmeticError as error:
        return type(error), str(error.__context__)
    return "fine"


def raises_in_handler(a, b):
    try:
        a / b
    except ZeroDivisionError:
        return undefined_name  # noqa: F821


def finally_returns(a, b):
    for i in range(3):
        try:
            if i == 1:
                return a / b
        finally:
            if b == 0:
                break
    return "broke", i


def unbound(a, b):
    if b:
        x = 1
    try:
        log.append(x)
        del x
        return x
    except UnboundLocalError as error:
        return str(error)


def deletes(a, b):
    del a
    c = b
    del b
    return c


def comprehensions(a, b):
    x = "outer"
    rows = [[x * y for y in range(b) if y] for x in range(a)]
    keyed = {x: {y for y in range(x)} for x in range(a)}
    lazy = sum(x for x in range(a))
    return rows, keyed, lazy, x, [q for q in rows if q]


def comprehension_raises(a, b):
    x = "outer"
    try:
        return [10 // x for x in (a, b)]
    except ZeroDivisionError:
        return x, [x for x in range(2)]


def unbound_comprehension(a, b):
    if b:
        x = b
    r = [x for x in range(a)]
    try:
        return r, x
    except UnboundLocalError:
        return r, "unbound"


def comprehension_hides_cell(a, b):
    f = lambda: a
    r = [a for a in range(b)]
    g = lambda: b
    s = [b + a for b in range(b)]
    return f(), g(), r, s, a, b


def comprehension_with_cells(a, b):
    fs = [lambda: a + b for b in range(b)]
    gs = [lambda k=k: (k, a) for k in range(a)]
    hs = [lambda: (z, b) for z in range(2)]
    return [f() for f in fs], [g() for g in gs], [h() for h in hs], a, b


def matches(a, b):
    found = []
    for subject in (a, [1, 2, 3], {"k": 1, "z": 2}, "s", (4,), complex(1, 2), None):
        match subject:
            case int() as n if n > 1:
                found.append(n)
            case [first, *rest]:
                found.append((first, rest))
            case {"k": value, **others}:
                found.append((value, others))
            case complex(real=re, imag=im):
                found.append((re, im))
            case str() | None:
                found.append("s")
            case _:
                found.append("other")
    return found


def closures(a, b):
    count = 0

    def bump(by=1, *, times: int = 1):
        nonlocal count, a
        count += by * times
        a = count
        return count

    bump()
    bump(2, times=b)
    a += 1
    del b
    return count, a, bump.__kwdefaults__, [bump(i) for i in range(2)]


def calls(a, b):
    def f(*args, **kwargs):
        return args, kwargs

    text = "a-b".upper().split("-", maxsplit=a)
    both = f(a, *[b, 1], k=2, **{"z": f(b, y=a if b else b)})
    print_to = dict(sorted({"q": 1, "b": 2}.items(), key=lambda kv: kv[1]))
    first, *middle, last = f(1, 2, 3, 4)[0]
    return text, both, f(x=a, y=b), print_to, (first, middle, last), max(a, b, key=abs)


def boolean_chains(a, b):
    x = (a and b) or [a]
    y = a if a > b > 0 else None
    z = 0 < a <= b != 3
    if y is None and not (a or b):
        return "none"
    return x, y, z, y is not None


def stores(a, b):
    class Thing:
        size: int = 3

        def grow(self):
            self.size += 1
            return self

    t = Thing()
    t.size = a
    t.grow().grow()
    d = {"k": [1, 2]}
    d["k"][0] = b
    d["k"][1:] = [7, 8]
    d["k"] += [9]
    del d["k"][0]
    del t.size
    return t.size, d, {**d, "m": a}, [*d, *"xy"], {1, *d["k"]}


def asserts(a, b):
    import os.path as path
    from os import sep

    assert a > b, f"{a} is not above {b}"
    global written
    written = path.join("x", sep)
    return written


def star(a, b):
    values = (*range(a), b)
    return [*values][::2], "%s-%s" % (a, b), print


def groups(a, b):
    found = []
    try:
        try:
            raise ExceptionGroup("g", [KeyError(a), ValueError(b), TypeError("t")])
        except* KeyError as caught:
            found.append(str(caught.exceptions))
        except* (ValueError, OSError) as caught:
            found.append(str(caught.exceptions))
            if b == 5:
                raise RuntimeError("new") from None
    except ExceptionGroup as rest:
        found.append(repr(rest.exceptions))
    try:
        try:
            a / b
        except* ZeroDivisionError:
            found.append(repr(sys.exception()))
    finally:
        found.append("done")
    return found


def callee_raises(a, b):
    def f():
        raise KeyError(a)

    class Lazy:
        @property
        def value(self):
            return f()

        def __getitem__(self, key):
            return f()

        def __iter__(self):
            yield 1
            f()

        def __bool__(self):
            return f()

        def __add__(self, other):
            return f()

        def __lt__(self, other):
            return f()

    lazy, seen = Lazy(), []
    for action in (
        lambda: lazy.value,
        lambda: lazy[0],
        lambda: list(lazy),
        lambda: [x for x in lazy],
        lambda: lazy + 1,
    ):
        try:
            action()
        except KeyError as error:
            seen.append(str(error))
    try:
        for x in lazy:
            seen.append(x)
    except KeyError:
        seen.append("for")
    try:
        lazy.value = 3
    except AttributeError:
        seen.append("set")
    try:
        if lazy:
            seen.append("true")
    except KeyError:
        seen.append("bool")
    try:
        lazy[0]
    except KeyError:
        seen.append("item")
    try:
        lazy.value
    except KeyError:
        seen.append("value")
    try:
        return lazy < a
    except KeyError:
        return seen


FUNCTIONS = [
    arithmetic,
    loops,
    empty_loop,
    withs,
    with_raises,
    tries,
    reraises,
    raises_in_handler,
    finally_returns,
    unbound,
    deletes,
    comprehensions,
    comprehension_raises,
    unbound_comprehension,
    comprehension_hides_cell,
    comprehension_with_cells,
    matches,
    closures,
    calls,
    boolean_chains,
    stores,
    asserts,
    star,
    groups,
    callee_raises,
]


class Base:
    def scale(self, x: int) -> int:
        return x * 2


class Derived(Base):
    def scale(self, x: int) -> int:
        up = super().scale(x)
        return up + super().scale(self.extra)

    extra = 5

    def captured(self, x: int) -> int:
        get = lambda: self
        return super().scale(x) + get().extra

    def rebound(self, x: int) -> object:
        get = lambda: self
        first = super().scale(x)
        self = Derived()
        self.extra = x
        return first, super().scale(get().extra), super().scale(x) == first

    def named(self, x):
        return [super(Derived, self).scale(y) for y in range(x)]


def fails(a, b):
    first = a
    return [
        first,
        first / b,
    ]


def sees_locals(self, b):
    later = b
    seen = [sorted(locals()), sorted(locals())]
    get = lambda: later
    del b
    for other in (1,):
        seen.append(sorted(locals()))
        seen.append(sorted(sys._getframe().f_locals))
    return seen, get()


def no_arguments():
    return len("ab")


def keyword_only(*, key):
    return [key]


class Token:
    """Something to see being freed."""


def drops(a, b):
    a = None
    b.append(1)
    return b


def awaits(a, b):
    try:
        c = a + len(b)
    except ValueError as error:
        return str(error)
    return c
