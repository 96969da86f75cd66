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


def test_fields_of_named_results(check):
    def program(x):
        return torch.max(x, 1).values, x.topk(2).indices, torch.linalg.svd(x).S

    report = check(program, (torch.randn(3, 4),))
    assert not report.breaks


def inference(x):
    with torch.inference_mode():
        y = x * 2
    return y


def training(x):
    with torch.inference_mode(False):
        y = x * 2
    return y


@torch.inference_mode()
def doubled(x):
    return x * 2


@pytest.mark.parametrize("program", [inference, training, lambda x: doubled(x)])
def test_inference_mode(check, program):
    report = check(program, (torch.randn(3, requires_grad=True),))
    assert not report.breaks


def test_break_inside_inference_mode(check):
    def program(x):
        with torch.inference_mode():
            y = x * 2
            print(y.shape)
            z = y + 1
        return z, torch.is_inference_mode_enabled()

    check(program, (torch.randn(3),))


def test_labels_for_the_profiler(check):
    def program(x):
        with torch.profiler.record_function("part"):
            return x * 2

    report = check(program, (torch.randn(3),))
    assert not report.breaks


def test_decorated_inside(check):
    def program(x):
        @torch.no_grad()
        def double(y):
            return y * 2

        return double(x) + torch.no_grad()(lambda y: y * 3)(x) + x

    report = check(program, (torch.randn(3, requires_grad=True),))
    assert not report.breaks


def test_a_decorated_function_that_is_returned(check):
    def program(x):
        @torch.no_grad()
        def double(y):
            """Twice."""
            return y * 2

        return double(x), double.__name__, double.__doc__

    check(program, (torch.randn(3, requires_grad=True),))


def test_devices_that_there_are(check):
    def program(x):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return x.to(device) * torch.cuda.device_count()

    report = check(program, (torch.randn(3),))
    assert not report.breaks


def test_pytrees(check):
    def program(tree):
        leaves, spec = torch.utils._pytree.tree_flatten(tree)
        doubled = torch.utils._pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)
        return torch.utils._pytree.tree_map(lambda leaf: leaf + 1, doubled)

    report = check(program, ({"a": torch.randn(3), "b": [torch.randn(2), torch.randn(2)]},))
    assert not report.breaks


def test_a_tensor_without_history_has_no_grad_fn(check):
    def program(x):
        return x + 1 if x.grad_fn is None else x

    report = check(program, (torch.randn(3),))
    assert not report.breaks


def test_settings_of_torch_are_guarded_by_value():
    import torch._functorch.config

    import capture
    from capture.backends import GraphCounter

    def program(x):
        return x + 1 if torch._functorch.config.debug_assert else x - 1

    counter = GraphCounter("eager")
    compiled = capture.compile(program, backend=counter, fullgraph=True)
    x = torch.ones(2)
    assert torch.equal(compiled(x), program(x))
    before = torch._functorch.config.debug_assert
    with torch._functorch.config.patch(debug_assert=not before):
        assert torch.equal(compiled(x), program(x))
    assert torch.equal(compiled(x), program(x))
    assert counter.graph_count == 2


def test_a_module_of_a_class_with_methods_has_them(check):
    import types

    class Settings(types.ModuleType):
        def scale(self, x):
            return x * self.factor

    settings = Settings("settings")
    settings.factor = 3.0

    def program(x):
        return settings.scale(x)

    assert check(program, (torch.ones(2),)).graphs == 1


def test_stacks_of_modes_are_looked_at(check):
    def f(x):
        modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        return x + 1 if not modes else x - 1

    check(f, (torch.ones(2),), fullgraph=True)
