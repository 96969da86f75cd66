"""Sizes that depend on data: one graph for all counts, equal to eager for none, one and many."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import capture
from capture import counters

COUNTS: dict[str, tuple[list[int], list[int]]] = {
    "some": ([1, 1, 0, 1, 0], [3, 0, 2, 1, 1]),
    "none": ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
    "one": ([0, 1, 0, 0, 0], [1, 0, 0, 0, 0]),
    "all": ([1, 1, 1, 1, 1], [2, 2, 2, 2, 2]),
    "two": ([0, 1, 1, 0, 0], [4, 4, 0, 0, 1]),
}


def sets(grad: bool) -> list[tuple[Any, ...]]:
    x = torch.arange(20.0).reshape(5, 4).sin()
    return [
        (
            x.clone().requires_grad_(grad),
            torch.tensor(mask).bool(),
            torch.tensor(numbers),
        )
        for mask, numbers in COUNTS.values()
    ]


# what makes one graph on both backends
PROGRAMS: dict[str, Any] = {
    "nonzero": lambda x, m, i: m.nonzero(),
    "nonzero as tuple": lambda x, m, i: torch.nonzero(m, as_tuple=True),
    "where of one argument": lambda x, m, i: torch.where(m),
    "argwhere": lambda x, m, i: torch.argwhere(m[:, None] & (x > 0)),
    "masked_select": lambda x, m, i: torch.masked_select(x, m[:, None]),
    "mask": lambda x, m, i: x[m],
    "mask on a column": lambda x, m, i: (x[:, 0])[m] * 2 + 1,
    "write by mask": lambda x, m, i: x.mul(1).masked_fill(m[:, None], 0.0),
    "write selected": lambda x, m, i: torch.zeros_like(x).index_put((m,), x[m] * 2),
    "unique": lambda x, m, i: torch.unique(i),
    "unique with all": lambda x, m, i: torch.unique(i, return_inverse=True, return_counts=True),
    "unique rows": lambda x, m, i: torch.unique(x.detach() * m[:, None], dim=0),
    "unique_consecutive": lambda x, m, i: torch.unique_consecutive(i, return_counts=True),
    "repeat_interleave of counts": lambda x, m, i: torch.repeat_interleave(i),
    "repeat_interleave": lambda x, m, i: torch.repeat_interleave(x, i, dim=0),
    "bincount": lambda x, m, i: torch.bincount(i),
    "bincount with minlength": lambda x, m, i: torch.bincount(i, minlength=7),
    "one_hot": lambda x, m, i: F.one_hot(i),
    "arange of item": lambda x, m, i: torch.arange(i.sum().item()),
    "arange of int": lambda x, m, i: torch.arange(int(i.sum()), dtype=torch.float32) * 2,
    "arange of a tensor": lambda x, m, i: torch.arange(i.sum()),
    "zeros of item": lambda x, m, i: torch.zeros(i.max().item(), 3) + 1,
    "narrow copied": lambda x, m, i: x.narrow(0, 0, i[0].item()) * 2,
    "slice copied": lambda x, m, i: x[: i[0].item()] + 1,
    "row": lambda x, m, i: x[i[0].item()] * 2,
    "linear": lambda x, m, i: F.linear(x[m], x).relu().sum(0),
    "reshape": lambda x, m, i: x[m].reshape(-1),
    "view": lambda x, m, i: x[m].view(-1, 2),
    "cat": lambda x, m, i: torch.cat([x[m], x[~m]]),
    "two of one mask": lambda x, m, i: x[m] + (x * 2)[m],
    "two of two masks": lambda x, m, i: x[m] + x[~m],
    "broadcast": lambda x, m, i: x[m] + x,
    "mean": lambda x, m, i: x[m].mean(0),
    "softmax": lambda x, m, i: x[m].softmax(0),
    "max fails on nothing": lambda x, m, i: x[m].max(0),
    "cross entropy": lambda x, m, i: F.cross_entropy(x[m], i[m] % 4),
    "embedding": lambda x, m, i: F.embedding(i[m], x),
    "scatter": lambda x, m, i: torch.zeros(9).scatter_add(0, i[m], x[m][:, 0]),
    "topk": lambda x, m, i: x.topk(i[0].item(), dim=0),
    "layer norm": lambda x, m, i: F.layer_norm(x[m], (4,)),
    "products": lambda x, m, i: x[m].t() @ x[m],
    "sizes": lambda x, m, i: (x[m].shape, len(x[m]), x[m].size(0) * 2 + 1, x[m].numel()),
    "mask of a mask": lambda x, m, i: x[m][x[m][:, 0] > 0],
    "differences": lambda x, m, i: x[m][1:] - x[m][:-1],
    "sum as a number": lambda x, m, i: (x[m].sum().item(), x + 1),
    "checked": lambda x, m, i: (torch._check(i[0].item() >= 0), torch.zeros(i[0].item(), 2))[1],
    "normalize": lambda x, m, i: F.normalize(x[m], dim=1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_serves_all_counts(check, name, backend):
    check.inner = backend
    for grad in (False, True):
        report = check(PROGRAMS[name], *sets(grad))
        assert report.graphs == 1, report.breaks
        assert not report.recompiles


def branches(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> Any:
    rows = x[m]
    if rows.shape[0] > 1:
        return rows.sum()
    return x.sum() + rows.numel()


# where the program, torch or the backend has to know the number: a break, and eager's results
BREAKING: dict[str, Any] = {
    "branch": branches,
    "iteration": lambda x, m, i: [row * 2 for row in x[m]],
    "squeeze": lambda x, m, i: x[m].squeeze(),
    "chunk": lambda x, m, i: x[m].chunk(2),
    "contiguous": lambda x, m, i: x[m].t().contiguous(),
    "strides": lambda x, m, i: (x[m].is_contiguous(), x[m].stride()),
    "list": lambda x, m, i: x[m].tolist(),
    "attention": lambda x, m, i: F.scaled_dot_product_attention(x[m], x[m], x[m]),
    "padding": lambda x, m, i: torch.nn.utils.rnn.pad_sequence([x[m], x[~m]]),
    "split": lambda x, m, i: x.split([i[0].item(), 5 - i[0].item()]),
    "slices": lambda x, m, i: (x[: i[0].item()], x[i[0].item() :]),
    "repeat": lambda x, m, i: x[0].repeat(i[0].item(), 1),
    "leaf": lambda x, m, i: x[m].detach().requires_grad_(),
    "text": lambda x, m, i: print(f"{x[m].sum().item():.3f} of {len(x[m])}"),
    "range": lambda x, m, i: sum(range(i[0].item())) + x,
    "list index": lambda x, m, i: "abcdef"[i[0].item()],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", BREAKING)
def test_results_are_eagers_where_the_number_has_to_be_known(check, name, backend):
    check.inner = backend
    for grad in (False, True):
        check(BREAKING[name], *sets(grad), backward=name != "leaf")


def test_break_names_the_size_and_the_way_out():
    def f(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].chunk(2)[0]

    capture.reset()
    with pytest.raises(capture.Unsupported, match="CAP0024") as caught:
        capture.compile(f, backend="eager", fullgraph=True)(torch.ones(3))
    assert "torch._check" in str(caught.value)
    assert f"test_data_sizes.py:{f.__code__.co_firstlineno + 1}" in str(caught.value)


def test_assumption_that_fails_leaves_effects_in_order(check):
    """Two selections that broadcast, though taken for equally long: Python runs the piece."""

    def program(compiler: Any) -> Any:
        log: list[Any] = []

        @compiler
        def f(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
            log.append("before")
            noise = torch.rand(4)
            y = x[m] + x[~m] + noise
            log.append(y.shape)
            x.add_(1)
            return y

        results = []
        for mask in ([1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]):
            x = torch.arange(16.0).reshape(4, 4)
            try:
                results.append((f(x, torch.tensor(mask).bool()), x))
            except RuntimeError as error:
                results.append((str(error), x))
        return results, log, torch.rand(2)

    check.script(program)


def test_exception_of_an_empty_selection_is_handled(check):
    def f(x: torch.Tensor, m: torch.Tensor) -> Any:
        try:
            best = x[m].max()
        except RuntimeError as error:
            return type(error).__name__, x * 2
        return best, x + 1

    check(
        f, (torch.ones(3), torch.tensor([True, False, True])), (torch.ones(3), torch.zeros(3) > 1)
    )


ASSERTING = """
def f(x):
    assert (x < 5).all(), "too large"
    n = int(x.sum())
    assert n >= 0
    return torch.zeros(n) + x.max()
