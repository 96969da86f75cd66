"""The public decorators: what they accept, what a compiled thing still is, and bad input."""

# mypy: ignore-errors

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import pytest
import torch

import capture
from capture import counters
from capture.backends import GraphCounter

X = torch.tensor([1.0, -2.0, 3.0])


def double(x, n=2):
    """Multiply."""
    return x * n


class Net(torch.nn.Module):
    """A small module with everything a module has."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.bn = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.scale = 2.0

    def forward(self, x, *, shift=0.0):
        self.steps += 1
        return self.drop(self.bn(self.lin(x))) * self.scale + shift

    def extra(self, x):
        return self.lin(x)


BATCH = torch.arange(12.0).reshape(4, 3) / 7


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def test_decorator_without_arguments():
    @capture.compile(backend="eager")
    def f(x):
        return x + 1

    assert torch.equal(f(X), X + 1)


def test_decorator_with_arguments():
    counter = GraphCounter()

    @capture.compile(backend=counter, fullgraph=True, dynamic=False)
    def f(x):
        return x + 1

    assert torch.equal(f(X), X + 1)
    assert counter.graph_count == 1


def test_wrapped_function_keeps_its_face():
    f = capture.compile(double, backend="eager")
    assert (f.__name__, f.__doc__, f.__module__, f.__wrapped__) == (
        "double",
        "Multiply.",
        __name__,
        double,
    )
    assert inspect.signature(f) == inspect.signature(double)


def test_defaults_and_keywords_are_bound_as_in_eager():
    f = capture.compile(double, backend="eager")
    assert torch.equal(f(X), X * 2)
    assert torch.equal(f(X, n=3), X * 3)
    assert torch.equal(f(x=X, n=4), X * 4)


def test_wrong_arguments_raise_the_functions_own_error():
    with pytest.raises(TypeError, match=r"double\(\) missing 1 required positional argument: 'x'"):
        capture.compile(double, backend="eager")()


def test_method_in_a_class_body():
    class C:
        def __init__(self, n):
            self.n = n

        @capture.compile(backend="eager")
        def go(self, x):
            return x * self.n

    assert torch.equal(C(2).go(X), X * 2)
    assert torch.equal(C.go(C(3), X), X * 3)
    assert C(1).go.__name__ == "go"


def test_static_class_and_property_methods():
    class C:
        factor = 3

        @staticmethod
        @capture.compile(backend="eager")
        def add(x):
            return x + 1

        @classmethod
        @capture.compile(backend="eager")
        def scale(cls, x):
            return x * cls.factor

        @property
        @capture.compile(backend="eager")
        def value(self):
            return X * self.factor

    assert torch.equal(C().add(X), X + 1)
    assert torch.equal(C.scale(X), X * 3)
    assert torch.equal(C().value, X * 3)


def test_bound_method_partial_lambda_and_callable():
    class C:
        def go(self, x):
            return x * 2

        def __call__(self, x):
            return x * 5

    assert torch.equal(capture.compile(C().go, backend="eager")(X), X * 2)
    assert torch.equal(capture.compile(functools.partial(double, n=7), backend="eager")(X), X * 7)
    assert torch.equal(capture.compile(lambda x: x - 1, backend="eager")(X), X - 1)
    assert torch.equal(capture.compile(C(), backend="eager")(X), X * 5)
    assert torch.equal(capture.compile(torch.relu, backend="eager")(X), X.relu())


def test_compiled_function_is_compiled_again():
    assert torch.equal(
        capture.compile(capture.compile(double, backend="eager"), backend="eager")(X), X * 2
    )


def test_two_compilations_of_one_function_do_not_share():
    one, two = GraphCounter(), GraphCounter()
    f, g = capture.compile(double, backend=one), capture.compile(double, backend=two)
    f(X)
    g(X)
    f(X)
    assert (one.graph_count, two.graph_count) == (1, 1)
    assert (one.calls, two.calls) == (2, 1)


def test_original_function_stays_as_it_was():
    counter = GraphCounter()
    capture.compile(double, backend=counter)(X)
    double(X)
    assert counter.calls == 1


def test_disabled_by_a_setting():
    assert capture.compile(double, disable=True, backend="eager") is double


@pytest.mark.parametrize("bad", [5, "text", [1], object()])
def test_what_cannot_be_called_is_refused(bad):
    with pytest.raises(capture.UserError, match="capture.compile takes a function"):
        capture.compile(bad, backend="eager")


def test_class_is_refused():
    with pytest.raises(capture.UserError, match="an instance of a class"):
        capture.compile(Net, backend="eager")


def test_unknown_backend_is_refused_with_the_names_there_are():
    with pytest.raises(capture.UserError, match="eager"):
        capture.compile(double, backend="no such backend")


def test_mode_and_options_exclude_each_other():
    with pytest.raises(capture.UserError, match="either mode or options"):
        capture.compile(double, mode="default", options={"a": 1}, backend="eager")


def test_options_reach_the_backend():
    seen = []

    def backend(gm, inputs, options=None):
        seen.append(options)
        return gm.forward

    capture.compile(double, backend=backend, options={"level": 3})(X)
    assert seen == [{"level": 3}]


def test_is_compiling_is_true_in_captured_code_only():
    def f(x):
        return x + 1 if capture.is_compiling() else x - 1

    assert torch.equal(capture.compile(f, backend="eager")(X), X + 1)
    assert torch.equal(f(X), X - 1)
    assert not capture.is_compiling()


def test_torchs_is_compiling_is_honoured():
    def f(x):
        return x + 1 if torch.compiler.is_compiling() else x - 1

    assert torch.equal(capture.compile(f, backend="eager")(X), X + 1)
    assert torch.equal(f(X), X - 1)


def test_disable_as_decorator_call_and_without_recursion():
    seen = []

    def inner(x):
        seen.append(capture.is_compiling())
        return x + 1

    @capture.disable(recursive=False)
    def middle(x):
        return inner(x)

    assert torch.equal(capture.compile(lambda x: middle(x), backend="eager")(X), X + 1)
    off = capture.disable(inner)
    seen.clear()
    capture.compile(lambda x: off(x) * 2, backend="eager")(X)
    assert seen == [False]
    assert off.__name__ == "inner"


def test_disable_of_a_module():
    seen = []

    class M(torch.nn.Module):
        def forward(self, x):
            seen.append(capture.is_compiling())
            return x + 1

    m = capture.disable(M())
    assert torch.equal(capture.compile(lambda x: m(x) * 2, backend="eager")(X), (X + 1) * 2)
    assert seen == [False]


def test_disable_of_what_cannot_be_called():
    with pytest.raises(capture.UserError, match="capture.disable takes a callable"):
        capture.disable(5)


def test_torchs_disable_is_honoured(check):
    import torch._dynamo  # what torch.compiler.disable comes from

    @torch.compiler.disable
    def off(x):
        print("in Python")
        return x + 1

    check(lambda x: off(x * 2) * 3, (X,))


def test_allow_in_graph_puts_the_call_into_the_graph():
    counter = GraphCounter()

    @capture.allow_in_graph
    def opaque(x):
        return x * 2 if x.shape[0] > 1 else x

    f = capture.compile(lambda x: opaque(x) + 1, backend=counter, fullgraph=True)
    assert torch.equal(f(X), X * 2 + 1)
    assert any(n.target is opaque for n in counter.graphs[0].graph.nodes)


def test_allow_in_graph_of_a_list_and_of_nonsense():
    functions = [lambda x: x, lambda x: x + 1]
    assert capture.allow_in_graph(functions) == functions
    with pytest.raises(capture.UserError, match="takes a callable"):
        capture.allow_in_graph(3)


def test_assume_constant_result():
    calls = []

    @capture.assume_constant_result
    def setting():
        calls.append(1)
        return 4

    f = capture.compile(lambda x: x * setting(), fullgraph=True, backend="eager")
    assert torch.equal(f(X), X * 4)
    assert torch.equal(f(X), X * 4)
    assert len(calls) == 1


def test_graph_break_does_nothing_outside():
    assert capture.graph_break() is None
    assert capture.graph_break("why") is None


def test_reset_starts_the_counters_anew():
    capture.compile(double, backend="eager")(X)
    assert counters.snapshot().graphs > 0
    capture.reset()
    assert counters.snapshot().graphs == 0


def test_module_gives_equal_results_in_train_and_eval(net):
    twin = copy.deepcopy(net)
    compiled = capture.compile(net, backend="eager")
    for mode in (True, False, True):
        compiled.train(mode)
        twin.train(mode)
        torch.manual_seed(3)
        expected = twin(BATCH, shift=1.0)
        torch.manual_seed(3)
        assert torch.equal(compiled(BATCH, shift=1.0), expected)
    for (name, a), (other, b) in zip(
        twin.state_dict().items(), compiled.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(a, b)


def test_module_keeps_names_parameters_and_type(net):
    names, parameters = list(net.state_dict()), list(net.parameters())
    compiled = capture.compile(net, backend="eager")
    assert isinstance(compiled, Net)
    assert type(compiled).__name__ == "Net"
    assert list(compiled.state_dict()) == names
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in parameters]
    assert [n for n, _ in compiled.named_modules()] == ["", "lin", "bn", "drop"]
    assert repr(compiled) == repr(net)


def test_module_shares_state_with_the_original(net):
    compiled = capture.compile(net, backend="eager").eval()
    assert not net.training
    compiled.scale = 5.0
    assert net.scale == 5.0
    net.scale = 1.0
    assert torch.equal(compiled(BATCH), net(BATCH))
    compiled.load_state_dict({k: torch.zeros_like(v) for k, v in net.state_dict().items()})
    assert net.lin.weight.sum() == 0
    assert torch.equal(compiled.extra(BATCH), net.extra(BATCH))


def test_module_moves_and_changes_dtype(net):
    compiled = capture.compile(net, backend="eager").eval()
    compiled(BATCH)
    compiled.double()
    assert compiled(BATCH.double()).dtype == torch.float64
    assert torch.equal(compiled(BATCH.double()), net(BATCH.double()))


def test_module_is_deep_copied(net):
    compiled = capture.compile(net, backend="eager").eval()
    compiled(BATCH)
    twin = copy.deepcopy(compiled)
    assert isinstance(twin, Net)
    assert twin.lin.weight is not compiled.lin.weight
    with torch.no_grad():
        twin.lin.weight.zero_()
    assert not torch.equal(twin(BATCH), compiled(BATCH))
    assert torch.equal(compiled(BATCH), net(BATCH))


def test_module_is_copied(net):
    compiled = copy.copy(capture.compile(net, backend="eager").eval())
    assert compiled.lin is net.lin
    assert torch.equal(compiled(BATCH), net(BATCH))


def test_module_is_pickled():
    net = capture.compile(
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), backend="eager"
    )
    expected = net(BATCH)
    again = pickle.loads(pickle.dumps(net))
    assert isinstance(again, torch.nn.Sequential)
    assert torch.equal(again(BATCH), expected)


def test_compiled_module_inside_a_module():
    inner = capture.compile(torch.nn.Linear(3, 3), backend="eager")
    outer = torch.nn.Sequential(inner, torch.nn.ReLU())
    assert list(outer.state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(outer(BATCH), inner(BATCH).relu())
    assert torch.equal(capture.compile(outer, backend="eager")(BATCH), inner(BATCH).relu())


def test_hooks_of_a_compiled_module_run(net):
    log = []
    compiled = capture.compile(net, backend="eager").eval()
    before = compiled(BATCH)
    handle = compiled.register_forward_hook(lambda m, args, out: out * 2)
    compiled.lin.register_forward_pre_hook(lambda m, args: log.append("pre"))
    assert torch.equal(compiled(BATCH), before * 2)
    handle.remove()
    assert torch.equal(compiled(BATCH), before)
    assert log == ["pre", "pre"]


def test_forward_replaced_on_the_instance(net):
    compiled = capture.compile(net, backend="eager").eval()
    compiled(BATCH)
    net.forward = lambda x: x + 1
    assert torch.equal(compiled(BATCH), BATCH + 1)


def test_submodule_replaced(net):
    compiled = capture.compile(net, backend="eager").eval()
    compiled(BATCH)
    net.lin = torch.nn.Linear(3, 3)
    assert torch.equal(compiled(BATCH), net(BATCH))
    net.drop = torch.nn.Identity()
    net.bn = torch.nn.ReLU()
    assert torch.equal(compiled(BATCH), net(BATCH))


def test_parameter_replaced_and_frozen(net):
    compiled = capture.compile(net, backend="eager").eval()
    compiled(BATCH)
    net.lin.weight = torch.nn.Parameter(torch.ones(3, 3))
    assert torch.equal(compiled(BATCH), net(BATCH))
    net.requires_grad_(False)
    assert not compiled(BATCH).requires_grad


def test_compiling_a_compiled_module_again(net):
    once = capture.compile(net, backend="eager")
    twice = capture.compile(once, fullgraph=True, backend="eager")
    assert torch.equal(twice.eval()(BATCH), net(BATCH))
    assert list(twice.state_dict()) == list(net.state_dict())


def test_lambda_module_and_module_list():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])
            self.by_name = torch.nn.ModuleDict({"a": torch.nn.ReLU()})
            self.weights = torch.nn.ParameterList([torch.ones(3) * i for i in range(2)])

        def forward(self, x):
            for layer in self.layers:
                x = self.by_name["a"](layer(x))
            return x * sum(self.weights) + len(self.layers)

    m = M()
    compiled = capture.compile(m, fullgraph=True, backend="eager")
    assert torch.equal(compiled(BATCH), m(BATCH))
    m.layers.append(torch.nn.Linear(3, 3))
    assert torch.equal(compiled(BATCH), m(BATCH))


def test_backend_none_like_names_are_listed():
    assert "eager" in capture.list_backends()


def test_use_in_threads():
    import threading

    f = capture.compile(lambda x, n: (x + n).relu(), backend="eager")
    results = {}

    def work(n):
        results[n] = [f(X, n % 3) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(torch.equal(r, (X + n % 3).relu()) for n, rs in results.items() for r in rs)


def test_dynamic_is_a_flag():
    with pytest.raises(capture.UserError, match="dynamic is True, False or None, not 'yes'"):
        capture.compile(lambda x: x, backend="eager", dynamic="yes")
