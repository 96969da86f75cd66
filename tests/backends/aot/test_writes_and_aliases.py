"""What is written to and what shares memory, through the AOT stage: programs against eager.

A program gets the decorator, calls what it decorated, and returns all that can be seen afterwards.
"""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.fixture
def same(check):
    check.inner = "aot_eager"
    return check.script


def shares(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


# -- inputs that are written to --------------------------------------------------------------------

WRITES = {
    "slice": lambda x: x[1:].mul_(2),
    "column of a transposed view": lambda x: x.t()[0].add_(1),
    "twice": lambda x: x.add_(1).mul_(3),
    "copy that broadcasts": lambda x: x.copy_(torch.arange(3.0)),
    "mask": lambda x: x.masked_fill_(x > 0, 7.0),
    "index": lambda x: x.index_put_((torch.tensor([0, 2]),), torch.tensor(5.0)),
    "subscript": lambda x: x.__setitem__((slice(None), 1), 0.0),
    "zero": lambda x: x.zero_(),
    "out": lambda x: torch.add(x, 1, out=x),
    "diagonal": lambda x: x.diagonal().fill_(9.0),
    "data": lambda x: x.data.mul_(2),
    "detached": lambda x: x.detach().mul_(2),
    "under no_grad": lambda x: torch.no_grad()(lambda: x.mul_(2))(),
    "foreach": lambda x: torch._foreach_add_([x, x[0].clone()], 1.0),
}


RESIZES = {
    "arithmetic": lambda x: torch.mul(torch.arange(3.0), 2, out=x),
    "two results": lambda x: torch.sort(
        torch.tensor([2.0, 1.0]), out=(x, torch.empty(0, dtype=torch.long))
    ),
    "larger": lambda x: torch.cat([torch.ones(4, 4), torch.zeros(1, 4)], out=x),
    "as many elements": lambda x: torch.mul(torch.ones(9), 2, out=x),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("write", RESIZES.values(), ids=list(RESIZES))
def test_result_that_gives_an_input_another_size(same, write):
    def program(decorate):
        @decorate
        def f(x):
            result = write(x)
            return result, x.shape, x + 1

        seen = []
        for _ in range(2):
            x = torch.arange(9.0).reshape(3, 3) - 4
            seen += [f(x), x]
        return seen

    same(program)


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_write_to_an_input(same, write):
    def program(decorate):
        @decorate
        def f(x):
            before = x * 2
            write(x)
            return before, x + 1

        seen = []
        for _ in range(2):
            x = torch.arange(9.0).reshape(3, 3) - 4
            seen += [f(x), x]
        return seen

    same(program)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.mul_(2),
        lambda x: x[1:].mul_(2),
        lambda x: x.sigmoid_(),
        lambda x: x.index_fill_(0, torch.tensor([1]), 0.5),
    ],
)
def test_write_that_autograd_sees(same, write):
    def program(decorate):
        @decorate
        def f(x):
            write(x)
            return x.sin()

        seen = []
        for _ in range(2):
            leaf = (torch.arange(6.0) / 5).reshape(3, 2).requires_grad_()
            x = leaf.clone()
            y = f(x)
            (y.sum() + (x * x).sum()).backward()
            seen += [y, x, x.grad_fn is not None, leaf.grad]
        return seen

    same(program)


def test_integer_and_boolean_inputs(same):
    def program(decorate):
        @decorate
        def f(count, flags, x):
            count.add_(1)
            flags.logical_not_()
            return x * count

        count, flags = torch.tensor(3), torch.tensor([True, False])
        return [[f(count, flags, torch.ones(2)), count.clone(), flags.clone()] for _ in range(3)]

    same(program)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(),
        lambda x: x.unsqueeze_(0),
        lambda x: x.transpose_(0, 1),
        lambda x: x.squeeze_(),
        lambda x: x.swapaxes_(0, 1),
    ],
)
def test_geometry_changes_with_the_values(same, change):
    def program(decorate):
        @decorate
        def f(x):
            x.add_(1)
            change(x)
            return x * 2

        x = torch.arange(6.0).reshape(2, 3)
        return f(x), x, tuple(x.shape), x.stride()

    same(program)


def test_buffers_and_parameters_are_written_to(same):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("calls", torch.tensor(0))
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.calls += 1
            self.mean.lerp_(x.detach().mean(0), 0.1)
            with torch.no_grad():
                self.weight.clamp_(max=0.9)
            return x * self.weight - self.mean

    def program(decorate):
        module = Counting()
        called = decorate(module)
        seen = []
        for i in range(3):
            y = called(torch.full((2, 3), float(i)))
            y.sum().backward()
            seen += [y, module.weight.grad.clone(), module.calls.clone(), module.mean.clone()]
        return seen, dict(module.state_dict())

    same(program)


