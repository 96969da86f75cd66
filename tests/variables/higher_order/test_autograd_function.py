"""The program's own autograd functions are nodes of the graph."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import capture


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


class Scaled(Function):
    """Saved tensors, attributes, an argument that is no tensor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad * ctx.factor, None


class Apart(Function):
    """Separate ``setup_context``, several outputs, ``needs_input_grad``."""

    @staticmethod
    def forward(x, factor):
        return x * x * factor, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, factor = inputs
        ctx.save_for_backward(x)
        ctx.factor = factor

    @staticmethod
    def backward(ctx, square, total):
        (x,) = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, None
        return 2 * x * square * ctx.factor + total, None


class InPlace(Function):
    """Writes to what it is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Sorted(Function):
    """An output without a gradient."""

    @staticmethod
    def forward(ctx, x):
        values, order = x.sort()
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return values, order

    @staticmethod
    def backward(ctx, grad, _):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(-1, order, grad)


class Once(Function):
    """Not to be differentiated twice."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Rounded(Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Unmaterialized(Function):
    """Gets None for gradients that there are not."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x + 1, y + 1

    @staticmethod
    def backward(ctx, a, b):
        return None if a is None else a * 2, None if b is None else b * 3


class Mixed(Function):
    """Decorated for autocast."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        return x @ x.T

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        return grad.sum().expand(3, 4)


class Loud(Function):
    """Prints in the backward."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        print("backward", tuple(grad.shape))
        return grad * 2


class Settings:
    scale = 2.5


class ReadsSetting(Function):
    @staticmethod
    def forward(ctx, x):
        return x * Settings.scale

    @staticmethod
    def backward(ctx, grad):
        return grad * Settings.scale


def in_mode(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return Mixed.apply(x)


def without_gradients(x):
    with torch.no_grad():
        return Rounded.apply(x)


def in_a_loop(x):
    for i in range(4):
        x = Scaled.apply(x, float(i))
    return x


PROGRAMS = {
    "saved": lambda x: Scaled.apply(x, 3.0) + 1,
    "setup_context": lambda x: Apart.apply(x, 2),
    "setup_context_frozen": lambda x: Apart.apply(x.detach(), 2)[0] + x,
    "mark_dirty": lambda x: InPlace.apply(x * 2) * x,
    "non_differentiable": lambda x: Sorted.apply(x),
    "once_differentiable": lambda x: Once.apply(x) * 2,
    "straight_through": lambda x: Rounded.apply(x * 3),
    "no_grad": without_gradients,
    "unmaterialized": lambda x: Unmaterialized.apply(x, x * 2)[0],
    "autocast": in_mode,
    "printing": lambda x: Loud.apply(x).sin(),
    "loop": in_a_loop,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_function_is_a_node(check, name):
    report = check(PROGRAMS[name], (leaf(3, 4),))
    assert not report.breaks
    assert report.graphs == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_ahead_of_time_stage_agrees(name, capsys):
    program = PROGRAMS[name]
    compiled = capture.compile(program, backend="aot_eager")
    given = leaf(3, 4)
    seen = []
    for fn in (program, compiled, compiled):
        x = copy.deepcopy(given)
        result = fn(x)
        tensors = [t for t in (result if isinstance(result, tuple) else (result,))]
        differentiable = [t.sum() for t in tensors if t.requires_grad]
        if differentiable:
            sum(differentiable).backward()
        seen.append((*tensors, x.grad, capsys.readouterr().out))
    for actual in seen[1:]:
        for a, b in zip(seen[0], actual, strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_what_forward_reads_is_guarded(check):
    def script(decorate):
        fn = decorate(lambda x: ReadsSetting.apply(x))
        x = torch.ones(2)
        before = fn(x)
        Settings.scale = 3.0
        try:
            return before, fn(x)
        finally:
            Settings.scale = 2.5

    report = check.script(script)
    assert not report.breaks
    assert len(report.recompiles) == 1


def test_what_was_written_before_is_seen(check):
    def script(decorate):
        @decorate
        def fn(x):
            Settings.scale = 4.0
            return ReadsSetting.apply(x)

        try:
            return fn(torch.ones(2)), fn(torch.ones(2))
        finally:
            Settings.scale = 2.5

    assert check.script(script).breaks


def test_side_effect_in_forward_breaks(check):
    calls = []

    class Counting(Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(1)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    def script(decorate):
        calls.clear()
        fn = decorate(lambda x: Counting.apply(x) + 1)
        return fn(torch.ones(2)), fn(torch.ones(2)), list(calls)

    assert check.script(script).breaks


def test_side_effects_in_backward_happen_in_the_backward(check):
    seen = []

    class Counting(Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad * ctx.scale, None

    def script(decorate):
        seen.clear()
        fn = decorate(lambda x: Counting.apply(x, 2) + Counting.apply(x, 3))
        lengths = []
        for _ in range(3):
            x = torch.ones(2, requires_grad=True)
            out = fn(x)
            lengths.append(len(seen))
            out.sum().backward()
            lengths.append(x.grad)
        return lengths, list(seen)

    assert check.script(script).graphs == 1


def test_a_tensor_from_elsewhere_is_not_written(check):
    state = torch.zeros(3)

    class Accumulating(Function):
        @staticmethod
        def forward(ctx, x):
            state.add_(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    def script(decorate):
        state.zero_()
        fn = decorate(lambda x: Accumulating.apply(x) + state)
        return fn(torch.ones(3)), fn(torch.ones(3)), state.clone()

    check.script(script)


def test_double_backward(check):
    def script(decorate):
        fn = decorate(lambda x: Scaled.apply(x, 2.0))
        x = torch.arange(3.0, requires_grad=True)
        (first,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True)
        return first, torch.autograd.grad(first.sum(), x)

    check.script(script)


class Keeping(Function):
    """Its backward has a list or dict that the call was given."""

    @staticmethod
    def forward(ctx, x, kept):
        ctx.kept = kept
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.kept["factor"] if isinstance(ctx.kept, dict) else sum(ctx.kept)), None


class Noting(Keeping):
    """Its backward writes to what it was given."""

    @staticmethod
    def backward(ctx, grad):
        if isinstance(ctx.kept, dict):
            ctx.kept["calls"] = ctx.kept.get("calls", 0) + 1
        else:
            ctx.kept.append(1)
        return grad * 3, None


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [Keeping, Noting])
@pytest.mark.parametrize("make", [lambda: {"factor": 2}, lambda: [1, 2]], ids=["dict", "list"])
def test_backward_has_the_container_itself(check, function, make, inner):
    check.inner = inner

    def script(decorate):
        kept = make()

        @decorate
        def fn(x, factor):
            out = function.apply(x, kept)
            if isinstance(kept, dict):
                kept["factor"] = factor
            else:
                kept[0] = factor
            out.sum().backward()
            return out, x.grad, len(kept)

        return [fn(torch.ones(2, requires_grad=True), n) for n in (3, 3, 4)], kept

    check.script(script)


def test_list_that_only_forward_reads_stays_in_the_graph(check):
    class Moved(Function):
        @staticmethod
        def forward(ctx, x, order):
            ctx.back = tuple(order.index(i) for i in range(len(order)))
            return x.permute(order)

        @staticmethod
        def backward(ctx, grad):
            return grad.permute(ctx.back), None

    def fn(x, order):
        return Moved.apply(x, order) * 2

    assert check(fn, (leaf(2, 3), [1, 0])).breaks == []
