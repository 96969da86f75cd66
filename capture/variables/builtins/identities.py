"""Holds the rule of ``id``."""

from __future__ import annotations

from capture.variables.base import Tracer, Variable, stamp
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.constant import ConstantVariable
from capture.variables.functions import BuiltinVariable
from capture.variables.identities import IdentityVariable
from capture.variables.objects import ObjectVariable


@rule(id)
def _id(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if not isinstance(args[0], (ObjectVariable, ConstantVariable, BuiltinVariable)):
        return None
    return stamp(tracer, IdentityVariable(args[0]))
