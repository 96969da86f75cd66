"""Transforms of ``torch.func`` and checkpointing are nodes; what they run is a graph of its own."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def cube(x):
    return (x**3).sum()


def closure(x):
    weight = x * 2

    def loss(y):
        return (y * weight).sin().sum()

    return grad(loss)(x)


def auxiliary(x):
    def loss(y):
        return cube(y), {"doubled": y * 2}

    gradient, more = grad(loss, has_aux=True)(x)
    return gradient, more


def of_a_dict(x):
    return grad(lambda p: (p["a"] * p["b"]).sum())({"a": x, "b": x * 2})


def inner_condition(x):
    return vmap(lambda row: row * row.shape[0] if row.ndim == 1 else row)(x.reshape(2, 2))


PROGRAMS = {
    "grad": lambda x: grad(cube)(x),
    "grad_and_value": lambda x: grad_and_value(cube)(x),
    "grad of grad": lambda x: grad(lambda y: grad(cube)(y).sum())(x),
    "argnums": lambda x: grad(lambda a, b: (a * b**2).sum(), argnums=(0, 1))(x, x + 1),
    "closure": closure,
    "auxiliary": auxiliary,
    "dict": of_a_dict,
    "vmap": lambda x: vmap(lambda y: y.sin() * 2)(x),
    "vmap in_dims": lambda x: vmap(torch.dot, in_dims=(0, 1))(x.reshape(2, 2), x.reshape(2, 2)),
    "vmap out_dims": lambda x: vmap(lambda y: y * 2, out_dims=1)(x.reshape(2, 2)),
    "vmap of grad": lambda x: vmap(grad(lambda y: y**2))(x),
    "condition": inner_condition,
    "jvp": lambda x: jvp(torch.sin, (x,), (torch.ones(4),)),
    "jacrev": lambda x: jacrev(lambda y: y**2)(x),
    "jacfwd": lambda x: jacfwd(lambda y: y**2)(x),
    "hessian": lambda x: hessian(cube)(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_transform_is_a_node(check, name, requires_grad):
    report = check(PROGRAMS[name], (torch.randn(4, requires_grad=requires_grad),))
    assert not report.breaks
    assert report.graphs == 1


def test_per_sample_gradients(check):
    def program(m, x):
        parameters = {name: p.detach() for name, p in m.named_parameters()}

        def loss(parameters, sample):
            return functional_call(m, parameters, (sample.unsqueeze(0),)).sum()

        return vmap(grad(loss), in_dims=(None, 0))(parameters, x)

    report = check(program, (nn.Linear(4, 2), torch.randn(3, 4)))
    assert not report.breaks


def test_a_function_that_escapes_is_torchs(check):
    def program(x):
        output, pullback = vjp(torch.sin, x)
        return output, pullback(torch.ones_like(output))[0], grad(cube).__name__

    check(program, (torch.randn(3),))


def test_side_effect_inside_breaks(check):
    seen = []

    def program(x):
        def loss(y):
            seen.append(1)
            return cube(y)

        return grad(loss)(x)

    def script(decorate):
        seen.clear()
        fn = decorate(program)
        return fn(torch.ones(2)), fn(torch.ones(2)), list(seen)

    assert check.script(script).breaks


def test_layout_inside_vmap_is_not_decided(check):
    def program(x):
        return vmap(lambda y: y * 2 if y.is_contiguous() else y * 3, in_dims=1)(x)

    check(program, (torch.randn(3, 4),))


def test_error_inside_is_eagers(check):
    def program(x):
        try:
            return grad(lambda y: y * 2)(x)
        except RuntimeError as error:
            return type(error).__name__

    check(program, (torch.randn(3),))


def checkpointed(x):
    return checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False)


def checkpointed_module(m, x):
    return checkpoint(m, x, use_reentrant=False)


def test_checkpoint_is_a_node(check):
    report = check(checkpointed, (torch.randn(3, requires_grad=True),))
    assert not report.breaks
    assert report.graphs == 1


def test_checkpointed_module_with_random_numbers_and_statistics(check):
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 4))
    report = check(checkpointed_module, (module, torch.randn(3, 4, requires_grad=True)))
    assert not report.breaks
    assert report.graphs == 1


def test_checkpointed_blocks(check):
    def program(m, x):
        return checkpoint_sequential(m, 2, x, use_reentrant=False)

    module = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
    report = check(program, (module, torch.randn(3, 4, requires_grad=True)))
    assert not report.breaks


def test_reentrant_checkpoint(check):
    def program(x):
        return checkpoint(lambda y: y.sin().cos(), x, use_reentrant=True)

    check(program, (torch.randn(3, requires_grad=True),))


def test_checkpoint_saves_memory():
    import capture

    saved = []

    def pack(t):
        saved.append(t.numel())
        return t

    def program(x):
        return checkpoint(lambda y: y.sin().cos().tanh().exp(), x, use_reentrant=False).sum()

    counts = []
    for fn in (program, capture.compile(program, backend="eager")):
        saved.clear()
        x = torch.randn(5, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            fn(x)
        counts.append(len(saved))
    assert counts[0] == counts[1]


# --- functions of tangents ----------------------------------------------------------------------


def twice_pulled(x):
    output, pull = vjp(lambda a, b: {"product": a * b, "sin": a.sin()}, x, x + 1)
    ones = {name: torch.ones_like(value) for name, value in output.items()}
    return output, pull(ones), pull({name: value * 3 for name, value in ones.items()})


def pushed(x):
    output, push = linearize(lambda a: (a * x).sin(), x)
    return output, push(torch.ones_like(x)), push(x)


def rebound_in_between(x):
    factor = 2
    _, pull = vjp(lambda a: a * factor, x)
    factor = 3
    return pull(torch.ones_like(x)), factor


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch's linearize
@pytest.mark.parametrize("program", [twice_pulled, pushed, rebound_in_between])
def test_function_of_tangents_is_in_the_graph(check, program):
    x = torch.tensor([0.5, -1.0, 2.0])
    assert check(program, (x,), fullgraph=True).graphs == 1


def test_gradients_flow_through_a_function_of_tangents(check):
    def f(x):
        _, pull = vjp(lambda a: a.sin() * a, x)
        return pull(torch.ones_like(x))

    check(f, (torch.tensor([0.5, -1.0, 2.0], requires_grad=True),), fullgraph=True)


def test_function_of_tangents_of_what_was_written_to_is_left_to_python(check):
    def f(x):
        _, pull = vjp(torch.sin, x)
        x.add_(1)
        return pull(torch.ones_like(x))

    assert check(f, (torch.tensor([0.5, -1.0, 2.0]),)).breaks


def test_function_of_tangents_that_escapes_is_made_by_torch(check):
    def f(x):
        output, pull = vjp(torch.sin, x)
        return output, pull

    def program(decorate):
        compiled = decorate(f)
        x = torch.tensor([0.5, -1.0, 2.0])
        output, pull = compiled(x)
        return output, pull(torch.ones_like(x))

    assert check.script(program).breaks


def test_random_function_is_not_run_twice(check):
    def f(x):
        output, pull = vjp(lambda a: a * torch.rand(3), x)
        return output, pull(torch.ones_like(x))

    assert check(f, (torch.tensor([0.5, -1.0, 2.0]),)).breaks


def test_refused_function_says_no_more_than_in_eager(check, capfd):
    def f(x):
        try:
            return vmap(lambda a: a + torch.rand(()))(x)
        except RuntimeError as error:
            return str(error)

    check(f, (torch.ones(3, 2),))
    assert capfd.readouterr().err == ""
