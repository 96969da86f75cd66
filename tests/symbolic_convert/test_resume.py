"""Codes that break and resume frames: every instruction of many functions, against a plain call."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

from capture.errors import InternalError
from capture.instructions.decode import decode
from capture.instructions.ops import Op
from capture.symbolic_convert import resume
from capture.symbolic_convert.resume import Layout, Slot
from tests.symbolic_convert.stepping import Box, Stepper, outcome_of

# ruff: noqa: B012, B018, B023, C416, E731, SIM, TRY, F841
# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return"

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


FUNCTIONS: list[Callable[..., object]] = [
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


def run_logged(call: Callable[[], object]) -> tuple[object, list[object]]:
    log.clear()
    result = outcome_of(call)
    return result, list(log)


def check_everywhere(function: Any, *args: object) -> None:
    """Step k instructions and resume, for every k; also step through to the end."""
    expected = run_logged(lambda: function(*args))
    stepper = Stepper(function)
    assert run_logged(lambda: stepper.run(args, -1)) == expected
    total = stepper.made
    assert total > 3
    for steps in range(total + 1):
        call = lambda steps=steps: stepper.run(args, steps)
        assert run_logged(call) == expected, f"resumed after {steps} steps"


@pytest.mark.parametrize("args", [(4, 3), (2, 0), (3, 5)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_resuming_anywhere_changes_nothing(function: Callable[..., object], args: Any) -> None:
    check_everywhere(function, *args)


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

    def named(self: Any, x: int) -> object:
        return [super(Derived, self).scale(y) for y in range(x)]


@pytest.mark.parametrize("name", ["scale", "captured", "rebound", "named"])
def test_super_works_in_resumed_code(name: str) -> None:
    check_everywhere(getattr(Derived, name), Derived(), 3)


def fails(a, b):
    first = a
    return [
        first,
        first / b,
    ]


def test_traceback_shows_the_users_lines() -> None:
    def frames(call: Callable[[], object]) -> list[traceback.FrameSummary]:
        with pytest.raises(ZeroDivisionError) as caught:
            call()
        return [
            frame
            for frame in traceback.extract_tb(caught.value.__traceback__)
            if frame.name == "fails"
        ]

    expected = frames(lambda: fails(1, 0))
    stepper = Stepper(fails)  # type: ignore[arg-type]
    for steps in (-1, 0, 3):
        assert frames(lambda steps=steps: stepper.run((1, 0), steps)) == expected  # type: ignore[misc]


def sees_locals(self, b):
    later = b
    seen = [sorted(locals()), sorted(locals())]
    get = lambda: later
    del b
    for other in (1,):
        seen.append(sorted(locals()))
        seen.append(sorted(sys._getframe().f_locals))
    return seen, get()


def test_locals_are_those_of_the_original() -> None:
    check_everywhere(sees_locals, 1, 2)


def test_codes_keep_the_originals_names() -> None:
    def function(a: int, *, b: int, **rest: int) -> int:
        """Say something."""
        return a + b + len(rest)

    code = function.__code__
    layout = Layout(("a", "b", "rest"))
    made = [
        resume.make_break_code(code, 0, layout).code,
        resume.make_resume_code(code, 0, layout),
        resume.make_await_code(code, 3, layout, False).code,
    ]
    for new in made:
        assert new.co_name == code.co_name
        assert new.co_qualname == code.co_qualname
        assert new.co_filename == code.co_filename
        assert new.co_firstlineno == code.co_firstlineno
        assert new.co_varnames[:2] == ("a", ".box")
        assert new.co_argcount == 2
        assert new.co_kwonlyargcount == 0


def no_arguments():
    return len("ab")


def keyword_only(*, key):
    return [key]


def test_slot0_is_taken_only_where_there_is_one() -> None:
    assert not resume.takes_slot0(no_arguments.__code__)
    assert resume.takes_slot0(keyword_only.__code__)
    code = resume.make_resume_code(no_arguments.__code__, 0, Layout(()))
    assert FunctionType(code, globals())(Box([])) == 2
    code = resume.make_resume_code(keyword_only.__code__, 0, Layout(("key",)))
    assert FunctionType(code, globals())(7, Box([])) == [7]


class Token:
    """Something to see being freed."""


def drops(a, b):
    a = None
    b.append(1)
    return b


def test_values_are_freed_as_in_eager() -> None:
    token, seen = Token(), []
    alive = weakref.ref(token)
    stepper = Stepper(drops)  # type: ignore[arg-type]

    class Probe(list[int]):
        def append(self, item: int) -> None:
            seen.append(alive() is None)

    for steps in (0, 1, 2, 3, 4):
        state, cells = stepper.start(token, Probe())
        del token
        for _ in range(steps):
            state = stepper.step(state, cells)
        stepper.resume(state, cells)
        del state
        token = Token()
        alive = weakref.ref(token)
    assert seen == [True] * 5


def test_a_caught_exception_is_in_no_cycle() -> None:
    def catches(a: Any, b: int) -> int:
        try:
            a(b)
        except ValueError:
            return 1
        return 2

    caught: list[Any] = []

    class Marked(ValueError):
        def __init__(self) -> None:
            caught.append(weakref.ref(self))

    def raises(b: int) -> None:
        raise Marked

    gc.disable()
    try:
        stepper = Stepper(catches)  # type: ignore[arg-type]
        for steps in (-1, 0, 3, 5):
            assert stepper.run((raises, 1), steps) == 1
    finally:
        gc.enable()
    assert len(caught) == 4
    assert all(reference() is None for reference in caught)


def index_of(function: Any, op: Op, skip: int = 0) -> int:
    places = [inst.index for inst in decode(function.__code__).instructions if inst.op is op]
    return places[skip]


def awaits(a, b):
    try:
        c = a + len(b)
    except ValueError as error:
        return str(error)
    return c


def run_await(function: Any, callee: Callable[[], object], discard: bool) -> object:
    code = function.__code__
    index = index_of(function, Op.CALL)
    layout = Layout(("a", "b"), (Slot.VALUE,))
    made = resume.make_await_code(code, index, layout, discard)
    call = FunctionType(made.code, globals())
    number, *values = call(1, Box(["bb", 1, callee]))
    outcome = made.outcomes[number]
    if discard:
        assert outcome.layout == layout
        return values
    resumed = resume.make_resume_code(code, outcome.index, outcome.layout)
    return FunctionType(resumed, globals())(values[0], Box(values[1:]))


def test_await_code_goes_on_behind_the_call() -> None:
    assert run_await(awaits, lambda: 41, False) == 42
    assert run_await(awaits, lambda: 41, True) == [1, "bb", 1]


def test_await_code_leads_into_the_handler() -> None:
    def raises() -> None:
        raise ValueError("from the callee")

    assert run_await(awaits, raises, False) == "from the callee"


def test_an_unbound_slot0_stays_unbound() -> None:
    def function(a: int) -> int:
        return a

    code = resume.make_resume_code(function.__code__, 0, Layout(()))
    with pytest.raises(UnboundLocalError, match="'a'"):
        FunctionType(code, globals())(None, Box([]))


def test_an_outcome_for_each_way() -> None:
    def function(a: Any) -> Any:
        try:
            for i in a:
                print(i)
        except ValueError:
            pass

    index = index_of(function, Op.FOR_ITER)
    layout = Layout(("a",), (Slot.VALUE,))
    outcomes = resume.make_break_code(function.__code__, index, layout).outcomes
    target = decode(function.__code__).instructions[index].target
    handler = decode(function.__code__).handler_at(index)
    assert handler is not None
    assert [outcome.index for outcome in outcomes] == [index + 1, target, handler.target]
    assert [len(outcome.layout.stack) for outcome in outcomes] == [2, 0, 1]


def test_generators_and_returns_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(InternalError, match="generator"):
        resume.make_resume_code(generator.__code__, 3, Layout(()))
    index = index_of(awaits, Op.RETURN_VALUE)
    with pytest.raises(InternalError, match="cannot run on its own"):
        resume.make_break_code(awaits.__code__, index, Layout((), (Slot.VALUE,)))


def test_a_layout_that_does_not_fit_is_refused() -> None:
    index = index_of(awaits, Op.CALL)
    with pytest.raises(InternalError, match="does not fit"):
        resume.make_break_code(awaits.__code__, index, Layout(("a", "b"), (Slot.VALUE,)))
