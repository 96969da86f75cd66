"""Tests that a class attribute of another kind, put in after compilation, is seen by the next call.

Each kind binds in its own way: the same function wrapped as a static or as a class method, the same
name as a native method or as a slot.
"""

# mypy: ignore-errors

from __future__ import annotations

import functools
import itertools

import pytest

import capture

pytestmark = pytest.mark.usefixtures("_forced")


@pytest.fixture
def _forced():
    with capture.config.patch(capture_without_tensors=True, suppress_errors=False):
        yield


class Descriptor:
    def __get__(self, instance, owner=None):
        return "descriptor", instance is None


class DataDescriptor(Descriptor):
    def __set__(self, instance, value):
        raise AttributeError


def given(*args):
    return len(args), [type(a).__name__ for a in args]


def other(*args):
    return "other", len(args)


def cached():
    made = functools.cached_property(lambda self: 5)
    made.__set_name__(None, "a")
    return made


ABSENT = object()
KINDS = {
    "absent": ABSENT,
    "function": given,
    "another function": other,
    "static": staticmethod(given),
    "class method": classmethod(given),
    "property": property(given),
    "write-only property": property(),
    "number": 1,
    "None": None,
    "builtin": len,
    "native method": object.__repr__,
    "another native method": object.__dir__,
    "native class method": dict.__dict__["fromkeys"],
    "class": dict,
    "partial method": functools.partialmethod(given, 1),
    "descriptor": Descriptor(),
    "data descriptor": DataDescriptor(),
    "cached property": cached(),
}


def put(owner, kind):
    if KINDS[kind] is not ABSENT:
        owner.a = KINDS[kind]
    elif "a" in vars(owner):
        del owner.a


def outcome(fn):
    try:
        result = fn()
    except Exception as error:
        return type(error), str(error)
    if callable(result) and not isinstance(result, type):
        return type(result), getattr(result, "__qualname__", None), hasattr(result, "__self__")
    return result


READS = ["instance", "call", "class", "super"]


def compare(read, first, second):
    """Compile with the first kind in place, then have the second one, then the first again."""

    class Base:
        pass

    class Owner(Base):
        def read(self):
            return super().a

    made = Owner()
    owner = Base if read == "super" else Owner
    fn = {
        "instance": lambda: made.a,
        "call": lambda: made.a(),
        "class": lambda: owner.a,
        "super": lambda: made.read(),
    }[read]
    compiled = capture.compile(fn, backend="eager")
    for kind in (first, first, second, first):
        put(owner, kind)
        vars(made).clear()
        expected = outcome(fn)
        vars(made).clear()
        assert outcome(compiled) == expected, (kind, second)


@pytest.mark.parametrize("read", READS)
def test_attribute_of_the_next_kind(read):
    for first, second in itertools.pairwise(KINDS):
        compare(read, first, second)


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("first", KINDS)
def test_attribute_of_any_other_kind(first, read):
    for second in KINDS:
        if second != first:
            compare(read, first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    list(itertools.permutations([list.append, list.remove, list.__len__], 2)),
)
def test_native_method_under_a_name_of_the_class(first, second):
    class Owner(list):
        act = first

    def fn():
        made = Owner([1, 2])
        try:
            return made.act(1), list(made)
        except TypeError as error:
            return str(error)

    compiled = capture.compile(fn, backend="eager")
    for method in (first, first, second, first):
        Owner.act = method
        assert compiled() == fn()
