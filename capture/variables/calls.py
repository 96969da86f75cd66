"""Holds calls: argument binding, instantiation, dispatch on what is called; must not know more.

A call either gives its result at once or asks for a frame to be run (``FrameRequest``): the
interpreter pushes it, so that a graph break inside can go on in the callee.
"""

from __future__ import annotations

import types

import torch

from capture import break_reasons as reasons
from capture._native import CompiledFunction, Disabled
from capture.guards.kinds import IdIs
from capture.polyfills.arguments import type_name
from capture.sources import AttrSource, FunctionCodeSource, WrappedSource
from capture.variables import builtins as builtin_rules
from capture.variables import contexts, higher_order, torch_calls
from capture.variables.attributes import load_attr, type_source_of
from capture.variables.attributes.classes import meta_attribute
from capture.variables.base import (
    MISSING,
    CallableVariable,
    FrameRequest,
    Tracer,
    Variable,
    unsupported,
)
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.exceptions import fill_exception
from capture.variables.functions import (
    BuiltinVariable,
    FunctionVariable,
    GeneratorVariable,
    MadeCallableVariable,
    MethodVariable,
    PartialVariable,
)
from capture.variables.misfits import raise_misfit
from capture.variables.objects import (
    ClassVariable,
    ExceptionVariable,
    ObjectVariable,
    lookup_mro,
    type_attribute,
)

__all__ = ["bind_arguments", "contexts", "higher_order", "instantiate", "start_call"]

_COROUTINES = 0x80 | 0x100 | 0x200  # CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR
_GENERATOR = 0x20
_VARARGS, _VARKEYWORDS = 0x04, 0x08
_TYPE_CALL = type.__call__
_MODULE_CALL = torch.nn.Module.__call__
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)


