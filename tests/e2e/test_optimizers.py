"""Optimizers in captured functions: parameters and state bitwise what eager makes of them.

The sweep over all of torch's optimizers and options is ``tests.conformance.optiminfo``.
"""

# mypy: ignore-errors

from __future__ import annotations

import copy
import gc
import math
import weakref

import pytest
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import capture
from capture import counters
from capture.backends import GraphCounter
from capture.variables.marks import patched
from tests.comparison import difference


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


def parameters(count=4, shape=(3, 4)):
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for _ in range(count)]


def give_grads(params, n, shape=None):
    torch.manual_seed(100 + n)
    for p in params:
        p.grad = torch.randn(p.shape)


class Run:
    """Some steps, eager or compiled: what they left, and how many graphs they took."""

    def __init__(self, make, step, steps, compiled, before=None):
        self.params = parameters()
        self.optimizer = make(self.params)
        self.counter = GraphCounter()
        fn = capture.compile(step, backend=self.counter) if compiled else step
        self.results = []
        for n in range(steps):
            if before is not None:
                before(self.optimizer, n)
            give_grads(self.params, n)
            self.results.append(fn(self.optimizer))

    def state(self):
        return (
            [p.detach() for p in self.params],
            [p.grad for p in self.params],
            self.optimizer.state_dict(),
            self.results,
        )


def same(make, step, steps=4, graphs=2, before=None):
    """Run both; check that they agree, without a break, and return the compiled run."""
    expected = Run(make, step, steps, False, before)
    actual = Run(make, step, steps, True, before)
    found = difference(expected.state(), actual.state())
    assert not found, found
    assert counters.snapshot().breaks == []
    assert actual.counter.graph_count <= graphs
    return actual


def step_and_clear(optimizer):
    optimizer.step()
    optimizer.zero_grad()


OPTIONS = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "foreach": True}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "maximize": True}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "fused": True}),
    (optim.Adam, {}),
    (optim.Adam, {"amsgrad": True, "weight_decay": 0.1, "foreach": True}),
    (optim.Adam, {"fused": True, "lr": torch.tensor(0.01)}),
    (optim.AdamW, {"maximize": True}),
    (optim.Adagrad, {"lr_decay": 0.1}),
    (optim.Adadelta, {"foreach": True}),
    (optim.Adamax, {}),
    (optim.NAdam, {"momentum_decay": 6e-3}),
    (optim.RMSprop, {"centered": True, "momentum": 0.9}),
    (optim.Rprop, {}),
    (optim.ASGD, {}),
    (optim.Adafactor, {}),
]


