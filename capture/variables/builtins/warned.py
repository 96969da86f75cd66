"""Holds ``warnings.warn`` as a side effect: the warning is given when the piece has run.

That is late for a program that catches warnings and looks at them. Where it begins to catch them in
the piece, or uses the list of those caught, Python gives the warning.
"""

from __future__ import annotations

import types
import warnings
from dataclasses import dataclass

import torch

from capture import break_reasons as reasons
from capture.guards.kinds import ExprHolds
from capture.sources import DictItemSource, ModulesSource
from capture.variables.attributes import load_attr
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.containers import ListVariable
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
    if place is None:
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    _guard_filters(tracer, IsNoError(text, category, str(names.get("__name__")), place[1]))
    tracer.effects.warned(text, category, place, names)
    return NONE


def _guard_filters(tracer: Tracer, is_no_error: IsNoError) -> None:
    """Break for a warning that is an error, raised where it is given, or that is caught here."""
    module = tracer.wrap(warnings, DictItemSource(ModulesSource(), "warnings"))
    held = load_attr(tracer, module, "filters").realize(tracer)
    filters = held.source
    if (
        filters is None  # the program has changed them in this piece
        or not isinstance(held, ListVariable)
        or held.touched
        or held.tail
        or load_attr(tracer, module, "_showwarnmsg_impl").source is None
        or not is_no_error(warnings.filters)
    ):
        unsupported(reasons.UNKNOWN_CALLABLE, "warnings.warn")
    text = f"the warning {is_no_error.text!r} is no error"
    tracer.guard(ExprHolds((filters,), is_no_error, text))


@dataclass(frozen=True, slots=True)
class IsNoError:
    """Says if filters let a warning of a line be given, and not raised."""

    text: str
    category: type[Warning]
    module: str
    line: int

    def __call__(self, filters: object) -> bool:
        """Ask the first filter that fits."""
        if type(filters) is not list:
            return False
        for action, message, kind, where, number in filters:
            if (
                (message is None or message.match(self.text))
                and issubclass(self.category, kind)
                and (where is None or where.match(self.module))
                and number in (0, self.line)
            ):
                return bool(action != "error")
        return True


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
