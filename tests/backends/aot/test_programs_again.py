"""The programs of other tests with a backward in them, run through the AOT stage."""

# mypy: ignore-errors

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.e2e import test_graph_errors, test_optimizers, test_training_step
from tests.variables import test_autograd_grad, test_backward, test_gradients, test_tensors

MODULES = (
    test_autograd_grad, test_backward, test_gradients, test_graph_errors, test_tensors,
    test_training_step, test_optimizers,
)  # fmt: skip
# Eager's one_hot reads its argument to refuse classes that there are not; traces of it do not.
LEFT_OUT = frozenset(("test_one_hot_with_its_number_of_classes_is_in_the_graph",))


def _programs(module: ModuleType) -> Iterator[object]:
    for name, test in vars(module).items():
        if not name.startswith("test_") or name in LEFT_OUT or getattr(test, "pytestmark", ()):
            continue
        if [*inspect.signature(test).parameters] == ["check"]:
            yield pytest.param(test, id=f"{module.__name__.rpartition('.')[2]}-{name}")


@pytest.mark.parametrize("test", [p for module in MODULES for p in _programs(module)])
def test_program(check, test) -> None:
    check.inner = "aot_eager"
    test(check)
