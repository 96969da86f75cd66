"""Holds the rule of lazy properties of ``torch.distributions`` that are read on the class.

A distribution asks its class whether a parameter is one, to leave that out of its checks.
"""

from __future__ import annotations

from torch.distributions.utils import lazy_property

from capture.variables.base import MISSING, Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.gradients import is_none
from capture.variables.objects import ObjectVariable


@python_rule_for(lazy_property.__get__)
def _read(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    lazy = args[0]
    if kwargs or len(args) < 2 or not is_none(args[1].realize(tracer)):
        return None
    if not isinstance(lazy, ObjectVariable) or lazy.value is MISSING:
        return None
    return tracer.wrap_static(lazy.value.__get__(None), None)
