"""Holds the rules that make text: ``str``, ``repr``, ``format`` and string methods."""

from __future__ import annotations

import collections
import string
import types
from collections.abc import Callable

from capture import break_reasons as reasons
from capture.variables import operators
from capture.variables.attributes import default_factory, load_special
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.builtins.folding import fold_pure
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import ConstantVariable, ScalarVariable, exactly
from capture.variables.containers import (
    DictVariable,
    DictViewVariable,
    ListVariable,
    TupleVariable,
)
from capture.variables.exceptions import mirror
from capture.variables.functions import FunctionVariable
from capture.variables.iteration import drained
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    ModuleVariable,
    ObjectVariable,
    lookup_mro,
)
from capture.variables.tensor import TensorVariable
from capture.variables.texts import TextVariable, field_of, joined


@rule(str)
def _str(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if len(args) == 1 and not kwargs:
        return to_text(tracer, args[0], "str")
    return fold_pure(tracer, str, args, kwargs)  # decoding


@rule(repr)
def _repr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return to_text(tracer, args[0], "repr")


@rule(ascii)
def _ascii(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return to_text(tracer, args[0], "ascii")


_TEXT: dict[str, Callable[[object], str]] = {"str": str, "repr": repr, "ascii": ascii}


def _exception_text(tracer: Tracer, v: ExceptionVariable, how: str) -> Variable | None:
    """What ``BaseException`` and ``KeyError`` say of themselves, or None: they are not asked.

    Source: ``Objects/exceptions.c``.
    """
    raw = lookup_mro(v.cls, "__str__" if how == "str" else "__repr__")[0]
    if raw is KeyError.__str__ and len(v.args) == 1:
        return to_text(tracer, v.args[0], "repr")
    if raw is BaseException.__str__ or raw is KeyError.__str__:
        if len(v.args) > 1:
            return to_text(tracer, TupleVariable(list(v.args)), "repr")
        return to_text(tracer, v.args[0], "str") if v.args else ConstantVariable("")
    if how == "str" and type(raw) is types.WrapperDescriptorType and raw is not object.__str__:
        if issubclass(raw.__objclass__, BaseException):
            real = mirror(tracer, v)
            return None if real is None else operators.fold(tracer, raw, real)
    if raw is not BaseException.__repr__:
        return None
    if len(v.args) == 1:
        inner = tracer.as_python(to_text(tracer, v.args[0], how))
        return ConstantVariable(f"{v.cls.__name__}({inner})")
    inner = tracer.as_python(to_text(tracer, TupleVariable(list(v.args)), how))
    return ConstantVariable(f"{v.cls.__name__}{inner}")


def to_text(tracer: Tracer, v: Variable, how: str) -> Variable:
    """``str``, ``repr`` or ``ascii`` of a value whose text is known now; else break."""
    if isinstance(v, TextVariable) and how == "str":
        return v
    v = v.realize(tracer)
    field = field_of(tracer, v, "")
    if field is not None:
        return field
    fn = _TEXT[how]
    if isinstance(v, ExceptionVariable):
        text = _exception_text(tracer, v, how)
        if text is not None:
            return text
    if isinstance(v, ObjectVariable) and not isinstance(
        v, (ClassVariable, ModuleVariable, FunctionVariable)
    ):
        for name in ("__str__", "__repr__") if how == "str" else ("__repr__",):
            raw = lookup_mro(v.cls, name)[0]
            if isinstance(raw, types.FunctionType):
                found = tracer.call(load_special(tracer, v, name), [], {})
                text = exactly(tracer, found, str, name)
                if how == "ascii" and isinstance(text, ConstantVariable):
                    return ConstantVariable(ascii_of(text.value))
                return text
            if raw is not object.__str__:
                break
    if isinstance(v, ClassVariable) and type(v.value) is type:
        return ConstantVariable(fn(v.value))
    value = _plain(tracer, v)
    if value is MISSING:
        text = _container_text(tracer, v, how, ())
        if text is not None:
            return text
        if isinstance(v, TensorVariable):
            unsupported(reasons.DATA_DEPENDENT, f"The text of a tensor ({how})")
        unsupported(reasons.UNKNOWN_OPERATION, f"{how}() of {v.describe()}")
    if _is_deep(value, 50):
        unsupported(reasons.UNKNOWN_OPERATION, f"{how}() of deeply nested {v.describe()}")
    return operators.fold(tracer, fn, value)


def _container_text(
    tracer: Tracer, v: Variable, how: str, around: tuple[int, ...]
) -> Variable | None:
    """The text of an exact tuple, list or dict, item by item; None: no such, or within itself."""
    if id(v) in around or len(around) > _MAX_DEPTH:
        return None
    around = (*around, id(v))
    if isinstance(v, (TupleVariable, ListVariable)) and v.cls in (tuple, list):
        parts = [_item_text(tracer, item, around) for item in v.items(tracer)]
        inner = ", ".join(part for part in parts if part is not None)
        if v.cls is tuple:
            text = f"({inner},)" if len(parts) == 1 else f"({inner})"
        else:
            text = f"[{inner}]"
    elif isinstance(v, DictVariable) and type(v) is DictVariable and v.cls is dict:
        pairs = [
            (_item_text(tracer, key, around), _item_text(tracer, value, around))
            for key, value in list(v.load(tracer).values())
        ]
        parts = [part for pair in pairs for part in pair]
        text = "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
    else:
        return None
    if None in parts:
        return None
    return ConstantVariable(ascii_of(text) if how == "ascii" else text)


def _item_text(tracer: Tracer, v: Variable, around: tuple[int, ...]) -> str | None:
    v = v.realize(tracer)
    inner = _container_text(tracer, v, "repr", around) if _plain(tracer, v) is MISSING else None
    if inner is None:
        if id(v) in around:
            return None
        inner = to_text(tracer, v, "repr")
    text = tracer.as_python(inner)
    return text if type(text) is str else None


_MAX_DEPTH = 50


def ascii_of(text: str) -> str:
    """What ``ascii`` makes of what ``repr`` gave."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _plain(tracer: Tracer, v: Variable) -> object:
    """A real value with the same text, or MISSING: of a container, one of its built-in kind."""
    if isinstance(v, DictViewVariable) and issubclass(v.target.cls, dict):
        real = _plain(tracer, v.target)
        return MISSING if not isinstance(real, dict) else getattr(real, v.kind)()
    if isinstance(v, DictVariable) and v.cls is not dict:
        raw = lookup_mro(v.cls, "__repr__")[0]
        if v.cls in (collections.OrderedDict, collections.defaultdict) or raw is dict.__repr__:
            plain = DictVariable()
            plain.entries = v.load(tracer)
            real = tracer.as_python(plain)
            if isinstance(real, dict) and v.cls is collections.OrderedDict:
                return collections.OrderedDict(real)
            if isinstance(real, dict) and v.cls is collections.defaultdict:
                factory = tracer.as_python(default_factory(tracer, v))
                return MISSING if factory is MISSING else collections.defaultdict(factory, real)
            return real
    if isinstance(v, ListVariable) and v.cls is not list:
        if v.cls is collections.deque or lookup_mro(v.cls, "__repr__")[0] is list.__repr__:
            real = tracer.as_python(ListVariable(v.items(tracer)))
            if isinstance(real, list) and v.is_deque:
                return collections.deque(real, v.maxlen)
            return real
    return tracer.as_python(v)


def _is_deep(value: object, limit: int) -> bool:
    """True if containers lie in each other more than ``limit`` times: the text may fail."""
    if limit == 0:
        return True
    if isinstance(value, dict):
        return any(_is_deep(v, limit - 1) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(_is_deep(v, limit - 1) for v in value)
    return False


@rule(format)
def _format(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return format_value(tracer, args[0], args[1] if len(args) > 1 else ConstantVariable(""))


def format_value(tracer: Tracer, v: Variable, spec: Variable) -> Variable:
    """``format(v, spec)``."""
    text = tracer.as_python(spec)
    if text is MISSING:
        unsupported(reasons.UNKNOWN_OPERATION, "a format specification made at run time")
    if not isinstance(text, str):  # ``builtin_format_impl`` in Python/bltinmodule.c
        kind = "None" if text is None else type(text).__name__
        tracer.raise_error(TypeError, f"format() argument 2 must be str, not {kind}")
    if isinstance(v, TextVariable) and text == "":
        return v
    v = v.realize(tracer)
    field = field_of(tracer, v, text) if type(text) is str else None
    if field is not None:
        return field
    if isinstance(v, ScalarVariable):
        v = v.specialize(tracer)
    raw = lookup_mro(v.python_type(), "__format__")[0]
    if isinstance(raw, types.FunctionType) and not isinstance(v, TensorVariable):
        found = tracer.call(load_special(tracer, v, "__format__"), [spec], {})
        return exactly(tracer, found, str, "__format__")
    if text == "":
        return to_text(tracer, v, "str")
    value = tracer.as_python(v)
    if value is MISSING:
        unsupported(reasons.UNKNOWN_OPERATION, f"format() of {v.describe()}")
    return operators.fold(tracer, format, value, text)


@rule(str.join)
def _join(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    items = drained(tracer, args, 1, "can only join an iterable")
    separator = tracer.as_python(args[0])
    if type(separator) is str and any(isinstance(i, TextVariable) for i in items):
        between = ConstantVariable(separator)
        together = joined([v for i in items for v in (between, i)][1:])
        if together is not None:
            return together
    parts = [tracer.as_python(i) for i in items]
    if separator is MISSING or any(p is MISSING for p in parts):
        return None
    return operators.fold(tracer, separator.join, parts)


@rule(str.format)
def _str_format(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    filled = _filled(tracer, args, kwargs)
    if filled is not None:
        return filled
    values = [tracer.as_python(a) for a in args]
    named = {k: tracer.as_python(v) for k, v in kwargs.items()}
    if any(v is MISSING for v in [*values, *named.values()]):
        return None
    try:
        return ConstantVariable(values[0].format(*values[1:], **named))
    except Exception as error:
        tracer.raise_real(error)


def _filled(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    """``text.format(...)`` of numbers that change, field by field; None for other values."""
    values = [v if isinstance(v, TextVariable) else v.realize(tracer) for v in args[1:]]
    named = {k: v if isinstance(v, TextVariable) else v.realize(tracer) for k, v in kwargs.items()}
    given = [*values, *named.values()]
    if not all(isinstance(v, (ConstantVariable, ScalarVariable, TextVariable)) for v in given):
        return None
    if all(isinstance(v, ConstantVariable) for v in given):
        return None
    template = tracer.as_python(args[0])
    parts: list[Variable] = []
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError:
        return None
    for place, (literal, name, spec, conversion) in enumerate(fields):
        parts.append(ConstantVariable(literal))
        if name is None:
            continue
        if "{" in (spec or "") or conversion not in (None, "s", "r"):
            return None
        if name == "":
            index = sum(field[1] is not None for field in fields[:place])
        elif name.isdecimal():
            index = int(name)
        elif name in named:
            index = len(values) + list(named).index(name)
        else:
            return None
        if index >= len(given):
            return None
        value = given[index]
        if conversion is not None:
            value = to_text(tracer, value, "repr" if conversion == "r" else "str")
        parts.append(format_value(tracer, value, ConstantVariable(spec)))
    return joined(parts)
