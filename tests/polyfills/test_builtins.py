from __future__ import annotations

import enum
import math
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.polyfills import builtins as ours
from capture.polyfills import polyfill_for
from capture.polyfills.arguments import Missing
from tests.polyfills.comparison import Counted, error_texts, same_result, same_steps

FAILURE = ValueError("source")
ENDS: list[BaseException | None] = [None, StopIteration(7), FAILURE]


def stop_at_2(x: int) -> int:
    if x == 2:
        raise StopIteration("callback")
    return x * 10


def fail_at_2(x: int) -> int:
    return 1 // (2 - x)


class StopTruth:
    def __bool__(self) -> bool:
        raise StopIteration("truth")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("function", [abs, stop_at_2, fail_at_2, len, 5])
def test_map_of_one_iterable(function: Any, end: BaseException | None) -> None:
    same_steps(map, function, Counted(range(4), end=end))


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (2, 3), (3, 2), (2, 2), (1, 2, 3), (3, 2, 1)])
def test_map_of_several_iterables_stops_with_the_first(lengths: tuple[int, ...]) -> None:
    same_steps(map, lambda *a: a, *[Counted(range(n)) for n in lengths])


def test_map_checks_its_arguments_at_the_call() -> None:
    for args in [(), (abs,), (abs, 5), (abs, [1], 5)]:
        kind = same_steps(map, *args)[0][0]
        assert kind == "error"
    expected, got = error_texts(map, abs)
    assert expected == got


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("function", [None, bool, lambda x: x % 2, stop_at_2, fail_at_2])
def test_filter(function: Any, end: BaseException | None) -> None:
    same_steps(filter, function, Counted(range(5), end=end))


def test_filter_ends_where_a_truth_test_raises_stop_iteration() -> None:
    same_steps(filter, None, Counted([1, StopTruth(), 2]))
    same_steps(filter, lambda x: StopTruth(), Counted([1, 2]))


@pytest.mark.parametrize("args", [(), (None,), (None, 5), (None, [], [])])
def test_filter_checks_its_arguments_at_the_call(args: tuple[Any, ...]) -> None:
    assert same_steps(filter, *args)[0][0] == "error"


@pytest.mark.parametrize("strict", [False, True, 1, [], "x"])
@pytest.mark.parametrize(
    "lengths",
    [(), (0,), (2,), (2, 2), (2, 3), (3, 2), (0, 1), (1, 0), (2, 2, 3), (3, 3, 2), (2, 3, 2)],
)
def test_zip(lengths: tuple[int, ...], strict: Any) -> None:
    sources = [Counted(range(n)) for n in lengths]
    same_steps(zip, *sources, strict=strict)
    if strict and len(set(lengths)) > 1:
        expected, got = error_texts(zip, *sources, strict=strict)
        assert expected == got


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_zip_passes_errors_of_its_sources_on(place: int, strict: bool) -> None:
    for end in ENDS:
        sources = [Counted(range(3)) for _ in range(3)]
        sources[place] = Counted(range(2), end=end)
        same_steps(zip, *sources, strict=strict)


def test_zip_checks_its_arguments_at_the_call() -> None:
    assert same_steps(zip, [1], 5)[0][0] == "error"
    assert same_steps(zip, [1], strict=StopTruth())[0][0] == "stop"


@pytest.mark.parametrize("start", [0, 5, -1, True, 10**30])
def test_enumerate(start: Any) -> None:
    for end in ENDS:
        same_steps(enumerate, Counted("abc", end=end), start)
        same_steps(enumerate, iterable=Counted("abc", end=end), start=start)


@pytest.mark.parametrize("args", [(), (5,), ([], 1.0), ([], "1"), ([], None), ([], 1, 2), (5, 1.5)])
def test_enumerate_checks_its_arguments_at_the_call(args: tuple[Any, ...]) -> None:
    assert same_steps(enumerate, *args)[0][0] == "error"


class Sequence:
    def __init__(self, n: int, error: type[Exception] | None = None) -> None:
        self.n = n
        self.error = error

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        if self.error is not None and i == 1:
            raise self.error
        return i


class OwnReversed(Sequence):
    def __reversed__(self) -> Any:
        return iter("own")


class NoReversed(Sequence):
    __reversed__: Any = None


class StaticReversed(Sequence):
    @staticmethod
    def __reversed__() -> Any:
        return iter("static")


class MetaReversed(type):
    def __reversed__(cls) -> Any:
        return iter("meta")


class UnderMeta(metaclass=MetaReversed):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return i


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class SubList(list[int]):
    pass


@pytest.mark.parametrize(
    "sequence",
    [[], [1, 2, 3], (1, 2), "abc", b"abc", range(5), range(0), Sequence(3), OwnReversed(2),
     NoReversed(2), StaticReversed(2), UnderMeta(), UnderMeta, Colour, Colour.RED, SubList([1, 2]),
     Sequence(3, IndexError), Sequence(3, StopIteration), Sequence(3, KeyError), Sequence(-1),
     {"a": 1, "b": 2}, {"a": 1}.items(), {1}, iter([1]), 5, None, object()],
)  # fmt: skip
def test_reversed(sequence: Any) -> None:
    same_steps(reversed, sequence)


def test_reversed_sees_a_list_that_changes() -> None:
    for reverse in (reversed, ours.reversed_):
        items = [1, 2, 3, 4]
        iterator = reverse(items)
        assert next(iterator) == 4
        del items[2:]
        assert list(iterator) == []
        iterator = reverse(items)
        items.append(9)
        assert list(iterator) == [2, 1]


