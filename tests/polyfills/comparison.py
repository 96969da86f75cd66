"""Holds the oracle of the polyfill tests: a C function and its polyfill must act alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from capture.polyfills import polyfill_for

Outcome = tuple[str, Any]


class Counted:
    """An iterable with only `__iter__`, whose iterator has only `__next__` and counts its calls."""

    def __init__(self, items: Any, *, end: BaseException | None = None) -> None:
        self.items = list(items)
        self.end = end
        self.asked = 0
        self.opened = 0

    def __iter__(self) -> Any:
        self.opened += 1
        return _OnlyNext(self)


class _OnlyNext:
    def __init__(self, owner: Counted) -> None:
        self.owner = owner

    def __next__(self) -> Any:
        owner = self.owner
        owner.asked += 1
        if owner.asked > len(owner.items):
            raise owner.end if owner.end is not None else StopIteration
        return owner.items[owner.asked - 1]


def outcome_of(call: Callable[[], Any]) -> Outcome:
    """Return what a call gives: its value, that of its StopIteration, or the type of its error."""
    try:
        return ("value", call())
    except StopIteration as stop:
        return ("stop", stop.value)
    except Exception as error:
        context = type(error.__context__)
        return ("error", (type(error), context))


def typed(value: Any) -> Any:
    """Make equality tell apart 1, 1.0 and True, 0.0 and -0.0, and let nan equal itself."""
    if isinstance(value, (tuple, list)):
        return (type(value), [typed(item) for item in value])
    if isinstance(value, (set, frozenset)):
        return (type(value), {typed(item) for item in value})
    if isinstance(value, dict):
        return (type(value), [(typed(k), typed(v)) for k, v in dict.items(value)])
    if isinstance(value, (int, float, complex, str, bytes, type(None))):
        return (type(value), repr(value))
    return value


def steps(
    function: Callable[..., Any],
    build: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    n: int,
) -> list[Any]:
    """Call `function` on fresh arguments and take `n` items; record outcomes and what was read."""
    args, kwargs = build()
    sources = [a for a in (*args, *kwargs.values()) if isinstance(a, Counted)]

    def reads() -> list[tuple[int, int]]:
        return [(s.opened, s.asked) for s in sources]

    iterator: Iterator[Any]
    kind, iterator = outcome_of(lambda: function(*args, **kwargs))
    record: list[Any] = [(kind, iterator if kind == "error" else None, reads())]
    if kind == "error":
        return record
    for _ in range(n):
        kind, value = outcome_of(lambda: next(iterator))
        record.append((kind, typed(value), reads()))
        if kind != "value":
            break  # what comes behind the end differs, see capture/polyfills/__init__.py
    return record


def same_steps(original: Any, *args: Any, take: int = 12, **kwargs: Any) -> list[Any]:
    """Check that iterators from a C type and its polyfill agree; `Counted` ones are renewed."""
    polyfill = polyfill_for(original)
    assert polyfill is not None

    def build() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(_renew(a) for a in args), {k: _renew(v) for k, v in kwargs.items()}

    expected = steps(original, build, take)
    assert steps(polyfill, build, take) == expected
    return expected


def same_result(original: Any, *args: Any, **kwargs: Any) -> Outcome:
    """Check that a C function and its polyfill give one result or error, and read alike."""
    polyfill = polyfill_for(original)
    assert polyfill is not None

    def run(function: Any) -> tuple[Outcome, Any]:
        fresh = [_renew(a) for a in args]
        named = {k: _renew(v) for k, v in kwargs.items()}
        kind, value = outcome_of(lambda: function(*fresh, **named))
        sources = [a for a in (*fresh, *named.values()) if isinstance(a, Counted)]
        mutable = [typed(a) for a in fresh if isinstance(a, (list, dict, set))]
        return (kind, typed(value)), ([(s.opened, s.asked) for s in sources], mutable)

    expected = run(original)
    assert run(polyfill) == expected
    return expected[0]


def error_texts(original: Any, *args: Any, **kwargs: Any) -> tuple[str, str]:
    """Return the text of the error of a C function, and of its polyfill."""
    polyfill = polyfill_for(original)
    assert polyfill is not None
    texts = []
    for function in (original, polyfill):
        try:
            result = function(*[_renew(a) for a in args], **kwargs)
            for _ in range(12):
                next(result)
        except Exception as error:
            texts.append(str(error))
    expected, got = texts
    return expected, got


def _renew(value: Any) -> Any:
    if isinstance(value, Counted):
        return Counted(value.items, end=value.end)
    if type(value) in (list, dict, set):
        return value.copy()
    return value
