"""Classes: instances made in the frame, dataclasses, enums, abstract classes, isinstance, match."""

# mypy: ignore-errors

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import typing

import torch

X = torch.tensor([1.0, -2.0, 3.0])


@dataclasses.dataclass
class Point:
    x: object
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.total = self.y + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int
    t: object = None


@dataclasses.dataclass(slots=True, order=True)
class Slotted:
    n: int
    m: int = 5


class Color(enum.Enum):
    RED = 1
    GREEN = "g"

    @property
    def loud(self):
        return self.name + "!"

    @classmethod
    def first(cls):
        return cls.RED


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Counted:
    made = 0

    def __new__(cls, *args):
        self = super().__new__(cls)
        self.args = args
        return self

    def __init__(self, a, b=1):
        self.a, self.b = a, b


def test_instance_is_made_and_returned(check):
    check(lambda x: Counted(x + 1, b=2), (X,))


def test_instance_is_made_and_dropped(check):
    check(lambda x: Counted(x + 1).a * 2, (X,), fullgraph=True)


def test_instance_is_stored_outside(check):
    def f(x, items):
        o = Counted(x)
        items.append(o)
        o.later = x + 1
        return len(items)

    check(f, (X, []))


def test_new_returns_something_else(check):
    class Odd:
        def __new__(cls, v):
            return v if v else object.__new__(cls)

        def __init__(self, v):
            self.v = v

    check(lambda x: (x + 1, Odd(5), type(Odd(0)).__name__), (X,))


def test_init_that_raises(check):
    class Bad:
        def __init__(self, log):
            log.append(1)
            raise ValueError("no")

    def f(x, log):
        y = x + 1
        try:
            Bad(log)
        except ValueError as error:
            return y, str(error)

    check(f, (X, []))


def test_init_that_returns_a_value_raises(check):
    class Bad:
        def __init__(self):
            return 3

    check(lambda x: (x + 1, Bad()), (X,))


def test_arguments_for_a_class_without_init_raise(check):
    class Empty:
        pass

    check(lambda x: (x + 1, Empty(3)), (X,))


def test_class_counts_its_instances(check):
    def program(compile):
        class C:
            count = 0

            def __init__(self):
                C.count += 1
                self.n = C.count

        f = compile(lambda x: x * C().n)
        return f(X), f(X), f(X), C.count

    check.script(program)


def test_class_is_made_in_the_frame(check):
    def f(x):
        class Local:
            scale = 3

            def go(self):
                return x * self.scale

        return Local().go()

    check(f, (X,))


def test_dataclass(check):
    def f(t, p):
        q = Point(t + 1)
        q.tags.append(p.y)
        r = dataclasses.replace(p, y=9)
        return (
            q,
            r.y,
            r.total,
            p == Point(p.x, p.y, p.tags),
            repr(Point(1)),
            dataclasses.astuple(Point(1)),
            [f.name for f in dataclasses.fields(p)],
        )

    check(f, (X, Point(1)), (X, Point(1, 5)))


def test_dataclass_asdict(check):
    check(
        lambda x, p: (x + 1, dataclasses.asdict(p), dataclasses.is_dataclass(p)),
        (X, Point(1, 2, [3])),
    )


def test_frozen_dataclass(check):
    def f(x, p):
        q = Frozen(3, x)
        try:
            p.n = 5
        except dataclasses.FrozenInstanceError as error:
            return q.t + q.n, str(error), {p: 1}.get(Frozen(p.n)), hash(p) == hash(Frozen(p.n)), q

    check(f, (X, Frozen(1)), (X, Frozen(2)))


def test_slotted_and_ordered_dataclass(check):
    def f(x, p):
        q = Slotted(p.n + 1)
        q.m = 7
        return x + q.m, q, q > p, sorted([q, p])[0].n

    check(f, (X, Slotted(1)))


def test_enum(check):
    def f(x, c):
        scale = 2 if c is Color.RED else 3
        return (
            x * scale,
            c.name,
            c.value,
            c.loud,
            Color("g"),
            Color["RED"],
            c == Color.RED,
            {Color.RED: 1}.get(c),
            Color.first(),
            c in Color,
            list(Color),
            isinstance(c, Color),
            len(Color),
        )

    check(f, (X, Color.RED), (X, Color.GREEN))


