"""Compares propagated metadata with eager's over torch's own operator database (slow)."""

from __future__ import annotations

import itertools
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from capture.graph import CannotPropagate, OperatorError, TensorValue, clear_memo, op_rules
from capture.graph import propagate as propagation
from tests.graph.pairs import Pair

pytestmark = pytest.mark.slow

# All that steps aside, op and method variants together: data-dependent, sparse, or not a tensor op.
STEPS_ASIDE = frozenset(
    """
    allclose argwhere combinations corrcoef cov equal geqrf histogram histogramdd item linalg.lstsq
    masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum
    masked.log_softmax masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm
    masked.normalize masked.prod masked.softmax masked.softmin masked.std masked.sum masked.var
    masked_select narrow nn.functional.ctc_loss nn.functional.gaussian_nll_loss
    nn.functional.linear_cross_entropy nn.functional.triplet_margin_with_distance_loss nonzero
    nonzero_static sparse.mm sparse.sampled_addmm tensor_split to_sparse unique unique_consecutive
    as_strided
    """.split()
)
# fake tensors let pass what eager refuses; the graph will raise when it runs
REFUSED_BY_EAGER_ONLY = frozenset({("fakes", "addr")})


def _op_db() -> list[Any]:
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:  # torch's test code wants one class of it
            module: Any = types.ModuleType("expecttest")
            module.TestCase = unittest.TestCase
            sys.modules["expecttest"] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    database: list[Any] = op_db
    return [op for op in database if torch.float32 in op.supported_dtypes("cpu")]


@pytest.fixture(params=["samples", "fakes"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    clear_memo()
    real = op_rules.classify

    def classify(function: Any) -> Any:
        # the database wraps many operators in functions of torch's test package
        if (getattr(function, "__module__", "") or "").startswith("torch.testing"):
            return None
        return real(function)

    monkeypatch.setattr(op_rules, "classify", classify)
    monkeypatch.setattr(op_rules, "runs_on_samples", lambda target: True)
    if request.param == "fakes":
        monkeypatch.setattr(propagation._Call, "run_on_samples", lambda self, state: None)
    yield request.param
    clear_memo()


@pytest.mark.parametrize("variant", ["op", "inplace_variant", "method_variant"])
def test_metadata_of_all_operators(engine: str, variant: str) -> None:
    compared = 0
    aside: dict[str, str] = {}
    wrong: list[str] = []
    for op in _op_db():
        function = getattr(op, variant)
        if function is None or op.name.startswith("jiterator"):
            continue
        for requires_grad in (False, True)[: 1 + op.supports_autograd]:
            for sample in _samples(op, requires_grad):
                given = sample.input
                if variant == "inplace_variant" and requires_grad:
                    given = given * 1  # a leaf would be refused
                try:
                    _compare(function, (given, *sample.args), sample.kwargs)
                    compared += 1
                except CannotPropagate as error:
                    aside[op.name] = error.reason
                except OperatorError:
                    compared += 1  # it fails, and just as in eager
                except Exception as error:
                    if (engine, op.name) in REFUSED_BY_EAGER_ONLY:
                        continue
                    wrong.append(f"{op.name}: {type(error).__name__} {str(error)[:300]}")
    print(f"{variant} on {engine}: {compared} calls compared, {len(aside)} operators step aside")
    assert not wrong, "\n".join(wrong)
    assert not {name: why for name, why in aside.items() if name not in STEPS_ASIDE}
    assert compared > 200


def _samples(op: Any, requires_grad: bool) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = op.sample_inputs("cpu", torch.float32, requires_grad=requires_grad)
        return list(itertools.islice(found, 1))


def _compare(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    pair = Pair()
    values: dict[int, TensorValue] = {}

    def wrap(tensor: torch.Tensor) -> TensorValue:
        if id(tensor) not in values:
            values[id(tensor)] = pair.input(tensor)
        return values[id(tensor)]

    wrapped = pytree.tree_map_only(torch.Tensor, wrap, (args, kwargs))
    pair.call(function, *wrapped[0], **wrapped[1])