ITEMS = st.lists(st.one_of(st.integers(-5, 5), st.floats(), st.booleans()))
KEYS = st.sampled_from([None, abs, lambda x: -x, lambda x: 0, repr])


@given(items=ITEMS, key=KEYS, with_default=st.booleans())
def test_min_and_max(items: list[Any], key: Any, with_default: bool) -> None:
    options = {"default": "none"} if with_default else {}
    for function in (min, max):
        same_result(function, items, key=key, **options)
        same_result(function, Counted(items), key=key)
        same_result(function, *items, 3, key=key)
        same_result(function, *items, 3, key=key, **options)


@pytest.mark.parametrize("args", [(), (5,), ([],), ([1, "a"],), (1, "a"), ([None, None],)])
def test_min_and_max_errors(args: tuple[Any, ...]) -> None:
    for function in (min, max):
        assert same_result(function, *args)[0] == "error"
        same_result(function, *args, default=4)
        same_result(function, *args, key=len)
    for function in (min, max):
        for texts in (error_texts(function), error_texts(function, []),
                      error_texts(function, 1, 2, default=3)):  # fmt: skip
            assert texts[0] == texts[1]


class OnlyLess:
    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: OnlyLess) -> bool:
        return self.value < other.value


def test_min_uses_only_less_than() -> None:
    items = [OnlyLess(2), OnlyLess(1), OnlyLess(1)]
    assert ours.min_(items) is items[1]


class IntSub(int):
    def __radd__(self, other: Any) -> Any:
        return ("radd", other)


class FloatSub(float):
    def __add__(self, other: Any) -> Any:
        return FloatSub(float(self) + float(other))


NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.floats(-1e3, 1e3),
    st.booleans(),
    st.just(1e308),
    st.just(FloatSub(0.1)),
    st.complex_numbers(allow_nan=False),
)


def start_is_supported(items: list[Any]) -> bool:
    # One difference is accepted: a C long that overflowed before the first float.
    total = 0
    for item in items:
        if not isinstance(item, int):
            return True
        total += item
        if not -sys.maxsize - 1 <= total <= sys.maxsize:
            return False
    return True


@settings(max_examples=400)
@given(items=st.lists(NUMBERS), start=NUMBERS)
def test_sum(items: list[Any], start: Any) -> None:
    if start_is_supported(items):
        same_result(sum, items)
    if start_is_supported([start, *items]):
        same_result(sum, items, start)
        same_result(sum, Counted(items), start=start)


def test_sum_of_floats_is_as_exact_as_this_version() -> None:
    for items in ([0.1] * 10, [1e16, 1.0, -1e16], [1e308, 1e308, -1e308], [-0.0], [-0.0, -0.0],
                  [math.inf, 1.0], [math.inf, -math.inf], [1, 0.1, 2, 0.2, True],
                  [0.1, 10**400]):  # fmt: skip
        same_result(sum, items)
        same_result(sum, items, -0.0)
        same_result(sum, items, 0.0)


@pytest.mark.parametrize(
    "args",
    [(), (5,), ([[1], [2]], []), (["a"],), (["a"], ""), ([b"a"], b""), ([], bytearray()), (5, ""),
     ([IntSub(3)], 1), ([IntSub(3)], 1.5), ([IntSub(3)], "a"), ([1], None), ([[1]],)],
)  # fmt: skip
def test_sum_of_other_things(args: tuple[Any, ...]) -> None:
    same_result(sum, *args)


@given(st.lists(st.sampled_from([0, 1, "", "a", [], None, math.nan])))
def test_any_and_all_stop_early(items: list[Any]) -> None:
    for function in (any, all):
        same_result(function, Counted(items))
        same_result(function, Counted(items, end=FAILURE))


def test_any_and_all_errors() -> None:
    for function in (any, all):
        for args in [(), (5,), ([StopTruth()],), (1, 2)]:
            same_result(function, *args)


class Equal:
    def __eq__(self, other: object) -> Any:
        if other == 0:
            return False
        raise KeyError if other == 1 else StopIteration(other)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("sentinel", [3, math.nan, Equal()])
@pytest.mark.parametrize("stop", [None, 2])
def test_iter_of_a_callable(sentinel: Any, stop: int | None) -> None:
    def record(make: Any) -> list[Any]:
        numbers = iter([0, 2, 1, math.nan, 3, 4])

        def call() -> Any:
            number = next(numbers)
            if number == stop:
                raise StopIteration("callback")
            return number

        out: list[Any] = []
        iterator = make(call, sentinel)
        for _ in range(7):
            try:
                out.append(repr(next(iterator)))
            except StopIteration as error:
                out.append(("stop", error.value))
                break
            except KeyError:
                out.append("key error")
                break
        return out

    assert record(iter) == record(polyfill_for(iter))


def test_iter_wants_a_callable() -> None:
    same_steps(iter, 5, 5)
    assert error_texts(iter, 5, 5)[0] == error_texts(iter, 5, 5)[1]


def test_next_with_a_default() -> None:
    iterator = iter([1])
    assert ours.next_(iterator, 5) == 1
    assert ours.next_(iterator, 5) == 5
    wrong: Any
    for wrong in ([], 5, None):
        assert same_result(next, wrong, 1)[0] == "error"


def test_missing_is_never_an_answer() -> None:
    assert ours.min_([Missing, Missing], key=id) is Missing
