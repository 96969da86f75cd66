"""Holds inference mode, whose guard object is implemented in C, as calls of the graph.

Registers rules; must not know the interpreter.
"""

from __future__ import annotations

import torch
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from capture import break_reasons as reasons
from capture.variables.attributes import load_attr
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.constant import NONE, ConstantVariable
from capture.variables.objects import ObjectVariable

__all__: list[str] = []

_TOKEN = "_inference_mode_context"


@python_rule_for(torch.inference_mode.__enter__)
def _enter(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    manager = args[0]
    assert isinstance(manager, ObjectVariable)
    mode = load_attr(tracer, manager, "mode").realize(tracer)
    if not isinstance(mode, ConstantVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "torch.inference_mode")
    token = tracer.graph_call("call_function", _enter_inference_mode, [mode], {})
    token.created_at = tracer.ordinal
    tracer.effects.set_attr(manager, _TOKEN, token)
    return NONE


@python_rule_for(torch.inference_mode.__exit__)
def _exit(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    manager = args[0]
    assert isinstance(manager, ObjectVariable)
    token = (manager.attrs or {}).get(_TOKEN)
    if token is None:  # entered before this piece
        unsupported(reasons.UNKNOWN_CALLABLE, "torch.inference_mode.__exit__")
    tracer.graph_call("call_function", _exit_inference_mode, [token], {})
    tracer.effects.set_attr(manager, _TOKEN, NONE)
    return NONE
