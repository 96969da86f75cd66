"""Holds the rules of weak references and proxies made during capture."""

from __future__ import annotations

import weakref

from capture.variables.base import Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, rule
from capture.variables.weak import make_weak


@rule(weakref.ref)
def _ref(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if kwargs or not 1 <= len(args) <= 2:
        return None
    return make_weak(tracer, weakref.ref, args)


@rule(weakref.proxy)
def _proxy(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    if kwargs or not 1 <= len(args) <= 2:
        return None
    return make_weak(tracer, weakref.ProxyType, args)
