"""Graphs that switch inference mode on by themselves, through the AOT stage."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn

MODEL = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU())


def all_of_it(x):
    with torch.inference_mode():
        y = x * 2
        return y, y.view(-1), y.is_inference()


def a_part(x):
    with torch.inference_mode():
        y = x * 2
    return y, x * 3


def normal_tensors_in_between(x):
    z = x * 3
    with torch.inference_mode():
        return z + 1


@torch.inference_mode()
def decorated(x):
    return MODEL(x)


def written_input(x):
    with torch.inference_mode():
        x.add_(1)
        return x * 2


def views_of_inputs(x):
    with torch.inference_mode():
        return x.view(-1), x + 1


PROGRAMS = [
    all_of_it, a_part, normal_tensors_in_between, decorated, written_input, views_of_inputs,
]  # fmt: skip


def seen(value):
    if isinstance(value, torch.Tensor):
        return value.is_inference(), value.requires_grad, value.detach().tolist()
    return value


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_results_are_what_they_are_in_eager(check, fn, inner, dynamic):
    check.inner = inner

    def program(decorate):
        torch.manual_seed(0)
        for module in MODEL:
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        compiled = decorate(fn)
        found = []
        for rows in (4, 5):
            for requires_grad in (False, True, False):
                x = torch.randn(rows, 3, requires_grad=requires_grad) * 1
                out = compiled(x)
                found.append([seen(v) for v in (out if isinstance(out, tuple) else (out,))])
                found.append((seen(x), x._version))
        with torch.inference_mode():
            found += [seen(v) for v in compiled(torch.ones(4, 3))]
        return found, [seen(v) for v in MODEL.buffers()]

    check.script(program, dynamic=dynamic)