def test_unknown_enum_value_raises(check):
    def f(x):
        y = x + 1
        try:
            return Color(99)
        except ValueError as error:
            return y, str(error)

    check(f, (X,))


def test_int_enum_and_flags(check):
    def f(x, level, flag):
        return (
            x * level,
            level + 1,
            level == 1,
            level > Level.LOW,
            flag | Flag.A,
            flag & Flag.B,
            bool(flag & Flag.A),
            [10, 20, 30][level],
            int(level),
        )

    check(f, (X, Level.LOW, Flag.A), (X, Level.HIGH, Flag.B))


def test_abstract_class(check):
    class Base(abc.ABC):
        @abc.abstractmethod
        def go(self, x): ...

        def twice(self, x):
            return self.go(self.go(x))

    class Real(Base):
        def go(self, x):
            return x * 3

    def f(x):
        y = x + 1
        try:
            Base()
        except TypeError as error:
            return Real().twice(y), str(error)

    check(f, (X,))


def test_class_registered_with_an_abstract_class_later(check):
    def program(compile):
        class Base(abc.ABC):  # noqa: B024
            pass

        class Other:
            pass

        f = compile(lambda x, o: x + 1 if isinstance(o, Base) else x - 1)
        o = Other()
        first = f(X, o)
        Base.register(Other)
        return first, f(X, o)

    check.script(program)


def test_isinstance_of_many_kinds(check):
    def f(x, v):
        return (
            x + 1,
            isinstance(v, int),
            isinstance(v, (int, str)),
            isinstance(v, collections.abc.Sequence),
            isinstance(v, typing.Sized),
            isinstance(v, (list, (tuple, dict))),
            isinstance(v, int | None),
            isinstance(v, bool),
            isinstance(v, torch.Tensor),
            callable(v),
        )

    check(f, (X, 1), (X, "s"), (X, [1]), (X, None), (X, True), (X, X), (X, len), (X, {}))


def test_instancecheck_hook(check):
    class Meta(type):
        def __instancecheck__(cls, instance):
            return instance == 3

        def __subclasscheck__(cls, other):
            return other is int

    class Three(metaclass=Meta):
        pass

    check(
        lambda x, v: (x + 1, isinstance(v, Three), issubclass(int, Three), issubclass(str, Three)),
        (X, 3),
        (X, 4),
    )


def test_metaclass_call(check):
    class Single(type):
        def __call__(cls, *args):
            if not hasattr(cls, "only"):
                cls.only = super().__call__(*args)
            return cls.only

    def program(compile):
        class One(metaclass=Single):
            def __init__(self, n):
                self.n = n

        f = compile(lambda x, n: x * One(n).n)
        return f(X, 2), f(X, 3)

    check.script(program)


def test_class_getitem_and_generic(check):
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, v):
            self.v = v

    check(lambda x: (Box(x).v + 1, Box[int](3).v, list[int] == list[int]), (X,))


def test_init_subclass_and_class_keywords(check):
    class Base:
        names = []

        def __init_subclass__(cls, tag=None):
            Base.names.append((cls.__name__, tag))

    def f(x):
        class Sub(Base, tag="t"):
            pass

        return x + 1, Sub.__name__

    check(f, (X,))


def test_user_iterable_and_container(check):
    class Range:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return iter(range(self.n))

        def __contains__(self, v):
            return v == "magic"

        def __getitem__(self, key):
            return key * 2

        def __setitem__(self, key, value):
            self.n = (key, value)

        def __delitem__(self, key):
            self.n = ("deleted", key)

        def __len__(self):
            return 17

        def __call__(self, *a, **k):
            return a, k

    def f(x, r):
        a = list(r), 2 in r, "magic" in r, r[x], r[1:2], len(r), r(1, b=2)
        r["k"] = x + 1
        b = r.n
        del r[5]
        return a, b

    check(f, (X, Range(3)))


def test_user_iterator(check):
    class Count:
        def __init__(self, n):
            self.i, self.n = 0, n

        def __iter__(self):
            return self

        def __next__(self):
            if self.i >= self.n:
                raise StopIteration
            self.i += 1
            return self.i

    def f(x, it):
        first = next(it)
        for v in it:
            x = x + v
        return x, first, next(it, "end"), list(Count(2))

    check(f, (X, Count(4)))


