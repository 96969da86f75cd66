"""What CPython's tests of classes, exceptions and weak references found, as small tests."""

# mypy: ignore-errors

from __future__ import annotations

import abc
import collections
import enum
import functools
import gc
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import capture
from tests.conformance.test_cpython_finds import check, outcome


@pytest.fixture(autouse=True)
def _forced() -> Iterator[None]:
    with capture.config.patch(capture_without_tensors=True, suppress_errors=False):
        yield


# --- exceptions -----------------------------------------------------------------------------------


def test_yield_from_gives_what_a_custom_iterator_stops_with() -> None:
    class Countdown:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            raise StopIteration(42)

    def delegate() -> Iterator[int]:
        return (yield from Countdown())

    def fn() -> list[Any]:
        seen = []

        def outer():
            seen.append((yield from delegate()))

        list(outer())
        return seen

    check(fn)


def test_a_map_whose_function_stops_ends_the_loop() -> None:
    def stop(x: int) -> int:
        if x == 2:
            raise StopIteration
        return x

    def fn() -> list[int]:
        return [x for x in map(stop, [0, 1, 2, 3])]  # noqa: C416

    check(fn)


def test_context_chain_closed_to_a_ring() -> None:
    def fn() -> list[str]:
        try:
            raise TypeError
        except TypeError as first:
            try:
                raise KeyError
            except KeyError as second:
                first.__context__ = second
                try:
                    raise ValueError
                except ValueError as third:
                    return [type(third.__context__).__name__]

    check(fn)


def test_handlers_are_left_where_the_recursion_limit_is_near() -> None:
    def endless() -> Any:
        try:
            return endless()
        except RecursionError:
            return sys.exc_info()[0]

    def fn() -> tuple[Any, Any]:
        return endless(), sys.exc_info()

    check(fn)
    assert sys.exc_info() == (None, None, None)


# --- weak references ------------------------------------------------------------------------------


class Thing:
    pass


def test_weak_reference_behind_the_end_of_its_object() -> None:
    def fn() -> tuple[bool, Any]:
        thing = Thing()
        reference = weakref.ref(thing)
        before = reference() is not None
        thing = None
        return before, reference()

    check(fn)


def test_weak_reference_whose_object_a_cell_let_go_of() -> None:
    def fn() -> Any:
        thing = Thing()
        reference = weakref.ref(thing)

        def peek() -> Any:
            return thing

        thing = None
        return peek(), reference()

    check(fn)


def test_callback_of_a_weak_reference_runs_when_the_name_is_deleted() -> None:
    def fn() -> list[int]:
        thing = Thing()
        seen = []
        kept = weakref.ref(thing, lambda r: seen.append(1))
        del thing
        return [*seen, len(seen), kept() is None]

    check(fn)


def test_entries_keep_no_key_of_a_dict_alive() -> None:
    def fn(table: dict[Any, int]) -> int:
        return sum(table.values())

    compiled = capture.compile(fn, backend="eager")
    key = Thing()
    alive = weakref.ref(key)
    assert compiled({key: 1, Thing: 2}) == 3
    assert compiled({key: 1, Thing: 2}) == 3
    del key
    gc.collect()
    assert alive() is None


# --- classes --------------------------------------------------------------------------------------


def test_class_that_its_metaclass_is_still_making() -> None:
    class Meta(type):
        def mro(cls) -> Any:
            assert "mro" not in cls.__dict__
            return super().mro()

    def fn() -> int:
        return len(Meta("Made", (), {}).__mro__)

    check(fn)


def test_isinstance_asks_an_object_for_its_class() -> None:
    class Proxy:
        def __init__(self, obj: Any) -> None:
            self.__obj = obj

        def __getattribute__(self, name: str) -> Any:
            if name.startswith("_Proxy__"):
                return object.__getattribute__(self, name)
            return getattr(self.__obj, name)

    class Lies:
        @property
        def __class__(self) -> type:
            return str

    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Concrete(Abstract):
        pass

    def fn() -> list[bool]:
        return [
            isinstance(Proxy(Thing()), Thing),
            isinstance(Proxy(Thing()), Proxy),
            isinstance(Proxy(Concrete()), Abstract),
            isinstance(Lies(), str),
            isinstance(Lies(), int),
        ]

    check(fn)


def test_wrapping_an_object_runs_none_of_its_code() -> None:
    log = []

    class Curious:
        def __getattribute__(self, name: str) -> Any:
            log.append(name)
            return object.__getattribute__(self, name)

    curious = Curious()

    def fn() -> Any:
        log.clear()
        held = [curious]
        return held[0] is curious, list(log)

    check(fn)


