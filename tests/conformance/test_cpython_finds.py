"""What CPython's own tests found, each kept as a small test."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import capture


@pytest.fixture(autouse=True)
def _forced() -> Iterator[None]:
    with capture.config.patch(capture_without_tensors=True, suppress_errors=False):
        yield


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What a call gives: its result, or type and text of what it raises."""
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


def check(fn: Callable[[], Any]) -> None:
    """Compare two captured calls with a plain one."""
    expected = outcome(fn)
    compiled = capture.compile(fn, backend="eager")
    for _ in range(2):
        assert outcome(compiled) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda: [].append(),  # type: ignore[call-arg]
        lambda: {}.clear(None),  # type: ignore[call-arg]
        lambda: {}.get(),  # type: ignore[call-overload]
        lambda: list(1, 2),  # type: ignore[call-arg, call-overload]
        lambda: list(sequence=[]),  # type: ignore[call-overload]
        lambda: {}.pop(),  # type: ignore[call-overload]
        lambda: [1].sort(lambda x: x),  # type: ignore[call-overload]
        lambda: len(),  # type: ignore[call-arg]
        lambda: {1}.add(1, 2),  # type: ignore[call-arg]
        lambda: [1, 2][::0],
    ],
)
def test_wrong_arguments_of_builtins_raise_what_python_raises(call: Callable[[], Any]) -> None:
    check(call)


def test_removing_from_a_dict_that_is_iterated_over() -> None:
    def fn() -> list[int]:
        d = {0: 0}
        seen = []
        for i in d:
            seen.append(i)
            del d[0]
            d[0] = 0
        return seen

    check(fn)


def test_key_whose_hash_has_side_effects_is_hashed_as_often() -> None:
    class Key:
        def __init__(self) -> None:
            self.count = 0

        def __hash__(self) -> int:
            self.count += 1
            return 42

    def fn() -> int:
        key = Key()
        d = {key: 1}
        d.setdefault(key, 2)
        print(end="")
        return key.count

    check(fn)


def test_key_that_changes_its_hash_after_insertion() -> None:
    class Key:
        fail = False

        def __hash__(self) -> int:
            if self.fail:
                raise ValueError("no hash")
            return 42

    def fn() -> Any:
        key = Key()
        d = {}
        d[key] = 1
        key.fail = True
        print(end="")
        return d[key]

    check(fn)


def test_comparison_that_changes_the_list_being_compared() -> None:
    class Item:
        def __init__(self, owner: list[Any]) -> None:
            self.owner = owner

        def __eq__(self, other: object) -> bool:
            self.owner.clear()
            return True

    def fn() -> bool:
        left: list[Any] = []
        right: list[Any] = [Item(left)]
        left.append(Item(right))
        return left == right

    check(fn)


def test_unbound_variable_that_a_closure_shares() -> None:
    def fn() -> Any:
        def inner() -> int:
            return value

        try:
            return value  # noqa: F821
        except UnboundLocalError as error:
            text = str(error)
        value = 1
        return text, inner()

    check(fn)


def test_subclass_that_overrides_keys_is_rebuilt() -> None:
    class Backwards(dict):  # type: ignore[type-arg]
        def keys(self) -> Any:
            return reversed(list(dict.keys(self)))

    def fn() -> list[Any]:
        d = Backwards(a=1, b=2)
        print(end="")
        return list(d.keys())

    check(fn)


def test_exhausted_iterators_keep_their_type() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    def fn() -> list[Any]:
        made: list[Any] = [iter([1]), iter({1: 2}), iter("a"), numbers()]
        for it in made:
            list(it)
        print(end="")
        return [(type(it).__name__, getattr(it, "__name__", ""), list(it)) for it in made]

    check(fn)


@pytest.mark.parametrize(
    "body",
    [
        {"__len__": lambda self: -1},
        {"__len__": lambda self: "a"},
        {"__float__": lambda self: "a"},
        {"__iter__": lambda self: 42},
        {"__iter__": None, "__getitem__": lambda self, i: 1},
        {"__hash__": lambda self: "a"},
        {"__repr__": lambda self: 1, "__str__": lambda self: 1},
        {},
    ],
)
def test_special_methods_that_give_a_wrong_type(body: dict[str, Any]) -> None:
    thing = type("Thing", (), body)()

    for call in (len, bool, float, iter, hash, str, abs, lambda x: -x):
        if not body and call in (bool, hash, str):
            continue

        def fn(call: Callable[[Any], Any] = call) -> Any:
            return type(call(thing)).__name__

        check(fn)


def test_object_with_a_finalizer_is_dropped_when_python_drops_it() -> None:
    log: list[str] = []

    class Noted:
        def __del__(self) -> None:
            log.append("dropped")

    def fn() -> list[str]:
        log.clear()
        thing = Noted()
        log.append("made")
        thing = None  # type: ignore[assignment]  # noqa: F841
        log.append("end")
        return list(log)

    check(fn)


