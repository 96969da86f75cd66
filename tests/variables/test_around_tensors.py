"""What programs have around tensors: NumPy, generators, other kinds of tensors, other compilers.

Most of it is left to Python; all of it must be as in eager, in front of and behind captured parts.
"""

# mypy: ignore-errors

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as fwad
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn
from torch.utils import _pytree as pytree

X = torch.arange(6.0).reshape(2, 3)


def leaf(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, requires_grad=True)


# --- NumPy ----------------------------------------------------------------------------------------


def array_out(x):
    return (x + 1).numpy(), np.asarray(x), np.array(x * 2), x.detach().cpu().numpy().dtype


def array_in(a):
    return torch.from_numpy(a) * 2, torch.as_tensor(a), torch.tensor(a)


def array_arithmetic(a):
    b = np.sin(a) * 2
    return b, b.sum(), type(b.sum()).__name__, b.astype(np.float32), np.mean(b, axis=0)


def there_and_back(x):
    n = np.tanh(x.sin().numpy()) + 1
    return torch.from_numpy(n) * x


def shared_memory(x):
    n = x.numpy()
    n += 1
    return x * 2, n


def scalar_in(s, x):
    return x * float(s), s * 2, type(s * 2).__name__, x.reshape(-1)[int(s)]


NUMPY = [
    (array_out, [(torch.randn(3),), (torch.randn(2, 2),)]),
    (array_in, [(np.arange(3.0),), (np.arange(3),), (np.arange(4.0, dtype=np.float32),)]),
    (array_arithmetic, [(np.arange(3.0),), (np.ones((2, 2)),)]),
    (there_and_back, [(torch.randn(3),)]),
    (shared_memory, [(torch.randn(3),)]),
    (scalar_in, [(np.float32(1.5), X), (np.float64(2.5), X), (np.int64(2), X)]),
]


@pytest.mark.parametrize(("program", "arguments"), NUMPY, ids=[p.__name__ for p, _ in NUMPY])
def test_numpy(check, program, arguments):
    check(program, *arguments)


# --- random numbers -------------------------------------------------------------------------------


def seeded(x):
    torch.manual_seed(3)
    return x + torch.rand(2, 3), torch.initial_seed()


def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        y = x + torch.rand(2, 3)
    return y + torch.rand(2, 3)


def state_put_back(x):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return first, torch.rand(3), x * 2


def own_generator(x):
    generator = torch.Generator().manual_seed(5)
    return x + torch.rand(2, 3, generator=generator), torch.randperm(4, generator=generator)


@pytest.mark.parametrize("program", [seeded, forked, state_put_back, own_generator])
def test_random_numbers(check, program):
    check(program, (X,))


def test_generator_that_is_passed_in_goes_on(check):
    def program(decorate):
        generator = torch.Generator().manual_seed(5)
        f = decorate(lambda x, g: F.dropout(x) + torch.randn(2, 3, generator=g))
        return [f(X, generator) for _ in range(3)], generator.get_state(), torch.rand(2)

    check.script(program)


# --- packed sequences -----------------------------------------------------------------------------


