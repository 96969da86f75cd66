"""Tensors: their methods and attributes, factories, random numbers, modes, indexing, autograd."""

# mypy: ignore-errors
# ruff: noqa: E741, E711, E402

from __future__ import annotations

import torch

X = torch.tensor([1.0, -2.0, 3.0])


def test_list_ops(check):
    check(
        lambda x: (
            x in [1, x] if False else [x, 1][1],
            [x] + [1],
            (x,) * 2,
            sum([x, x]),
            max([x[0], x[2]], key=float),
        ),
        (X,),
    )


def test_compare_none(check):
    check(lambda x: (x == None, x != None, x is None, x == "a", [x == x]), (X,))


def test_bool_contains(check):
    check(lambda x: (1.0 in x, 9 in x, x.sum() in [x.sum()]), (X,))


def test_iter_unpack(check):
    def f(x):
        a, b, c = x
        (d, *e) = x
        return (
            a + c,
            e,
            [t * 2 for t in x],
            list(enumerate(x)),
            len(x),
            tuple(x),
            [*x],
            dict(zip("abc", x)),
            min(x),
            sorted(x),
        )

    check(f, (X,))


def test_methods_props(check):
    def f(x):
        y = x.reshape(1, 3)
        return (
            y.T,
            y.mT,
            y.H if False else 0,
            y.shape,
            y.size(),
            y.size(-1),
            y.ndim,
            y.dim(),
            y.numel(),
            y.stride(),
            y.is_contiguous(),
            y.dtype.is_floating_point,
            y.device.type,
            y.element_size(),
            y.nbytes,
            y.itemsize,
            y.is_leaf,
            y.grad_fn is None,
            y.data_ptr() != 0,
            y.names if False else 0,
            y.is_sparse,
            y.layout,
            x.tolist(),
            y.storage_offset(),
            y._is_view(),
            y._base is None,
            y.real,
        )

    check(f, (X,))


def test_size_ops(check):
    def f(x):
        s = x.reshape(1, 3).shape
        return (
            s[0],
            s[1:],
            s + (4,),
            (4,) + tuple(s),
            s.numel(),
            list(s),
            s == (1, 3),
            s == torch.Size([1, 3]),
            len(s),
            hash(s) == hash((1, 3)),
            torch.Size((2,)) + s,
            type(s[1:]).__name__,
            s * 2,
            3 in s,
            s.index(3),
            f"{s}",
            x.new_zeros(s),
            max(s),
            [*s],
            s[-1] * 2,
        )

    check(f, (X,))


def test_factory_functions(check):
    def f(x):
        return (
            torch.zeros(2),
            torch.ones_like(x),
            torch.arange(3),
            torch.full((2,), 1.5),
            torch.tensor([1, 2.0]),
            torch.tensor(3),
            torch.empty(0),
            torch.eye(2),
            torch.linspace(0, 1, 3),
            x.new_ones(2),
            x.new_tensor([1.0]),
            torch.zeros((), dtype=torch.int8),
            torch.as_tensor([1]),
            torch.cat([x, x]),
            torch.stack([x, x]),
            torch.tensor([x[0].item(), 2]),
        )

    check(f, (X,))


def test_random_functions(check):
    def f(x):
        return (
            torch.rand(2),
            torch.randn_like(x),
            torch.randint(0, 5, (3,)),
            torch.randperm(4),
            x.bernoulli(0.5) if False else torch.bernoulli(x.abs() / 4),
            torch.nn.functional.dropout(x, 0.5),
            torch.normal(0.0, 1.0, (2,)),
            x.clone().uniform_(),
            torch.multinomial(x.abs(), 2),
        )

    check(f, (X,))


def test_generator_argument(check):
    def program(compile):
        g = torch.Generator().manual_seed(3)
        f = compile(lambda x: x + torch.rand(3, generator=g))
        return f(X), f(X), torch.rand(1, generator=g)

    check.script(program)


def test_manual_seed_inside(check):
    def f(x):
        torch.manual_seed(5)
        a = torch.rand(2)
        s = torch.get_rng_state()
        b = torch.rand(2)
        torch.set_rng_state(s)
        return a, b, torch.rand(2)

    check(f, (X,))


