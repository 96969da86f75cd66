"""Twenty facts that must hold before anything else is worth looking at; runs in seconds."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch

import capture

X = torch.tensor([1.0, -2.0, 3.0])
COUNTER = 3


def test_straight_line(check):
    assert check(lambda x: (x + 1) * 2, (X,), fullgraph=True).graphs == 1


def test_cached_call_compiles_nothing(check):
    report = check(lambda x: x.relu(), (X,), (X * 2,))
    assert (report.graphs, report.calls) == (1, 5)


def test_new_shape_compiles_again(check):
    assert check(lambda x: x.sin(), (X,), (torch.ones(2, 2),)).graphs == 2


def test_two_outputs(check):
    check(lambda x: (x + 1, {"a": x * 2, "b": [x]}), (X,), fullgraph=True)


def test_python_branch_is_guarded(check):
    def f(x, flag):
        return x + 1 if flag else x - 1

    assert check(f, (X, True), (X, False), fullgraph=True).graphs == 2


def test_tensor_branch_breaks_and_goes_both_ways(check):
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    report = check(f, (X,), (-X,))
    assert report.reasons == {"CAP0002"}
    assert report.graphs == 3


def test_loop_is_unrolled(check):
    def f(x):
        for i in range(4):
            x = x + i
        return x

    assert check(f, (X,), fullgraph=True).ops == 4


def test_function_call_is_inlined(check):
    def g(x, y=2, *, z):
        return x * y + z

    assert check(lambda x: g(x, z=3) + g(x, 1, z=0), (X,), fullgraph=True).graphs == 1


def test_print_breaks_once(check):
    def f(x):
        x = x + 1
        print("hello")
        return x * 2

    report = check(f, (X,))
    assert (report.graphs, len(report.breaks)) == (2, 1)


def test_list_argument_is_changed(check):
    def f(x, items):
        items.append(x + 1)
        return len(items)

    check(f, (X, []), (X, [1, 2]), fullgraph=True)


def test_global_is_guarded(check):
    def program(compile):
        global COUNTER
        COUNTER = 3
        f = compile(lambda x: x * COUNTER)
        first = f(X)
        COUNTER = 5
        return first, f(X)

    check.script(program, fullgraph=True)


def test_module_call(check):
    assert check(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), (X,)).graphs == 1


def test_gradients(check):
    check(lambda x, w: (x * w).sin(), (X, X.clone().requires_grad_()), fullgraph=True)


def test_exception_leaves_as_in_eager(check):
    def f(x):
        y = x + 1
        raise ValueError("no", y.shape[0])

    check(f, (X,))


def test_exception_is_caught(check):
    def f(x):
        try:
            raise KeyError("k")
        except KeyError as error:
            return x, error.args

    check(f, (X,))


def test_inplace_changes_the_argument(check):
    def f(x):
        x.add_(1)
        return x

    check(f, (X,), fullgraph=True)


def test_no_grad_block(check):
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y, x * 3

    check(f, (X.clone().requires_grad_(),), fullgraph=True)


def test_fullgraph_error_names_the_line_and_the_reason():
    @capture.compile(fullgraph=True, backend="eager")
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(capture.Unsupported, match=r"test_tiny.py:\d+: CAP0002"):
        f(X)


def test_disabled_function_runs_in_python(check):
    @capture.disable
    def g(x):
        assert not capture.is_compiling()
        return x + 1

    assert check(lambda x: g(x * 2) * 3, (X,)).graphs == 2


def test_generator_in_the_frame(check):
    def f(x):
        def scaled():
            for i in range(3):
                yield x * i

        return sum(scaled())

    check(f, (X,), fullgraph=True)
