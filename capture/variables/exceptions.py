"""Holds how exceptions made during capture come into being, and what C keeps in them.

What a constructor in C makes of its arguments (``errno``, ``name``, the class of an OSError) is
asked of a real exception: what is no constant is handed over as a stand-in and found again in what
comes out. Must not know rules or the interpreter.

Source: ``Objects/exceptions.c``.
"""

from __future__ import annotations

import builtins
import types
from typing import Any, NoReturn

from capture import break_reasons as reasons
from capture.variables.base import DELETED, MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import ListVariable, TupleVariable
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    TracebackVariable,
    is_static_type,
    lookup_mro,
)

__all__ = [
    "EXCEPTIONS",
    "field_of",
    "fill_exception",
    "follows_from_args",
    "mirror",
    "new_exception",
    "real_fields",
    "set_field",
    "set_traceback",
    "static_base",
    "stop_value",
    "traceback_of",
]

EXCEPTIONS: tuple[type[BaseException], ...] = tuple(
    dict.fromkeys(
        value
        for value in vars(builtins).values()
        if isinstance(value, type) and issubclass(value, BaseException)
    )
)
"""The built-in classes of exceptions."""

_ARGS: Any = BaseException.__dict__["args"]
_FIELD_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)


class _StandIn:
    """Takes the place of a value that only the variables know."""

    __slots__ = ()


class _Arguments:
    """Real values for variables, and the way back."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.known: dict[int, Variable] = {}
        self.keep: list[object] = []
        self.complete = True

    def real(self, v: Variable) -> Any:
        """A constant's value, else something that stands for it."""
        value = self.tracer.as_python(v)
        if value is MISSING:
            value = _StandIn()
            self.complete = False
        self.known.setdefault(id(value), v)
        self.keep.append(value)
        return value

    def variable(self, value: Any) -> Variable:
        """The variable of a value that came out."""
        found = self.known.get(id(value))
        if found is not None:
            return found
        if type(value) is tuple:
            return TupleVariable([self.variable(item) for item in value])
        return self.tracer.wrap_result(value)

    def fail(self, error: Exception, what: str) -> NoReturn:
        """Raise what a real call raised; with a stand-in it may mean nothing."""
        if self.complete:
            self.tracer.raise_real(error)
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"{type(error).__name__} of {what}")


def static_base(cls: type) -> Any:
    """The class in C whose memory layout an exception class has."""
    while not is_static_type(cls):
        assert cls.__base__ is not None
        cls = cls.__base__
    return cls


def field_names(base: type) -> list[str]:
    """The names of what C keeps in an exception beside ``args``, causes and traceback."""
    return [
        name
        for klass in base.__mro__
        if klass not in (BaseException, object)
        for name, raw in vars(klass).items()
        if type(raw) in _FIELD_TYPES
    ]