def test_fork_rng(check):
    def f(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            a = torch.rand(2)
        return a, torch.rand(2)

    check(f, (X,))


def test_default_device_dtype_inside(check):
    def f(x):
        old = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(2)
        finally:
            torch.set_default_dtype(old)
        return y, torch.ones(2), x

    check(f, (X,))


def test_set_grad_enabled_function(check):
    def f(x):
        torch.set_grad_enabled(False)
        a = x * 2
        torch.set_grad_enabled(True)
        return a, x * 3, torch.is_grad_enabled()

    check(f, (X.clone().requires_grad_(),))


def test_grad_mode_left_changed(check):
    def program(compile):
        @compile
        def f(x):
            torch.set_grad_enabled(False)
            return x * 2

        x = X.clone().requires_grad_()
        try:
            return f(x), torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(True)

    check.script(program)


def test_inference_mode_inside(check):
    def f(x):
        with torch.inference_mode():
            a = x * 2
        return a.is_inference(), x * 2

    check(f, (X,))


def test_autocast_nested(check):
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ w
            with torch.autocast("cpu", enabled=False):
                b = x @ w
            c = x @ w
        return a, b, c, torch.is_autocast_enabled("cpu")

    check(f, (torch.ones(2, 2), torch.ones(2, 2)))


def test_checkpoint(check):
    from torch.utils.checkpoint import checkpoint

    def f(x):
        return checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).sum()

    check(f, (X.clone().requires_grad_(),))


def test_named_tuple_tensor_results(check):
    def f(x):
        v, i = x.max(0)
        r = torch.topk(x, 2)
        s = x.sort()
        return (
            v,
            i,
            r.values,
            r[1],
            s.indices,
            type(r).__name__,
            torch.linalg.qr(torch.eye(2)).Q,
            torch.unique(x),
            r,
        )

    check(f, (X,))


def test_kwargs_to_functional(check):
    F = torch.nn.functional

    def f(x):
        kw = {"dim": -1}
        return (
            F.softmax(x, **kw),
            F.pad(x, (1, 1), mode="constant", value=2),
            F.interpolate(x[None, None], scale_factor=2, mode="nearest"),
            F.one_hot(torch.tensor([0, 2])),
            F.layer_norm(x, (3,)),
            F.normalize(x, dim=0),
            F.cosine_similarity(x, x, dim=0),
            F.mse_loss(x, x + 1),
        )

    check(f, (X,))


def test_one_hot_with_its_number_of_classes_is_in_the_graph(check):
    def f(labels):
        try:
            return torch.nn.functional.one_hot(labels, 4) * 2
        except RuntimeError as error:
            return str(error)

    good, bad = torch.tensor([0, 3, 1]), torch.tensor([0, 3, 7])
    report = check(f, (good,), (bad,), (torch.tensor([-1, 0, 0]),))
    assert (report.graphs, report.breaks) == (1, [])


def test_one_hot_of_unknown_classes_is_left_to_python(check):
    def f(labels):
        return torch.nn.functional.one_hot(labels), torch.nn.functional.one_hot(labels, -1)

    check(f, (torch.tensor([0, 3, 1]),), (torch.tensor([0, 5, 1]),))


def test_hook_in_frame(check):
    def program(compile):
        log = []

        @compile
        def f(x):
            y = x * 2
            y.register_hook(lambda g: log.append(g) or g * 3)
            return (y + 1).sum()

        x = X.clone().requires_grad_()
        f(x).backward()
        return x.grad, log

    check.script(program)


def test_retain_grad(check):
    def program(compile):
        @compile
        def f(x):
            y = x * 2
            y.retain_grad()
            return y, (y * y).sum()

        x = X.clone().requires_grad_()
        y, l = f(x)
        l.backward()
        return y.grad, x.grad

    check.script(program)


def test_requires_grad_in_frame(check):
    def f(x):
        y = x.detach().requires_grad_()
        z = (y * 2).sum()
        z.backward()
        return y.grad, y

    check(f, (X,))


def test_grad_set_in_frame(check):
    def program(compile):
        p = torch.nn.Parameter(X.clone())

        @compile
        def f(x):
            if p.grad is not None:
                p.grad.zero_()
            (p * x).sum().backward()
            g = p.grad.clone()
            p.grad = None
            return g

        return f(X), f(X), p.grad

    check.script(program)


def test_data_assign(check):
    def f(x):
        y = x * 1
        y.data = x * 5
        y.data.add_(1)
        return y

    check(f, (X,))


