"""Hooks on tensors on the way of a captured backward call, and of modules: within the graph."""

# mypy: ignore-errors

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

X = torch.arange(24.0).reshape(3, 8) / 10
Y = torch.ones(3, 4)


@pytest.fixture(params=["eager", "aot_eager"])
def check(check, request):
    check.inner = request.param
    return check


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))


def train(decorate, net, loss=None, log=None, steps=3):
    """Train; what the steps gave, parameters, gradients and a copy of the log after each."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        value = F.mse_loss(net(x), y) if loss is None else loss(x, y)
        value.backward()
        optimizer.step()
        return value.detach()

    step = decorate(step)
    found = []
    for number in range(steps):
        found.append(step(X + number, Y))
        found.append(None if log is None else list(log))
    return found, list(net.parameters()), [p.grad for p in net.parameters()]


def whole(check, program, graphs=2):
    """Check a program whose steps must be captured whole."""
    report = check.script(program)
    assert (report.graphs, report.breaks) == (graphs, [])


# --- hooks of tensors -----------------------------------------------------------------------------


def test_hooks_that_observe(check):
    def program(decorate):
        net, log = model(), []

        def loss(x, y):
            hidden = net[1](net[0](x))
            hidden.register_hook(lambda g: log.append(("hidden", g.abs().mean())))
            out = net[2](hidden)
            out.register_hook(lambda g: log.append(("out", g.norm())))
            return F.mse_loss(out, y)

        return train(decorate, net, loss, log)

    whole(check, program)


def test_hooks_that_change_gradients_by_what_they_refer_to(check):
    def program(decorate):
        net, log, scale = model(), [], [0.5]

        def loss(x, y):
            hidden = net[0](x)
            hidden.register_hook(lambda g: log.append(("hidden", g.sum())))
            active = hidden.relu()
            active.register_hook(lambda g: g * scale[0])
            active.register_hook(lambda g: log.append(("active", g.sum())))
            out = net[2](active)
            out.register_hook(lambda g: (log.append(("out", g.sum())), g * 2)[1])
            return F.mse_loss(out, y)

        return train(decorate, net, loss, log)

    whole(check, program)


def test_hooks_on_branches(check):
    def program(decorate):
        torch.manual_seed(0)
        net, log = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)]), []

        def loss(x, y):
            a, b = net[0](x), net[1](x)
            a.register_hook(lambda g: (log.append(("a", g.sum())), g * 2)[1])
            b.register_hook(lambda g: (log.append(("b", g.sum())), g * 3)[1])
            return F.mse_loss(a * b, y)

        return train(decorate, net, loss, log)

    whole(check, program)


def test_hook_of_the_loss(check):
    def program(decorate):
        net, log = model(), []

        def loss(x, y):
            value = F.mse_loss(net(x), y)
            value.register_hook(lambda g: (log.append(g), g / 2)[1])
            return value

        return train(decorate, net, loss, log)

    whole(check, program)


def test_hooks_run_in_each_backward_call(check):
    def program(decorate):
        net, log = model(), []

        @decorate
        def step(x, y):
            hidden = net[0](x).relu()
            hidden.register_hook(lambda g: log.append(g.sum()))
            out = net[2](hidden)
            F.mse_loss(out, y).backward(retain_graph=True)
            out.abs().mean().backward()

        step(X, Y)
        return log, [p.grad for p in net.parameters()]

    whole(check, program, 1)


def test_removed_hooks_do_not_run(check):
    def program(decorate):
        net, log = model(), []

        def loss(x, y):
            hidden = net[0](x)
            handles = [hidden.register_hook(lambda g: log.append(g.sum()))]
            active = hidden.relu()
            handles.append(active.register_hook(lambda g: log.append(g.norm())))
            handles[0].remove()
            return F.mse_loss(net[2](active), y)

        return train(decorate, net, loss, log)

    whole(check, program)


def test_hook_reads_what_it_refers_to_in_the_backward(check):
    def program(decorate):
        w = torch.ones(3, requires_grad=True)

        @decorate
        def step(w):
            factor = 2
            y = w * 2
            y.register_hook(lambda grad: grad * factor)
            factor = 5
            y.sum().backward()

        step(w)
        return w.grad

    whole(check, program, 1)


@pytest.mark.parametrize(
    "hook",
    [
        lambda log, g: log.append(g.mul_(2)),
        lambda log, g: g.sum(),
        lambda log, g: print(log),
        lambda log, g: log.append(g.sum().item()),
    ],
)
def test_other_hooks_are_right(check, hook):
    def program(decorate):
        w, log = torch.ones(3, requires_grad=True), []

        @decorate
        def step(w):
            y = w * 2
            y.register_hook(lambda g: hook(log, g))
            y.sin().sum().backward()

        try:
            step(w)
        except RuntimeError as error:
            log.append(str(error))
        return log, w.grad

    check.script(program)


def test_tensor_that_is_written_to_after_the_registration(check):
    def program(decorate):
        net, log = model(), []

        def loss(x, y):
            hidden = net[0](x)
            hidden.register_hook(lambda g: log.append(g.sum()))
            hidden.mul_(2)
            return F.mse_loss(net[2](hidden), y)

        return train(decorate, net, loss, log)

    check.script(program)


def test_gradient_that_flows_around_a_changing_hook(check):
    def program(decorate):
        w, factor = torch.ones(3, requires_grad=True), [3]

        @decorate
        def step(w):
            y = w * 2
            y.register_hook(lambda g: g * factor[0])
            (y.sin() + w).sum().backward()

        step(w)
        return w.grad

    check.script(program)


def test_gradient_outside_of_the_function_runs_the_hook(check):
    def program(decorate):
        net, log = model(), []

        @decorate
        def forward(x):
            hidden = net[0](x)
            hidden.register_hook(lambda g: log.append(g.sum()))
            return net[2](hidden.relu())

        for number in range(2):
            forward(X + number).sum().backward()
        return log, [p.grad for p in net.parameters()]

    check.script(program)


# --- retain_grad ----------------------------------------------------------------------------------


def test_retained_gradients(check):
    def program(decorate):
        net = model()

        @decorate
        def step(x, y):
            net.zero_grad()
            seen = []
            for layer in net:
                x = layer(x)
                x.retain_grad()
                seen.append(x)
            F.mse_loss(x, y).backward()
            return [t.grad for t in seen], (x * x.grad).sum().detach(), x.retains_grad

        return [step(X + number, Y) for number in range(3)]

    whole(check, program)


def test_retained_gradients_add_up_and_leave(check):
    def program(decorate):
        net = model()

        @decorate
        def step(x):
            hidden = net[0](x)
            hidden.retain_grad()
            out = net[2](hidden.relu())
            out.sum().backward(retain_graph=True)
            out.square().mean().backward()
            return hidden

        hidden = step(X)
        return hidden.grad, hidden.retains_grad, hidden.is_leaf

    whole(check, program, 1)


# --- modules --------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = self.a(x)
        return self.head(x + self.b(x.relu()))


def test_backward_hooks_of_all_modules(check):
    def program(decorate):
        torch.manual_seed(0)
        net, log = Residual(), []
        for name, module in net.named_modules():
            module.register_full_backward_hook(
                lambda module, given, out, name=name: log.append(
                    (name, given[0] is None, out[0].norm())
                )
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(decorate, net, None, log)

    whole(check, program)


def test_backward_hooks_that_change_gradients(check):
    def program(decorate):
        net, log = model(), []
        net[2].register_full_backward_pre_hook(lambda module, out: (out[0] * 2,))
        net[2].register_full_backward_hook(lambda module, given, out: log.append(out[0].sum()))
        net[1].register_full_backward_hook(lambda module, given, out: (given[0].clamp(-0.1, 0.1),))
        net[1].register_full_backward_hook(lambda module, given, out: (given[0] + 1,))
        return train(decorate, net, None, log)

    whole(check, program)


def test_hooks_of_modules_and_leaves_run_in_order(check):
    def program(decorate):
        net, log = model(), []
        for name, p in net.named_parameters():
            p.register_hook(lambda g, name=name: log.append(name))
            p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name + " after"))
        for name, module in net.named_children():
            module.register_full_backward_hook(lambda *_, name=name: log.append(name))
            module.register_full_backward_pre_hook(lambda *_, name=name: log.append("to " + name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(decorate, net, None, log)

    whole(check, program)


def test_warning_about_inputs_without_gradient(check):
    def program(decorate):
        net = model()
        net[0].register_full_backward_hook(lambda *_: None)
        step = decorate(lambda x: net(x).sum().backward())
        seen = []
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("default")
            for number in range(3):
                step(X + number)
                seen.append([(str(w.message), w.category, w.filename, w.lineno) for w in given])
        return seen

    whole(check, program)


@pytest.mark.parametrize("outputs", [1, 2])
def test_backward_hook_of_a_module_of_several_tensors(check, outputs):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x, more=None):
            y = self.layer(x)
            return (y, x.sum(), y + 1)[:outputs]

    def program(decorate):
        torch.manual_seed(0)
        net, log = Net(), []
        net.register_full_backward_hook(
            lambda module, given, out: log.append((len(given), len(out), out[0].sum()))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(decorate, net, lambda x, y: F.mse_loss(net(x)[0], y), log)

    check.script(program)