def new_exception(
    tracer: Tracer, cls_var: ClassVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """``cls(*args, **kwargs)`` up to an ``__init__`` of the program's."""
    cls = cls_var.value
    base = static_base(cls)
    init = lookup_mro(cls, "__init__")[0]
    if issubclass(base, BaseExceptionGroup):
        if kwargs and not isinstance(init, types.FunctionType):
            unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about {cls.__qualname__}()")
        return _new_group(tracer, cls_var, args)
    made = ExceptionVariable(cls, list(args), cls_var)
    if isinstance(init, types.FunctionType):
        if issubclass(base, OSError):
            made.args = []  # its constructor leaves all to ``__init__``
    elif kwargs or field_names(base):
        fill_exception(tracer, made, init, args, kwargs)
    return stamp(tracer, made)


def fill_exception(
    tracer: Tracer,
    exc: ExceptionVariable,
    init: Any,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> None:
    """What an ``__init__`` in C does with its arguments."""
    base = static_base(exc.cls)
    if not kwargs and (not field_names(base) or issubclass(base, BaseExceptionGroup)):
        exc.args = list(args)
        return
    given = _Arguments(tracer)
    real_args = [given.real(a) for a in args]
    real_kwargs = {k: given.real(a) for k, a in kwargs.items()}
    try:
        real = base.__new__(exc.cls, *real_args, **real_kwargs)
        init(real, *real_args, **real_kwargs)
    except Exception as error:
        given.fail(error, exc.cls.__name__)
    if exc.cls is OSError and type(real) is not OSError:
        exc.cls = type(real)
        exc.cls_var = tracer.class_variable(exc.cls, None)
    exc.given = (list(args), dict(kwargs))
    exc.args = [given.variable(a) for a in _ARGS.__get__(real)]
    exc.fields = _fields(given, real, base)


def _fields(given: _Arguments, real: BaseException, base: type) -> dict[str, Variable]:
    found = {}
    for name in field_names(base):
        try:
            value = lookup_mro(base, name)[0].__get__(real)
        except (AttributeError, TypeError):  # it is not set
            continue
        found[name] = given.variable(value)
    return found


def real_fields(tracer: Tracer, real: BaseException) -> dict[str, Variable]:
    """The fields of what a call during capture raised."""
    return _fields(_Arguments(tracer), real, static_base(type(real)))


def follows_from_args(real: BaseException) -> bool:
    """True if a call of the class with ``args`` makes an exception that says the same."""
    base: Any = static_base(type(real))
    try:
        again = base.__new__(base, *real.args)
        base.__init__(again, *real.args)
        for name in field_names(base):
            raw = lookup_mro(base, name)[0]
            if raw.__get__(again) != raw.__get__(real):
                return False
    except Exception:
        return False
    return True


def _fields_of(tracer: Tracer, exc: ExceptionVariable) -> dict[str, Variable]:
    """The fields of an exception, which nobody may have set so far."""
    if exc.fields is None:
        base = static_base(exc.cls)
        exc.fields = _fields(_Arguments(tracer), base.__new__(base), base)
    return exc.fields


def field_of(tracer: Tracer, exc: ExceptionVariable, name: str) -> Variable | None:
    """What C keeps in an exception under a name; None: nothing, or nobody knows."""
    base = static_base(exc.cls)
    if name not in field_names(base) or lookup_mro(exc.cls, name)[1] not in base.__mro__:
        return None
    found = _fields_of(tracer, exc).get(name)
    if issubclass(base, AttributeError) and found is not None and exc.raised_at >= 0:
        if isinstance(found, ConstantVariable) and found.value is None:
            return None  # a look-up that it left has put there what was looked for
    return found


def set_field(tracer: Tracer, exc: ExceptionVariable, name: str, value: Any) -> bool:
    """Set (or delete, with ``DELETED``) what C keeps under a name; False: there is no rule."""
    base = static_base(exc.cls)
    fields = _fields_of(tracer, exc)
    if name not in fields or lookup_mro(exc.cls, name)[1] not in base.__mro__:
        return False
    raw = lookup_mro(base, name)[0]
    is_group = issubclass(base, BaseExceptionGroup)
    real = base.__new__(base, "", [Exception()]) if is_group else base.__new__(base)
    given = _Arguments(tracer)
    try:
        if value is DELETED:
            raw.__delete__(real)
        else:
            raw.__set__(real, given.real(value))
        kept = raw.__get__(real)
    except Exception as error:
        given.complete = given.complete or str(error) == "readonly attribute"
        given.fail(error, f"{base.__name__}.{name}")
    fields[name] = given.variable(kept)
    exc.changed[name] = value
    return True


def _new_group(tracer: Tracer, cls_var: ClassVariable, args: list[Variable]) -> Variable:
    """``BaseExceptionGroup.__new__``: the class follows from what is in the group."""
    given = _Arguments(tracer)
    real_args = [_example(given, a.realize(tracer)) for a in args]
    items: list[Variable] = []
    if len(args) == 2:
        held = args[1].realize(tracer)
        if isinstance(held, (ListVariable, TupleVariable)) and held.cls in (list, tuple):
            items = [item.realize(tracer) for item in held.items(tracer)]
            real_args[1] = [_example(given, item) for item in items]
        elif type(real_args[1]) is _StandIn:
            what = f"{cls_var.describe()} of {held.describe()}"
            unsupported(reasons.UNKNOWN_OPERATION, what)
        if type(real_args[0]) is _StandIn:
            unsupported(reasons.UNKNOWN_OPERATION, f"{cls_var.describe()} without a text")
    try:
        real: Any = BaseExceptionGroup.__new__(cls_var.value, *real_args)
    except Exception as error:
        tracer.raise_real(error)
    kind: type = type(real)
    if kind is not cls_var.value:
        cls_var = tracer.class_variable(kind, None)
    made = ExceptionVariable(kind, list(args), cls_var)
    made.given = (list(args), {})
    made.fields = {"message": args[0], "exceptions": TupleVariable(items)}
    return stamp(tracer, made)


def _example(given: _Arguments, item: Variable) -> Any:
    """Something of which a group's constructor thinks as it does of the item."""
    cls = item.python_type()
    if not issubclass(cls, BaseException):
        return given.real(item)
    base: Any = static_base(cls)
    if cls is base and not issubclass(cls, BaseExceptionGroup):
        return base.__new__(base)
    return Exception() if issubclass(cls, Exception) else BaseException()


def mirror(tracer: Tracer, exc: ExceptionVariable) -> BaseException | None:
    """A real exception of the class in C that says the same of itself, or None."""
    base: Any = static_base(exc.cls)
    given = _Arguments(tracer)
    if issubclass(base, BaseExceptionGroup):
        fields = _fields_of(tracer, exc)
        held = fields["exceptions"]
        assert isinstance(held, TupleVariable)
        message = given.real(fields["message"])
        group = BaseExceptionGroup(message, [BaseException()] * len(held.items(tracer)))
        return group if given.complete else None
    if exc.fields is not None and exc.given is None and field_names(base):
        return None  # raised by Python itself: nobody knows how it came by them
    taken, named = exc.given or (exc.args, {})
    try:
        real: BaseException = base.__new__(base, *map(given.real, taken))
        if exc.given is not None:
            base.__init__(
                real, *map(given.real, taken), **{k: given.real(v) for k, v in named.items()}
            )
        real.args = tuple(map(given.real, exc.args))
        for name, value in exc.changed.items():
            raw = lookup_mro(base, name)[0]
            if value is DELETED:
                raw.__delete__(real)
            else:
                raw.__set__(real, given.real(value))
    except Exception:
        return None
    return real if given.complete else None


def stop_value(exc: ExceptionVariable) -> Variable:
    """What a StopIteration carries: the result of a generator."""
    found = (exc.fields or {}).get("value")
    if found is not None:
        return found
    return exc.args[0] if exc.args else NONE


def traceback_of(exc: ExceptionVariable) -> TracebackVariable | None:
    """The traceback of an exception, None if it has none."""
    if exc.bare or exc.raised_at < 0:
        return None
    if exc.trace is None:
        exc.trace = TracebackVariable(exc.raised_at)
    return exc.trace


def set_traceback(exc: ExceptionVariable, value: Variable) -> bool:
    """``exc.__traceback__ = value``; False: there is no rule."""
    if isinstance(value, TracebackVariable):
        exc.trace = value
        exc.bare = False
        if exc.raised_at < 0:
            exc.raised_at = exc.created_at = value.raised_at
        return True
    if isinstance(value, ConstantVariable) and value.value is None:
        exc.bare = exc.raised_at >= 0
        exc.trace = None
        return True
    return False