def test_version_counter_error(check):
    def f(x):
        y = x.exp()
        z = y.sum()
        y.add_(1)
        z2 = y.sum()
        z.backward()

    check(f, (X.clone().requires_grad_(),))


def test_leaf_inplace_error(check):
    def f(x):
        x.add_(1)

    check(f, (X.clone().requires_grad_(),))


def test_expand_inplace_error(check):
    check(lambda x: x.expand(2, 3).add_(1), (X,))


def test_setitem_kinds(check):
    def f(x):
        x = x.clone()
        x[0] = 5
        x[1:] = torch.tensor([7.0, 8.0])
        x[x > 7] = 0
        x[[0, 2]] += 1
        x[...] *= 2
        x[None, 0, 1] = 3
        return x

    check(f, (X,))


def test_advanced_index(check):
    def f(x):
        i = torch.tensor([0, 2])
        m = x.reshape(1, 3)
        return (
            x[i],
            m[:, i],
            x[x > 0],
            m[0, [1, 2]],
            m[..., None],
            x[torch.tensor(1)],
            m[torch.tensor([True])],
        )

    check(f, (X,))


def test_attributes_put_on_tensors_are_seen(check):
    def program(compile):
        p = torch.nn.Parameter(X.clone())
        f = compile(lambda p: (p * 2 if hasattr(p, "tag") else p * 3, getattr(p, "tag", None)))
        first = f(p)
        p.tag = "t"
        second = f(p)
        p.tag = 5
        third = f(p)
        del p.tag
        return first, second, third, f(p)

    check.script(program)


def counted(first, second):
    seen = {}
    for t in (first, second):
        seen[t] = seen.get(t, 0) + 1
    return list(seen.values()), first + second


def test_keys_that_become_the_same_tensor(check):
    x, y = torch.ones(2), torch.ones(2)
    report = check(counted, (x, y), (x, x))
    assert not report.breaks


def test_new_takes_a_size_for_a_shape_and_a_tuple_for_numbers(check):
    def f(x):
        return x.new(x.shape).zero_(), x.new((3, 4)), x.new(2, 1).zero_()

    check(f, (torch.ones(3, 2),), fullgraph=True)


def test_views_that_autograd_has_given_up(check):
    """Views of one operator with several results, whose base was written to."""

    def script(decorate):
        @decorate
        def fn(views):
            with torch.no_grad():
                total = sum(view.sum() for view in views)
            return total, [view * 2 for view in views]

        @decorate
        def writes(base):
            base[...] = torch.ones(3, requires_grad=True).mean()
            for view in base.unbind():
                with torch.no_grad():
                    view += 1
            return base

        out = []
        for stale in (False, False, True, False):
            base = torch.arange(3.0, requires_grad=True) * 1
            views = base.unbind()
            if stale:
                with torch.no_grad():
                    base.mul_(2)
            try:
                out.append(fn(views))
            except RuntimeError as error:
                out.append(str(error))
            try:
                out.append(writes(torch.ones(3)))
            except RuntimeError as error:
                out.append(str(error))
        return out

    check.script(script)


def test_tensor_that_is_marked_as_a_parameter_or_a_buffer(check):
    class Own(torch.Tensor):
        pass

    class Holding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = torch.nn.Buffer(torch.ones(2))
            self.register_buffer("plain", torch.ones(2))
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return [kinds(x, each) for each in (self.kept, self.plain, self.weight, x, x * 2)]

    def kinds(x, other):
        is_parameter = isinstance(other, torch.nn.Parameter)
        return is_parameter, isinstance(other, (torch.nn.Buffer, int)), x + other

    def script(decorate):
        marked = torch.ones(2)
        others = [
            marked,
            torch.nn.Buffer(torch.ones(2)),
            torch.nn.Parameter(torch.ones(2)),
            torch.ones(2),
        ]
        others.append(torch.ones(2).as_subclass(Own))
        fn, module = decorate(kinds), Holding()
        found = [fn(torch.ones(2), each) for each in others]
        marked._is_param = True
        found += [fn(torch.ones(2), each) for each in others]
        del marked._is_param
        marked._is_buffer = True
        found += [fn(torch.ones(2), each) for each in others]
        return found, decorate(module)(torch.ones(2))

    check.script(script)
