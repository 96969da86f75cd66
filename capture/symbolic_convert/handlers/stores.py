"""Holds the handlers of attributes and items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.instructions.versions import NULL_BEFORE_CALLABLE
from capture.symbolic_convert.registry import handles, raw
from capture.variables import attributes, operators
from capture.variables.base import NULL, Variable, unsupported
from capture.variables.objects import ClassVariable, SuperVariable
from capture.variables.weak import through_proxy

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


@handles(Op.LOAD_ATTR, "obj -- attr")
def load_attr(tracer: Translator, inst: Instruction, obj: Variable) -> Variable:
    """``obj.name``."""
    name: Any = inst.arg
    return attributes.load_attr(tracer, obj, name)


def push_callable(frame: Frame, fn: Variable) -> None:
    """Push the two slots that a CALL wants, for a callable that is bound already."""
    if NULL_BEFORE_CALLABLE:
        frame.stack.append(NULL)
        frame.stack.append(fn)
    else:
        frame.stack.append(fn)
        frame.stack.append(NULL)


@raw(Op.LOAD_METHOD)
def load_method(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``obj.name`` about to be called."""
    name: Any = inst.arg
    obj = frame.stack.pop().realize(tracer)
    push_callable(frame, attributes.load_attr(tracer, obj, name))


@raw(Op.SUPER_ATTR)
def super_attr(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``super().name``."""
    parts: Any = inst.arg
    name, is_method, _ = parts
    fn, cls, instance = (v.realize(tracer) for v in frame.stack[-3:])
    del frame.stack[-3:]
    if getattr(fn, "value", None) is super:
        if not isinstance(cls, ClassVariable) or not (
            issubclass(instance.python_type(), cls.value)
            or (isinstance(instance, ClassVariable) and issubclass(instance.value, cls.value))
        ):
            unsupported(reasons.UNKNOWN_OPERATION, "super() of something else")
        found = attributes.super_getattr(tracer, SuperVariable(cls, instance), name)
    else:
        found = attributes.load_attr(tracer, tracer.call(fn, [cls, instance], {}), name)
    if is_method:
        push_callable(frame, found)
    else:
        frame.stack.append(found)


@raw(Op.STORE_ATTR)
def store_attr(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``obj.name = value``."""
    name: Any = inst.arg
    value, obj = frame.stack[-2:]
    del frame.stack[-2:]
    attributes.store_attr(tracer, through_proxy(tracer, obj.realize(tracer)), name, value)


@handles(Op.DELETE_ATTR, "obj --")
def delete_attr(tracer: Translator, inst: Instruction, obj: Variable) -> None:
    """``del obj.name``."""
    name: Any = inst.arg
    attributes.delete_attr(tracer, through_proxy(tracer, obj), name)


@raw(Op.STORE_SUBSCR)
def store_subscr(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``obj[key] = value``."""
    value, obj, key = frame.stack[-3:]
    del frame.stack[-3:]
    operators.setitem(tracer, obj, key, value)


@handles(Op.DELETE_SUBSCR, "obj key --")
def delete_subscr(tracer: Translator, inst: Instruction, obj: Variable, key: Variable) -> None:
    """``del obj[key]``."""
    operators.delitem(tracer, obj, key)
