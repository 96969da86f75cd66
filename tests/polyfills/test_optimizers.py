"""Equivalents of torch's wrappers around optimizers."""

from __future__ import annotations

import torch
from torch import optim

from capture.polyfills.optimizers import WRAPPERS, UnrecordedRange, step_in_grad_mode


def test_the_installed_torch_has_the_wrappers() -> None:
    assert {code.co_name for code in WRAPPERS} == {"_use_grad", "inner"}
    assert optim.Optimizer.zero_grad.__code__ in WRAPPERS


def test_a_step_runs_in_its_grad_mode() -> None:
    seen = []

    class Holder:
        def __init__(self) -> None:
            self.defaults = {"differentiable": False}

    def step(self: Holder, number: int) -> int:
        seen.append(torch.is_grad_enabled())
        return number

    assert step_in_grad_mode(step, (Holder(),), {"number": 3}) == 3
    assert seen == [False]
    assert torch.is_grad_enabled()


def test_the_grad_mode_comes_back_after_an_error() -> None:
    class Holder:
        def __init__(self) -> None:
            self.defaults = {"differentiable": False}

    def step(self: Holder) -> None:
        raise ValueError

    try:
        step_in_grad_mode(step, (Holder(),), {})
    except ValueError:
        pass
    assert torch.is_grad_enabled()


def test_a_range_lets_exceptions_through() -> None:
    try:
        with UnrecordedRange("name") as found:
            assert found.name == "name"
            raise KeyError
    except KeyError:
        return
    raise AssertionError
