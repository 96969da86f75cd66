"""Holds the check that a C callable accepts the number and the names of its arguments.

A rule may then rely on them. The error is the one that the callable itself gives, asked on an empty
instance: a call with the wrong number of arguments fails before it does anything. Must not know
what the callables do.
"""

from __future__ import annotations

import collections
import functools
import inspect
import types
from typing import Any, NoReturn

import torch

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported

_ANY = 1 << 30
_NO_KEYWORDS: frozenset[str] = frozenset()
_Shape = tuple[int, int, "frozenset[str] | None"]


def check(
    tracer: Tracer, value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> tuple[list[Variable], dict[str, Variable]]:
    """Raise the traced program's TypeError if the arguments do not fit a C callable.

    Returns:
        The arguments; what is given by name in the place of the next positional one is one.
    """
    shape = _shape(value)
    if shape is None:
        return args, kwargs
    least, most, keywords = shape
    given = len(args)
    if kwargs:
        if keywords is None or (keywords.issuperset(kwargs) and given + len(kwargs) <= most):
            if given <= most and given + len(kwargs) >= least and _binds(value, args, kwargs):
                return _in_place(value, args, kwargs)
    elif least <= given <= most:
        return args, kwargs
    receiver = args[0].python_type() if args else None
    _misfit(tracer, value, given, list(kwargs), receiver)


def check_equivalent(
    tracer: Tracer,
    value: Any,
    function: types.FunctionType,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> None:
    """Raise the C callable's TypeError if its equivalent does not take the arguments."""
    try:
        _signature(function).bind(*args, **kwargs)
    except TypeError:
        receiver = args[0].python_type() if args else None
        _misfit(tracer, value, len(args), list(kwargs), receiver)


@functools.cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _binds(value: Any, args: list[Variable], kwargs: dict[str, Variable]) -> bool:
    """False if what is given by name leaves a place without an argument: ``sorted(key=f)``."""
    if value in _KNOWN:
        return True
    try:
        _signature(value).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # it tells no signature
        return True
    return True


def _in_place(
    value: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> tuple[list[Variable], dict[str, Variable]]:
    if value in _KNOWN:
        return args, kwargs
    names = list(inspect.signature(value).parameters.values())
    args, kwargs = [*args], {**kwargs}
    for p in names[len(args) :]:
        if p.kind is not p.POSITIONAL_OR_KEYWORD or p.name not in kwargs:
            break
        args.append(kwargs.pop(p.name))
    return args, kwargs


def _misfit(
    tracer: Tracer, value: Any, given: int, names: list[str], receiver: type | None
) -> NoReturn:
    arguments: list[Any] = [None] * given
    owner = getattr(value, "__objclass__", None)
    if owner is not None and receiver is not None and not issubclass(receiver, owner):
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError: {owner.__name__} is wanted")
    try:
        if owner is not None and given:
            arguments[0] = owner()
    except TypeError:
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about the arguments of {value}")
    try:
        value(*arguments, **dict.fromkeys(names))
    except TypeError as error:
        tracer.raise_real(error)
    except Exception:  # no empty instance, or it is content after all: Python says what happens
        pass
    unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about the arguments of {value}")


@functools.cache
def _shape(value: Any) -> _Shape | None:
    """Least and most positional arguments and the keywords (None: all), or None: not known."""
    known = _KNOWN.get(value)
    if known is not None:
        return known
    if type(value) is types.FunctionType:
        return None
    try:
        parameters = inspect.signature(value).parameters.values()
    except (ValueError, TypeError):
        return None
    least = most = 0
    keywords: set[str] | None = set()
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            most = _ANY
        elif p.kind is p.VAR_KEYWORD:
            keywords = None
        else:
            if p.kind is not p.POSITIONAL_ONLY and keywords is not None:
                keywords.add(p.name)
            least += p.default is p.empty and p.kind is not p.KEYWORD_ONLY
            most += p.kind is not p.KEYWORD_ONLY
    if any(p.kind is p.KEYWORD_ONLY for p in parameters):
        # Names and positions are counted apart: only the least and the positions are known.
        return least, most, None
    return least, most, None if keywords is None else frozenset(keywords)


def _fixed(least: int, most: int, *callables: Any) -> dict[Any, _Shape]:
    return dict.fromkeys(callables, (least, most, _NO_KEYWORDS))


# What has no signature that Python can tell. The receiver counts.
_KNOWN: dict[Any, _Shape] = {
    **_fixed(2, 3, getattr, dict.pop, types.MappingProxyType.get),
    **_fixed(1, 2, iter, next),
    **_fixed(1, 3, range, slice),
    **_fixed(0, 1, bool, frozenset, set, dir, vars),
    **_fixed(1, 1, staticmethod, classmethod),
    **_fixed(
        2, 2,
        types.GeneratorType.send, collections.deque.append, collections.deque.extend,
        collections.deque.appendleft, list.__getitem__, set.add, set.discard, set.remove,
        set.issubset, frozenset.issubset, set.issuperset, frozenset.issuperset, dict.__getitem__,
        BaseException.with_traceback, collections.deque.count, collections.deque.extendleft,
        collections.deque.remove, set.isdisjoint, frozenset.isdisjoint, set.__contains__,
        frozenset.__contains__, set.symmetric_difference, frozenset.symmetric_difference,
        set.symmetric_difference_update, type({}.keys()).isdisjoint,
        type({}.items()).isdisjoint,
    ),
    **_fixed(
        1, 1,
        types.GeneratorType.close, torch.Size.numel, collections.deque.pop,
        collections.deque.popleft, collections.deque.clear, set.clear, set.copy, frozenset.copy,
        dict.clear, collections.OrderedDict.clear, dict.copy, collections.OrderedDict.copy,
        collections.defaultdict.copy, dict.keys, dict.values, dict.items,
        collections.OrderedDict.keys, collections.OrderedDict.values,
        collections.OrderedDict.items, types.MappingProxyType.keys,
        types.MappingProxyType.values, types.MappingProxyType.items, set.pop,
        collections.deque.reverse, collections.deque.copy, collections.deque.__copy__,
        collections.deque.__reversed__,
    ),
    **_fixed(1, 2, collections.deque.rotate),
    **_fixed(2, 3, dict.__dict__["fromkeys"]),
    collections.OrderedDict.__dict__["fromkeys"]: (2, 3, frozenset({"iterable", "value"})),
    **_fixed(2, 4, collections.deque.index),
    **_fixed(3, 3, collections.deque.insert),
    **_fixed(2, 4, types.GeneratorType.throw),
    **_fixed(
        1, _ANY,
        set.update, set.union, frozenset.union, set.intersection, frozenset.intersection,
        set.difference, frozenset.difference, set.intersection_update, set.difference_update,
    ),
    collections.deque: (0, 2, frozenset({"iterable", "maxlen"})),
    int: (0, 2, frozenset({"base"})),
    str: (0, 3, frozenset({"object", "encoding", "errors"})),
    collections.OrderedDict.pop: (2, 3, frozenset({"key", "default"})),
    dict: (0, 1, None),
    collections.OrderedDict: (0, 1, None),
    collections.defaultdict: (0, 2, None),
    dict.update: (1, 2, None),
    collections.OrderedDict.update: (1, 2, None),
    dict.__init__: (1, 2, None),
    collections.OrderedDict.__init__: (1, 2, None),
    collections.defaultdict.__init__: (1, 3, None),
    list.__init__: (1, 2, _NO_KEYWORDS),
    set.__init__: (1, 2, _NO_KEYWORDS),
}  # fmt: skip
