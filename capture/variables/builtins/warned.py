"""Holds ``warnings.warn`` as a side effect: the warning is given when the piece has run."""

from __future__ import annotations

import types
import warnings

import torch

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.objects import ClassVariable

_NAMES = ("message", "category", "stacklevel")
_MODULE_HOOKS = torch.utils.hooks.__file__


def _warn(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    given = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
    if len(args) > len(_NAMES) or "message" not in given or not set(given) <= set(_NAMES):
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    text = tracer.as_python(given["message"])
    level = tracer.as_python(given.get("stacklevel", ConstantVariable(1)))
    category = _category(tracer, given.get("category"))
    if tracer.calling_code().co_filename == _MODULE_HOOKS:
        level = None  # between the hook and the program there are torch's own frames only
    if type(text) is not str or category is None or not (level is None or type(level) is int):
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    place, names = tracer.warned_place(level)
    # A warning that is an error is raised where it is given.
    if place is None or _is_error(text, category, str(names.get("__name__")), place[1]):
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    tracer.effects.warned(text, category, place, names)
    return NONE


def _is_error(text: str, category: type[Warning], module: str, line: int) -> bool:
    for action, message, kind, where, number in warnings.filters:
        if (
            (message is None or message.match(text))
            and issubclass(category, kind)
            and (where is None or where.match(module))
            and number in (0, line)
        ):
            return action == "error"
    return False


def _category(tracer: Tracer, v: Variable | None) -> type[Warning] | None:
    if v is None:
        return UserWarning
    v = v.realize(tracer)
    if isinstance(v, ConstantVariable) and v.value is None:
        return UserWarning
    if isinstance(v, ClassVariable) and v.value.__module__ == "builtins":
        return v.value if issubclass(v.value, Warning) else None
    return None


# in C, but for Pythons that have no such module
(rule if isinstance(warnings.warn, types.BuiltinFunctionType) else python_rule_for)(warnings.warn)(
    _warn
)
