"""Holds equivalents of builtin functions that iterate or call back (Python/bltinmodule.c).

Must not know the interpreter, variables or torch.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Generator, Iterable, Iterator
from operator import index
from typing import Any

from capture.polyfills.arguments import Missing, error_text, type_lookup, type_name
from capture.polyfills.registry import generator_of, polyfill_of

_NO_ITEM_IN_MIN = error_text(builtins.min, [])
_NO_ITEM_IN_MAX = error_text(builtins.max, [])
_DEFAULT_IN_MIN = error_text(builtins.min, 1, 2, default=3)
_DEFAULT_IN_MAX = error_text(builtins.max, 1, 2, default=3)
_NO_ARGUMENT_IN_MIN = error_text(builtins.min)
_NO_ARGUMENT_IN_MAX = error_text(builtins.max)
_NOT_CALLABLE = error_text(builtins.iter, 5, 5)
_NO_ITERABLE_IN_MAP = error_text(builtins.map, len)
_SUM_OF_STR = error_text(builtins.sum, [], "")
_SUM_OF_BYTES = error_text(builtins.sum, [], b"")
_SUM_OF_BYTEARRAY = error_text(builtins.sum, [], bytearray())


@polyfill_of(map)
def map_(function: Callable[..., Any], /, *iterables: Iterable[Any]) -> Iterator[Any]:
    """map(): the iterators are made at once, items on demand."""
    if not iterables:
        raise TypeError(_NO_ITERABLE_IN_MAP)
    if len(iterables) == 1:
        return _map_one(function, iter(iterables[0]))
    iterators = []
    for iterable in iterables:
        iterators.append(iter(iterable))
    return _map_many(function, iterators)


@generator_of(map)
def _map_one(function: Callable[..., Any], iterator: Iterator[Any]) -> Generator[Any, None, Any]:
    while True:
        try:
            value = function(next(iterator))
        except StopIteration as stop:
            return stop.value
        yield value


@generator_of(map)
def _map_many(
    function: Callable[..., Any], iterators: list[Iterator[Any]]
) -> Generator[Any, None, Any]:
    while True:
        try:
            arguments = []
            for iterator in iterators:
                arguments.append(next(iterator))
            value = function(*arguments)
        except StopIteration as stop:
            return stop.value
        yield value


@polyfill_of(filter)
def filter_(function: Callable[[Any], Any] | None, iterable: Iterable[Any], /) -> Iterator[Any]:
    """filter(): `None` tests the items themselves."""
    if function is None:
        return _filter_true(iter(iterable))
    return _filter_items(function, iter(iterable))


@generator_of(filter)
def _filter_true(iterator: Iterator[Any]) -> Generator[Any, None, Any]:
    while True:
        try:
            item = next(iterator)
            if not item:
                continue
        except StopIteration as stop:
            return stop.value
        yield item


@generator_of(filter)
def _filter_items(
    function: Callable[[Any], Any], iterator: Iterator[Any]
) -> Generator[Any, None, Any]:
    while True:
        try:
            item = next(iterator)
            if not function(item):
                continue
        except StopIteration as stop:
            return stop.value
        yield item


@polyfill_of(zip)
def zip_(*iterables: Iterable[Any], strict: Any = False) -> Iterator[tuple[Any, ...]]:
    """zip(), with strict=."""
    check_lengths = bool(strict)
    iterators = []
    for iterable in iterables:
        iterators.append(iter(iterable))
    return _zip_strict(iterators) if check_lengths else _zip_items(iterators)


@generator_of(zip)
def _zip_items(iterators: list[Iterator[Any]]) -> Generator[tuple[Any, ...], None, Any]:
    while iterators:
        items = []
        try:
            for iterator in iterators:
                items.append(next(iterator))
        except StopIteration as stop:
            return stop.value
        yield (*items,)


@generator_of(zip)
def _zip_strict(iterators: list[Iterator[Any]]) -> Generator[tuple[Any, ...], None, None]:
    while iterators:
        items: list[Any] = []
        try:
            for iterator in iterators:
                items.append(next(iterator))
        except StopIteration:
            break
        yield (*items,)
    else:
        return
    # Raised out here, as C leaves no StopIteration as the context.
    if items:
        raise ValueError(_mismatch(len(items), "shorter"))
    longer = 1
    while longer < len(iterators):
        try:
            next(iterators[longer])
        except StopIteration:
            longer += 1
        else:
            break
    if longer < len(iterators):
        raise ValueError(_mismatch(longer, "longer"))


def _mismatch(position: int, relation: str) -> str:
    others = "argument 1" if position == 1 else f"arguments 1-{position}"
    return f"zip() argument {position + 1} is {relation} than {others}"


@polyfill_of(enumerate)
def enumerate_(iterable: Iterable[Any], start: Any = 0) -> Iterator[tuple[int, Any]]:
    """enumerate() (Objects/enumobject.c)."""
    number = index(start)
    return _enumerate_items(iter(iterable), number)


@generator_of(enumerate)
def _enumerate_items(iterator: Iterator[Any], number: int) -> Generator[tuple[int, Any], None, Any]:
    while True:
        try:
            item = next(iterator)
        except StopIteration as stop:
            return stop.value
        yield number, item
        number += 1


@polyfill_of(reversed)
def reversed_(sequence: Any, /) -> Iterator[Any]:
    """reversed() (Objects/enumobject.c): by `__reversed__`, else `__len__` and `__getitem__`."""
    kind = type(sequence)
    if kind is list or kind is tuple:  # the commonest ones; a list's own reverse iterator is alike
        return _reversed_items(sequence, len(sequence) - 1)
    if kind is range:
        return iter(sequence[::-1])
    method = type_lookup(kind, "__reversed__")
    if method is Missing:
        if type_lookup(kind, "__getitem__") is Missing:
            raise TypeError(f"'{type_name(kind)}' object is not reversible")
        return _reversed_items(sequence, len(sequence) - 1)
    if method is None:
        raise TypeError(f"'{type_name(kind)}' object is not reversible")
    if type(method) is types.FunctionType or type(method) is types.MethodDescriptorType:
        result: Iterator[Any] = method(sequence)
        return result
    bound: Iterator[Any] = method.__get__(sequence, kind)()
    return bound


@generator_of(reversed)
def _reversed_items(sequence: Any, position: int) -> Generator[Any, None, None]:
    while position >= 0:
        try:
            item = sequence[position]
        except (IndexError, StopIteration):
            return
        position -= 1
        yield item


@polyfill_of(min)
def min_(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = Missing) -> Any:
    """min(): the first of equal items; only `<` is used."""
    if not args:
        raise TypeError(_NO_ARGUMENT_IN_MIN)
    if len(args) > 1 and default is not Missing:
        raise TypeError(_DEFAULT_IN_MIN)
    best: Any = Missing
    best_value: Any = Missing
    for item in args if len(args) > 1 else args[0]:
        value = item if key is None else key(item)
        if best_value is Missing or value < best_value:
            best = item
            best_value = value
    if best_value is Missing:
        if default is Missing:
            raise ValueError(_NO_ITEM_IN_MIN)
        return default
    return best


@polyfill_of(max)
def max_(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = Missing) -> Any:
    """max(): the first of equal items; only `>` is used."""
    if not args:
        raise TypeError(_NO_ARGUMENT_IN_MAX)
    if len(args) > 1 and default is not Missing:
        raise TypeError(_DEFAULT_IN_MAX)
    best: Any = Missing
    best_value: Any = Missing
    for item in args if len(args) > 1 else args[0]:
        value = item if key is None else key(item)
        if best_value is Missing or value > best_value:
            best = item
            best_value = value
    if best_value is Missing:
        if default is Missing:
            raise ValueError(_NO_ITEM_IN_MAX)
        return default
    return best


def _check_start(start: Any) -> None:
    if isinstance(start, str):
        raise TypeError(_SUM_OF_STR)
    if isinstance(start, bytes):
        raise TypeError(_SUM_OF_BYTES)
    if isinstance(start, bytearray):
        raise TypeError(_SUM_OF_BYTEARRAY)


def sum_plain(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """sum() up to 3.11: one `+` per item."""
    iterator = iter(iterable)
    _check_start(start)
    result = start
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return result
        result = result + item


def sum_compensated(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """sum() from 3.12: one `+` per item, and Neumaier's compensation while adding exact floats."""
    iterator = iter(iterable)
    _check_start(start)
    result = start
    while type(result) is int:
        try:
            item = next(iterator)
        except StopIteration:
            return result
        result = result + item
        if type(item) is not int and type(item) is not bool:
            break
    if type(result) is float:
        return _sum_from_float(iterator, result)
    return _sum_rest(iterator, result)