def test_write_to_an_expanded_input_is_eagers_error(same):
    def program(decorate):
        @decorate
        def f(x):
            x.add_(1)
            return x * 2

        x = torch.zeros(1).expand(3)
        try:
            return f(x)
        except RuntimeError as error:
            return str(error)

    same(program)


def test_writes_before_an_error_in_the_graph_stay(same):
    def program(decorate):
        @decorate
        def f(x, i):
            x.add_(1)
            return x[i]

        seen = []
        for index in (1, 1, 7):
            x = torch.zeros(3)
            try:
                seen.append(f(x, torch.tensor([index])))
            except (IndexError, RuntimeError) as error:
                seen.append(str(error))
            seen.append(x)
        return seen

    same(program)


# -- inputs that share memory ----------------------------------------------------------------------


def test_overlap_that_only_a_later_call_has(same):
    def program(decorate):
        @decorate
        def f(a, b):
            a.add_(1)
            return b * 2

        base = torch.zeros(4)
        seen = [f(torch.zeros(2), torch.zeros(2)), f(base[:2], base[1:3]), base]
        x = torch.zeros(2)
        return [*seen, f(x, x), x, f(torch.zeros(2), torch.zeros(2))]

    same(program)


def test_views_of_one_base_with_a_gradient(same):
    def program(decorate):
        @decorate
        def f(a, b):
            a.mul_(2)
            return (a * b).sum()

        seen = []
        for _ in range(2):
            leaf = torch.arange(4.0, requires_grad=True)
            x = leaf.clone()
            loss = f(x[:2], x[2:])
            loss.backward()
            seen += [loss, x, leaf.grad]
        return seen

    same(program)


def test_one_tensor_given_twice(same):
    def program(decorate):
        @decorate
        def f(a, b):
            return a * b + a

        x = torch.ones(3, requires_grad=True)
        y = torch.ones(3, requires_grad=True)
        f(x, y).sum().backward()
        f(x, x).sum().backward()
        return x.grad, y.grad

    same(program)


# -- outputs that share memory ---------------------------------------------------------------------

VIEWS = {
    "transposed": lambda x: x.t(),
    "view of a view": lambda x: x[1:].t()[0],
    "reshaped": lambda x: x.view(-1),
    "with a dimension more": lambda x: x.unsqueeze(0),
    "diagonal": lambda x: x.diagonal(),
    "narrow": lambda x: x.narrow(1, 0, 2),
    "as strided": lambda x: x.as_strided((2,), (2,)),
    "of another type": lambda x: x.view(torch.int32).view(torch.float32),
    "detached": lambda x: x.detach(),
    "itself": lambda x: x,
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_output_that_is_a_view_of_an_input(same, view, requires_grad):
    def program(decorate):
        @decorate
        def f(x):
            return view(x), x * 2

        seen = []
        for _ in range(2):
            x = torch.arange(9.0).reshape(3, 3)
            x = x.requires_grad_().clone() if requires_grad else x
            v, y = f(x)
            seen += [v, y, shares(v, x), v._is_view(), v.requires_grad, v.is_leaf]
            seen.append(v._base is (x if x._base is None else x._base))
            with torch.no_grad():
                v.detach().mul_(0)
            seen.append(x.detach().clone())
        return seen

    same(program)


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_base_and_view_of_an_intermediate(same, view):
    def program(decorate):
        @decorate
        def f(x):
            y = x * 2
            return y, view(y)

        leaf = torch.arange(9.0).reshape(3, 3).requires_grad_()
        y, v = f(leaf)
        seen = [y, v, shares(y, v), v._is_view(), v.requires_grad]
        v.detach().add_(1)
        seen.append(y.detach().clone())
        (y.sum() + (v * 3).sum()).backward()
        return [*seen, leaf.grad]

    same(program)


def test_write_to_an_output_reaches_the_input_and_its_gradient(same):
    def program(decorate):
        @decorate
        def f(x):
            return x[1:], x.sum()

        leaf = torch.arange(4.0, requires_grad=True)
        x = leaf.clone()
        v, total = f(x)
        v.mul_(3)
        (x.sum() + total).backward()
        return x, v, leaf.grad

    same(program)


def test_halves_of_a_split(same):
    def program(decorate):
        @decorate
        def f(x):
            first, second = x.split(2)
            return first, second, x.chunk(2)[0]

        x = torch.arange(4.0)
        outputs = f(x)
        x.add_(1)
        return outputs, [shares(o, x) for o in outputs]

    same(program)


def test_same_tensor_under_several_names(same):
    def program(decorate):
        @decorate
        def f(x):
            y = x + 1
            return {"a": y, "b": [y, x], "c": (x, y)}

        x = torch.ones(2)
        found = f(x)
        return found, found["a"] is found["b"][0], found["b"][1] is x, found["c"][0] is x

    same(program)
