"""Holds the rules of ``getattr`` and its kin."""

from __future__ import annotations

from capture.variables.attributes import (
    delete_attr,
    has_instance_dict,
    load_attr,
    object_getattr,
    object_setattr,
    store_attr,
    type_source_of,
)
from capture.variables.base import (
    DELETED,
    MISSING,
    ObservedException,
    Tracer,
    Variable,
)
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import FALSE, NONE, TRUE, ConstantVariable, boolean
from capture.variables.containers import ListVariable
from capture.variables.mixed_enums import plain_value
from capture.variables.objects import ClassVariable, ObjectVariable, is_static_type
from capture.variables.tensor import TensorVariable
from capture.variables.tensor_attributes import tensor_has_attr
from capture.variables.weak import through_proxy


@rule(getattr)
def _getattr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(plain_value(args[1]))
    if type(name) is not str:
        return None
    if len(args) == 2:
        return load_attr(tracer, args[0], name)
    try:
        return load_attr(tracer, args[0], name)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), AttributeError):
            return args[2]
        raise


@rule(hasattr)
def _hasattr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(plain_value(args[1]))
    if type(name) is not str:
        return None
    if isinstance(args[0], TensorVariable):
        return boolean(tensor_has_attr(tracer, args[0], name))
    try:
        load_attr(tracer, args[0], name)
    except ObservedException as signal:
        if issubclass(signal.exception.python_type(), AttributeError):
            return FALSE
        raise
    return TRUE


@rule(setattr)
def _setattr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(plain_value(args[1]))
    if type(name) is not str:
        return None
    store_attr(tracer, through_proxy(tracer, args[0]), name, args[2])
    return NONE


@rule(delattr)
def _delattr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(plain_value(args[1]))
    if type(name) is not str:
        return None
    delete_attr(tracer, through_proxy(tracer, args[0]), name)
    return NONE


@rule(object.__setattr__)
def _object_setattr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str or not isinstance(args[0], ObjectVariable):
        return None
    object_setattr(tracer, args[0], name, args[2])
    return NONE


@rule(object.__delattr__)
def _object_delattr(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(args[1])
    if type(name) is not str or not isinstance(args[0], ObjectVariable):
        return None
    object_setattr(tracer, args[0], name, DELETED)
    return NONE


@rule(object.__getattribute__)
def _object_getattribute(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    name = tracer.as_python(plain_value(args[1]))
    if type(name) is not str:
        return None
    obj = args[0]
    return object_getattr(
        tracer, obj, name, obj.python_type(), type_source_of(tracer, obj), hook=False
    )


@rule(vars)
def _vars(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args:
        return tracer.local_names()
    if isinstance(args[0], ObjectVariable) and has_instance_dict(args[0]):
        return load_attr(tracer, args[0], "__dict__")
    return None


@rule(locals)
def _locals(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return tracer.local_names()


@rule(globals)
def _globals(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return tracer.global_names()


@rule(dir)
def _dir(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not args:
        names = [key for key, _ in tracer.local_names().load(tracer).values()]
        texts = [tracer.as_python(name) for name in names]
        if not all(type(text) is str for text in texts):
            return None
        return ListVariable([ConstantVariable(text) for text in sorted(texts)])
    value = MISSING
    if isinstance(args[0], ClassVariable):
        value = args[0].value if all(map(is_static_type, args[0].value.__mro__)) else MISSING
    elif isinstance(args[0], ConstantVariable):
        value = args[0].value
    if value is MISSING:
        return None
    return ListVariable([ConstantVariable(name) for name in dir(value)])
