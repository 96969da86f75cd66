"""Tests of the guard on tensors: each fact is noticed, natively as in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from capture.guards import (
    AllDistinct,
    GuardSet,
    StoragesAre,
    TensorFacts,
    TensorMatch,
    native_setup,
)
from capture.guards.native_setup import readers
from capture.sources import LocalSource

X = LocalSource(0, "x")
Y = LocalSource(1, "y")


class Subclass(torch.Tensor):
    """A subclass without functions of its own."""


class Wrapper(torch.Tensor):
    """A subclass that says everything about itself in Python."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        assert isinstance(made, Wrapper)
        made.held = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("user code ran")


def leaf() -> torch.Tensor:
    return torch.ones(2, 3, requires_grad=True)


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 3)


def late_view() -> torch.Tensor:
    """A view whose base came to require grad after it was made."""
    base = torch.ones(4, 3)
    view = base[:2]
    base.mul_(torch.ones((), requires_grad=True))
    return view


def disowned() -> torch.Tensor:
    return leaf().requires_grad_(False)


VARIANTS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.ones(2, 3),
    "other size": lambda: torch.ones(2, 4),
    "other rank": lambda: torch.ones(2, 3, 1),
    "scalar": lambda: torch.ones(()),
    "many dimensions": lambda: torch.ones(1, 2, 1, 2, 1, 2, 1),
    "empty": lambda: torch.ones(2, 0),
    "transposed": lambda: torch.ones(3, 2).t(),
    "expanded": lambda: torch.ones(2, 1).expand(2, 3),
    "double": lambda: torch.ones(2, 3, dtype=torch.float64),
    "bool": lambda: torch.ones(2, 3, dtype=torch.bool),
    "bfloat16": lambda: torch.ones(2, 3, dtype=torch.bfloat16),
    "uint16": lambda: torch.ones(2, 3, dtype=torch.uint16),
    "complex": lambda: torch.ones(2, 3, dtype=torch.complex64),
    "conjugate": lambda: torch.ones(2, 3, dtype=torch.complex64).conj(),
    "negative": lambda: torch.ones(2, 3, dtype=torch.complex64).conj().imag,
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "leaf": leaf,
    "disowned": disowned,
    "result": lambda: leaf() * 2,
    "detached": lambda: (leaf() * 2).detach(),
    "view of leaf": lambda: leaf()[:],
    "late view": late_view,
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
    "inference": inference_tensor,
    "subclass": lambda: torch.ones(2, 3).as_subclass(Subclass),
    "sparse": lambda: torch.ones(2, 3).to_sparse(),
    "sparse csr": lambda: torch.ones(2, 3).to_sparse_csr(),
    "mkldnn": lambda: torch.ones(2, 3).to_mkldnn(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]),
    "not a tensor": lambda: 5,
}

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")


@pytest.fixture(scope="module")
def variants() -> dict[str, Any]:
    return {
        name: make()
        for name, make in VARIANTS.items()
        if name != "mkldnn" or torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    }


def test_metadata_is_read_natively() -> None:
    found = readers()
    assert found.metadata
    assert found.autograd
    assert found.storage
    assert len(found.dtype_codes) >= 15


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "not a tensor"])
def test_every_variant_matches_itself_only(agree: Any, variants: Any, name: str) -> None:
    if name not in variants:
        pytest.skip("not built into this torch")
    guards = GuardSet()
    guard = TensorMatch.of(X, variants[name])
    guards.add(guard)
    tree = guards.compile()
    for other, tensor in variants.items():
        expected = other == name or {other, name} in SAME
        assert agree(guard, (tensor,), tree=tree) == expected, other


# pairs that do not differ in what a guard without is_leaf looks at
SAME = (
    {"plain", "disowned"},
    {"plain", "detached"},
    {"disowned", "detached"},
    {"leaf", "result"},
    {"leaf", "late view"},
    {"leaf", "view of leaf"},
    {"result", "late view"},
    {"result", "view of leaf"},
    {"late view", "view of leaf"},
)


def test_is_leaf_is_compared_if_wanted(agree: Any, variants: Any) -> None:
    for name in ("plain", "leaf", "result", "late view", "view of leaf", "disowned"):
        guard = TensorMatch(X, TensorFacts.of(variants[name], with_leaf=True))
        for other in ("plain", "leaf", "result", "late view", "view of leaf", "disowned"):
            a, b = variants[name], variants[other]
            same = (a.is_leaf, a.requires_grad) == (b.is_leaf, b.requires_grad)
            assert agree(guard, (b,)) == same


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.requires_grad_(),
        lambda t: t.t_(),
        lambda t: t.resize_(4, 3),
        lambda t: t.unsqueeze_(0),
        lambda t: t.set_(torch.ones(3)),
        lambda t: setattr(t, "data", torch.ones(2, 3, dtype=torch.float64)),
        lambda t: setattr(t, "__class__", Subclass),
        lambda t: torch.utils.swap_tensors(t, torch.ones(7)),  # type: ignore[no-untyped-call]
    ],
)
def test_changes_in_place_are_noticed(agree: Any, change: Callable[[Any], None]) -> None:
    tensor = torch.ones(2, 3)
    guards = GuardSet()
    guard = TensorMatch.of(X, tensor)
    guards.add(guard)
    tree = guards.compile()
    assert agree(guard, (tensor,), tree=tree)
    change(tensor)
    assert not agree(guard, (tensor,), tree=tree)


