"""Tests of the adapter to torch's private parts: what it rests on, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import torch
from torch._subclasses import FakeTensorMode

import capture
from capture.graph import fake, sample
from capture.graph.fx_adapter import append_node
from capture.graph.recording import Recording
from capture.graph.tensor_meta import TensorMeta, meta_of


def run(program: str) -> str:
    """Run a program in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_mode_has_torchs_attributes() -> None:
    ours = fake._the_mode()
    theirs = FakeTensorMode(allow_fallback_kernels=False)
    own = {"recording", "decisions"}
    names = set(vars(theirs)) | own
    assert set(vars(ours)) | own == names
    for name in names - own - {"cache_enabled", "enter_stack", "nt_tensor_id_counter"}:
        left, right = getattr(ours, name), getattr(theirs, name)
        if isinstance(left, bool | int | None):
            assert left == right, name


def test_known_versions() -> None:
    assert torch.__version__.startswith(fake.KNOWN_VERSIONS)


def test_nothing_heavy_without_need() -> None:
    printed = run("""
        import sys, torch
        import capture.graph
        from capture.graph import OutputGraph
        heavy = ("sympy", "torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd")
        print([name for name in heavy if name in sys.modules])
        graph = OutputGraph("g")
        x = graph.add_input("x", torch.ones(2, 2), 0)
        graph.call("call_function", torch.nn.functional.gelu, (x,))
        print([name for name in heavy if name in sys.modules])
    """)
    assert printed.split("\n") == ["[]", "[]"]


def test_fakes_do_not_import_torchs_frontend() -> None:
    printed = run("""
        import sys, torch
        from capture.graph import OutputGraph
        graph = OutputGraph("g")
        x = graph.call("call_function", torch.zeros, (1 << 16, 1 << 16))
        for function in (torch.nn.functional.gelu, torch.sum, torch.softmax):
            args = (x, 0) if function is torch.softmax else (x,)
            graph.call("call_function", function, args)
        print("torch._dynamo" in sys.modules, "_dynamo" in vars(torch))
        import torch._dynamo
        print(torch._dynamo.config.verbose)
        print(torch.compile(torch.sin, backend="eager")(torch.zeros(1)).item())
    """)
    assert printed.split("\n") == ["False False", "False", "0.0"]


def test_warnings_are_kept_back_and_not_used_up() -> None:
    version = warnings.filters[:]

    def noisy() -> None:
        warnings.warn("noisy", stacklevel=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with sample.running(Recording()):
            noisy()
        assert not caught
        noisy()
        assert len(caught) == 1
    assert warnings.filters == version


def test_stand_ins_have_the_metadata() -> None:
    metas = [
        meta_of(torch.zeros(2, 3, requires_grad=True)),
        meta_of(torch.zeros(2, 3, requires_grad=True).t() * 1),
        meta_of(torch.zeros(1).expand(3)),
        meta_of(torch.zeros(0, 3)),
        meta_of(torch.zeros(4, dtype=torch.complex64).conj()),
        meta_of(torch.zeros(4, dtype=torch.bool)[::2]),
        meta_of(torch.nn.Parameter(torch.zeros(2))),
        meta_of(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    ]
    with torch.inference_mode():
        metas.append(meta_of(torch.zeros(2)))
    for meta in metas:
        for make in (sample.make_real, fake.make_fake):
            got = meta_of(make(meta))
            assert got._replace(cls=torch.Tensor) == meta._replace(cls=torch.Tensor)


def test_stand_ins_are_no_views() -> None:
    meta = TensorMeta((2, 3), (1, 2), torch.float32, torch.device("cpu"), True, is_leaf=False)
    for make in (sample.make_real, fake.make_fake):
        assert make(meta._replace(has_grad_fn=True))._base is None


def test_append_node_keeps_fx_consistent() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("add")
    node = append_node(graph, "call_function", "add", torch.add, (x, x), {"alpha": 2})
    other = graph.call_function(torch.add, (node, 1))
    graph.output(other)
    graph.lint()
    assert [n.name for n in graph.nodes] == ["add", "add_1", "add_2", "output"]
    assert graph.find_nodes(op="call_function", target=torch.add) == [node, other]
    assert len(graph.nodes) == 4
    assert list(x.users) == [node]


def test_weights_of_attention_that_are_not_asked_for_are_nothing() -> None:
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()

    def f(x: torch.Tensor, asked: bool) -> object:
        with torch.no_grad():
            result, weights = attention(x, x, x, need_weights=asked)
        return result, weights is None, weights

    compiled = capture.compile(f, backend="eager", dynamic=True, fullgraph=True)
    for length in (3, 4, 5):
        for asked in (True, False):
            x = torch.randn(2, length, 4)
            torch.testing.assert_close(compiled(x, asked), f(x, asked), rtol=0, atol=0)
    capture.reset()
