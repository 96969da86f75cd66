"""What torch's own Python code asks of whoever runs it."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import pytest
import torch
from torch import nn


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_torch_chooses_as_in_eager(check):
    """Padded places of an encoder in evaluation are zero on the path that eager takes."""

    def program(m, x, padding):
        with torch.no_grad():
            return m(x, src_key_padding_mask=padding)

    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    check(program, (encoder, torch.randn(2, 5, 8), padding))


def test_the_program_sees_that_it_is_compiled():
    import capture

    def program(x):
        return x + 1 if torch.compiler.is_compiling() else x

    assert capture.compile(program, backend="eager")(torch.zeros(1)) == 1


def test_an_operator_passed_in_is_guarded(check):
    def program(op, x):
        return op(x, 2)

    x = torch.randn(3)
    report = check(program, (torch.ops.aten.mul.Tensor, x), (torch.ops.aten.add.Tensor, x))
    assert report.graphs == 2
    assert not report.breaks


def test_another_ordered_dict_fits_the_entry(check):
    def program(functions, x):
        for function in functions.values():
            x = function(x)
        return x

    def double(x):
        return x * 2

    given = collections.OrderedDict({0: double})
    assert check(program, (given, torch.randn(3))).graphs == 1


def test_a_hooked_module_compiles_once_for_its_copies(check):
    module = nn.Linear(4, 4)
    module.register_forward_hook(lambda module, args, output: output * 2)
    report = check(lambda m, x: m(x), (module, torch.randn(3, 4)))
    assert report.graphs == 1
    assert not report.breaks