def test_attributes_of_modules_that_are_descriptors() -> None:
    class Module(types.ModuleType):
        a = 1

    module = types.ModuleType("m")

    def fn() -> list[bool]:
        seen = [hasattr(module, "a")]
        module.__class__ = Module
        seen.append(hasattr(module, "a"))
        module.__class__ = types.ModuleType
        return [*seen, hasattr(module, "a")]

    check(fn)


def test_module_dict_cannot_be_replaced() -> None:
    module = types.ModuleType("m")

    def fn() -> None:
        module.__dict__ = {}

    check(fn)


def test_abstract_class_with_a_hook_of_the_program() -> None:
    calls = []

    class Hooked(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other: type) -> Any:
            calls.append(other)
            return other is Thing

    def fn() -> Any:
        calls.clear()
        return issubclass(Thing, Hooked), isinstance(3, Hooked), len(calls)

    expected: Callable[[], Any] = capture.compile(fn, backend="eager")
    assert expected()[:2] == (True, False)


def test_registration_with_an_abstract_class_after_capture() -> None:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Late:
        pass

    def fn(kind: type) -> Any:
        return issubclass(kind, Abstract), isinstance(kind(), Abstract), issubclass(int, Abstract)

    compiled = capture.compile(fn, backend="eager")
    assert compiled(Late) == (False, False, False)
    Abstract.register(Late)
    Abstract.register(int)
    assert compiled(Late) == (True, True, True)


def test_identity_of_small_numbers_that_change() -> None:
    class Holder:
        pass

    holder = Holder()

    def fn(a: Any, b: Any) -> bool:
        return a is b

    compiled = capture.compile(fn, backend="eager")
    for number in range(5):
        holder.n = number
        assert compiled(holder.n, number)
        assert not compiled(number, number + 1)
        assert not compiled(number, None)


def test_tuple_of_an_enum_member_equals_a_constant() -> None:
    class Planet(enum.Enum):
        EARTH = (5.976e24, 6.37814e6)

    def fn() -> Any:
        value = Planet.EARTH.value
        return value == (5.976e24, 6.37814e6), value is Planet.EARTH.value, value

    check(fn)
    assert capture.compile(fn, backend="eager")()[2] is Planet.EARTH.value


def test_loop_over_a_long_container_is_run_as_a_body() -> None:
    def fn() -> int:
        queue = collections.deque(range(5000))
        done = 0
        while queue:
            queue.pop()
            done += 1
        return done

    with capture.config.patch(unroll_instruction_limit=2000):
        check(fn)


def test_module_of_a_package_that_is_not_imported_yet() -> None:
    def fn() -> str:
        from xml.sax import expatreader

        return expatreader.__name__

    sys.modules.pop("xml.sax.expatreader", None)
    import xml.sax

    vars(xml.sax).pop("expatreader", None)
    assert capture.compile(fn, backend="eager")() == "xml.sax.expatreader"


def test_iterating_over_the_values_of_a_mapping_proxy() -> None:
    def fn(x: int, *, y: str = "a") -> None: ...

    def names() -> list[str]:
        seen = []
        for parameter in inspect.signature(fn).parameters.values():
            capture.graph_break()
            seen.append(parameter.name)
        return seen

    check(names)


def test_abstract_class_whose_descriptors_say_that_they_are_abstract() -> None:
    class Descriptor:
        def __init__(self, fn: Any) -> None:
            self.fn = fn

        @property
        def __isabstractmethod__(self) -> bool:
            return self.fn.__isabstractmethod__

    def fn() -> bool:
        class Made(abc.ABC):
            @Descriptor
            @abc.abstractmethod
            def m(self) -> None: ...

        try:
            Made()
        except TypeError:
            return True
        return False

    check(fn)


@pytest.mark.parametrize("call", [lambda: set.add(0), lambda: list.append(()), lambda: dict.get(1)])
def test_method_of_a_type_on_another_type(call: Callable[[], Any]) -> None:
    check(call)


class _Unhashable(type):
    """Classes that cannot be compared or hashed: capture may not try it behind the scenes."""

    def __hash__(cls) -> int:
        raise TypeError("no hash")

    def __eq__(cls, other: object) -> bool:
        raise TypeError("no comparison")


class _Odd(metaclass=_Unhashable):
    size = 3

    def __init__(self, x: int) -> None:
        self.x = x

    def double(self) -> int:
        return self.x * 2


class _OddList(list, metaclass=_Unhashable):
    pass


class _OddError(Exception, metaclass=_Unhashable):
    pass


def _raise_and_catch() -> str:
    try:
        raise _OddError("text")
    except _OddError as error:
        return str(error)


def _define() -> int:
    class Made(metaclass=_Unhashable):
        z = 1

    return Made().z