def test_packed_sequences_through_an_lstm(check):
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4, batch_first=True)

    def f(x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (hidden, _) = lstm(packed)
        padded, sizes = rnn.pad_packed_sequence(out, batch_first=True, total_length=6)
        return padded, sizes, hidden

    x = torch.randn(2, 5, 3)
    check(f, (x, torch.tensor([5, 3])), (x, torch.tensor([2, 4])), (x, [5, 1]))


def test_padding_and_packing_lists(check):
    def f(parts):
        return rnn.pad_sequence(parts, batch_first=True, padding_value=-1), rnn.pack_sequence(
            parts, enforce_sorted=False
        ).data

    check(f, ([torch.randn(2, 2), torch.randn(3, 2)],), ([torch.randn(1, 2), torch.randn(1, 2)],))


# --- mixed precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, float("inf")])
def test_gradient_scaler(check, factor):
    def program(decorate):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        @decorate
        def step(x):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = net(x).float().pow(2).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        losses = [step(X), step(X * factor), step(X)]
        return losses, list(net.parameters()), scaler.state_dict()

    check.script(program)


def nested_autocast(a, b):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = a @ b
        with torch.autocast("cpu", enabled=False):
            second = a @ b
        third = torch.autocast("cpu", dtype=torch.float16)(lambda: a @ b)()
    return first, second, third, torch.is_autocast_enabled("cpu")


def test_autocast_inside_and_around(check):
    def program(decorate):
        f = decorate(nested_autocast)
        a, b = leaf(2, 3), leaf(3, 2)
        found = [f(a, b)]
        with torch.autocast("cpu", dtype=torch.float16):
            found.append(f(a, b))
        return [*found, f(a, b)]

    check.script(program, fullgraph=True)


def test_averaged_models(check):
    swa = torch.optim.swa_utils

    def program(decorate):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        averages = [
            swa.AveragedModel(net),
            swa.AveragedModel(net, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9), use_buffers=True),
        ]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        schedule = swa.SWALR(optimizer, swa_lr=0.05)

        @decorate
        def step(x):
            net(x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            for average in averages:
                average.update_parameters(net)
            schedule.step()

        for _ in range(4):
            step(X)
        decorate(swa.update_bn)([X, X + 1], averages[0])
        return [[*a.parameters(), *a.buffers()] for a in averages], schedule.get_last_lr()

    check.script(program)


# --- modules --------------------------------------------------------------------------------------


def test_lazy_modules(check):
    def program(decorate):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.LazyConv2d(4, 1), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)
        )
        f = decorate(net)
        x = torch.randn(2, 3, 4, 4)
        found = [f(x) for _ in range(3)]
        return found, [*net.parameters(), *net.buffers()], [type(m).__name__ for m in net]

    check.script(program)


def test_deep_copy_of_a_module_inside(check):
    def program(decorate):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)

        @decorate
        def f(x):
            twin = copy.deepcopy(net)
            with torch.no_grad():
                twin.weight.mul_(2)
            return twin(x), net(x), twin.weight is net.weight

        return f(X), f(X), list(net.parameters())

    check.script(program)


# --- forward mode ---------------------------------------------------------------------------------


def test_forward_mode_inside(check):
    def f(x, tangent):
        with fwad.dual_level():
            dual = fwad.make_dual(x, tangent)
            return fwad.unpack_dual(dual.sin() * dual).tangent

    check(f, (X, torch.ones(2, 3)))


def test_forward_mode_around(check):
    def program(decorate):
        f = decorate(lambda x: x.sin() * 2)
        found = [f(X)]
        with fwad.dual_level():
            found.append(fwad.unpack_dual(f(fwad.make_dual(X, torch.ones(2, 3)))).tangent)
        return [*found, f(X)]

    check.script(program)


def test_functional_forms_of_autograd(check):
    def f(x):
        functional = torch.autograd.functional
        return (
            functional.jacobian(lambda x: x.sin() * 2, x),
            functional.hvp(lambda x: (x**3).sum(), x, torch.ones(2, 3))[1],
        )

    check(f, (X,))


# --- other kinds of tensors -----------------------------------------------------------------------


def sparse_inside(x):
    return x.to_sparse().to_dense() + 1, (x.to_sparse_csr() @ x.t()), x.to_sparse().coalesce().sum()


def quantized_inside(x):
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    return q.dequantize() + 1, q.int_repr(), q.q_scale()


def nested_inside(x):
    ragged = torch.nested.nested_tensor([x, x[:1]])
    jagged = torch.nested.nested_tensor([x, x[:1]], layout=torch.jagged)
    return (ragged * 2).to_padded_tensor(0.0), (jagged * 2).to_padded_tensor(0.0)


def masked_inside(x):
    masked = torch.masked.masked_tensor(x, x > 1)
    return masked.sum().get_data(), (masked * 2).get_mask()


@pytest.mark.filterwarnings("ignore")  # these kinds warn that they are prototypes
@pytest.mark.parametrize("program", [sparse_inside, quantized_inside, nested_inside, masked_inside])
def test_other_kinds_of_tensors_inside(check, program):
    check(program, (X,))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.eye(3).to_mkldnn(),
        lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([X, X[:1]], layout=torch.jagged),
    ],
    ids=["csr", "mkldnn", "quantized", "nested"],
)
def test_other_kinds_of_tensors_as_arguments(check, make):
    def program(decorate):
        @decorate
        def f(given, x):
            y = x.sin()
            dense = given.dequantize() if given.is_quantized else given
            if given.is_nested:
                dense = (given * 2).to_padded_tensor(0.0)
            elif given.layout is not torch.strided:
                dense = given.to_dense()
            return dense + 1, y * 2, given.shape[0]

        given = make()
        return f(given, X), f(given, X)

    check.script(program)


