"""Holds classes and descriptors made during capture; must not know the interpreter.

A class statement is executed symbolically. So that everything that asks a class for its MRO or its
attributes works as for any other, a real class of the same structure is made at once, the *model*:
its functions and descriptors are models too, and what else its namespace holds is a placeholder.
``tracer.identity`` leads from each model to its variable. The program never meets a model: where
the class outlives the piece, the epilogue makes it anew from the variables.
"""

from __future__ import annotations

import abc
import types
from typing import Any

from capture import break_reasons as reasons
from capture.variables.base import DELETED, MISSING, Tracer, Variable, stamp, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable
from capture.variables.functions import (
    BuiltinVariable,
    CellVariable,
    FunctionVariable,
    GeneratorVariable,
    IteratorVariable,
)
from capture.variables.objects import (
    MODELS,
    ClassVariable,
    ObjectVariable,
    is_static_type,
    lookup_mro,
)

__all__ = [
    "DescriptorVariable",
    "MadeClassVariable",
    "make_class",
    "make_descriptor",
    "retire",
    "set_member",
]

_METACLASSES = (type, abc.ABCMeta)
_DESCRIPTOR_METHODS = ("__get__", "__set__", "__delete__", "__set_name__")
# Names that the making of a class reads, so that they have to be constants.
_READ_BY_TYPE = ("__slots__", "__qualname__", "__module__", "__doc__", "__classdictcell__")


class _Placeholder:
    """Stands in a model's namespace for a value that only the variables know."""

    __slots__ = ()


class DescriptorVariable(ObjectVariable):
    """A property, static method or class method made during capture.

    ``parts`` are the constructor's arguments; ``value`` stays MISSING, ``model`` is a real one.
    """

    __slots__ = ("model", "parts")

    def __init__(self, cls: type, parts: list[Variable], model: Any) -> None:
        super().__init__(cls)
        self.parts = parts
        self.model = model


class MadeClassVariable(ClassVariable):
    """A class made during capture; ``value`` is its model.

    Attributes:
        bases: the bases as written.
        namespace: the names of its body, in order.
        writes: what was assigned to the class later, in order.
        class_cell: the cell that ``super()`` in its methods reads, if there is one.
    """

    __slots__ = ("bases", "class_cell", "namespace", "writes")

    def __init__(self, model: type, bases: list[Variable], namespace: dict[str, Variable]) -> None:
        super().__init__(model, None)
        self.bases = bases
        self.namespace = namespace
        self.writes: list[tuple[str, Variable]] = []
        self.class_cell: CellVariable | None = None


def make_class(
    tracer: Tracer, name: str, bases: list[Variable], body: DictVariable
) -> MadeClassVariable:
    """What ``type(name, bases, body)`` makes.

    Raises:
        GraphBreak: making the class runs code of the program, or is an error.
    """
    real_bases = tuple(_real_base(b) for b in bases)
    meta = _metaclass(name, real_bases)
    namespace: dict[str, Variable] = {}
    real: dict[str, Any] = {}
    class_cell: CellVariable | None = None
    for key, (_, value) in body.load(tracer).items():
        if type(key) is not str:
            unsupported(reasons.CLASS_DEFINITION, name)
        value = value.realize(tracer)
        if key == "__classcell__":
            if not isinstance(value, CellVariable):
                unsupported(reasons.CLASS_DEFINITION, name)
            class_cell = value
            continue
        namespace[key] = value
        if key in _READ_BY_TYPE:
            real[key] = tracer.as_python(value)
            if real[key] is MISSING:
                unsupported(reasons.CLASS_DEFINITION, name)
        else:
            if meta is abc.ABCMeta and _may_be_abstract(value):
                unsupported(reasons.CLASS_DEFINITION, name)
            real[key] = model_of(tracer, value)
    try:
        model: Any = meta(name, real_bases, real)
    except Exception as error:
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"{type(error).__name__} of the class {name}")
    MODELS.add(model)
    tracer.models.append(model)
    made = MadeClassVariable(model, bases, namespace)
    made.class_cell = class_cell
    if class_cell is not None:
        class_cell.contents = made
    _remember(tracer, model, made)
    tracer.mutations += 1
    return stamp(tracer, made)


def _may_be_abstract(v: Variable) -> bool:
    """True if ``__isabstractmethod__`` of a value of the body is the program's to say."""
    known = (FunctionVariable, DescriptorVariable, ClassVariable)
    return isinstance(v, ObjectVariable) and not isinstance(v, known) and not is_static_type(v.cls)


