"""Tests that propagated metadata is eager's, and when propagation steps aside."""

from __future__ import annotations

import gc
import operator
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from capture.graph import CannotPropagate, OperatorError, OutputGraph, clear_memo
from capture.graph import propagate as propagation
from capture.graph.data_sizes import depends_on_data
from tests.graph.pairs import Pair


@pytest.fixture(params=["samples", "fakes"], autouse=True)
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run each test on both kinds of stand-ins, from an empty memo."""
    clear_memo()
    if request.param == "fakes":
        monkeypatch.setattr(propagation._Call, "run_on_samples", lambda self, state: None)
    yield
    clear_memo()


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def inner(*shape: int) -> torch.Tensor:
    return leaf(*shape) * 1


CALLS: list[tuple[Any, Any]] = [
    (torch.add, lambda: (torch.ones(2, 3), leaf(3))),
    (operator.add, lambda: (torch.ones(2, 3), 1)),
    (operator.getitem, lambda: (inner(4, 5), 1)),
    (operator.getitem, lambda: (inner(4, 5), (slice(1, None), None, ..., -1))),
    (operator.getitem, lambda: (leaf(4, 5), torch.tensor([0, 2]))),
    (F.linear, lambda: (torch.ones(2, 3, 4), leaf(5, 4), leaf(5))),
    (F.gelu, lambda: (inner(2, 3),)),
    (F.layer_norm, lambda: (leaf(2, 3), (3,))),
    (F.conv2d, lambda: (torch.ones(2, 3, 8, 8), leaf(4, 3, 3, 3))),
    (
        F.conv2d,
        lambda: (
            torch.ones(2, 3, 8, 8).contiguous(memory_format=torch.channels_last),
            leaf(4, 3, 3, 3),
        ),
    ),
    (F.max_pool2d, lambda: (torch.ones(1, 1, 4, 4), 2)),
    (F.embedding, lambda: (torch.zeros(2, 3, dtype=torch.int64), leaf(5, 4))),
    (F.scaled_dot_product_attention, lambda: (leaf(2, 4, 8, 16),) * 3),
    (F.cross_entropy, lambda: (leaf(4, 5), torch.zeros(4, dtype=torch.int64))),
    (F.dropout, lambda: (leaf(4, 5), 0.5, False)),
    (F.dropout, lambda: (leaf(4, 5), 0.5, True)),
    (torch.max, lambda: (leaf(4, 5), 1)),
    (torch.split, lambda: (leaf(4, 5), 2)),
    (torch.unbind, lambda: (inner(2, 5),)),
    (torch.einsum, lambda: ("ij,jk->ik", leaf(2, 3), leaf(3, 4))),
    (torch.meshgrid, lambda: (torch.ones(2), torch.ones(3))),
    (torch.frexp, lambda: (torch.ones(3),)),
    (torch.linalg.svd, lambda: (leaf(3, 3),)),
    (torch.zeros_like, lambda: (torch.ones(4, 3).t(),)),
    (torch.cat, lambda: ([leaf(2, 3), torch.ones(1, 3)],)),
    (torch.where, lambda: (torch.ones(3) > 0, leaf(3), 0.0)),
    (torch.tensor, lambda: ([1, 2.5],)),
    (torch.arange, lambda: (5,)),
    (torch.full, lambda: ((2, 3), 1)),
    ("contiguous", lambda: (inner(2, 3),)),
    ("contiguous", lambda: (inner(2, 3).t(),)),
    ("to", lambda: (leaf(2), torch.float32)),
    ("to", lambda: (leaf(2), torch.float64)),
    ("float", lambda: (torch.ones(2, dtype=torch.int64),)),
    ("view", lambda: (inner(2, 3), -1)),
    ("reshape", lambda: (inner(2, 3).t(), 6)),
    ("transpose", lambda: (leaf(2, 3, 4), 0, 2)),
    ("detach", lambda: (inner(2, 3),)),
    ("expand", lambda: (leaf(1, 3), 4, 3)),
    ("chunk", lambda: (leaf(4, 3), 2)),
    ("size", lambda: (leaf(4, 3),)),
    ("stride", lambda: (leaf(4, 3), 0)),
    ("new_zeros", lambda: (leaf(4, 3), (2,))),
    ("__rsub__", lambda: (leaf(4, 3), 2)),
    ("type_as", lambda: (leaf(4, 3), torch.ones(1, dtype=torch.float64))),
    ("topk", lambda: (leaf(4, 3), 2)),
]


@pytest.mark.parametrize(("target", "make"), CALLS)
def test_metadata_is_eagers(target: Any, make: Any) -> None:
    for _ in range(2):  # the second time from the memo
        pair = Pair()
        seen: dict[int, Any] = {}

        def wrap(arg: Any, pair: Pair = pair, seen: dict[int, Any] = seen) -> Any:
            if isinstance(arg, torch.Tensor):
                if id(arg) not in seen:
                    seen[id(arg)] = pair.input(arg)
                return seen[id(arg)]
            return type(arg)(map(wrap, arg)) if type(arg) in (list, tuple) else arg

        args = make()
        pair.call(target, *map(wrap, args))


@pytest.mark.parametrize("name", ["T", "mT", "data", "real", "shape", "dtype", "requires_grad"])
def test_attributes(name: str) -> None:
    pair = Pair()
    pair.call(getattr, pair.input(inner(2, 3)), name)


@pytest.mark.parametrize("name", ["grad", "grad_fn", "_version", "_base"])
def test_attributes_that_are_not_metadata(name: str) -> None:
    pair = Pair()
    with pytest.raises(CannotPropagate):
        pair.call(getattr, pair.input(inner(2, 3)), name)


def test_types_of_constants_count() -> None:
    pair = Pair()
    value = pair.input(torch.ones(2, dtype=torch.int64))
    for number in (1, 1.0, True, 1j, 1):
        pair.call(torch.mul, value, number)
        pair.call(torch.tensor, number)


def test_one_tensor_twice_is_not_two_tensors() -> None:
    pair = Pair()
    left, right = pair.input(torch.ones(2)), pair.input(torch.ones(2))
    pair.call("expand_as", left, right)
    pair.call("expand_as", left, left)
    pair.call(torch.broadcast_tensors, left, right)


ERRORS: list[tuple[Any, Any]] = [
    (torch.mm, lambda: (torch.ones(2, 3), torch.ones(2, 3))),
    (torch.add, lambda: (torch.ones(2), torch.ones(3))),
    (torch.cat, lambda: ([torch.ones(2), torch.ones(2, 2)],)),
    (torch.nn.functional.linear, lambda: (torch.ones(2, 3), leaf(2, 2))),
    (operator.getitem, lambda: (torch.ones(2), 5)),
    (operator.getitem, lambda: (torch.ones(2), (0, 0))),
    (F.dropout, lambda: (torch.ones(2), 2.0)),
    (torch.add, lambda: (torch.ones(2), "x")),
    (torch.zeros, lambda: (-1,)),
    ("view", lambda: (torch.ones(2, 3), 4)),
    ("size", lambda: (torch.ones(2), 3)),
    ("add_", lambda: (leaf(2), 1)),
    ("add_", lambda: (torch.ones(1), torch.ones(2))),
    ("no_such_method", lambda: (torch.ones(1),)),
]


@pytest.mark.parametrize(("target", "make"), ERRORS)
def test_errors_are_eagers(target: Any, make: Any) -> None:
    pair = Pair()
    args = [
        pair.input(a)
        if isinstance(a, torch.Tensor)
        else [pair.input(i) for i in a]
        if isinstance(a, list)
        else a
        for a in make()
    ]
    with pytest.raises(OperatorError) as caught:
        pair.call(target, *args)
    assert caught.value.original_exception.__context__ is None
    assert pair.graph.num_ops == 0
    assert all(node.op == "placeholder" for node in pair.graph.graph.nodes)


ASIDE: list[tuple[Any, Any]] = [
    (torch.nonzero, lambda: (torch.ones(2),)),
    (operator.getitem, lambda: (torch.ones(2), torch.ones(2) > 0)),
    (torch.masked_select, lambda: (torch.ones(2), torch.ones(2) > 0)),
    (torch.unique, lambda: (torch.ones(2),)),
    (torch.equal, lambda: (torch.ones(2), torch.ones(2))),
    (torch.repeat_interleave, lambda: (torch.ones(2, dtype=torch.int64),)),
    (torch.tensor_split, lambda: (torch.ones(4), torch.tensor([1, 2]))),
    ("item", lambda: (torch.ones(1),)),
    ("tolist", lambda: (torch.ones(1),)),
    ("to_sparse", lambda: (torch.ones(1),)),
    ("backward", lambda: (leaf(1),)),
    (torch.autograd.grad, lambda: (leaf(1), leaf(1))),
    (F.one_hot, lambda: (torch.zeros(2, dtype=torch.int64),)),
    (torch.add, lambda: (torch.eye(2).to_sparse(), 1)),
    (torch.randperm, lambda: (3, torch.Generator())),
    (torch.nn.Parameter, lambda: (torch.ones(1),)),
]


@pytest.mark.parametrize(("target", "make"), ASIDE)
def test_steps_aside(target: Any, make: Any) -> None:
    pair = Pair()
    pair.graph.takes_data = False
    args = [pair.input(a) if isinstance(a, torch.Tensor) else a for a in make()]
    with pytest.raises(CannotPropagate) as caught:
        pair.call(target, *args)
    assert caught.value.reason
    assert pair.graph.num_ops == 0


SHAPED_BY_DATA = [
    (target, make)
    for target, make in ASIDE
    if target
    in (torch.nonzero, operator.getitem, torch.masked_select, torch.unique, torch.repeat_interleave)
]


@pytest.mark.parametrize(("target", "make"), SHAPED_BY_DATA)
def test_size_that_depends_on_data_is_told_by_a_node(target: Any, make: Any) -> None:
    pair = Pair()
    args = tuple(pair.input(a) for a in make())
    result = pair.graph.call("call_function", target, args)
    assert result.meta.shape[0].hint is None
    assert depends_on_data(result.meta)
    told = pair.graph.symbolic().told[result.meta.shape[0].expr]
    assert (told.target, told.args) == ("size", (result.node, 0))
    again = pair.graph.call("call_function", target, args)
    assert again.meta.shape != result.meta.shape  # another count, for all that is known


def test_tensors_in_a_list_are_read() -> None:
    pair = Pair()
    with pytest.raises(CannotPropagate):
        pair.call(torch.tensor, [pair.input(torch.ones(()))])


def test_subclasses_step_aside() -> None:
    class Mine(torch.Tensor):
        pass

    pair = Pair()
    with pytest.raises(CannotPropagate):
        pair.call(torch.add, pair.input(torch.ones(2).as_subclass(Mine)), 1)


def test_real_tensors_are_refused_as_constants() -> None:
    graph = OutputGraph("test")
    value = graph.add_input("x", torch.ones(1), 0)
    with pytest.raises(CannotPropagate):
        graph.call("call_function", torch.add, (value, torch.ones(1)))


def test_random_state_is_not_touched() -> None:
    graph = OutputGraph("test")
    value = graph.add_input("x", torch.ones(8), 0)
    before = torch.get_rng_state()
    for call in [
        (F.dropout, (value,)),
        (torch.rand, (3,)),
        (torch.randn_like, (value,)),
        (torch.bernoulli, (value,)),
        (F.rrelu, (value, 0.1, 0.3, True)),
    ]:
        graph.uses_rng = False
        graph.call("call_function", *call)
        assert graph.uses_rng
    graph.call("call_method", "normal_", (value,))
    assert torch.equal(before, torch.get_rng_state())
    assert graph.mutates_inputs


def test_in_place_keeps_identity_and_tracks_grad() -> None:
    pair = Pair()
    x, w = pair.input(torch.ones(2)), pair.input(leaf(2))
    y = pair.call(torch.add, x, 1)
    assert pair.call("mul_", y, w) is y
    assert y.meta.has_grad_fn
    assert not pair.graph.mutates_inputs
    pair.call(operator.iadd, x, 1)
    assert pair.graph.mutates_inputs


@pytest.mark.parametrize("through", ["base", "view"])
def test_in_place_reaches_the_whole_family(through: str) -> None:
    pair = Pair()
    w = pair.input(leaf(2))
    base = pair.call(torch.zeros, 3, 2)
    first, second = pair.call(operator.getitem, base, 0), pair.call(operator.getitem, base, 1)
    detached = pair.call("detach", base)
    pair.call("mul_", base if through == "base" else first, w)
    assert base.meta.has_grad_fn
    assert first.meta.has_grad_fn
    assert second.meta.has_grad_fn
    assert not detached.meta.requires_grad
    assert detached.alias_group == base.alias_group


def test_setitem_tracks_grad() -> None:
    pair = Pair()
    w = pair.input(leaf(2))
    base = pair.call(torch.zeros, 3, 2)
    pair.call(operator.setitem, base, 0, w)
    assert base.meta.has_grad_fn
    pair.call("__setitem__", base, (slice(None), 0), 1.0)
    pair.call(operator.setitem, base, pair.call(operator.gt, base, 0), 0.0)


def test_views_that_autograd_guards_step_aside() -> None:
    pair = Pair()
    w = pair.input(leaf(2))
    base = pair.call(torch.zeros, 3, 2)
    part, *_ = pair.call(torch.unbind, base)
    with pytest.raises(CannotPropagate):
        pair.graph.call("call_method", "mul_", (part, w))
    x = pair.input(leaf(3, 2))
    row = pair.call(operator.getitem, x, 0)
    with pytest.raises(CannotPropagate):
        pair.graph.call("call_method", "mul_", (row, 2))


def test_in_place_shape_changes() -> None:
    pair = Pair()
    y = pair.call(torch.zeros, 3, 2)
    pair.call("t_", y)
    pair.call("unsqueeze_", y, 0)
    pair.call("squeeze_", y)
    pair.call("requires_grad_", y)
    z = pair.call(torch.mul, y, 2)
    pair.call("detach_", z)
    pair.call("resize_", pair.call(torch.zeros, 3), 2, 2)


def test_out_arguments() -> None:
    pair = Pair()
    x, out = pair.input(torch.ones(2)), pair.input(torch.ones(2))
    assert pair.call(torch.add, x, x, out=out) is out
    assert pair.graph.mutates_inputs


def test_batch_norm_updates_statistics() -> None:
    pair = Pair()
    x = pair.input(torch.ones(2, 3))
    mean, var = pair.input(torch.zeros(3)), pair.input(torch.ones(3))
    pair.call(F.batch_norm, x, mean, var, training=False)
    assert not pair.graph.mutates_inputs
    pair.call(F.batch_norm, x, mean, var, training=True)
    assert pair.graph.mutates_inputs


def test_parts_that_are_dropped_leave_no_node() -> None:
    pair = Pair()
    x = pair.input(torch.ones(4, 2))
    parts = pair.call("split", x, 1)
    compiled = pair.graph.compile([parts[2]], lambda gm, inputs: gm)
    assert [n.op for n in compiled.gm.graph.nodes].count("call_function") == 1
    assert pair.graph.num_ops == 1


def test_what_can_raise() -> None:
    pair = Pair()
    x = pair.input(torch.ones(4, 4))
    w = pair.input(torch.nn.Parameter(torch.ones(4, 4)))
    pair.call(F.gelu, pair.call(F.linear, x, w))
    pair.call(torch.div, x, 0)
    assert not pair.graph.may_raise
    pair.call(operator.getitem, x, pair.input(torch.tensor([3])))
    assert pair.graph.may_raise


@pytest.mark.parametrize(
    ("target", "args"),
    [
        (torch.linalg.inv, (torch.eye(2),)),
        (F.embedding, (torch.tensor([0]), torch.ones(2, 2))),
        (torch.floor_divide, (torch.tensor([1]), torch.tensor([1]))),
    ],
)
def test_what_can_raise_alone(target: Any, args: Any) -> None:
    pair = Pair()
    pair.call(target, *map(pair.input, args))
    assert pair.graph.may_raise


def test_conjugate_inputs() -> None:
    pair = Pair()
    x = pair.input(torch.ones(2, dtype=torch.complex64).conj())
    pair.call(torch.mul, x, 2)
    pair.call("resolve_conj", x)
    pair.call(getattr, x, "imag")


def test_large_tensors_are_not_allocated() -> None:
    graph = OutputGraph("test")
    value = graph.call("call_function", torch.zeros, (1 << 20, 1 << 20))
    assert value.meta.numel == 1 << 40
    row = graph.call("call_function", torch.zeros, (1 << 19,))
    column = graph.call("call_method", "unsqueeze", (row, 1))
    assert graph.call("call_function", torch.add, (row, column)).meta.numel == 1 << 38


def test_functions_of_the_user_are_not_kept() -> None:
    def mine(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    reference = weakref.ref(mine)
    pair = Pair()
    assert pair.call(mine, pair.input(leaf(2))).meta.has_grad_fn
    del mine, pair
    gc.collect()
    assert reference() is None


def test_custom_operators() -> None:
    library: Any = torch.library.Library
    lib = library("capture_test", "FRAGMENT")
    lib.define("double(Tensor x) -> Tensor")
    lib.define("fill(Tensor(a!) x) -> ()")
    lib.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
    lib.impl("fill", lambda x: x.fill_(0) and None, "CompositeExplicitAutograd")
    torch.library.register_fake("capture_test::double", torch.empty_like, lib=lib)
    torch.library.register_fake("capture_test::fill", lambda x: None, lib=lib)
    pair = Pair()
    x = pair.input(torch.ones(2))
    pair.graph.call("call_function", torch.ops.capture_test.double, (x,))
    assert not pair.graph.mutates_inputs
    pair.graph.call("call_function", torch.ops.capture_test.fill.default, (x,))
    assert pair.graph.mutates_inputs
    assert pair.graph.may_raise
    assert pair.graph.num_ops == 2
    lib._destroy()


def test_methods_as_functions() -> None:
    pair = Pair()
    x = pair.input(torch.ones(2, 3))
    results = [
        pair.call(torch.Tensor.add, x, 1),
        pair.call(torch.Tensor.__add__, x, 1),
        pair.call(torch.Tensor.split, x, 1)[0],
        pair.call(torch.ops.aten.add.Tensor, x, x),
        pair.call(torch.ops.aten.add, x, x),
    ]
    compiled = pair.graph.compile(results, lambda gm, inputs: gm)
    assert len(compiled.fn(torch.ones(2, 3))) == 5