def test_dynamic_sizes_of_a_row_major_tensor(agree: Any) -> None:
    guard = TensorMatch.of(X, torch.ones(4, 3, 2), frozenset({1}))
    for good in (torch.ones(4, 5, 2), torch.ones(4, 1, 2), torch.ones(4, 0, 2)):
        assert agree(guard, (good,)), good.shape
    for bad in (
        torch.ones(5, 5, 2),
        torch.ones(4, 5, 3),
        torch.ones(5, 4, 2).transpose(0, 1),
        torch.ones(4, 10, 2)[:, ::2],
        torch.ones(4, 5),
    ):
        assert not agree(guard, (bad,)), bad.shape


def test_dynamic_sizes_of_other_layouts_keep_inner_strides(agree: Any) -> None:
    guard = TensorMatch.of(X, torch.ones(3, 4).t(), frozenset({1}))
    assert guard.facts.strides == (1, 4)
    assert agree(guard, (torch.ones(7, 4).t(),))
    assert not agree(guard, (torch.ones(4, 7),))


def test_functorch_wrapped_tensors_never_match_plain_ones(agree: Any) -> None:
    plain = torch.ones(3)
    guards = GuardSet()
    guard = TensorMatch.of(X, plain)
    guards.add(guard)
    tree = guards.compile()
    seen: list[bool] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(agree(guard, (x,), tree=tree))
        return x.sum()

    torch.func.vmap(look)(torch.ones(2, 3))
    torch.func.grad(look)(plain)
    assert seen == [False, False]
    assert agree(guard, (plain,), tree=tree)


def test_python_tensors_are_checked_without_running_their_code(agree: Any) -> None:
    wrapper = Wrapper(torch.ones(2, 3))
    guard = TensorMatch.of(X, wrapper)
    assert not guard.facts.plain
    assert agree(guard, (wrapper,))
    assert agree(guard, (Wrapper(torch.ones(2, 3)),))
    assert not agree(guard, (Wrapper(torch.ones(2, 4)),))
    assert not agree(guard, (torch.ones(2, 3),))


def test_fake_tensors_do_not_match_real_ones(agree: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = torch.ones(2, 3)
    fake = FakeTensorMode().from_tensor(real)
    assert not agree(TensorMatch.of(X, real), (fake,))
    assert agree(TensorMatch.of(X, fake), (fake,))


def test_reading_facts_runs_no_mode(agree: Any) -> None:
    class Loud(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("user code ran")

    tensor, sub = torch.ones(2, 3), torch.ones(2).as_subclass(Subclass)
    with Loud():
        assert agree(TensorMatch.of(X, tensor), (tensor,))
        assert agree(TensorMatch.of(X, sub), (sub,))
        assert agree(StoragesAre.of((X, Y), (tensor, sub)), (tensor, sub))


def test_explains_each_difference() -> None:
    facts = TensorFacts.of(torch.ones(2, 3))
    assert facts.differences(torch.ones(2, 4)) == [
        "size of dimension 1 changed from 3 to 4",
        "strides changed from (3, 1) to (4, 1)",
    ]
    assert facts.differences(torch.ones(2, 3).double()) == [
        "dtype changed from torch.float32 to torch.float64"
    ]
    assert facts.differences(torch.ones(2)) == ["rank changed from 2 to 1"]
    assert facts.differences(leaf()) == ["requires_grad changed from False to True"]
    conjugate = torch.ones(2, dtype=torch.complex64).conj()
    (text,) = TensorFacts.of(torch.ones(2, dtype=torch.complex64)).differences(conjugate)
    assert "dispatch keys changed" in text
    assert "Conjugate" in text


def test_many_distinct_tensors_and_storages(agree: Any) -> None:
    tensors = [torch.ones(1) for _ in range(100)]
    sources = tuple(LocalSource(i, f"t{i}") for i in range(100))
    distinct = [AllDistinct(sources), StoragesAre.of(sources, tensors)]
    assert agree(distinct, tensors)
    assert not agree(distinct[0], [*tensors[:99], tensors[50]])
    alias = tensors[3].view(1, 1)
    assert agree(distinct[0], [*tensors[:99], alias])
    assert not agree(distinct[1], [*tensors[:99], alias])


def test_captures_are_new_references() -> None:
    import sys

    tensor = torch.ones(3)
    guards = GuardSet()
    guards.add(TensorMatch.of(X, tensor))
    tree = guards.compile([X, X])
    before = sys.getrefcount(tensor)
    got = tree.check((tensor,))
    assert sys.getrefcount(tensor) == before + 2
    del got
    failing = GuardSet()
    failing.add(TensorMatch.of(Y, tensor))
    other_tree = failing.compile([X])
    for _ in range(10):
        assert other_tree.check((tensor, torch.ones(4))) is None
    assert sys.getrefcount(tensor) == before


@pytest.fixture
def python_only() -> Iterator[None]:
    """Guards compiled as if no self-test had passed."""
    saved = native_setup._found
    native_setup._found = native_setup.NativeReaders()
    yield
    native_setup._found = saved


@pytest.mark.usefixtures("python_only")
def test_without_native_readers_python_answers(agree: Any, variants: Any) -> None:
    for name, tensor in variants.items():
        if name == "not a tensor":
            continue
        guard = TensorMatch.of(X, tensor)
        assert agree(guard, (tensor,))
        assert not agree(guard, (torch.ones(9),))
    base = torch.ones(4)
    guard_on_storage = StoragesAre.of((X, Y), (base[:1], base[1:]))
    assert agree(guard_on_storage, (base, base))
    assert not agree(guard_on_storage, (base, copy.copy(torch.ones(4))))
