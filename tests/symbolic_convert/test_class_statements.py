"""Class statements in captured code: the class is made symbolically, and anew where it escapes."""

# mypy: ignore-errors

from __future__ import annotations

import abc
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture


@pytest.fixture(autouse=True)
def _forced() -> Iterator[None]:
    with capture.config.patch(capture_without_tensors=True, suppress_errors=False):
        yield


class Base:
    k = 7

    def hello(self) -> str:
        return "base"


def whole(fn: Callable[[], Any]) -> None:
    """Compare two captured calls with a plain one; there must be no break."""
    expected = fn()
    capture.reset()
    compiled = capture.compile(fn, backend="eager")
    assert compiled() == expected
    assert compiled() == expected
    assert not capture.stats().breaks


def test_methods_cells_and_super() -> None:
    def fn() -> Any:
        y = 3

        class Derived(Base):
            def __init__(self, v: int) -> None:
                self.v = v

            def hello(self) -> str:
                return super().hello() + str(self.v + y)

        made = Derived(5)
        return made.hello(), made.k, Derived.k, isinstance(made, Base), Derived.__name__

    whole(fn)


def test_properties_static_and_class_methods() -> None:
    def fn() -> Any:
        class Made:
            def __init__(self, v: int) -> None:
                self.v = v

            @property
            def p(self) -> int:
                return self.v * 2

            @p.setter
            def p(self, value: int) -> None:
                self.v = value

            @staticmethod
            def s(x: int) -> int:
                return x + 1

            @classmethod
            def c(cls, x: int) -> Any:
                return cls(x)

        made = Made.c(4)
        made.p = 6
        return made.p, made.v, Made.s(1), made.s(2), Made.c(3).v

    whole(fn)


def test_names_of_a_class_body_hide_those_of_the_function() -> None:
    def fn() -> Any:
        x = "outer"

        class Made:
            y = str(x)
            str = "inner"
            z = [i for i in range(3)]  # noqa: C416
            for i in range(2):
                pass
            del i

            def g(self) -> str:
                return x

        return Made.y, Made.str, Made().g(), Made.z, hasattr(Made, "i")

    whole(fn)


def test_exceptions_of_a_class_made_here() -> None:
    def fn() -> int:
        class Failure(Exception):
            def __init__(self, x: int) -> None:
                self.x = x

        try:
            raise Failure(4)
        except Failure as error:
            return error.x

    whole(fn)


def test_attributes_set_on_the_class() -> None:
    def fn() -> Any:
        class Made(Base):
            items: list[int] = []

        Made.items.append(1)
        Made.later = 9
        return Made.items, Made.later, Made().later, Made.k

    whole(fn)


def test_class_of_each_round_is_a_class_of_its_own() -> None:
    def fn() -> list[int]:
        made = []
        for i in range(3):

            class Made:
                x = i

            made.append(Made)
        return [c.x for c in made] + [made[0] is made[1]]

    whole(fn)


def test_abstract_classes() -> None:
    def fn() -> Any:
        class Abstract(abc.ABC):
            @abc.abstractmethod
            def m(self) -> int: ...

        class Concrete(Abstract):
            def m(self) -> int:
                return 1

        return Concrete().m(), isinstance(Concrete(), Abstract)

    fn()
    compiled = capture.compile(fn, backend="eager")
    assert compiled() == (1, True)


def test_class_that_is_returned() -> None:
    def fn() -> Any:
        class Made(Base):
            """Text."""

            a: int = 1

            def me(self) -> Any:
                return Made

            def up(self) -> str:
                return super().hello()

            @property
            def one(self) -> int:
                return self.a

        return Made, Made()

    compiled = capture.compile(fn, backend="eager")
    for _ in range(2):
        made, instance = compiled()
        assert type(instance) is made
        assert instance.me() is made
        assert instance.up() == "base"
        assert instance.one == 1
        assert made.__qualname__ == fn()[0].__qualname__
        assert made.__module__ == __name__
        assert made.__doc__ == "Text."
        assert made.__annotations__ == fn()[0].__annotations__
        assert list(made.__dict__) == list(fn()[0].__dict__)


def test_class_behind_a_break() -> None:
    def fn(x: torch.Tensor) -> Any:
        class Scale(Base):
            def __call__(self, t: torch.Tensor) -> torch.Tensor:
                return t * self.k

        y = Scale()(x)
        capture.graph_break()
        return Scale()(y), Scale.__mro__[1] is Base

    x = torch.ones(3)
    compiled = capture.compile(fn, backend="eager")
    for _ in range(2):
        out, flag = compiled(x)
        assert torch.equal(out, x * 49)
        assert flag


def test_what_a_base_says_later_is_seen() -> None:
    class Parent:
        k = 1

    def fn() -> Any:
        class Child(Parent):
            pass

        return Child.k, Child().k, hasattr(Child, "late")

    compiled = capture.compile(fn, backend="eager")
    assert compiled() == (1, 1, False)
    Parent.k = 2
    Parent.late = 3
    assert compiled() == (2, 2, True)


def test_models_are_no_subclasses_of_the_programs_classes() -> None:
    class Parent:
        pass

    def fn() -> int:
        class Child(Parent):
            pass

        return Child().__class__.__name__

    compiled = capture.compile(fn, backend="eager")
    assert compiled() == compiled() == "Child"
    gc.collect()
    assert Parent.__subclasses__() == []


@pytest.mark.parametrize("hook", ["metaclass", "init_subclass", "set_name"])
def test_code_that_runs_when_a_class_is_made_runs_once(hook: str) -> None:
    seen = []

    class Meta(type):
        def __new__(cls, *args: Any) -> Any:
            seen.append(args[0])
            return super().__new__(cls, *args)

    class Hooked:
        def __init_subclass__(cls) -> None:
            seen.append(cls.__name__)

    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            seen.append(name)

    def fn() -> None:
        if hook == "metaclass":

            class A(metaclass=Meta):
                pass
        elif hook == "init_subclass":

            class B(Hooked):
                pass
        else:

            class C:
                named = Named()

    compiled = capture.compile(fn, backend="eager")
    seen.clear()
    compiled()
    assert len(seen) == 1
    compiled()
    assert len(seen) == 2


def test_deleted_class_cell() -> None:
    def fn() -> Any:
        class Made:
            def f(x: Any) -> None:  # noqa: N805
                nonlocal __class__
                del __class__
                super()

        Made().f()

    with pytest.raises(RuntimeError):
        fn()
    with pytest.raises(RuntimeError):
        capture.compile(fn, backend="eager")()