@pytest.mark.parametrize(
    "call",
    [
        lambda: _Odd(2).double(),
        lambda: isinstance(_Odd(1), (int, _Odd)),
        lambda: _Odd.size,
        lambda: type("New", (_Odd,), {}).size,
        lambda: sorted(_OddList([2, 1])),
        lambda: _Odd == 1,
        lambda: {_Odd: 1},
        lambda: list[_Odd] and 1,
        lambda: _Odd.__mro__[1],
        _raise_and_catch,
        _define,
    ],
)
def test_classes_whose_metaclass_compares_in_its_own_way(call: Callable[[], Any]) -> None:
    check(call)


def test_class_whose_module_is_no_text() -> None:
    class Meta(type):
        @property
        def __module__(cls) -> str:
            raise ValueError("no module")

    Made = Meta("Made", (), {})
    Other = type("Other", (), {"__module__": property(lambda self: 1)})

    def fn() -> Any:
        return isinstance(Made(), Made), isinstance(Other(), Other), Other().__class__ is Other

    check(fn)


def test_metaclass_with_its_own_idea_of_dict() -> None:
    class Meta(type):
        __dict__ = property(lambda cls: None)

    class Made(metaclass=Meta):
        x = 1

    def fn() -> Any:
        made = Made()
        return made.x, Made.x, isinstance(made, Made)

    check(fn)


def test_name_that_a_function_takes_from_another_is_the_same_string() -> None:
    def original() -> None: ...

    def fn() -> bool:
        def wrapper() -> None: ...

        functools.update_wrapper(wrapper, original)
        capture.graph_break()
        return wrapper.__qualname__ is original.__qualname__

    check(fn)


class _Key:
    pass


_KEYS = _Key(), _Key()


@pytest.mark.parametrize(
    "fn",
    [
        lambda p, q: len({p, q}),
        lambda p, q: len(set([p, q])),
        lambda p, q: p in {q: 1},
        lambda p, q: {p} == {q},
        lambda p, q: len({p} - {q}),
        lambda p, q: {(p, 1): 2}.get((q, 1)),
        lambda p, q: len({p.__init__, q.__init__}),
    ],
)
@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)])
def test_two_keys_that_become_one_object(fn: Callable[..., Any], order: tuple[int, ...]) -> None:
    compiled = capture.compile(fn, backend="eager")
    pairs = [(_KEYS[0], _KEYS[1]), (_KEYS[0], _KEYS[0])]
    for which in order:
        assert compiled(*pairs[which]) == fn(*pairs[which])


@pytest.mark.parametrize(
    "call",
    [
        lambda: b"\xff".decode("utf-8"),
        lambda: "\xff".encode("ascii"),
        lambda: {}["a"],
        lambda: int("x"),
        lambda: [].index(1),
    ],
)
def test_text_of_an_error_that_a_native_function_raises(call: Callable[[], Any]) -> None:
    def fn() -> Any:
        try:
            return call()
        except Exception as error:
            return str(error), error.args

    check(fn)


def test_any_refuses_to_be_asked_for_instances() -> None:
    check(lambda: isinstance(42, Any))


@pytest.mark.parametrize("kind", ["append and pop", "read", "write", "raise", "nothing"])
def test_list_that_is_used_while_it_is_sorted(kind: str) -> None:
    def fn() -> Any:
        items = [3, 1, 2]
        seen = []

        def key(x: int) -> int:
            seen.append(len(items))
            if kind == "append and pop":
                items.append(1)
                items.pop()
            elif kind == "write":
                items[:] = [5, 6]
            elif kind == "raise":
                raise KeyError(x)
            return -x

        try:
            items.sort(key=key)
        except (ValueError, KeyError) as error:
            return str(error), items, seen
        return items, seen

    check(fn)


_COLLIDING = {28, 62, 38}  # a set made of its elements in order comes in another order


@pytest.mark.parametrize(
    "call",
    [
        lambda: str(_COLLIDING),
        lambda: f"{_COLLIDING}",
        lambda: str([_COLLIDING]),
        lambda: "%s" % (set([55, 36, 6, 22]),),  # noqa: UP031
        lambda: str(set([6, 15, 79, 26, 76]) - {6}),
        lambda: str(_COLLIDING.copy()),
        lambda: str(frozenset(_COLLIDING)),
    ],
)
def test_text_of_a_set_keeps_its_order(call: Callable[[], Any]) -> None:
    check(call)


def test_inlined_function_that_cannot_be_decoded_is_called_as_it_is() -> None:
    scope: dict[str, Any] = {}
    text = """
def outer():
    x = 1
    def inner():
        y = [x for x in [lambda: x]]
        return [(lambda: x)() for x in [2, 3]], x
    return inner()
"""
    exec(text, scope)

    def fn() -> Any:
        return outcome(scope["outer"])

    check(fn)