@pytest.mark.parametrize(("cls", "options"), OPTIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_step_and_zero_grad_are_one_graph(cls, options):
    same(lambda ps: cls(ps, **options), step_and_clear)


@pytest.mark.parametrize("foreach", [False, True])
def test_radam_decides_on_its_step_count(foreach):
    # three graphs: the state is made; few steps; more than five
    run = same(lambda ps: optim.RAdam(ps, foreach=foreach), step_and_clear, steps=9, graphs=3)
    assert run.counter.graph_count == 3


def test_asgd_decides_on_its_average():
    same(lambda ps: optim.ASGD(ps, t0=3, foreach=True), step_and_clear, steps=7, graphs=3)


def test_muon_on_matrices():
    if hasattr(optim, "Muon"):
        same(lambda ps: optim.Muon(ps), step_and_clear)


def test_parameter_groups_with_options_of_their_own():
    def make(ps):
        return optim.AdamW(
            [{"params": ps[:1], "lr": 0.1}, {"params": ps[1:], "weight_decay": 0.0}], lr=0.01
        )

    same(make, step_and_clear)


def test_parameters_of_several_dtypes_in_a_foreach_group():
    def make(ps):
        ps[1].data = ps[1].data.double()
        ps[2].data = ps[2].data.bfloat16()
        return optim.Adam(ps, foreach=True)

    def grads(optimizer, n):
        return None

    expected, actual = [], []
    for results, compiled in ((expected, False), (actual, True)):
        ps = parameters()
        optimizer = make(ps)
        fn = capture.compile(step_and_clear, backend="eager") if compiled else step_and_clear
        for n in range(3):
            torch.manual_seed(n)
            for p in ps:
                p.grad = torch.randn(p.shape).to(p.dtype)
            fn(optimizer)
        results += [p.detach() for p in ps]
    assert not difference(expected, actual)
    assert counters.snapshot().breaks == []


def test_parameters_without_a_gradient_are_left_out():
    def step(optimizer):
        optimizer.param_groups[0]["params"][1].grad = None
        optimizer.step()
        optimizer.zero_grad()

    run = same(lambda ps: optim.Adam(ps), step)
    assert len(run.optimizer.state) == 3


def test_state_of_a_parameter_that_joins_later():
    def before(optimizer, n):
        optimizer.param_groups[0]["params"][0].requires_grad_(True)

    def step(optimizer):
        optimizer.step()
        optimizer.zero_grad()

    results = []
    for compiled in (False, True):
        ps = parameters()
        optimizer = optim.Adam(ps)
        fn = capture.compile(step, backend="eager") if compiled else step
        for n in range(5):
            give_grads(ps[: 2 + n // 2], n)
            fn(optimizer)
        results.append(([p.detach() for p in ps], optimizer.state_dict()))
    assert not difference(*results)


def test_gradients_set_to_zero():
    def step(optimizer):
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    same(lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, foreach=True), step)


def test_differentiable():
    def make(ps):
        return optim.Adam([p.clone() for p in ps], differentiable=True)

    def step(optimizer):
        ps = optimizer.param_groups[0]["params"]
        for p in ps:
            p.grad = torch.full_like(p, 0.5).detach()
        optimizer.step()
        return [p * 2 for p in ps]

    expected, actual = [], []
    for results, fn in ((expected, step), (actual, capture.compile(step, backend="eager"))):
        ps = parameters()
        optimizer = make(ps)
        for _ in range(2):
            out = fn(optimizer)
        sum(t.sum() for t in out).backward()
        results += [p.grad for p in ps]
    assert not difference(expected, actual)


# --- learning rates -------------------------------------------------------------------------------


def test_a_changing_learning_rate_recompiles_once():
    def before(optimizer, n):
        optimizer.param_groups[0]["lr"] = 0.1 / (n + 1)

    # first step, second value of the rate with state, and the rate as an input from then on
    run = same(
        lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9), step_and_clear, 8, before=before, graphs=3
    )
    recompiles = counters.snapshot().recompiles
    assert sum("lr" in r.sentence for r in recompiles) <= 1
    assert run.counter.graph_count <= 3


SCHEDULERS = [
    lambda o: LambdaLR(o, lambda e: 0.9**e),
    lambda o: ExponentialLR(o, 0.9),
    lambda o: StepLR(o, 3),
    lambda o: CosineAnnealingLR(o, 10),
    lambda o: LinearLR(o, total_iters=4),
    lambda o: OneCycleLR(o, 0.1, total_steps=20),
    lambda o: SequentialLR(o, [LinearLR(o, total_iters=3), ExponentialLR(o, 0.9)], [3]),
]


@pytest.mark.parametrize("make_scheduler", SCHEDULERS)
def test_a_scheduler_outside(make_scheduler):
    results = []
    counter = GraphCounter()
    for fn in (step_and_clear, capture.compile(step_and_clear, backend=counter)):
        ps = parameters()
        optimizer = optim.Adam(ps, lr=0.01)
        scheduler = make_scheduler(optimizer)
        for n in range(10):
            give_grads(ps, n)
            fn(optimizer)
            scheduler.step()
        results.append(([p.detach() for p in ps], optimizer.state_dict(), scheduler.get_last_lr()))
    assert not difference(*results)
    assert counters.snapshot().breaks == []
    assert counter.graph_count <= 4


@pytest.mark.parametrize("make_scheduler", SCHEDULERS)
def test_a_scheduler_inside(make_scheduler):
    def step(optimizer, scheduler):
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()

    results = []
    counter = GraphCounter()
    for fn in (step, capture.compile(step, backend=counter)):
        ps = parameters()
        optimizer = optim.Adam(ps, lr=0.01)
        scheduler = make_scheduler(optimizer)
        for n in range(10):
            give_grads(ps, n)
            fn(optimizer, scheduler)
        results.append(([p.detach() for p in ps], optimizer.state_dict(), scheduler.state_dict()))
    assert not difference(*results)
    assert counters.snapshot().breaks == []
    assert counter.graph_count <= 5  # some schedules branch on the epoch


def test_reduce_on_plateau_outside():
    results = []
    for fn in (step_and_clear, capture.compile(step_and_clear, backend="eager")):
        ps = parameters()
        optimizer = optim.SGD(ps, lr=0.1)
        scheduler = ReduceLROnPlateau(optimizer, patience=1)
        for n in range(8):
            give_grads(ps, n)
            fn(optimizer)
            scheduler.step(1.0)
        results.append(([p.detach() for p in ps], optimizer.state_dict()))
    assert not difference(*results)


# --- clipping, averaging, scaling -----------------------------------------------------------------


@pytest.mark.parametrize("foreach", [None, True, False])
def test_clipping_by_norm(foreach):
    def step(optimizer):
        norm = nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.5, foreach=foreach)
        optimizer.step()
        return norm

    same(lambda ps: optim.SGD(ps, lr=0.1), step)


