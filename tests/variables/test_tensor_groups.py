"""Grouping of lists of tensors, as foreach code does it."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype


def grouped(columns, with_indices):
    result = []
    for key, (lists, places) in _group_tensors_by_device_and_dtype(columns, with_indices).items():
        result.append((key, [[None if t is None else t + 1 for t in c] for c in lists], places))
    return result


def tensors(*dtypes):
    return [torch.ones(2, dtype=dtype) for dtype in dtypes]


def one_column(column, with_indices):
    return grouped([column], with_indices)


def test_one_kind(check):
    report = check(one_column, [tensors(torch.float32, torch.float32), True])
    assert report.graphs
    assert not report.breaks


def test_several_kinds_come_in_torchs_order(check):
    dtypes = (torch.float64, torch.bfloat16, torch.float32, torch.float64, torch.float32)
    report = check(one_column, [tensors(*dtypes), True])
    assert not report.breaks


def empty_and_missing(column):
    return grouped([column, [], [None] * len(column)], False)


def test_empty_columns_and_missing_tensors(check):
    report = check(empty_and_missing, [tensors(torch.float32, torch.float64)])
    assert not report.breaks
