"""Holds checks of a finished graph, for tests and ``CAPTURE_VERIFY=1``; must not change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from capture.errors import InternalError
from capture.graph import fake
from capture.graph.recording import Recording
from capture.graph.state import restored
from capture.graph.symbols import Dim, Shapes
from capture.graph.tensor_meta import TensorMeta, meta_of

__all__ = ["verify"]


def verify(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    n_outputs: int,
    shapes: Shapes | None = None,
) -> None:
    """Check the form of a graph, and its metadata by a run on fake tensors.

    A graph with symbolic sizes is run with those of the example.

    Raises:
        InternalError: if something is wrong with it.
    """
    _check_form(gm, example_inputs, n_outputs)
    with restored():
        rerun = _Rerun(gm)
        rerun.shapes = shapes
        try:
            rerun.check(example_inputs)
        except Exception as error:
            if not fake.asks_for_data(error):
                raise  # else the rest needs numbers that only a real run has


def _check_form(gm: fx.GraphModule, example_inputs: Sequence[Any], n_outputs: int) -> None:
    gm.graph.lint()
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(example_inputs):
        raise InternalError(f"{len(placeholders)} placeholders, {len(example_inputs)} inputs")
    seen_other = False
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "call_function", "call_method", "output"):
            raise InternalError(f"a node of kind {node.op}: {node.name}")
        if node.op != "placeholder":
            seen_other = True
        elif seen_other:
            raise InternalError(f"the input {node.name} comes after other nodes")
        elif not node.users:
            raise InternalError(f"the input {node.name} is unused")
    (result,) = gm.graph.output_node().args
    if not isinstance(result, tuple) or len(result) != n_outputs:
        raise InternalError(f"the graph returns {result!r}, not a tuple of {n_outputs}")


class _Rerun(fx.Interpreter):
    """Runs a graph on fake tensors and compares each node's result with what was propagated."""

    shapes: Shapes | None = None

    def check(self, example_inputs: Sequence[Any]) -> None:
        """Run and compare."""
        metas: list[TensorMeta | None] = []
        graph: Any = self.module.graph
        for node, example in zip(graph.nodes, example_inputs, strict=False):
            given: TensorMeta | None = node.meta.get("capture_meta")
            if isinstance(example, torch.Tensor) and given is None:
                given = meta_of(example)
            metas.append(None if given is None else _of_example(given))
        example_inputs = [x.node.hint if isinstance(x, torch.SymInt) else x for x in example_inputs]
        if any(meta is not None and not meta.is_plain for meta in metas):
            return  # operators refuse these; the graph only passes them on
        inputs = [
            x if meta is None else fake.make_fake(meta)
            for x, meta in zip(example_inputs, metas, strict=True)
        ]
        with fake.running(Recording()):
            self.run(*inputs, enable_io_processing=False)

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        expected: TensorMeta | None = n.meta.get("capture_meta")
        if isinstance(result, torch.Tensor) and expected is not None:
            expected = _of_example(expected)
            found = meta_of(result)._replace(cls=expected.cls)
            if found != expected:
                raise InternalError(f"the node {n.name} gives {found}, not {expected}")
        return result


def _of_example(meta: TensorMeta) -> TensorMeta:
    """The metadata with the sizes of the call that was captured."""
    if not meta.is_symbolic:
        return meta
    return meta._replace(
        shape=tuple(n.hint if type(n) is Dim else n for n in meta.shape),
        stride=tuple(n.hint if type(n) is Dim else n for n in meta.stride),
    )