def test_clipping_by_value():
    def step(optimizer):
        nn.utils.clip_grad_value_(optimizer.param_groups[0]["params"], 0.2)
        optimizer.step()
        optimizer.zero_grad()

    same(lambda ps: optim.Adam(ps), step)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize(
    "settings", [{}, {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}, {"use_buffers": True}]
)
def test_averaged_model(settings):
    def step(optimizer, averaged, net):
        optimizer.step()
        averaged.update_parameters(net)

    results = []
    counter = GraphCounter()
    for fn in (step, capture.compile(step, backend=counter)):
        net = model()
        averaged = AveragedModel(net, **settings)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        for n in range(4):
            give_grads(net.parameters(), n)
            fn(optimizer, averaged, net)
        results.append((net.state_dict(), averaged.state_dict()))
    assert not difference(*results)
    assert counters.snapshot().breaks == []
    assert counter.graph_count <= 3


def test_ema_by_hand():
    def step(optimizer, shadow):
        optimizer.step()
        with torch.no_grad():
            for s, p in zip(shadow, optimizer.param_groups[0]["params"], strict=True):
                s.mul_(0.9).add_(p, alpha=0.1)

    results = []
    for fn in (step, capture.compile(step, backend="eager")):
        ps = parameters()
        shadow = [p.detach().clone() for p in ps]
        optimizer = optim.SGD(ps, lr=0.1)
        for n in range(3):
            give_grads(ps, n)
            fn(optimizer, shadow)
        results.append((ps, shadow))
    assert not difference(*results)
    assert counters.snapshot().breaks == []


