"""Holds backends that watch: they count or check graphs and run them through another backend."""

from __future__ import annotations

from torch import Tensor, fx

from capture import logs
from capture.backends.boxed import takes_boxed_graph
from capture.backends.registry import (
    Backend,
    CompiledFn,
    is_all_or_nothing,
    lookup_backend,
    register_backend,
)

__all__ = ["GraphCounter", "debug", "op_count"]

_NOT_OPS = frozenset(("placeholder", "get_attr", "output"))


class GraphCounter:
    """A backend that keeps every graph it is given.

    Args:
        inner: the backend that compiles the graphs.

    Attributes:
        graphs: the graph modules, oldest first.
        calls: how many times a compiled graph was called.
    """

    def __init__(self, inner: str | Backend = "eager") -> None:
        self.inner = lookup_backend(inner)
        self.takes_boxed_graph = takes_boxed_graph(self.inner)
        self.keeps_order = getattr(self.inner, "keeps_order", False)
        self.all_or_nothing = is_all_or_nothing(self.inner)
        self.graphs: list[fx.GraphModule] = []
        self.calls = 0

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
        """Keep the graph and compile it with the inner backend."""
        self.graphs.append(gm)
        compiled = self.inner(gm, example_inputs)

        def counted(*inputs: object) -> object:
            self.calls += 1
            return compiled(*inputs)

        counted._boxed_call = getattr(compiled, "_boxed_call", False)  # type: ignore[attr-defined]
        return counted  # type: ignore[return-value]

    @property
    def graph_count(self) -> int:
        """How many graphs were compiled."""
        return len(self.graphs)

    @property
    def op_counts(self) -> list[int]:
        """The number of operators of each graph."""
        return [op_count(gm) for gm in self.graphs]

    def clear(self) -> None:
        """Forget all graphs and calls."""
        self.graphs.clear()
        self.calls = 0


def op_count(gm: fx.GraphModule) -> int:
    """Return how many nodes of the graph compute something."""
    return sum(node.op not in _NOT_OPS for node in gm.graph.nodes)


@register_backend(tags=["debug"])
def debug(gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
    """Check the graph, log it, and run it node by node, so that an error names its node."""
    gm.graph.lint()
    artifact = logs.artifact("graph")
    artifact.info("%d operators, %d inputs\n%s", op_count(gm), len(example_inputs), gm.graph)
    interpreter = fx.Interpreter(gm)
    return interpreter.run
