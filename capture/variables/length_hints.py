"""Holds what asks an iterable how many items it will give; must not know the interpreter.

CPython asks before it fills a list or a tuple: an object of the program answers with code of its
own, which may do something or raise.
"""

from __future__ import annotations

import operator
import types

from capture import break_reasons as reasons
from capture.polyfills import original_of
from capture.variables.attributes import type_source_of
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.functions import GeneratorVariable, IteratorVariable
from capture.variables.objects import ObjectVariable, is_static_type, type_attribute

_NATIVE = (types.WrapperDescriptorType, types.MethodDescriptorType)
_LARGE = 1 << 20


def ask_length(tracer: Tracer, obj: Variable) -> None:
    """Ask for the length hint of an object whose answer may run code of the program."""
    if isinstance(obj, GeneratorVariable):
        if original_of(obj.fn.code) is not reversed or obj.state == "finished":
            return
        obj = obj.args[0]  # an iterator of the end of a sequence asks the sequence
    elif isinstance(obj, IteratorVariable):
        if obj.kind != "indexed" or obj.done:
            return
        obj = obj.target
    obj = obj.realize(tracer)
    if not isinstance(obj, ObjectVariable) or is_static_type(obj.cls):
        return
    source = type_source_of(tracer, obj)
    found = [type_attribute(tracer, obj.cls, source, n)[0] for n in ("__len__", "__length_hint__")]
    own = [raw for raw in found if raw is not MISSING and not isinstance(raw, _NATIVE)]
    if not own:
        return
    if not all(isinstance(raw, types.FunctionType) for raw in own):
        unsupported(reasons.UNKNOWN_OPERATION, f"the length hint of {obj.describe()}")
    ask = tracer.wrap_static(operator.length_hint, None)
    hint = tracer.call(ask, [obj, ConstantVariable(0)], {})
    if isinstance(hint, ConstantVariable) and hint.value > _LARGE:
        unsupported(reasons.UNKNOWN_OPERATION, f"the length hint of {obj.describe()}")