def _sum_rest(iterator: Iterator[Any], result: Any) -> Any:
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return result
        result = result + item


def _sum_from_float(iterator: Iterator[Any], result: float) -> Any:
    compensation = 0.0
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return _compensate(result, compensation)
        if type(item) is float:
            total = result + item
            if abs(result) >= abs(item):
                compensation += (result - total) + item
            else:
                compensation += (item - total) + result
            result = total
        elif isinstance(item, int) and -sys.maxsize - 1 <= item <= sys.maxsize:
            result += item
        else:
            return _sum_rest(iterator, _compensate(result, compensation) + item)


def _compensate(result: float, compensation: float) -> float:
    # A zero would lose the sign of -0.0; an infinity or nan would spoil an overflowed sum.
    if compensation and compensation - compensation == 0.0:
        return result + compensation
    return result


sum_ = polyfill_of(sum)(sum_compensated if sum([0.1] * 10) == 1.0 else sum_plain)


@polyfill_of(any)
def any_(iterable: Iterable[Any], /) -> bool:
    """any(): stops behind the first true item."""
    for item in iterable:
        if item:
            return True
    return False


@polyfill_of(all)
def all_(iterable: Iterable[Any], /) -> bool:
    """all(): stops behind the first false item."""
    for item in iterable:
        if not item:
            return False
    return True


@polyfill_of(iter)
def iter_(callable_: Callable[[], Any], sentinel: Any, /) -> Iterator[Any]:
    """iter(callable, sentinel) (Objects/iterobject.c); iter(iterable) is the interpreter's own."""
    if not callable(callable_):
        raise TypeError(_NOT_CALLABLE)
    return _iter_calls(callable_, sentinel)


@generator_of(type(iter(int, 1)))
def _iter_calls(callable_: Callable[[], Any], sentinel: Any) -> Generator[Any, None, Any]:
    while True:
        try:
            value = callable_()
        except StopIteration:
            return None
        try:
            if sentinel is value or sentinel == value:
                return None
        except StopIteration as stop:
            return stop.value
        yield value


@polyfill_of(next)
def next_(iterator: Iterator[Any], default: Any, /) -> Any:
    """next(iterator, default); next(iterator) is the interpreter's own."""
    try:
        return next(iterator)
    except StopIteration:
        return default
