"""Holds the handlers that build, unpack and match containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.polyfills.arguments import type_name
from capture.symbolic_convert.registry import handles, raw
from capture.variables import attributes, builtins, iteration, operators
from capture.variables.base import MISSING, ObservedException, Variable, stamp, unsupported
from capture.variables.constant import NONE, ConstantVariable, boolean
from capture.variables.containers import (
    DictVariable,
    ListVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
)
from capture.variables.objects import ClassVariable, ObjectVariable, lookup_mro
from capture.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


def pop_many(frame: Frame, count: int) -> list[Variable]:
    """Pop the topmost values, deepest first."""
    cut = len(frame.stack) - count
    values = frame.stack[cut:]
    del frame.stack[cut:]
    return values


@raw(Op.BUILD_TUPLE)
def build_tuple(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``(a, b)``."""
    count: Any = inst.arg
    frame.stack.append(TupleVariable(pop_many(frame, count)))


@raw(Op.BUILD_LIST)
def build_list(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``[a, b]``."""
    count: Any = inst.arg
    frame.stack.append(stamp(tracer, ListVariable(pop_many(frame, count))))


@raw(Op.BUILD_SET)
def build_set(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``{a, b}``."""
    count: Any = inst.arg
    result = SetVariable({})
    for item in pop_many(frame, count):
        result.add(tracer, item)
    frame.stack.append(stamp(tracer, result))


@raw(Op.BUILD_MAP)
def build_map(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``{k: v}``."""
    count: Any = inst.arg
    result = DictVariable()
    values = pop_many(frame, 2 * count)
    for i in range(count):
        result.set(tracer, values[2 * i], values[2 * i + 1])
    frame.stack.append(stamp(tracer, result))


@raw(Op.BUILD_CONST_KEY_MAP)
def build_const_key_map(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``{k: v}`` with constant keys."""
    count: Any = inst.arg
    keys = tracer.iterate(frame.stack.pop())
    result = DictVariable()
    for key, value in zip(keys, pop_many(frame, count), strict=True):
        result.set(tracer, key, value)
    frame.stack.append(stamp(tracer, result))


@raw(Op.BUILD_SLICE)
def build_slice(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``start:stop:step``."""
    count: Any = inst.arg
    parts = pop_many(frame, count)
    if count == 2:
        parts.append(NONE)
    frame.stack.append(SliceVariable(parts))


@raw(Op.LIST_APPEND)
def list_append(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """One item of a list comprehension."""
    place: Any = inst.arg
    value = frame.stack.pop()
    target = frame.stack[-place].realize(tracer)
    assert isinstance(target, ListVariable)
    target.append(tracer, value)


@raw(Op.LIST_EXTEND)
def list_extend(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``[*items]``."""
    place: Any = inst.arg
    value = frame.stack.pop()
    target = frame.stack[-place].realize(tracer)
    assert isinstance(target, ListVariable)
    kind = type_name(value.python_type())
    iteration.check_iterable(tracer, value, f"Value after * must be an iterable, not {kind}")
    for item in iteration.items_of(tracer, value, sized=True):
        target.append(tracer, item)


@raw(Op.SET_ADD)
def set_add(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """One item of a set comprehension."""
    place: Any = inst.arg
    value = frame.stack.pop()
    target = frame.stack[-place].realize(tracer)
    assert isinstance(target, SetVariable)
    target.add(tracer, value)


@raw(Op.SET_UPDATE)
def set_update(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``{*items}``."""
    place: Any = inst.arg
    value = frame.stack.pop()
    target = frame.stack[-place].realize(tracer)
    assert isinstance(target, SetVariable)
    operators.update_set(tracer, target, value)


@raw(Op.MAP_ADD)
def map_add(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """One item of a dict comprehension."""
    place: Any = inst.arg
    key, value = pop_many(frame, 2)
    target = frame.stack[-place].realize(tracer)
    assert isinstance(target, DictVariable)
    target.set(tracer, key, value)


@raw(Op.DICT_UPDATE, Op.DICT_MERGE)
def dict_update(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``{**mapping}``, or ``**mapping`` in a call."""
    place: Any = inst.arg
    value = frame.stack.pop().realize(tracer)
    target = frame.stack[-place].realize(tracer)
    assert isinstance(target, DictVariable)
    if (
        not isinstance(value, ObjectVariable)
        or lookup_mro(value.python_type(), "keys")[0] is MISSING
    ):
        unsupported(reasons.UNKNOWN_OPERATION, f"** of {value.describe()}")
    if inst.op is Op.DICT_MERGE and isinstance(value, DictVariable):
        if any(k in target.load(tracer) for k in value.load(tracer)):
            unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError about a repeated keyword argument")
    builtins.fill_dict(tracer, target, [value], {})


@handles(Op.LIST_TO_TUPLE, "list -- tuple")
def list_to_tuple(tracer: Translator, inst: Instruction, value: Variable) -> Variable:
    """The last step of ``(*items, )``."""
    return TupleVariable(tracer.iterate(value))


_BOUNDED = (TupleVariable, ListVariable, TensorVariable, DictVariable, ConstantVariable)


@raw(Op.UNPACK_SEQUENCE)
def unpack_sequence(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``a, b = value``."""
    count: Any = inst.arg
    value = frame.stack.pop().realize(tracer)
    if isinstance(value, _BOUNDED) and not _is_no_container(value):
        items = tracer.iterate(value)
    else:
        items = _first(tracer, _iterator(tracer, value), count + 1)
    if len(items) > count:
        tracer.raise_error(ValueError, f"too many values to unpack (expected {count})")
    if len(items) < count:
        tracer.raise_error(
            ValueError, f"not enough values to unpack (expected {count}, got {len(items)})"
        )
    frame.stack.extend(reversed(items))


def _is_no_container(value: Variable) -> bool:
    return isinstance(value, ConstantVariable) and not isinstance(value.value, (str, bytes, tuple))


def _iterator(tracer: Translator, value: Variable) -> Variable:
    kind = type_name(value.python_type())
    iteration.check_iterable(tracer, value, f"cannot unpack non-iterable {kind} object")
    return iteration.get_iter(tracer, value)


def _first(tracer: Translator, iterator: Variable, count: int) -> list[Variable]:
    """At most ``count`` items of an iterator."""
    items: list[Variable] = []
    while len(items) < count:
        item = iteration.next_item(tracer, iterator)
        if item is None:
            break
        items.append(item)
    return items


@raw(Op.UNPACK_EX)
def unpack_ex(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``a, *b = value``."""
    shape: Any = inst.arg
    before, after = shape
    value = frame.stack.pop().realize(tracer)
    if isinstance(value, _BOUNDED) and not _is_no_container(value):
        items = tracer.iterate(value)
    else:
        iterator = _iterator(tracer, value)
        items = _first(tracer, iterator, before)
        if len(items) == before:  # the rest is made a list: its iterator is asked for an iterator
            items += iteration.listed(tracer, iterator)
    if len(items) < before + after:
        tracer.raise_error(
            ValueError,
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})",
        )
    end = len(items) - after
    middle = stamp(tracer, ListVariable(items[before:end]))
    frame.stack.extend(reversed([*items[:before], middle, *items[end:]]))


@raw(Op.GET_LEN)
def get_len(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The length of a sequence pattern's subject."""
    frame.stack.append(operators.length(tracer, frame.stack[-1]))


_SEQUENCE, _MAPPING = 1 << 5, 1 << 6


@raw(Op.MATCH_SEQUENCE)
def match_sequence(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Is the subject a sequence?"""
    kind = frame.stack[-1].realize(tracer).python_type()
    frame.stack.append(boolean(kind.__flags__ & _SEQUENCE))


@raw(Op.MATCH_MAPPING)
def match_mapping(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Is the subject a mapping?"""
    kind = frame.stack[-1].realize(tracer).python_type()
    frame.stack.append(boolean(kind.__flags__ & _MAPPING))


@raw(Op.MATCH_KEYS)
def match_keys(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The values under a mapping pattern's keys, or None."""
    subject, keys = (v.realize(tracer) for v in frame.stack[-2:])
    found: list[Variable] = []
    if not isinstance(subject, DictVariable):
        unsupported(reasons.UNKNOWN_OPERATION, "a mapping pattern on a mapping that is no dict")
    wanted = tracer.iterate(keys)
    if len({tracer.hashed(key) for key in wanted}) != len(wanted):
        unsupported(reasons.UNCAUGHT_EXCEPTION, "A ValueError about a key that is matched twice")
    for key in wanted:
        value = subject.get(tracer, key)
        if value is None:
            frame.stack.append(NONE)
            return
        found.append(value)
    frame.stack.append(TupleVariable(found))


_SELF_MATCH = frozenset(
    {bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple}
)


@raw(Op.MATCH_CLASS)
def match_class(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """The attributes that a class pattern asks for, or None."""
    count: Any = inst.arg
    subject, cls, names = (v.realize(tracer) for v in pop_many(frame, 3))
    if not isinstance(cls, ClassVariable):
        unsupported(reasons.UNKNOWN_OPERATION, "a class pattern with what is no class")
    check = tracer.call(tracer.wrap_static(isinstance, None), [subject, cls], {})
    if not operators.truth(tracer, check):
        frame.stack.append(NONE)
        return
    keywords = [tracer.as_python(n) for n in tracer.iterate(names)]
    values: list[Variable] = []
    wanted: list[str] = []
    if count:
        match_args = lookup_mro(cls.value, "__match_args__")[0]
        if match_args is MISSING:
            if any(issubclass(cls.value, k) for k in _SELF_MATCH) and count == 1:
                values.append(subject)
            else:
                unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError about a class pattern")
        else:
            if (
                type(match_args) is not tuple
                or count > len(match_args)
                or any(type(name) is not str for name in match_args[:count])
            ):
                unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError about a class pattern")
            wanted += match_args[:count]
    if len({*wanted, *keywords}) != len(wanted) + len(keywords):
        unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError about a class pattern")
    for name in [*wanted, *keywords]:
        try:
            values.append(attributes.load_attr(tracer, subject, name))
        except ObservedException as signal:
            if issubclass(signal.exception.python_type(), AttributeError):
                frame.stack.append(NONE)
                return
            raise
    frame.stack.append(TupleVariable(values))
