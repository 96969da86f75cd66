"""The orchestrator: skipping, restarting, reporting, aliasing, errors of backends."""

# mypy: ignore-errors

from __future__ import annotations

import builtins
import gc
import logging
import weakref

import pytest
import torch

import capture
from capture import counters
from capture.symbolic_convert.translator import Translator

X = torch.tensor([1.0, -2.0, 3.0])


def test_backend_gets_the_graph_and_example_inputs():
    seen = []

    def backend(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    f = capture.compile(lambda x, y: x * y + 1, backend=backend)
    y = X + 1
    assert torch.equal(f(X, y), X * y + 1)
    ((gm, inputs),) = seen
    assert isinstance(gm, torch.fx.GraphModule)
    assert [id(t) for t in inputs] == [id(X), id(y)]


def test_graph_nodes_have_readable_names_and_user_lines():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    def f(first, second):
        return torch.relu(first) + second

    capture.compile(f, backend=backend)(X, X + 1)
    nodes = {n.name: n for n in graphs[0].graph.nodes}
    assert {"first", "second", "relu"} <= set(nodes)
    assert f"line {f.__code__.co_firstlineno + 1}, in f" in nodes["relu"].stack_trace


def test_backend_that_fails_is_named():
    def broken(gm, example_inputs):
        raise RuntimeError("no luck")

    with pytest.raises(capture.BackendCompilerFailed, match=r"broken[\s\S]*no luck"):
        capture.compile(lambda x: x + 1, backend=broken)(X)


def test_error_in_the_backends_code_reaches_the_user():
    def backend(gm, example_inputs):
        def run(*args):
            raise ZeroDivisionError("in the graph")

        return run

    f = capture.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(ZeroDivisionError, match="in the graph"):
        f(X)


def test_unused_inputs_are_not_in_the_graph(check):
    counter = check(lambda x, y, z: (x + 1, y), (X, X, X)).counter
    assert sum(n.op == "placeholder" for n in counter.graphs[0].graph.nodes) == 1


def test_dead_code_is_not_in_the_graph(check):
    def f(x):
        unused = x * 100  # noqa: F841
        return x + 1

    assert check(f, (X,)).calls == 3


def test_internal_error_runs_eagerly_with_one_warning(monkeypatch, caplog):
    caplog.set_level(logging.WARNING, logger="capture")

    def broken(self):
        raise AssertionError("bug")

    monkeypatch.setattr(Translator, "run", broken)
    f = capture.compile(lambda x: x + 41, backend="eager")
    for _ in range(3):
        assert torch.equal(f(X), X + 41)
    assert sum("internal error" in r.getMessage() for r in caplog.records) == 1


def test_internal_error_is_raised_when_asked(monkeypatch):
    def broken(self):
        raise AssertionError("bug")

    monkeypatch.setattr(Translator, "run", broken)
    with (
        capture.config.patch(suppress_errors=False),
        pytest.raises(capture.errors.InternalError, match="bug"),
    ):
        capture.compile(lambda x: x + 1, backend="eager")(X)


def test_breaks_are_counted_with_the_line():
    def f(x):
        print(end="")
        return x + 1

    capture.compile(f, backend="eager")(X)
    record = next(b for b in counters.snapshot().breaks if "test_convert_frame" in b.user_location)
    assert record.user_location.endswith(f":{f.__code__.co_firstlineno + 1}")


def test_guards_are_logged_in_words_however_large_a_number_is(caplog):
    def f(x, n):
        return x + 1 if n > 5 else x - 1

    caplog.set_level(logging.INFO, logger="capture.guards")
    with capture.config.patch(suppress_errors=False):
        capture.compile(f, backend="eager", dynamic=False)(torch.ones(2), 10**5000)
    assert "  n == 0x31e20801" in caplog.text
    assert "  x: torch.float32 (2)" in caplog.text


def test_lists_changed_under_one_name_are_guarded_against_aliasing(check):
    def f(x, a, b, c):
        a.append(x + 1)
        c[0].append(2)
        return len(b), len(a)

    p, q = [1], [1]
    check(f, (X, [1], [1], [[1]]), (X, p, p, [q]), (X, p, q, [p]), (X, p, q, [q]), fullgraph=True)


def test_list_inside_of_what_is_changed(check):
    def f(x, tree):
        tree["a"].append(x + 1)
        return len(tree["b"]), len(tree)

    shared = [1]
    check(f, (X, {"a": [1], "b": [1]}), (X, {"a": shared, "b": shared}), fullgraph=True)


def test_arguments_are_not_kept_alive():
    class Holder:
        def __init__(self):
            self.t = X + 1

    f = capture.compile(lambda x, h: x + h.t, backend="eager")
    h = Holder()
    f(X, h)
    f(X, h)
    refs = weakref.ref(h), weakref.ref(h.t)
    del h
    assert [r() for r in refs] == [None, None]


def test_closures_made_in_the_frame_are_not_kept_alive():
    def f(x):
        def down(n):
            return x if n == 0 else down(n - 1) + 1

        return down(3)

    compiled = capture.compile(f, backend="eager")
    gc.collect()
    t = X + 1
    ref = weakref.ref(t)
    compiled(t)
    compiled(t)
    del t
    gc.collect()
    assert ref() is None


def test_model_is_freed_with_its_compiled_form():
    model = torch.nn.Linear(3, 3)
    compiled = capture.compile(model, backend="eager")
    compiled(X)
    ref = weakref.ref(model.weight)
    del model, compiled
    gc.collect()
    assert ref() is None


def test_function_and_region_are_freed():
    def make():
        def f(x):
            return x * 3

        compiled = capture.compile(f, backend="eager")
        compiled(X)
        return weakref.ref(f)

    ref = make()
    gc.collect()
    assert ref() is None


def test_one_code_with_other_globals_is_captured_apart(check):
    code = builtins.compile("def f(x):\n    return x * scale", "<s>", "exec")

    def program(compile):
        results = []
        for scale in (2.0, 3.0):
            space = {"scale": scale}
            exec(code, space)
            f = compile(space["f"])
            results += [f(X), f(X)]
        return results

    check.script(program)


def test_call_inside_torch_function_mode_is_right(check):
    from torch.overrides import TorchFunctionMode

    def program(compile):
        class Double(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                return out * 2 if func is torch.sin else out

        f = compile(lambda x: torch.sin(x) + 1)
        first = f(X)
        with Double():
            second = f(X)
        return first, second, f(X)

    check.script(program)


def test_tensor_subclass_is_left_to_itself(check):
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            return out

    def program(compile):
        f = compile(lambda x, y: (x + 1, y * 2))
        t = torch.ones(3).as_subclass(Tagged)
        a, b = f(t, X)
        return type(a).__name__, b, type(f(X, X)[0]).__name__

    check.script(program)


def test_vmap_and_grad_transforms(check):
    def program(compile):
        f = compile(lambda x: (x * x).sum())
        return f(X), torch.func.grad(f)(X), torch.func.vmap(f)(torch.ones(2, 3)), f(X)

    check.script(program)
