"""Holds the rules of dicts, ordered dicts and default dicts."""

from __future__ import annotations

import collections
import types
from typing import NoReturn

from capture import break_reasons as reasons
from capture.variables import operators
from capture.variables.attributes import load_attr
from capture.variables.base import MISSING, ObservedException, Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import NONE, TRUE, ConstantVariable, boolean, is_none
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    TupleVariable,
)
from capture.variables.iteration import get_iter, items_of, iterate, sequence_of
from capture.variables.objects import ObjectVariable, lookup_mro


def _is_read_directly(cls: type) -> bool:
    """True if C code takes a dict's entries without asking its methods.

    Source: ``Objects/dictobject.c`` (``dict_merge``): it does if iteration is not overridden.
    """
    if lookup_mro(cls, "__iter__")[0] is dict.__iter__:
        return True
    return not any(
        isinstance(lookup_mro(cls, name)[0], types.FunctionType)
        for name in ("__iter__", "keys", "__getitem__")
    )


def fill_dict(
    tracer: Tracer, target: DictVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> None:
    """``dict.update`` with what ``dict`` and its kin accept."""
    if args:
        source = args[0].realize(tracer)
        if isinstance(source, DictVariable) and _is_read_directly(source.cls):
            for key, value in list(source.load(tracer).values()):
                target.set(tracer, key, value)
        elif (
            isinstance(source, ObjectVariable) and lookup_mro(source.cls, "keys")[0] is not MISSING
        ):
            for key in iterate(tracer, tracer.call(load_attr(tracer, source, "keys"), [], {})):
                target.set(tracer, key, operators.getitem(tracer, source, key))
        else:
            for number, pair in enumerate(items_of(tracer, source)):
                parts = _pair_of(tracer, target, pair, number)
                if len(parts) != 2 and issubclass(target.cls, collections.OrderedDict):
                    unsupported(reasons.UNCAUGHT_EXCEPTION, "A ValueError of an ordered dict")
                if len(parts) != 2:
                    text = f"element #{number} has length {len(parts)}; 2 is required"
                    tracer.raise_error(ValueError, f"dictionary update sequence {text}")
                target.set(tracer, parts[0], parts[1])
    for name, value in kwargs.items():
        target.set(tracer, ConstantVariable(name), value)


def _pair_of(tracer: Tracer, target: DictVariable, pair: Variable, number: int) -> list[Variable]:
    if issubclass(target.cls, collections.OrderedDict):
        return iterate(tracer, pair)
    try:
        return sequence_of(tracer, pair, "")
    except ObservedException as signal:  # wherever it comes from: its text is lost
        if not issubclass(signal.exception.python_type(), TypeError):
            raise
    text = f"cannot convert dictionary update sequence element #{number} to a sequence"
    tracer.raise_error(TypeError, text)


@rule(dict)
def _dict(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    result = stamp(tracer, DictVariable())
    fill_dict(tracer, result, args, kwargs)
    return result


@rule(collections.OrderedDict)
def _ordered_dict(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    result = stamp(tracer, DictVariable(collections.OrderedDict))
    fill_dict(tracer, result, args, kwargs)
    return result


@rule(dict.__dict__["fromkeys"], collections.OrderedDict.__dict__["fromkeys"])
def _fromkeys(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """A dict of the class that was asked, its items set one by one."""
    if len(args) < 2 or kwargs.keys() - {"value"}:
        return None
    value = args[2] if len(args) > 2 else kwargs.get("value", NONE)
    made = tracer.call(args[0], [], {})
    for key in items_of(tracer, args[1]):
        operators.setitem(tracer, made, key, value)
    return made


def _is_factory(v: Variable) -> bool:
    return is_none(v) or lookup_mro(v.python_type(), "__call__")[0] is not MISSING


@rule(collections.defaultdict)
def _defaultdict(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    result = stamp(tracer, DictVariable(collections.defaultdict))
    result.default_factory = args[0] if args else NONE
    if not _is_factory(result.default_factory):
        return None
    fill_dict(tracer, result, args[1:], kwargs)
    return result


@rule(dict.__init__, collections.OrderedDict.__init__)
def _dict_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = args[0]
    if not isinstance(target, DictVariable):
        return None
    fill_dict(tracer, target, args[1:], kwargs)
    return NONE


@rule(collections.defaultdict.__init__)
def _defaultdict_init(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = args[0]
    if not isinstance(target, DictVariable):
        return None
    factory = args[1] if len(args) > 1 else NONE
    if not _is_factory(factory):
        return None
    target.default_factory = factory
    fill_dict(tracer, target, args[2:], kwargs)
    return NONE


def _dict_of(args: list[Variable]) -> DictVariable:
    target = args[0]
    if not isinstance(target, DictVariable):
        unsupported(reasons.UNKNOWN_OPERATION, f"a dict method on {target.describe()}")
    return target


@rule(dict.get, types.MappingProxyType.get)
def _dict_get(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    found = _dict_of(args).get(tracer, args[1])
    if found is not None:
        return found
    return args[2] if len(args) > 2 else NONE


@rule(dict.setdefault, collections.OrderedDict.setdefault)
def _setdefault(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _dict_of(args)
    found = target.get(tracer, args[1])
    if found is not None:
        return found
    default = args[2] if len(args) > 2 else kwargs.get("default", NONE)
    target.set(tracer, args[1], default)
    return default


def _lacks(tracer: Tracer, target: DictVariable, key: Variable) -> NoReturn:
    """Raise about a key that is missing: an ordered dict takes a tuple for all the arguments."""
    parts = (tuple, type(None))
    if issubclass(target.cls, collections.OrderedDict) and issubclass(key.python_type(), parts):
        unsupported(reasons.UNCAUGHT_EXCEPTION, "A KeyError of an ordered dict")
    tracer.raise_error(KeyError, key)


@rule(dict.pop, collections.OrderedDict.pop)
def _dict_pop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _dict_of(args)
    found = target.get(tracer, args[1])
    if found is not None:
        target.delete(tracer, args[1])
        return found
    if len(args) > 2 or "default" in kwargs:
        return args[2] if len(args) > 2 else kwargs["default"]
    _lacks(tracer, target, args[1])


@rule(dict.popitem, collections.OrderedDict.popitem)
def _popitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _dict_of(args)
    last = tracer.as_python(args[1] if len(args) > 1 else kwargs.get("last", TRUE))
    if last is MISSING:
        return None
    entries = target.load(tracer)
    if not entries:
        ordered = issubclass(target.cls, collections.OrderedDict)
        text = "dictionary is empty" if ordered else "popitem(): dictionary is empty"
        tracer.raise_error(KeyError, text)
    key = list(entries)[-1 if last else 0]
    entry = entries[key]
    target.delete_hashed(tracer, key, entry[0])
    return TupleVariable([entry[0], entry[1]])


@rule(dict.clear, collections.OrderedDict.clear)
def _dict_clear(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _dict_of(args).clear(tracer)
    return NONE


@rule(dict.update, collections.OrderedDict.update)
def _update(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    fill_dict(tracer, _dict_of(args), args[1:], kwargs)
    return NONE


@rule(dict.copy, collections.OrderedDict.copy, collections.defaultdict.copy)
def _dict_copy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    target = _dict_of(args)
    cls = target.cls if target.cls in (collections.OrderedDict, collections.defaultdict) else dict
    if cls is dict and issubclass(target.cls, (collections.OrderedDict, collections.defaultdict)):
        return None  # a copy of the subclass
    result = stamp(tracer, DictVariable(cls))
    result.entries = dict(target.load(tracer))
    result.default_factory = target.default_factory
    if cls is collections.defaultdict:
        result.default_factory = load_attr(tracer, target, "default_factory")
    return result


@rule(dict.keys, collections.OrderedDict.keys, types.MappingProxyType.keys)
def _keys(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return DictViewVariable(_dict_of(args), "keys")


@rule(dict.values, collections.OrderedDict.values, types.MappingProxyType.values)
def _values(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return DictViewVariable(_dict_of(args), "values")


@rule(dict.items, collections.OrderedDict.items, types.MappingProxyType.items)
def _items(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return DictViewVariable(_dict_of(args), "items")


@rule(collections.OrderedDict.move_to_end)
def _move_to_end(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    last = tracer.as_python(args[2] if len(args) > 2 else kwargs.get("last", TRUE))
    if last is MISSING:
        return None
    if not _dict_of(args).move_to_end(tracer, args[1], bool(last)):
        _lacks(tracer, _dict_of(args), args[1])
    return NONE


@rule(dict.__setitem__, collections.OrderedDict.__setitem__)
def _dict_setitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    _dict_of(args).set(tracer, args[1], args[2])
    return NONE


@rule(dict.__delitem__, collections.OrderedDict.__delitem__)
def _dict_delitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not _dict_of(args).delete(tracer, args[1]):
        tracer.raise_error(KeyError, args[1])
    return NONE


@rule(dict.__getitem__)
def _dict_getitem(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return operators.dict_getitem(tracer, _dict_of(args), args[1])


@rule(dict.__contains__)
def _dict_contains(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return boolean(_dict_of(args).get(tracer, args[1]) is not None)


@rule(dict.__len__)
def _dict_len(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return ConstantVariable(len(_dict_of(args).load(tracer)))


@rule(dict.__iter__, collections.OrderedDict.__iter__)
def _dict_iter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    plain = DictViewVariable(_dict_of(args), "keys")
    return get_iter(tracer, plain)
