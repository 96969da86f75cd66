"""capture.compile and torch.compile in one process: in turn, nested both ways, in threads."""

# mypy: ignore-errors

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import capture
from capture import counters

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    torch._dynamo.reset()
    with capture.config.patch(suppress_errors=False):
        yield
    torch._dynamo.reset()


@capture.disable
def brk(*_):
    pass


def plain(x):
    return torch.sin(x) * 2 + 1


def breaking(x):
    y = torch.sin(x)
    brk(y)
    return y * 2 + 1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(torch.relu(self.linear(x))) + x


torch.manual_seed(0)
BLOCK = Block()
SUBJECTS = {"plain": plain, "breaking": breaking, "module": BLOCK}
ours = capture.compile(backend="eager")


def theirs(fn):
    return torch.compile(fn, backend="eager")


@pytest.mark.parametrize("name", SUBJECTS)
def test_in_turn(name):
    fn = SUBJECTS[name]
    a, b = ours(fn), theirs(fn)
    for _ in range(3):
        assert torch.equal(a(X), fn(X))
        assert torch.equal(b(X), fn(X))
    assert counters.snapshot().graphs == (2 if name == "breaking" else 1)


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize(
    ("inner", "outer"), [(ours, theirs), (theirs, ours)], ids=["ours", "theirs"]
)
def test_nested(name, inner, outer):
    fn = SUBJECTS[name]
    compiled = inner(fn)

    def around(x):
        y = x + 1
        z = compiled(y)
        return z * 2

    nested = outer(around)
    for _ in range(3):
        assert torch.equal(nested(X), fn(X + 1) * 2)
    assert counters.snapshot().graphs >= 1


@pytest.mark.parametrize("name", SUBJECTS)
def test_compiled_by_both(name):
    fn = SUBJECTS[name]
    for _ in range(2):
        assert torch.equal(theirs(ours(fn))(X), fn(X))
        assert torch.equal(ours(theirs(fn))(X), fn(X))


def test_three_levels():
    a = ours(plain)
    b = theirs(lambda x: a(x) + 1)
    c = ours(lambda x: b(x) * 2)
    for _ in range(3):
        assert torch.equal(c(X), (plain(X) + 1) * 2)


def test_the_compiler_is_not_compiled():
    """Dynamo must not look into capture's own code where that runs inside its region."""
    compiled = ours(breaking)
    theirs(lambda x: compiled(x) + 1)(X)
    from torch._dynamo.utils import counters as dynamo

    seen = " ".join(map(str, dynamo["graph_break"]))
    assert "perf_counter" not in seen


def test_interleaved_in_two_threads():
    wrong = []

    def work(compile, seed):
        try:
            generator = torch.Generator().manual_seed(seed)
            for i in range(12):

                def fn(x, n=i % 3 + 1):
                    for k in range(n):
                        x = torch.sin(x) + k
                    brk(x)
                    return x * 2

                compiled = compile(fn)
                x = torch.randn(3, generator=generator)
                wrong.extend(i for _ in range(3) if not torch.equal(compiled(x), fn(x)))
                if not torch.equal(compile(BLOCK)(X), BLOCK(X)):
                    wrong.append("module")
        except BaseException as error:
            wrong.append(error)

    threads = [
        threading.Thread(target=work, args=(c, s), daemon=True) for c, s in ((ours, 1), (theirs, 2))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_optimizers_that_torch_compile_has_patched():
    def run(compiler):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer = torch.optim.Adam(model.parameters())

        def step(x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        step = compiler(step)
        for _ in range(4):
            step(torch.ones(2, 4))
        return [p.detach().clone() for p in model.parameters()]

    torch.compile(torch.sin, backend="eager")(X)  # the first use patches
    assert hasattr(torch.optim.Adam._init_group, "_torchdynamo_disable")
    expected = run(lambda fn: fn)
    capture.reset()
    found = run(lambda fn: capture.compile(fn, backend="eager", fullgraph=True))
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
