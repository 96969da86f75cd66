"""Holds the handlers of calls and of making functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture import break_reasons as reasons
from capture.instructions.ops import Op
from capture.symbolic_convert.handlers.containers import pop_many
from capture.symbolic_convert.registry import raw
from capture.variables import iteration
from capture.variables.base import MISSING, NULL, Variable, stamp, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.functions import CellVariable, FunctionVariable
from capture.variables.objects import lookup_mro

if TYPE_CHECKING:
    from capture.instructions.instruction import Instruction
    from capture.symbolic_convert.frame import Frame
    from capture.symbolic_convert.translator import Translator


def pop_callable(frame: Frame) -> tuple[Variable, list[Variable]]:
    """Pop the two slots below a call's arguments: the callable, and ``[self]`` or nothing."""
    lower, upper = pop_many(frame, 2)
    if lower is NULL:
        return upper, []
    if upper is NULL:
        return lower, []
    return lower, [upper]


@raw(Op.CALL)
def call(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Call with positional and keyword arguments."""
    call_shape: Any = inst.arg
    count, names = call_shape
    args = pop_many(frame, count)
    fn, receiver = pop_callable(frame)
    kwargs: dict[str, Variable] = {}
    if names:
        split = len(args) - len(names)
        kwargs = dict(zip(names, args[split:], strict=True))
        args = args[:split]
    tracer.push_call(fn, receiver + args, kwargs)


@raw(Op.CALL_FUNCTION_EX)
def call_function_ex(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """``fn(*args, **kwargs)``."""
    kwargs: dict[str, Variable] = {}
    if inst.arg:
        mapping = frame.stack.pop().realize(tracer)
        if not isinstance(mapping, DictVariable):
            unsupported(reasons.UNKNOWN_OPERATION, f"** of {mapping.describe()}")
        for key, value in mapping.load(tracer).values():
            name = tracer.as_python(key)
            if type(name) is not str:
                unsupported(reasons.UNCAUGHT_EXCEPTION, "A TypeError about keywords")
            kwargs[name] = value
    given = frame.stack.pop().realize(tracer)
    fn, receiver = pop_callable(frame)
    if not isinstance(given, TupleVariable):
        cls = given.python_type()
        if all(lookup_mro(cls, name)[0] is MISSING for name in ("__iter__", "__getitem__")):
            unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about * of {given.describe()}")
    exact = isinstance(given, (TupleVariable, ListVariable)) and given.cls in (tuple, list)
    args = (iteration.iterate if exact else iteration.listed)(tracer, given)
    tracer.push_call(fn, receiver + args, kwargs)


def set_attribute(tracer: Translator, fn: FunctionVariable, kind: str, value: Variable) -> None:
    """Fill in defaults, keyword defaults, annotations or the closure."""
    if kind == "defaults":
        fn.defaults = tracer.iterate(value)
    elif kind == "kwdefaults":
        held = value.realize(tracer)
        assert isinstance(held, DictVariable)
        fn.kwdefaults = {k: entry[1] for k, entry in held.load(tracer).items()}
    elif kind == "annotations":
        fn.annotations = value
    else:
        cells = []
        for cell in tracer.iterate(value):
            assert isinstance(cell, CellVariable)
            cells.append(cell)
        fn.closure = cells


@raw(Op.MAKE_FUNCTION)
def make_function(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Make a function of a code object and its parts."""
    kinds: Any = inst.arg
    code = frame.stack.pop()
    assert isinstance(code, ConstantVariable)
    fn = FunctionVariable(
        code.value, frame.globals, name=code.value.co_name, qualname=code.value.co_qualname,
        closure=[], defaults=[], kwdefaults={},
    )  # fmt: skip
    for kind in ("closure", "annotations", "kwdefaults", "defaults"):
        if kind in kinds:
            set_attribute(tracer, fn, kind, frame.stack.pop())
    frame.stack.append(stamp(tracer, fn))


@raw(Op.SET_FUNCTION_ATTRIBUTE)
def set_function_attribute(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """Give a function just made one of its parts."""
    kind: Any = inst.arg
    value, fn = pop_many(frame, 2)
    assert isinstance(fn, FunctionVariable)
    set_attribute(tracer, fn, kind, value)
    frame.stack.append(fn)


@raw(Op.INTRINSIC_1)
def intrinsic_1(tracer: Translator, frame: Frame, inst: Instruction) -> None:
    """An intrinsic function of one argument: left to Python."""
    unsupported(reasons.UNSUPPORTED_INSTRUCTION, inst.arg)
