"""Holds the backends: what turns a captured graph into a callable; must not know frames or guards.

A backend is ``backend(gm: fx.GraphModule, example_inputs: list[Tensor]) -> callable``. The callable
takes the graph's inputs and returns a tuple. If it has a true attribute ``_boxed_call`` it takes
them as one list, which it empties, so that inputs can be freed before it returns.
"""

from __future__ import annotations

from capture.backends import aot
from capture.backends.boxed import BoxedCodeGen, takes_boxed_graph
from capture.backends.debug import GraphCounter
from capture.backends.eager import eager
from capture.backends.inductor import inductor
from capture.backends.registry import (
    Backend,
    CompiledFn,
    backend_name,
    is_all_or_nothing,
    list_backends,
    lookup_backend,
    register_backend,
)

__all__ = [
    "Backend",
    "BoxedCodeGen",
    "CompiledFn",
    "GraphCounter",
    "aot",
    "backend_name",
    "eager",
    "inductor",
    "is_all_or_nothing",
    "list_backends",
    "lookup_backend",
    "register_backend",
    "takes_boxed_graph",
]