def test_there_is_one_empty_tuple() -> None:
    def fn() -> Any:
        a: tuple[Any, ...] = (1, 2)
        return a[5:] is a[4:4], a[:] is a, a * 1 is a, a + () is a  # noqa: RUF005

    check(fn)


def test_constants_keep_their_identity() -> None:
    name = "".join(["a long ", "name"])

    def fn() -> bool:
        held = [name, 1000.5]
        print(end="")
        return held[0] is name

    check(fn)


def test_break_inside_a_builtin_leaves_the_builtin_itself() -> None:
    class Counter:
        n = 0

        def __call__(self) -> int:
            self.n += 1
            return self.n

    def fn() -> Any:
        it = iter(Counter(), 4)
        print(end="")
        return type(it).__name__, list(it)

    check(fn)


def test_names_of_a_code_object_are_a_tuple() -> None:
    def fn() -> Any:
        def inner(a: int, b: int) -> None: ...

        return inner.__code__.co_varnames == ("a", "b"), inner.__code__.co_varnames[0]

    check(fn)


def test_attributes_of_the_builtins_module_are_no_names() -> None:
    check(eval("lambda: __annotations__", {}))


def test_arguments_of_object_new() -> None:
    class Plain:
        pass

    check(lambda: Plain.__new__(Plain, 1))  # type: ignore[call-arg]
    check(lambda: Plain(1))  # type: ignore[call-arg]


def test_class_whose_instances_are_no_exceptions_cannot_be_raised() -> None:
    class Odd(Exception):
        def __new__(cls) -> Any:
            return object()

    def fn() -> None:
        raise Odd

    check(fn)


def test_context_of_an_exception_from_outside() -> None:
    def fn() -> Any:
        try:
            try:
                raise IndexError("first")
            except IndexError:
                raise OSError("second") from None
        except OSError as error:
            print(end="")
            return repr(error.__context__)

    check(fn)


def test_power_of_an_integer_that_changes() -> None:
    compiled = capture.compile(lambda n: n**2, backend="eager")
    assert [compiled(n) for n in range(5)] == [0, 1, 4, 9, 16]


def test_deque_changed_while_it_is_iterated() -> None:
    from collections import deque

    def fn() -> Any:
        d = deque([1, 2, 3])
        for i in d:
            d.append(i)
        return d

    check(fn)


def test_subclasses_of_containers_are_rebuilt_without_a_call() -> None:
    from collections import OrderedDict, defaultdict, deque

    class Default(defaultdict):  # type: ignore[type-arg]
        def __init__(self) -> None:
            super().__init__(int)

    class Queue(deque):  # type: ignore[type-arg]
        def __init__(self) -> None:
            super().__init__([1], 2)

    class Ordered(OrderedDict):  # type: ignore[type-arg]
        pass

    def fn() -> Any:
        d, q, o = Default(), Queue(), Ordered(a=1)
        print(end="")
        return d, q, q.maxlen, type(d).__name__, type(q).__name__, type(o.copy()).__name__

    check(fn)


@pytest.mark.parametrize(
    "call",
    [
        lambda: list(enumerate(iterable="ab", start=2)),
        lambda: __import__("collections").deque([1], -1),
        lambda: __import__("collections").defaultdict(1),
        lambda: super(int, "a"),  # type: ignore[misc]
        lambda: type(reversed((1, 2))).__name__,
    ],
)
def test_arguments_of_constructors(call: Callable[[], Any]) -> None:
    def fn() -> Any:
        return repr(call())

    check(fn)


def test_method_of_dict_on_an_ordered_dict() -> None:
    from collections import OrderedDict

    def fn() -> Any:
        d = OrderedDict(a=1, b=2)
        dict.__delitem__(d, "a")
        return repr(d)

    check(fn)


def test_dead_weak_proxy() -> None:
    import weakref

    class Thing:
        pass

    def fn() -> Any:
        thing = Thing()
        proxy = weakref.proxy(thing)
        del thing
        return str(proxy)

    check(fn)


def test_patterns_check_what_they_match_with() -> None:
    class Twice:
        a = 1
        __match_args__ = ("a", "a")

    class Listed:
        a = 1
        __match_args__: Any = ["a"]

    class Keys:
        a = "x"

    def positions(cls: Any) -> Callable[[], Any]:
        def fn() -> Any:
            match cls():
                case cls(x):
                    return x

        return fn

    def both() -> Any:
        match Twice():
            case Twice(x, a=y):
                return x, y

    def keys() -> Any:
        match {"x": 1}:
            case {"x": a, Keys.a: b}:
                return a, b

    for fn in (positions(Listed), both, keys):
        check(fn)
