"""Holds ``|`` of dicts and their kin; must not know rules or codegen.

Source: ``Objects/dictobject.c`` (``dict_or``), ``Objects/odictobject.c`` (``odict_or``),
``Modules/_collectionsmodule.c`` (``defdict_or``).
"""

from __future__ import annotations

import collections
import types

from capture.variables.attributes import default_factory, load_attr
from capture.variables.base import Tracer, Variable, stamp
from capture.variables.containers import DictVariable
from capture.variables.objects import lookup_mro

_KINDS = (collections.OrderedDict, collections.defaultdict)


def dict_union(tracer: Tracer, left: DictVariable, right: DictVariable) -> Variable | None:
    """``left | right``: a dict, or what the class of an operand that is more than one makes."""
    for v in (left, right):
        if not issubclass(v.cls, dict) or any(
            isinstance(lookup_mro(v.cls, name)[0], types.FunctionType)
            for name in ("__or__", "__ror__")
        ):
            return None
    # A subclass on the right goes first; any of them accepts two dicts.
    asked = right if left.cls is not right.cls and issubclass(right.cls, left.cls) else left
    kind = next((k for k in _KINDS if issubclass(asked.cls, k)), None)
    if kind is None:
        result = stamp(tracer, DictVariable())
        for v in (left, right):
            _merge(tracer, result, v)
        return result
    owner = left if issubclass(left.cls, kind) else right
    cls = owner.cls_var or tracer.class_variable(owner.cls, None)
    arguments: list[Variable] = [left]
    if kind is collections.defaultdict:
        arguments = [default_factory(tracer, owner), left]
    made = tracer.call(cls, arguments, {}).realize(tracer)
    if isinstance(made, DictVariable) and kind is collections.defaultdict:
        _merge(tracer, made, right)
    else:
        tracer.call(load_attr(tracer, made, "update"), [right], {})
    return made


def _merge(tracer: Tracer, target: DictVariable, source: DictVariable) -> None:
    for key, entry in list(source.load(tracer).items()):
        old = target.entries.get(key)
        target.set(tracer, entry[0] if old is None else old[0], entry[1])
