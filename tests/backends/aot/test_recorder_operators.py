"""The fast tracer against ``make_fx`` on the operators of torch's own tests."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from capture.backends.aot import core_aten_decompositions
from tests.backends.aot.traces import described, trace

pytest.importorskip("expecttest")  # torch's own tests want it
from torch.testing._internal.common_methods_invocations import op_db


def _operators(parts: int) -> list[Any]:
    """Every ``parts``-th operator: a sample of all families."""
    return [op for i, op in enumerate(op_db) if i % parts == 0]


def _operator(op: Any, count: int) -> None:
    try:
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
        samples = list(itertools.islice(samples, count))
    except Exception as error:
        pytest.skip(f"no sample for this device: {type(error).__name__}")
    for sample in samples:
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, value in enumerate(leaves) if isinstance(value, Tensor)]
        call = functools.partial(_call, op, leaves, spec, places)
        tensors = [leaves[i] for i in places]
        for table in (None, core_aten_decompositions()):
            try:
                expected = described(trace(call, tensors, table, "make_fx"))
            except Exception as error:
                with pytest.raises(type(error)):
                    trace(call, tensors, table, "recorder")
                continue
            for _ in range(2):
                assert described(trace(call, tensors, table, "recorder")) == expected


def _call(op: Any, leaves: list[Any], spec: Any, places: list[int], *tensors: Tensor) -> Any:
    values = list(leaves)
    for i, tensor in zip(places, tensors, strict=True):
        values[i] = tensor
    x, args, kwargs = pytree.tree_unflatten(values, spec)
    return tuple(pytree.tree_leaves(op(x, *args, **kwargs)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", _operators(20), ids=lambda op: op.full_name)
def test_some_operators(op: Any) -> None:
    _operator(op, 1)


@pytest.mark.slow  # a quarter of an hour: each sample is traced by make_fx, too
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", op_db, ids=lambda op: op.full_name)
def test_all_operators(op: Any) -> None:
    _operator(op, 2)
