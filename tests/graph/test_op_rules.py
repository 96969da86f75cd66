"""Tests of the classification of torch functions."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from capture.graph import RuleKind, classify, classify_attribute, classify_method
from capture.graph.op_rules import may_raise, may_write


class _Custom(torch.autograd.Function):
    pass


RULES: list[tuple[RuleKind, list[Any]]] = [
    (
        RuleKind.NODE,
        [
            torch.add,
            torch.relu,
            torch.einsum,
            torch.tensor,
            torch.zeros,
            torch.linalg.norm,
            torch.fft.fft,
            torch.special.gammaln,
            torch._VF.lstm,
            torch._foreach_add,
            torch.ops.aten.add,
            torch.ops.aten.add.Tensor,
            torch.Tensor.add,
            torch.Tensor.__add__,
            torch.Tensor.__rsub__,
            torch.Tensor.split,
            torch.Tensor.T,
            F.linear,
            F.gelu,
            F.max_pool2d,
            F.layer_norm,
            F.scaled_dot_product_attention,
            F.multi_head_attention_forward,
            F.dropout,
            operator.add,
            operator.getitem,
            operator.setitem,
        ],
    ),
    (
        RuleKind.CONSTANT,
        [
            torch.is_tensor,
            torch.is_floating_point,
            torch.numel,
            torch.get_default_dtype,
            torch.is_grad_enabled,
            torch.promote_types,
            torch.finfo,
            torch.device,
            torch.broadcast_shapes,
            torch.Tensor.size,
            torch.Tensor.__len__,
            torch.Tensor.shape,
            torch.overrides.has_torch_function,
        ],
    ),
    (
        RuleKind.STATE,
        [
            torch._C._set_grad_enabled,
            torch.set_autocast_enabled,
            torch.autocast_increment_nesting,
            torch.autograd.grad_mode._enter_inference_mode,
            torch.amp.autocast_mode._enter_autocast,
        ],
    ),
    (
        RuleKind.BREAK,
        [
            torch.save,
            torch.load,
            torch.manual_seed,
            torch.set_num_threads,
            torch.autograd.grad,
            torch.autograd.backward,
            torch.compile,
            torch.from_numpy,
            torch.nn.Parameter,
            torch.Tensor,
            torch.Tensor.item,
            torch.Tensor.backward,
            torch.Tensor.grad,
            _Custom.apply,
        ],
    ),
    (
        RuleKind.INLINE,
        [
            torch.nn.init.normal_,
            torch.distributions.Normal.log_prob,
            torch.nn.Linear.forward,
            torch.no_grad.__enter__,
            torch.nn.Module.__call__,
        ],
    ),
]


@pytest.mark.parametrize(
    ("kind", "function"), [(kind, function) for kind, found in RULES for function in found]
)
def test_rule(kind: RuleKind, function: Any) -> None:
    rule = classify(function)
    assert rule is not None
    assert rule.kind is kind
    assert bool(rule.reason) == (kind is RuleKind.BREAK)


@pytest.mark.parametrize(
    "function", [len, math.sqrt, print, test_rule, operator.is_, operator.not_, object(), [].append]
)
def test_no_rule(function: Any) -> None:
    assert classify(function) is None


def test_methods_and_attributes() -> None:
    assert classify_method("add_").kind is RuleKind.NODE
    assert classify_method("tolist").kind is RuleKind.BREAK
    assert classify_method("dim").kind is RuleKind.CONSTANT
    assert classify_method("nothing").kind is RuleKind.BREAK
    assert classify_attribute("mT").kind is RuleKind.NODE
    assert classify_attribute("ndim").kind is RuleKind.CONSTANT
    assert classify_attribute("grad_fn").kind is RuleKind.BREAK


def test_writes_and_raises() -> None:
    assert may_write("add_", ())
    assert may_write("setitem", ())
    assert may_write("add", ("out",))
    assert not may_write("__add__", ())
    assert may_raise(["aten::index"])
    assert may_raise(["mine::op"])
    assert may_raise(["aten::linalg_inv_ex"])
    assert not may_raise(["aten::add", "aten::mm", "aten::convolution"])