def start_call(
    tracer: Tracer, fn: Variable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | FrameRequest:
    """Begin a call: its result, or the frame that computes it."""
    while True:
        fn = fn.realize(tracer)
        if isinstance(fn, MethodVariable):
            args = [fn.instance, *args]
            fn = fn.fn
            continue
        if isinstance(fn, FunctionVariable):
            return call_function(tracer, fn, args, kwargs)
        if isinstance(fn, BuiltinVariable):
            if fn.value is _TYPE_CALL and args and is_instance_maker(args[0].realize(tracer)):
                made = args[0].realize(tracer)
                assert isinstance(made, ClassVariable)
                return instantiate(tracer, made, args[1:], kwargs, by_metaclass=True)
            return builtin_rules.call_builtin(tracer, fn, args, kwargs)
        if isinstance(fn, ClassVariable):
            return instantiate(tracer, fn, args, kwargs)
        if isinstance(fn, MadeCallableVariable):
            fn = fn.function
            continue
        if isinstance(fn, PartialVariable):
            args = [*fn.args, *args]
            kwargs = {**fn.keywords, **kwargs}
            fn = fn.fn
            continue
        if isinstance(fn, ObjectVariable):
            if type(fn.value) is CompiledFunction and fn.source is not None:
                # Compiled code calls compiled code: it is one region.
                fn = tracer.wrap(fn.value.fn, AttrSource(fn.source, "fn"))
                continue
            if type(fn.value) is Disabled:
                unsupported(reasons.DISABLED, fn.describe())
            rule = torch_calls.object_rule(tracer, fn, args, kwargs)
            if rule is not None:
                return rule
            raw, where = type_attribute(tracer, fn.cls, type_source_of(tracer, fn), "__call__")
            if raw is _MODULE_CALL:
                forward = plain_forward(tracer, fn)
                if forward is not None:
                    fn = forward
                    continue
            if raw is not MISSING and isinstance(raw, types.FunctionType):
                args = [fn, *args]
                fn = tracer.wrap_static(raw, where)
                continue
            if builtin_rules.has_rule(raw):
                return builtin_rules.call_builtin(tracer, BuiltinVariable(raw), [fn, *args], kwargs)
            if raw is MISSING:
                tracer.raise_error(TypeError, f"{type_name(fn.cls)!r} object is not callable")
            unsupported(reasons.UNKNOWN_CALLABLE, fn.describe())
        if isinstance(fn, CallableVariable):
            return fn.call(tracer, args, kwargs)
        tracer.raise_error(TypeError, f"{type_name(fn.python_type())!r} object is not callable")


def plain_forward(tracer: Tracer, module: ObjectVariable) -> Variable | None:
    """The ``forward`` that ``nn.Module.__call__`` comes down to if there is no hook, else None."""
    for name in _HOOKS:
        hooks = module.dict_get(tracer, name)
        if hooks is None:
            return None
        hooks = hooks.realize(tracer)
        if not isinstance(hooks, DictVariable) or tracer.truth(hooks):
            return None
    if module.dict_get(tracer, "_compiled_call_impl") is not None:
        return None
    for name in _GLOBAL_HOOKS:
        hooks = tracer.torch_module_global(name)
        if not isinstance(hooks, DictVariable) or tracer.truth(hooks):
            return None
    return load_attr(tracer, module, "forward")


def call_function(
    tracer: Tracer, fn: FunctionVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | FrameRequest:
    """Call a Python function: a rule for it, or a frame of its bytecode."""
    if fn.value is not MISSING:
        rule = builtin_rules.python_rule(tracer, fn, args, kwargs)
        if rule is not None:
            return rule
    if fn.source is not None:
        tracer.guard(IdIs(FunctionCodeSource(fn.source), fn.code))
    if fn.code.co_flags & _COROUTINES:
        unsupported(reasons.COROUTINE, fn.qualname)
    names = bind_arguments(tracer, fn, args, kwargs)
    frame = tracer.make_frame(fn, names)
    if fn.code.co_flags & _GENERATOR:
        generator = GeneratorVariable(fn, frame, args, kwargs)
        tracer.generators.append(generator)
        generator.created_at = tracer.ordinal
        frame.generator = generator
        return generator
    return FrameRequest(frame)


def bind_arguments(
    tracer: Tracer, fn: FunctionVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> dict[str, Variable]:
    """Bind arguments to parameters as CPython does; a misfit is left to Python to report.

    Source: ``Python/ceval.c`` (``initialize_locals``).
    """
    code = fn.code
    names = code.co_varnames
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    bound: dict[str, Variable] = dict(zip(names[:count], args, strict=False))
    rest = args[count:]
    if code.co_flags & _VARARGS:
        bound[names[count + keyword_only]] = TupleVariable(rest)
    elif rest:
        raise_misfit(tracer, fn, len(args), list(kwargs))
    extra: DictVariable | None = None
    if code.co_flags & _VARKEYWORDS:
        extra = DictVariable()
        bound[names[count + keyword_only + bool(code.co_flags & _VARARGS)]] = extra
    if kwargs:
        allowed = names[code.co_posonlyargcount : count + keyword_only]
        for name, value in kwargs.items():
            if name in allowed:
                if name in bound:
                    raise_misfit(tracer, fn, len(args), list(kwargs))
                bound[name] = value
            elif extra is not None:
                extra.entries[name] = (ConstantVariable(name), value)
            else:
                raise_misfit(tracer, fn, len(args), list(kwargs))
    if len(args) < count:
        defaults = fn.defaults
        first = count - len(defaults)
        for i in range(len(args), count):
            if names[i] not in bound:
                if i < first:
                    raise_misfit(tracer, fn, len(args), list(kwargs))
                bound[names[i]] = defaults[i - first]
    for name in names[count : count + keyword_only]:
        if name not in bound:
            if name not in fn.kwdefaults:
                raise_misfit(tracer, fn, len(args), list(kwargs))
            bound[name] = fn.kwdefaults[name]
    return bound


def raise_abstract(tracer: Tracer, cls_var: ClassVariable) -> None:
    """Raise what ``object.__new__`` says of an abstract class."""
    cls = cls_var.value
    if lookup_mro(cls, "__new__")[0] is object.__new__:
        if cls_var.source is not None:
            held = cls.__abstractmethods__  # type: ignore[attr-defined]
            tracer.guard(IdIs(AttrSource(cls_var.source, "__abstractmethods__"), held))
        try:
            object.__new__(cls)
        except TypeError as error:
            tracer.raise_error(TypeError, *error.args)
    unsupported(
        reasons.UNCAUGHT_EXCEPTION, f"A TypeError about the abstract class {cls.__qualname__}"
    )


def is_instance_maker(cls_var: Variable) -> bool:
    """True for a class that ``type.__call__`` makes an instance of: a metaclass has called it."""
    return isinstance(cls_var, ClassVariable) and not issubclass(cls_var.value, type)


def instantiate(
    tracer: Tracer,
    cls_var: ClassVariable,
    args: list[Variable],
    kwargs: dict[str, Variable],
    *,
    by_metaclass: bool = False,
) -> Variable | FrameRequest:
    """``cls(*args, **kwargs)``; ``by_metaclass``: its ``__call__`` asks for ``type.__call__``."""
    cls = cls_var.value
    rule = builtin_rules.class_rule(tracer, cls_var, args, kwargs)
    if rule is not None:
        return rule
    meta = type(cls)
    if meta is not type and not by_metaclass:
        meta_call, where = meta_attribute(tracer, cls_var, "__call__")
        if isinstance(meta_call, types.FunctionType):
            fn = tracer.wrap_static(meta_call, where)
            return start_call(tracer, fn, [cls_var, *args], kwargs)
        if meta_call is not type.__call__:
            unsupported(reasons.UNKNOWN_CALLABLE, cls.__qualname__)
    if isinstance(lookup_mro(cls, "__del__")[0], types.FunctionType):
        unsupported(reasons.SIDE_EFFECT, f"An object of {cls.__qualname__}, which has __del__")
    if cls.__flags__ & (1 << 7):  # Py_TPFLAGS_DISALLOW_INSTANTIATION
        unsupported(reasons.UNCAUGHT_EXCEPTION, f"A TypeError about {cls.__qualname__}")
    if cls.__flags__ & (1 << 20):  # Py_TPFLAGS_IS_ABSTRACT
        raise_abstract(tracer, cls_var)
    source = tracer.class_source(cls, None, cls_var)
    new, new_source = type_attribute(tracer, cls, source, "__new__")
    instance: Variable
    if isinstance(new, staticmethod):
        new_source = None if new_source is None else WrappedSource(new_source)
        new = new.__func__
    if isinstance(new, types.FunctionType):
        made = tracer.call(tracer.wrap_static(new, new_source), [cls_var, *args], kwargs)
        instance = made.realize(tracer)
        if not issubclass(instance.python_type(), cls):
            return instance
    else:
        native = builtin_rules.native_new(tracer, new, cls_var, args, kwargs)
        if native is None:
            unsupported(reasons.UNKNOWN_CALLABLE, cls.__qualname__)
        instance = native
    made_cls = instance.python_type()
    made_source = tracer.class_source(made_cls, None, cls_var)
    init, init_source = type_attribute(tracer, made_cls, made_source, "__init__")
    if isinstance(init, types.FunctionType):
        request = start_call(
            tracer, tracer.wrap_static(init, init_source), [instance, *args], kwargs
        )
        if isinstance(request, FrameRequest):
            request.override = instance
            return request
        return instance
    if init is object.__init__:
        if (args or kwargs) and not isinstance(new, types.FunctionType) and new is object.__new__:
            tracer.raise_error(TypeError, f"{type_name(cls)}() takes no arguments")
        return instance
    if isinstance(instance, ExceptionVariable) and isinstance(new, types.FunctionType):
        fill_exception(tracer, instance, init, args, kwargs)
        return instance
    if isinstance(instance, (ExceptionVariable, TupleVariable)):
        return instance
    if isinstance(instance, (ListVariable, DictVariable)) or builtin_rules.has_rule(init):
        builtin_rules.call_builtin(tracer, BuiltinVariable(init), [instance, *args], kwargs)
        return instance
    unsupported(reasons.UNKNOWN_CALLABLE, f"{cls.__qualname__}.__init__")
