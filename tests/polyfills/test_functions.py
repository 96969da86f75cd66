"""functools, collections and operator."""

from __future__ import annotations

import collections
import functools
import operator
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.polyfills import POLYFILLS, closure_of, partial_call, polyfill_for
from capture.polyfills import collections as our_collections
from capture.polyfills import functools as our_functools
from capture.polyfills import operator as our_operator
from tests.polyfills.comparison import Counted, error_texts, outcome_of, same_result
from tests.polyfills.test_builtins import ENDS


@pytest.mark.parametrize("initial", [(), (5,), (None,)])
def test_reduce(initial: tuple[Any, ...]) -> None:
    for end in ENDS:
        for n in range(4):
            same_result(functools.reduce, lambda a, b: (a, b), Counted(range(n), end=end), *initial)
    same_result(functools.reduce, lambda a, b: 1 // 0, [1, 2], *initial)


def test_reduce_errors() -> None:
    wrong: list[Any] = [(), (max,), (max, 5), (max, []), (5, [1]), (5, [1, 2]), (max, [1], 2, 3)]
    for args in wrong:
        same_result(functools.reduce, *args)
    for args in [(max, 5), (max, [])]:
        expected, got = error_texts(functools.reduce, *args)
        assert expected == got


@given(st.lists(st.integers(-5, 5)))
def test_cmp_to_key(items: list[int]) -> None:
    def compare(a: int, b: int) -> int:
        return (a // 2) - (b // 2)

    expected = sorted(items, key=functools.cmp_to_key(compare))
    assert sorted(items, key=our_functools.cmp_to_key(compare)) == expected


def test_comparison_keys() -> None:
    makers: list[Any] = [functools.cmp_to_key, our_functools.cmp_to_key]
    for make in makers:
        key = make(mycmp=lambda a, b: a - b)
        one, two = key(1), key(obj=2)
        assert [one < two, one > two, one <= two, one >= two, one == two, one != two] == [
            True, False, True, False, False, True,
        ]  # fmt: skip
        assert one.obj == 1
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)
        with pytest.raises(TypeError, match="other argument must be K instance"):
            one < 5  # noqa: B015
        with pytest.raises(TypeError):
            make()
        with pytest.raises(TypeError):
            key()


def show(*args: Any, **kwargs: Any) -> Any:
    return args, list(kwargs.items())


def test_partial_calls() -> None:
    partial = functools.partial(show, 1, b=2, a=3)
    expected = partial(4, a=5, c=6)
    assert partial_call(partial.func, partial.args, partial.keywords, 4, a=5, c=6) == expected
    assert POLYFILLS[functools.partial.__call__](partial, 4, a=5, c=6) == expected
    assert partial(self=1, function=2) == partial_call(
        show, (1,), {"b": 2, "a": 3}, self=1, function=2
    )


def test_count_elements_is_what_counter_uses() -> None:
    count = our_collections.count_elements
    assert polyfill_for(collections._count_elements) is count  # type: ignore[attr-defined]
    for items in ("abca", [1, 1.0, True], []):
        counter: Any = collections.Counter()
        count(counter, Counted(items))
        assert counter == collections.Counter(items)
    counter = collections.Counter(a=2)
    with pytest.raises(TypeError):
        count(counter, ["a", []])
    assert counter == {"a": 3}


ROW = types.SimpleNamespace(a=1, b=types.SimpleNamespace(c=2), f=show)


@pytest.mark.parametrize(
    ("maker", "args", "kwargs", "target"),
    [
        (operator.itemgetter, (1,), {}, "abc"),
        (operator.itemgetter, (1, 0), {}, "abc"),
        (operator.itemgetter, (slice(1, 3),), {}, [1, 2, 3]),
        (operator.itemgetter, (9,), {}, "abc"),
        (operator.itemgetter, ("k",), {}, {}),
        (operator.itemgetter, (), {}, "abc"),
        (operator.itemgetter, (1,), {"k": 1}, "abc"),
        (operator.attrgetter, ("a",), {}, ROW),
        (operator.attrgetter, ("b.c",), {}, ROW),
        (operator.attrgetter, ("b.c", "a"), {}, ROW),
        (operator.attrgetter, ("b.d",), {}, ROW),
        (operator.attrgetter, (1,), {}, ROW),
        (operator.attrgetter, ("a", 1), {}, ROW),
        (operator.attrgetter, (), {}, ROW),
        (operator.methodcaller, ("f",), {}, ROW),
        (operator.methodcaller, ("f", 1, 2), {}, ROW),
        (operator.methodcaller, ("f", 1), {"name": 3, "obj": 4}, ROW),
        (operator.methodcaller, ("g",), {}, ROW),
        (operator.methodcaller, (1,), {}, ROW),
        (operator.methodcaller, (), {}, ROW),
    ],
)
def test_callable_makers(maker: Any, args: Any, kwargs: Any, target: Any) -> None:
    ours = polyfill_for(maker)
    assert ours is not None
    expected = outcome_of(lambda: maker(*args, **kwargs)(target))
    assert outcome_of(lambda: ours(*args, **kwargs)(target)) == expected
    kind, getter = outcome_of(lambda: maker(*args, **kwargs))
    if kind == "value":
        closure = closure_of(getter)
        assert closure is not None
        assert outcome_of(lambda: closure(target)) == expected
        assert outcome_of(lambda: closure(target, target))[0] == "error"
        assert outcome_of(lambda: closure(obj=target))[0] == "error"


def test_closure_of_anything_else_is_none() -> None:
    assert closure_of(len) is None
    assert closure_of(functools.partial(operator.itemgetter, 1)) is None
    assert our_operator.closure_of(operator.itemgetter) is None