class Logging(torch.Tensor):
    """Notes what is called on it."""

    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Pair(torch.Tensor):
    """Two tensors that are worked on alike."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def part(name):
            take = lambda t: getattr(t, name) if isinstance(t, Pair) else t  # noqa: E731
            return func(*pytree.tree_map(take, args), **pytree.tree_map(take, kwargs or {}))

        return pytree.tree_map(
            lambda x, y: Pair(x, y) if isinstance(x, torch.Tensor) else x, part("a"), part("b")
        )


def test_subclass_with_torch_function(check):
    def program(decorate):
        Logging.seen.clear()
        f = decorate(lambda x, y: (x * 2).sin() + y.cos())
        x = torch.ones(3).as_subclass(Logging)
        found = [f(x, torch.ones(3)) for _ in range(2)]
        return [type(v).__name__ for v in found], [v.detach() for v in found], list(Logging.seen)

    check.script(program)


def test_subclass_with_torch_dispatch_passed_in_and_made_inside(check):
    def program(decorate):
        f = decorate(lambda x: (x * 2).sin() + 1)
        g = decorate(lambda a, b: (Pair(a, b) * 2).a + (Pair(a, b) + 1).b)
        made = [f(Pair(torch.ones(3), torch.zeros(3))) for _ in range(2)]
        return [(type(v).__name__, v.a, v.b) for v in made], g(X, X + 1), g(X, X + 1)

    check.script(program)


class Doubling(torch.overrides.TorchFunctionMode):
    """Doubles every sine."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


def test_function_mode_inside_and_around(check):
    def inside(x):
        with Doubling():
            return torch.sin(x) + 1

    def program(decorate):
        f, g = decorate(lambda x: torch.sin(x)), decorate(inside)
        found = [f(X), g(X)]
        with Doubling():
            found.append(f(X))
        return [*found, f(X), g(X)]

    check.script(program)


# --- other compilers and formats ------------------------------------------------------------------


@torch.jit.script
def scripted(x):
    return x * 2 + 1


def test_scripted_and_traced_functions_inside(check):
    traced = torch.jit.trace(nn.Linear(3, 2), X)

    def f(x):
        return scripted(x).sin(), traced(x) * 2

    check(f, (X.clone().requires_grad_(),))


def test_exchange_of_memory(check):
    def f(x):
        y = torch.from_dlpack(x)
        z = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
        y.add_(1)
        return y * 2, z, torch.frombuffer(bytearray(8), dtype=torch.float32)

    check(f, (X,))


@torch.library.custom_op("capture_tests::shifted_", mutates_args=("x",))
def shifted_(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("capture_tests::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.custom_op("capture_tests::each", mutates_args=())
def each(xs: list[torch.Tensor], n: int) -> list[torch.Tensor]:
    return [x * n for x in xs]


@each.register_fake
def _each_fake(xs, n):
    return [torch.empty_like(x) for x in xs]


def test_custom_operators_with_and_without_fakes(check):
    def f(x):
        y = x.clone()
        shifted_(y, 2.0)
        shifted_(x, 1.0)
        return y, x * 2, without_fake(x) + 1, each([x, y], 3)

    check(f, (X,))


def test_sparse_optimizers_gradients_with_sgd(check):
    def program(decorate):
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True)
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

        @decorate
        def step(places):
            loss = table(places).pow(2).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return [step(torch.tensor([1, n])) for n in range(3)], table.weight

    check.script(program)


def test_what_is_a_tensor_and_what_is_a_storage(check):
    class Own(torch.Tensor):
        pass

    def kinds(x, other):
        storage = x.untyped_storage()
        found = [storage, x, other, torch.nn.Parameter, 3, storage.tolist()]
        return [(torch.is_tensor(each), torch.is_storage(each)) for each in found]

    def script(decorate):
        fn = decorate(kinds)
        others = [X.to_sparse(), X.as_subclass(Own), nn.Parameter(X), None]
        return [fn(X, other) for other in others for _ in range(2)]

    check.script(script)