def _real_base(v: Variable) -> type:
    if not isinstance(v, ClassVariable):
        unsupported(reasons.CLASS_DEFINITION, v.describe())
    return v.value


def _metaclass(name: str, bases: tuple[type, ...]) -> type:
    """The metaclass, if making a class of these bases runs none of the program's code."""
    meta: type = type
    for base in bases:
        if type(base) not in _METACLASSES:
            unsupported(reasons.CLASS_DEFINITION, name)
        if issubclass(type(base), meta):
            meta = type(base)
        if lookup_mro(base, "__init_subclass__")[1] is not object:
            unsupported(reasons.CLASS_DEFINITION, name)
    return meta


def model_of(tracer: Tracer, v: Variable) -> Any:
    """What stands for a value in the namespace of a model."""
    if isinstance(v, ConstantVariable):
        return v.value
    if isinstance(v, DescriptorVariable):
        return v.model
    if isinstance(v, FunctionVariable) and v.value is MISSING:
        return _model_function(tracer, v)
    if isinstance(v, (BuiltinVariable, ObjectVariable)) and v.value is not MISSING:
        if not isinstance(v, (ClassVariable, BuiltinVariable)):
            _refuse_named(v)
            _remember(tracer, v.value, v)
        return v.value
    if isinstance(v, (GeneratorVariable, IteratorVariable)):
        unsupported(reasons.CLASS_DEFINITION, v.describe())
    if any(lookup_mro(v.python_type(), n)[0] is not MISSING for n in _DESCRIPTOR_METHODS):
        unsupported(reasons.CLASS_DEFINITION, v.describe())
    placeholder = _Placeholder()
    _remember(tracer, placeholder, v)
    return placeholder


def _refuse_named(v: ObjectVariable) -> None:
    if isinstance(lookup_mro(v.cls, "__set_name__")[0], types.FunctionType):
        unsupported(reasons.CLASS_DEFINITION, v.describe())


def _model_function(tracer: Tracer, v: FunctionVariable) -> types.FunctionType:
    if v.globals.value is MISSING:
        unsupported(reasons.CLASS_DEFINITION, v.describe())
    cells = tuple(types.CellType() for _ in v.closure)
    model = types.FunctionType(v.code, v.globals.value, v.name, None, cells)
    for name, value in (v.attrs or {}).items():
        if value is not DELETED:
            held = tracer.as_python(value)
            if held is MISSING:
                unsupported(reasons.CLASS_DEFINITION, v.describe())
            setattr(model, name, held)
    _remember(tracer, model, v)
    return model


def _remember(tracer: Tracer, model: Any, v: Variable) -> None:
    tracer.identity[id(model)] = v
    tracer.keep_alive.append(model)


def make_descriptor(tracer: Tracer, kind: Any, parts: list[Variable]) -> DescriptorVariable:
    """A ``property``, ``staticmethod`` or ``classmethod`` of functions."""
    models = []
    for part in parts:
        part = part.realize(tracer)
        is_function = isinstance(part, (FunctionVariable, DescriptorVariable))
        if not (is_function or isinstance(part, ConstantVariable)):
            unsupported(reasons.UNKNOWN_CALLABLE, f"{kind.__name__} of {part.describe()}")
        models.append(model_of(tracer, part))
    model = kind(*models)
    made = stamp(tracer, DescriptorVariable(kind, parts, model))
    _remember(tracer, model, made)
    return made


def set_member(tracer: Tracer, cls: MadeClassVariable, name: str, value: Variable) -> None:
    """``cls.name = value`` on a class made in this piece."""
    if lookup_mro(type(cls.value), name)[0] is not MISSING or name in _READ_BY_TYPE:
        unsupported(reasons.SIDE_EFFECT, f"assignment to {cls.describe()}.{name}")
    value = value.realize(tracer)
    if isinstance(value, ObjectVariable) and not isinstance(value, ClassVariable):
        _refuse_named(value)
    setattr(cls.value, name, model_of(tracer, value))
    cls.writes.append((name, value))
    tracer.mutations += 1


class _Retired:
    """The base of models that are not needed any more."""


def retire(model: type) -> None:
    """Take a model out of the subclasses that its bases tell of, long before it is collected."""
    try:
        model.__bases__ = (_Retired,)
    except TypeError:  # of another memory layout: a base of C, which has many subclasses anyway
        return
