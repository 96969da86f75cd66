"""Operators that refuse their arguments whatever the sizes are, with symbolic sizes."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

DYNAMIC = {"dynamic": True}


def into_overlapping_memory(x):
    return x.add_(1)


def complex_into_real(x):
    return x.mul_(2j)


def real_into_integers(x):
    return x.long().div_(2)


def another_type_by_index(x):
    x[torch.tensor([0, 1])] = torch.ones(2, dtype=torch.double)
    return x


WRITES = [
    into_overlapping_memory, complex_into_real, real_into_integers,
    another_type_by_index,
]  # fmt: skip


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("write", WRITES, ids=[write.__name__ for write in WRITES])
def test_refused_write_meets_the_handler(check, write, inner):
    check.inner = inner

    def fn(x):
        log = [x.sum()]
        try:
            log.append(write(x))
        except RuntimeError as error:
            log.append(str(error))
        return log, x * 2

    wide, narrow = torch.arange(4.0), torch.ones(1).expand(5)
    check(fn, (wide,), (narrow,), (torch.arange(6.0),), backward=False, settings=DYNAMIC)


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_tensor_of_symbolic_size_without_a_gradient(check, inner):
    check.inner = inner

    def fn(x, w):
        y = x * w
        found = []
        for call in (lambda: torch.autograd.grad(y, x), y.backward):
            try:
                found.append(call())
            except RuntimeError as error:
                found.append(str(error))
        return y.detach(), found

    cases = [(torch.ones(n, requires_grad=True), torch.ones(n)) for n in (3, 4, 1)]
    check(fn, *cases, backward=False, settings=DYNAMIC)
