"""Holds numbers that are computed from what guards read: in front of a graph, and for conditions.

Must not know graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from capture.sources import ExpressionSource, Source, function_of

__all__ = ["compute_derived", "with_derived"]


def compute_derived(keys: Sequence[Source]) -> tuple[list[Source], Callable[..., list[Any]]]:
    """Return the sources behind ``keys``, and what computes the values of ``keys`` from theirs."""
    places: dict[Source, int] = {}
    for key in keys:
        for source in key.sources if isinstance(key, ExpressionSource) else (key,):
            places.setdefault(source, len(places))
    plan: list[tuple[Callable[..., Any] | None, tuple[int, ...]]] = []
    for key in keys:
        if isinstance(key, ExpressionSource):
            function = function_of(len(key.sources), key.text)
            plan.append((function, tuple(places[source] for source in key.sources)))
        else:
            plan.append((None, (places[key],)))

    def compute(given: Sequence[Any]) -> list[Any]:
        return [
            given[wanted[0]] if function is None else function(*[given[i] for i in wanted])
            for function, wanted in plan
        ]

    return list(places), compute


def with_derived(
    fn: Callable[..., Any], boxed: bool, keys: list[Source]
) -> tuple[Callable[..., Any], list[Source]]:
    """Return a callable that computes what is computed before it calls ``fn``, and its inputs."""
    if not any(isinstance(key, ExpressionSource) for key in keys):
        return fn, keys
    sources, compute = compute_derived(keys)
    if boxed:

        def run_boxed(given: list[Any]) -> Any:
            inputs = compute(given)
            given.clear()
            return fn(inputs)

        return run_boxed, sources

    def run(*given: Any) -> Any:
        return fn(*compute(given))

    return run, sources
