"""Holds the grouping of lists of tensors by device and dtype, which foreach code begins with."""

from __future__ import annotations

from typing import Any

import torch

from capture import break_reasons as reasons
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.constant import FALSE, NONE, ConstantVariable
from capture.variables.containers import DictVariable, ListVariable, TupleVariable
from capture.variables.tensor import TensorVariable

group: Any = torch._C._group_tensors_by_device_and_dtype


def group_tensors(tracer: Tracer, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """The groups: metadata decides, so they are known now.

    Their order is that of a hash table in C++, so torch itself says it, of empty tensors.
    """
    columns = [[v.realize(tracer) for v in tracer.iterate(c)] for c in tracer.iterate(args[0])]
    with_indices = tracer.as_python(args[1] if len(args) > 1 else kwargs.get("with_indices", FALSE))
    made: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}
    try:
        groups = group([[_stand_in(v, made) for v in column] for column in columns], True)
    except RuntimeError as error:
        tracer.raise_real(error)
    result = DictVariable()
    for (device, dtype), (_, places) in groups.items():
        lists: list[Variable] = [
            ListVariable([column[p] for p in places] if column else []) for column in columns
        ]
        numbers: list[Variable] = [ConstantVariable(p) for p in places] if with_indices else []
        key = TupleVariable([ConstantVariable(device), ConstantVariable(dtype)])
        result.set(tracer, key, TupleVariable([ListVariable(lists), ListVariable(numbers)]))
    return result


def _stand_in(
    v: Variable, made: dict[tuple[torch.device, torch.dtype], torch.Tensor]
) -> torch.Tensor | None:
    if v is NONE or (isinstance(v, ConstantVariable) and v.value is None):
        return None
    if not isinstance(v, TensorVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "_group_tensors_by_device_and_dtype")
    key = (v.meta.device, v.meta.dtype)
    found = made.get(key)
    if found is None:
        found = made[key] = torch.empty(0, device=key[0], dtype=key[1])
    return found