def test_gradient_scaler():
    def step(optimizer, scaler):
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    results = []
    for fn in (step, capture.compile(step, backend="eager")):
        ps = parameters()
        optimizer = optim.SGD(ps, lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for n in range(4):
            give_grads(ps, n)
            if n == 2:
                ps[0].grad[0, 0] = math.inf
            scaler.scale(torch.ones(()))
            fn(optimizer, scaler)
        results.append(([p.detach() for p in ps], scaler.state_dict()))
    assert not difference(*results)
    # whether the step is left out is known only when the graph has run
    assert {b.reason_id for b in counters.snapshot().breaks} == {"CAP0002"}


# --- hooks, closures, what happens between steps --------------------------------------------------


def test_step_hooks_run_in_order():
    def make(ps):
        optimizer = optim.SGD(ps, lr=0.1)
        optimizer.log = []
        optimizer.register_step_pre_hook(lambda o, a, k: o.log.append("pre"))
        optimizer.register_step_post_hook(lambda o, a, k: o.log.append("post"))
        return optimizer

    run = same(make, step_and_clear)
    assert run.optimizer.log == ["pre", "post"] * 4


def test_a_hook_added_later_is_seen():
    def before(optimizer, n):
        def clear(optimizer, args, kwargs):
            optimizer.param_groups[0]["params"][0].grad.zero_()

        if n == 2:
            optimizer.register_step_pre_hook(clear)

    same(lambda ps: optim.SGD(ps, lr=0.1), step_and_clear, before=before, graphs=3)


def test_a_global_hook_is_seen():
    results = []
    for fn in (step_and_clear, capture.compile(step_and_clear, backend="eager")):
        ps = parameters()
        optimizer = optim.SGD(ps, lr=0.1)
        calls = []
        give_grads(ps, 0)
        fn(optimizer)
        handle = register_optimizer_step_post_hook(lambda o, a, k: calls.append(type(o).__name__))
        try:
            give_grads(ps, 1)
            fn(optimizer)
        finally:
            handle.remove()
        results.append(([p.detach() for p in ps], calls))
    assert not difference(*results)
    assert results[1][1] == ["SGD"]


def test_a_closure_is_called():
    def step(optimizer, value):
        def closure():
            return value * 2

        return optimizer.step(closure)

    results = []
    for fn in (step, capture.compile(step, backend="eager")):
        ps = parameters()
        optimizer = optim.Adam(ps)
        given = []
        for n in range(3):
            give_grads(ps, n)
            given.append(fn(optimizer, torch.tensor(float(n))))
        results.append(([p.detach() for p in ps], given))
    assert not difference(*results)
    assert counters.snapshot().breaks == []


def test_loading_state_between_steps():
    def before(optimizer, n):
        if n == 2:
            state = copy.deepcopy(optimizer.state_dict())
            for entry in state["state"].values():
                entry["exp_avg"].fill_(0.25)
            optimizer.load_state_dict(state)

    same(lambda ps: optim.Adam(ps), step_and_clear, steps=5, before=before)


def test_a_copied_optimizer_goes_on_with_the_same_graphs():
    ps = parameters()
    optimizer = optim.Adam(ps)
    counter = GraphCounter()
    fn = capture.compile(step_and_clear, backend=counter)
    for n in range(3):
        give_grads(ps, n)
        fn(optimizer)
    other = copy.deepcopy(optimizer)
    give_grads(ps, 3)
    give_grads(other.param_groups[0]["params"], 3)
    fn(optimizer)
    fn(other)
    assert counter.graph_count == 2
    for p, q in zip(ps, other.param_groups[0]["params"], strict=True):
        assert torch.equal(p, q)


def test_a_parameter_group_added_between_steps():
    def before(optimizer, n):
        if n == 2:
            torch.manual_seed(9)
            optimizer.add_param_group({"params": [nn.Parameter(torch.randn(2))], "lr": 0.5})

    results = []
    for compiled in (False, True):
        ps = parameters()
        optimizer = optim.Adam(ps)
        fn = capture.compile(step_and_clear, backend="eager") if compiled else step_and_clear
        for n in range(5):
            before(optimizer, n)
            give_grads([p for g in optimizer.param_groups for p in g["params"]], n)
            fn(optimizer)
        results.append((optimizer.state_dict(), [p.detach() for p in ps]))
    assert not difference(*results)


def test_frozen_parameters_stay():
    def before(optimizer, n):
        optimizer.param_groups[0]["params"][2].requires_grad_(n < 2)

    same(lambda ps: optim.Adam(ps), step_and_clear, before=before, graphs=4)


def test_two_optimizers_in_one_function():
    def step(first, second):
        first.step()
        second.step()
        first.zero_grad()
        second.zero_grad()

    results = []
    counter = GraphCounter()
    for fn in (step, capture.compile(step, backend=counter)):
        ps = parameters()
        first, second = optim.Adam(ps[:2]), optim.SGD(ps[2:], lr=0.1, momentum=0.9)
        for n in range(4):
            give_grads(ps, n)
            fn(first, second)
        results.append((ps, first.state_dict(), second.state_dict()))
    assert not difference(*results)
    assert counters.snapshot().breaks == []
    assert counter.graph_count == 2


def test_an_optimizer_of_ones_own():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr=0.1):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"] = 0
                        state["average"] = torch.zeros_like(p)
                    state["step"] += 1
                    state["average"].lerp_(p.grad, 1 / state["step"])
                    p.sub_(state["average"].sign(), alpha=group["lr"])

    run = same(Signs, step_and_clear, steps=6, graphs=3)
    assert run.optimizer.state[run.params[0]]["step"] == 6


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_runs_natively_with_its_closure_captured(search):
    def train(optimizer, p):
        def closure():
            optimizer.zero_grad()
            loss = ((p - 3) ** 4).sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    results = []
    counter = GraphCounter()
    for fn in (train, capture.compile(train, backend=counter)):
        p = nn.Parameter(torch.arange(3.0))
        optimizer = optim.LBFGS([p], max_iter=6, line_search_fn=search)
        losses = [fn(optimizer, p).detach() for _ in range(5)]
        results.append((losses, p.detach(), optimizer.state_dict()["state"]))
    assert not difference(*results)
    # The closure, without and with gradients to begin with. Once torch.compile was used in here,
    # it has LBFGS run with all that it calls left alone.
    left_alone = patched(optim.LBFGS.step) is not None
    assert counter.graph_count == (0 if left_alone else 2)
    assert [b.reason_id for b in counters.snapshot().breaks] == ["CAP0002"]


def test_entries_keep_no_parameters_alive():
    ps = parameters()
    optimizer = optim.Adam(ps)
    fn = capture.compile(step_and_clear, backend="eager")
    for n in range(3):
        give_grads(ps, n)
        fn(optimizer)
    dead = [weakref.ref(p) for p in ps]
    del ps, optimizer
    gc.collect()
    assert all(reference() is None for reference in dead)