def test_old_sequence_protocol(check):
    class Old:
        def __getitem__(self, i):
            if i > 3:
                raise IndexError
            return i * 10

    check(lambda x, o: (x + 1, list(o), 20 in o, 5 in o, [*o]), (X, Old()))


def test_match_statement(check):
    def f(x, v):
        match v:
            case 0 | 1:
                return x
            case int(n) if n > 100:
                return x * n
            case str() as s:
                return x + len(s)
            case [a, *rest]:
                return x + a, rest
            case {"k": k, **more}:
                return x, k, more
            case Frozen(n=3):
                return x - 3
            case Slotted(a, m=b):
                return x, a, b
            case Color.RED:
                return "red", x + 1
            case None:
                return x + 10
            case _:
                return "other", x + 2

    cases = [
        0,
        1,
        True,
        101,
        50,
        "abc",
        [1, 2, 3],
        (1,),
        [],
        {"k": 1, "z": 2},
        {},
        Frozen(3),
        Frozen(4),
        Slotted(1, 2),
        Color.RED,
        Color.GREEN,
        None,
        2.5,
    ]
    check(f, *[(X, v) for v in cases], settings={})


def test_object_comparison_by_identity(check):
    def f(x, a, b):
        o = object()
        return x + 1, a == b, a is b, a != b, o == o, o is object(), a in [b], {a: 1}.get(b)

    shared = Counted(1)
    check(f, (X, Counted(1), Counted(1)), (X, shared, shared))


def test_type_with_three_arguments(check):
    def f(x):
        C = type("C", (Counted,), {"extra": 4})
        return x * C(1).extra

    check(f, (X,))


def test_deleting_and_copying_objects(check):
    import copy

    def f(x, o):
        p = copy.copy(o)
        p.a = x + 1
        return o.a, p.a

    check(f, (X, Counted(5)))


def test_weak_reference(check):
    import weakref

    def f(x, o):
        r = weakref.ref(o)
        return x + 1, r() is o

    check(f, (X, Counted(5)))


def test_instancecheck_hook_changed(check):
    def program(compile):
        class Meta(type):
            def __instancecheck__(cls, o):
                return True

        class C(metaclass=Meta):
            pass

        f = compile(lambda x, o: x + 1 if isinstance(o, C) else x - 1)
        a = f(X, 1)
        Meta.__instancecheck__ = lambda c, o: False
        return a, f(X, 1)

    check.script(program)


def test_init_and_new_changed_later(check):
    def program(compile):
        class C:
            def __init__(self, v):
                self.v = v

        f = compile(lambda x: x * C(2).v)
        a = f(X)
        C.__init__ = lambda s, v: setattr(s, "v", v * 10)
        b = f(X)

        def new(cls, v):
            o = object.__new__(cls)
            o.made = 1
            return o

        C.__new__ = new
        g = compile(lambda x: hasattr(C(1), "made"))
        return a, b, f(X), g(X)

    check.script(program)


def test_default_of_a_dataclass_changed(check):
    def program(compile):
        @dataclasses.dataclass
        class P:
            a: int = 1

        f = compile(lambda x: x * P().a)
        r = f(X)
        P.__init__.__defaults__ = (7,)
        return r, f(X)

    check.script(program)


def test_attribute_put_on_an_enum_member(check):
    def program(compile):
        class E(enum.Enum):
            A = 1
            B = 2

        f = compile(lambda x, e: x * e.value if e is E.A else x - e.value)
        a = f(X, E.A)
        E.A.extra = 3
        g = compile(lambda x, e: x * getattr(e, "extra", 1))
        b = g(X, E.B), g(X, E.A)
        E.A.extra = 10
        return a, f(X, E.B), b, g(X, E.A)

    check.script(program)


def test_instance_check_of_type_itself(check):
    class Meta(type):
        def __instancecheck__(cls, instance):
            return super().__instancecheck__(instance) or instance == 3

    class Known(metaclass=Meta):
        pass

    class Poser:
        @property
        def __class__(self):
            return Known

    def fn(x, values):
        real = [type.__instancecheck__(Known, v) for v in values]
        return x + 1, real, [isinstance(v, Known) for v in values]

    check(fn, (torch.ones(2), [Known(), Poser(), 3, None]))
