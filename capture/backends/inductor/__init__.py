"""Holds the ``inductor`` backend: the AOT stage's graphs, compiled by torch's Inductor.

Forward and backward are traced and split by the AOT stage and given to Inductor's inner compile
functions, so its own front end and AOT stage never run. Nothing of Inductor is imported before the
first graph is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from torch import fx

from capture.backends.aot.buckets import compile_in_buckets
from capture.backends.aot.refused import keeping_refusals
from capture.backends.aot.stage import Stage
from capture.backends.boxed import EitherWay
from capture.backends.inductor.options import settings_for
from capture.backends.inductor.toolchain import (
    InductorFailed,
    InductorToolchain,
    MissingCompiler,
)
from capture.backends.registry import Backend, CompiledFn, register_backend

__all__ = ["InductorFailed", "MissingCompiler", "inductor"]


@register_backend
def inductor(
    gm: fx.GraphModule,
    example_inputs: list[Any],
    *,
    settings: Mapping[str, Any] | None = None,
) -> CompiledFn:
    """Compile forward and backward with Inductor, torch's compiler to C++ and Triton.

    Args:
        gm: the captured graph.
        example_inputs: inputs like those it will be called with.
        settings: Inductor's settings while it compiles, as ``settings_for`` returns them.

    Raises:
        InductorFailed: Inductor cannot compile the graph.
        MissingCompiler: there is no C++ compiler.
    """
    toolchain = InductorToolchain(settings_for(None, None) if settings is None else settings)

    def compile_part(part: fx.GraphModule, inputs: list[Any]) -> CompiledFn:
        return keeping_refusals(part, lambda graph: Stage(graph, toolchain).compile(inputs))

    return EitherWay(compile_in_buckets(gm, example_inputs, compile_part))


def _with_settings(mode: str | None, options: Mapping[str, Any] | None) -> Backend:
    return functools.partial(inductor, settings=settings_for(mode, options))


# ``capture.compile`` checks and binds ``mode`` and ``options`` before anything is compiled.
inductor.all_or_nothing = True  # type: ignore[attr-defined]
inductor.with_settings = _with_settings  # type: ignore[attr-defined]