"""


def test_assertion_about_data_is_no_break(check):
    names: dict[str, Any] = {"torch": torch}
    exec(ASSERTING, names)  # pytest rewrites the assertions of this file
    inputs = [(torch.ones(3),), (torch.zeros(3),), (torch.full((3,), 7.0),), (-torch.ones(3),)]
    report = check(names["f"], *inputs)
    assert report.graphs == 1


def test_settings_bring_the_breaks_back():
    def f(x: torch.Tensor) -> Any:
        return x[x > 0] * 2, x.sum().item()

    for numbers, sizes, expected in ((True, True, 0), (False, True, 1), (True, False, 1)):
        capture.reset()
        settings = {"capture_scalar_outputs": numbers, "capture_dynamic_output_shape_ops": sizes}
        with capture.config.patch(settings):
            found = capture.compile(f, backend="eager")(torch.ones(3))
        assert found[1] == 3.0
        assert len(counters.snapshot().breaks) == expected


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_selection_under_grad_modes(check, mode):
    def f(x: torch.Tensor) -> Any:
        with mode():
            y = x[x > 0] * 2
        return y, y.requires_grad, len(y)

    report = check(f, (torch.ones(3),), (torch.zeros(3),), backward=False)
    assert report.graphs == 1


def test_symbolic_batch_with_a_selection(check):
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[x > 0], x.flatten()]) * x.shape[0]

    inputs = [(torch.arange(float(n * 2)).reshape(n, 2) - 3,) for n in (2, 3, 5, 8, 9)]
    for backend in ("eager", "aot_eager"):
        check.inner = backend
        report = check(f, *inputs, settings={"dynamic": True})
        assert report.graphs == 1


def test_custom_backend_gets_one_graph():
    seen: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append((gm, inputs))
        return gm.forward

    capture.reset()
    compiled = capture.compile(lambda x: x[x > 0].sum() + x.sum().item(), backend=backend)
    for x in (torch.ones(3), torch.zeros(3)):
        assert compiled(x) == x[x > 0].sum() + x.sum().item()
    ((_, inputs),) = seen
    assert [type(value) for value in inputs] == [torch.Tensor]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("used", ["selection", "loss", "both"])
def test_a_selection_and_a_loss_leave_the_graph(backend, used):
    """The backward of one of them takes zeros for the other, as many as were selected."""

    def program(x, mask):
        chosen = x[mask]
        return chosen * 2, (chosen**2).sum()

    compiled = capture.compile(program, backend=backend)
    for x, mask, _ in sets(grad=True):
        found = []
        for fn in (program, compiled):
            given = x.detach().clone().requires_grad_()
            chosen, loss = fn(given, mask)
            total = (chosen.sum() if used != "loss" else 0) + (loss if used != "selection" else 0)
            (grad,) = torch.autograd.grad(total, given)
            found.append((chosen.detach(), loss.detach(), grad))
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
