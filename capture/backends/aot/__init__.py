"""Holds the AOT stage: a graph of torch calls, compiled forward and backward as ATen graphs.

A backend for compilers of ATen graphs is made in one line::

    backend = aot_autograd(fw_compiler=my_compiler)

where ``my_compiler(gm, example_inputs)`` returns a function that takes the inputs one by one, or,
with an attribute ``_boxed_call`` that is true, as one list that it empties. What the stage cannot
do right it runs as it was captured, and the log artifact ``aot`` says why. Nothing here knows
frames, guards or variables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, fx

from capture.backends.aot.adapter import (
    Decompositions,
    core_aten_decompositions,
)
from capture.backends.aot.buckets import compile_in_buckets
from capture.backends.aot.partition import (
    PartitionFn,
    default_partition,
    fast_partition,
    min_cut_partition,
    partitioner,
)
from capture.backends.aot.random_ops import eager_random
from capture.backends.aot.refused import keeping_refusals
from capture.backends.aot.stage import Stage
from capture.backends.aot.toolchain import Compiler, SeparateCompilers, make_boxed
from capture.backends.boxed import EitherWay, boxed_forward
from capture.backends.registry import Backend, CompiledFn, register_backend
from capture.errors import UserError

__all__ = [
    "Compiler",
    "PartitionFn",
    "aot_autograd",
    "aot_eager",
    "aot_eager_decomp_partition",
    "core_aten_decompositions",
    "default_partition",
    "eager_random",
    "fast_partition",
    "make_boxed",
    "min_cut_partition",
    "run_graph",
]


def aot_autograd(
    *,
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: PartitionFn | str | None = None,
    decompositions: Decompositions | Callable[[], Decompositions] | None = None,
) -> Backend:
    """Make a backend out of a compiler for functional ATen graphs.

    Args:
        fw_compiler: ``(gm, example_inputs) -> callable`` for forwards, and for whole graphs where
            no gradient is needed. The example inputs are fake tensors.
        bw_compiler: the same for backwards; ``fw_compiler`` if not given.
        partition_fn: ``(joint, inputs, *, num_fwd_outputs) -> (forward, backward)``, or a name:
            ``default`` saves what eager saves, ``fast`` computes again what is cheap and needs
            nothing else saved, ``min_cut`` (torch's) takes the time to save the least.
        decompositions: operator to the function that replaces it, or a function that returns such
            a table when it is first needed.
    """

    split = partitioner(partition_fn)

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> CompiledFn:
        table = decompositions() if callable(decompositions) else decompositions
        if table is not None and not isinstance(table, Mapping):
            raise UserError(f"decompositions are a table of operators, not {table!r}")
        toolchain = SeparateCompilers(fw_compiler, bw_compiler or fw_compiler, split, table)

        def compile_part(part: fx.GraphModule, inputs: list[Any]) -> CompiledFn:
            return keeping_refusals(part, lambda graph: Stage(graph, toolchain).compile(inputs))

        return EitherWay(compile_in_buckets(gm, example_inputs, compile_part))

    backend.all_or_nothing = True  # type: ignore[attr-defined]
    return backend


def run_graph(gm: fx.GraphModule, example_inputs: list[Tensor]) -> Callable[..., Any]:
    """Compile nothing: run a graph's operators one after the other, freeing as it goes."""
    compiled = functools.partial(boxed_forward(gm), gm)
    compiled._boxed_call = True  # type: ignore[attr-defined]
    return compiled


def _core_with_eager_random() -> Decompositions:
    return {**core_aten_decompositions(), **eager_random()}


_aot_eager = aot_autograd(fw_compiler=run_graph, decompositions=eager_random)
_aot_eager_decomp_partition = aot_autograd(
    fw_compiler=run_graph, partition_fn="min_cut", decompositions=_core_with_eager_random
)


@register_backend
def aot_eager(gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
    """Run forward and backward as ATen graphs, operator by operator."""
    return _aot_eager(gm, example_inputs)


aot_eager.keeps_order = True  # type: ignore[attr-defined]
aot_eager.all_or_nothing = True  # type: ignore[attr-defined]


@register_backend
def aot_eager_decomp_partition(gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
    """The same with core ATen operators and the partition that saves the least."""
    return _aot_eager_decomp_partition(gm, example_inputs)


aot_eager_decomp_partition.all_or_nothing = True  # type: ignore[attr-defined]
