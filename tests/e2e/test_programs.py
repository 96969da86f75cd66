"""Programs out of the standard library's and torch's own idioms: whatever they use must agree."""

# mypy: ignore-errors
# ruff: noqa: E741, E711, E402, E501, RUF012, B018, F841, UP030, UP031, B028, F842, F821, RUF059, C416, B904

import bisect
import collections
import contextlib
import copy
import datetime
import decimal
import fractions
import hashlib
import heapq
import inspect
import json
import logging
import os
import pathlib
import queue
import re
import statistics
import string
import sys
import textwrap
import threading
import types
import typing
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

import capture

X = torch.tensor([1.0, -2.0, 3.0])


def brk(v=None):
    capture.graph_break()
    return v


class Box:
    def __init__(self, **a):
        self.__dict__.update(a)


LOG = logging.getLogger("adv")


def test_heapq_bisect(check):
    def f(x, l):
        h = list(l)
        heapq.heapify(h)
        heapq.heappush(h, 0)
        s = heapq.heappop(h)
        b = sorted(l)
        bisect.insort(b, 2)
        return x + s, h, b, bisect.bisect_left(b, 2), heapq.nsmallest(2, l)

    check(f, (X, [3, 1, 2]))


def test_re_json(check):
    def f(x, s):
        return (
            x + 1,
            re.findall(r"\d+", s),
            re.sub("a", "b", s),
            json.loads(json.dumps({"k": [1, s]})),
            json.dumps([1.5, None]),
        )

    check(f, (X, "a1b22"))


def test_decimal_fraction(check):
    def f(x):
        return (
            x + 1,
            decimal.Decimal("0.1") * 3,
            fractions.Fraction(1, 3) + 1,
            float(fractions.Fraction(1, 2)),
            statistics.mean([1, 2, 3]),
        )

    check(f, (X,))


def test_datetime_path(check):
    def f(x):
        return (
            x + 1,
            datetime.timedelta(days=1) * 2,
            pathlib.PurePath("a") / "b",
            os.path.join("a", "b"),
            textwrap.dedent("  a"),
            hashlib.md5(b"a").hexdigest(),
        )

    check(f, (X,))


def test_string_template_fmt(check):
    def f(x):
        return (
            x + 1,
            string.Template("$a").substitute(a=1),
            "{0[k]} {1.shape}".format({"k": 2}, x),
            "%(a)s" % {"a": 3},
            "a".join(map(str, [1, 2])),
            "abc".translate({97: "z"}),
            str.maketrans("a", "b"),
        )

    check(f, (X,))


def test_warnings_logged(check):
    def f(x):
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            warnings.warn("careful")
            n = len(w)
        return x + n, str(w[0].message)

    check(f, (X,))


def test_logging_calls(check):
    def f(x):
        LOG.debug("x %s", x.shape)
        if LOG.isEnabledFor(10):
            x = x + 1
        return x * 2

    check(f, (X,))


def test_inspect_sig(check):
    def g(a, b=1, *c, **d):
        pass

    check(
        lambda x: (x + 1, str(inspect.signature(g)), g.__code__.co_varnames, inspect.isfunction(g)),
        (X,),
    )


def test_queue_and_deque(check):
    def f(x):
        q = queue.Queue()
        q.put(x)
        q.put(1)
        return q.get() + q.get(), q.empty()

    check(f, (X,))


def test_ordereddict_lru(check):
    class LRU(collections.OrderedDict):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def __getitem__(self, k):
            v = super().__getitem__(k)
            self.move_to_end(k)
            return v

        def __setitem__(self, k, v):
            super().__setitem__(k, v)
            if len(self) > self.n:
                self.popitem(last=False)

    def f(x, c, k):
        if k in c:
            r = c[k]
        else:
            r = c[k] = x * len(c)
        return r, list(c)

    def program(compile):
        c = LRU(2)
        g = compile(lambda x, k: f(x, c, k))
        return [g(X, k) for k in "abacbd"], list(c)

    check.script(program)


def test_chainmap_counter(check):
    def f(x, d):
        c = collections.ChainMap({"a": 1}, d)
        cnt = collections.Counter("aab")
        cnt["z"] -= 1
        cnt += collections.Counter("b")
        return x + c["b"], "a" in c, sorted(c), cnt, cnt["q"], cnt.most_common(1), +cnt

    check(f, (X, {"b": 2}))


def test_userdict_userlist(check):
    class U(collections.UserDict):
        pass

    def f(x, u):
        u["k"] = x + 1
        return u["k"], len(u), dict(u), list(collections.UserList([1, 2]))

    check(f, (X, U(a=1)))


def test_simple_namespace(check):
    def f(x, n):
        n.v = x + 1
        n.w = types.SimpleNamespace(q=1)
        return n.v * n.w.q, n == types.SimpleNamespace(), vars(n)

    check(f, (X, types.SimpleNamespace(a=1)))


def test_mappingproxy(check):
    def program(compile):
        p = types.MappingProxyType({"a": 2})
        f = compile(lambda x: (x + p["a"], list(p), "a" in p, dict(p), len(p)))
        return f(X), f(X)

    check.script(program)


def test_typed_dict_named_tuple(check):
    class TD(typing.TypedDict):
        a: int

    class NT(typing.NamedTuple):
        a: int
        b: str = "z"

        def total(self):
            return self.a + 1

    def f(x):
        n = NT(1)
        m = n._replace(b="q")
        t = TD(a=2)
        a, b = m
        return (
            x + n.total(),
            n,
            m,
            t,
            a,
            b,
            m._asdict(),
            NT._field_defaults,
            n == (1, "z"),
            isinstance(n, NT),
            NT._make([5, "k"]),
        )

    check(f, (X,))


def test_protocol_and_cast(check):
    class P(typing.Protocol):
        def go(self): ...

    @typing.runtime_checkable
    class Q(typing.Protocol):
        def go(self): ...

    class C:
        def go(self):
            return 3

    def f(x, c):
        return (
            x + typing.cast(int, c.go()),
            isinstance(c, Q),
            typing.get_type_hints(f) if False else 0,
        )

    check(f, (X, C()))


def test_annotations_in_function(check):
    def f(x: torch.Tensor) -> torch.Tensor:
        y: int = 3
        z: undefined
        return x + y

    check(f, (X,))


def test_global_annotation_and_docs(check):
    def f(x):
        """doc"""

        def g(a: int = 1) -> str: ...

        return x + 1, g.__annotations__, f.__doc__

    check(f, (X,))


def test_async_run(check):
    import asyncio

    async def work(x):
        await asyncio.sleep(0)
        return x + 1

    check(lambda x: asyncio.run(work(x * 2)) * 3, (X,))


def test_async_context_in_frame(check):
    def f(x):
        async def co(y):
            return y + 1

        c = co(x)
        try:
            c.send(None)
        except StopIteration as s:
            return s.value

    check(f, (X,))


def test_thread_in_frame(check):
    def f(x):
        out = []
        t = threading.Thread(target=lambda: out.append(x + 1))
        t.start()
        t.join()
        return out[0] * 2

    check(f, (X,))


def test_exitstack_complex(check):
    @contextlib.contextmanager
    def cm(log, n):
        log.append(n)
        try:
            yield n
        except ValueError:
            log.append("sw")
        finally:
            log.append(-n)

    def f(x, log, bad):
        with contextlib.ExitStack() as st:
            for i in range(1, 3):
                x = x + st.enter_context(cm(log, i))
            st.push(lambda *a: log.append(a[0] and a[0].__name__))
            if bad:
                raise ValueError("q")
        return x

    check(f, (X, [], False), (X, [], True))


def test_redirect(check):
    import io

    def f(x):
        s = io.StringIO()
        with contextlib.redirect_stdout(s):
            print("hidden", 1)
        print("shown")
        return x + 1, s.getvalue()

    check(f, (X,))


def test_nullcontext_closing(check):
    class R:
        def __init__(self):
            self.closed = False

        def close(self):
            self.closed = True

    def f(x):
        r = R()
        with contextlib.closing(r) as q, contextlib.nullcontext(5) as n:
            x = x + n
        return x, r.closed, q is r

    check(f, (X,))


def test_class_decorator_contextdecorator(check):
    class CD(contextlib.ContextDecorator):
        def __enter__(self):
            LOGL.append("in")
            return self

        def __exit__(self, *a):
            LOGL.append("out")
            return False

    LOGL = []

    def program(compile):
        LOGL.clear()

        @CD()
        def g(x):
            return x + 1

        f = compile(lambda x: g(x) * 2)
        return f(X), f(X), list(LOGL)

    check.script(program)


def test_no_grad_decorator_class_method(check):
    class M(nn.Module):
        @torch.no_grad()
        def a(self, x):
            return x * 2

        @torch.enable_grad()
        def b(self, x):
            return x * 3

        def forward(self, x):
            with torch.no_grad():
                return self.a(x), self.b(x), x * 4

    check(M(), (X.clone().requires_grad_(),))


def test_grad_mode_in_generator(check):
    def f(x):
        @torch.no_grad()
        def gen():
            for i in range(2):
                yield x * i, torch.is_grad_enabled()

        return list(gen()), torch.is_grad_enabled(), x * 2

    check(f, (X.clone().requires_grad_(),))


def test_module_dynamics(check):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.ls = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
            self.p = nn.ParameterDict({"a": torch.ones(3)})
            self._cache = None

        def forward(self, x):
            for i, l in enumerate(self.ls):
                x = l(x) if i % 2 == 0 else F.relu(l(x))
            if self._cache is None:
                self._cache = x.detach()
            return (
                x * self.p["a"] + self._cache,
                [n for n, _ in self.named_parameters()],
                len(list(self.children())),
                sum(p.numel() for p in self.parameters()),
            )

    torch.manual_seed(0)
    check(M(), (X,))


def test_module_getattr_override(check):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def __getattr__(self, n):
            try:
                return super().__getattr__(n)
            except AttributeError:
                return getattr(self.inner, n)

        def forward(self, x):
            return self.inner(x) + self.weight.sum() + self.in_features

    torch.manual_seed(0)
    check(M(), (X,))


def test_module_property_and_buffer_assign(check):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(3), persistent=False)
            self._s = 2

        @property
        def s(self):
            return self._s

        @s.setter
        def s(self, v):
            self._s = v

        def forward(self, x):
            self.s = self.s + 1
            self.b = self.b + 1
            self.b.mul_(2)
            del self._s
            self._s = 7
            return x * self.b + self.s

    def program(compile):
        m = M()
        f = compile(m)
        return f(X), f(X), m.b, m._s, list(m.__dict__)

    check.script(program)


def test_module_setattr_module(check):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Identity()

        def forward(self, x):
            self.a = nn.ReLU()
            self.q = nn.Parameter(torch.ones(3))
            self.q2 = None
            return self.a(x) * self.q

    def program(compile):
        m = M()
        f = compile(m)
        return f(X), f(X), list(m._modules), list(m._parameters), "q2" in m.__dict__

    check.script(program)


def test_functional_call(check):
    m = nn.Linear(3, 3)

    def f(x, w):
        return torch.func.functional_call(m, {"weight": w, "bias": torch.zeros(3)}, (x,))

    check(f, (X, torch.ones(3, 3)))


def test_vmap_grad_inside(check):
    def f(x):
        g = torch.func.grad(lambda t: (t**2).sum())(x)
        v = torch.func.vmap(lambda t: t * 2)(x)
        j = torch.func.jacrev(lambda t: t * t)(x)
        return g, v, j

    check(f, (X,))


def test_autograd_function_in_frame(check):
    class A(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 5

    def f(x):
        return A.apply(x) + A.apply(x * 2)

    check(f, (X.clone().requires_grad_(),))


def test_autograd_grad_in_frame(check):
    def f(x):
        y = (x**2).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g, (g * 2).sum()

    check(f, (X.clone().requires_grad_(),))


def test_double_backward_accumulate(check):
    def f(x):
        (x * 2).sum().backward()
        (x * 3).sum().backward()
        g = x.grad.clone()
        x.grad.zero_()
        return g

    check(f, (X.clone().requires_grad_(),))


def test_detach_and_requires(check):
    def f(x):
        y = x * 2
        z = y.detach()
        z.requires_grad_(True)
        w = z * 3
        return (
            y.requires_grad,
            z.is_leaf,
            w,
            z.grad_fn is None,
            y.grad_fn is not None,
            w.detach_() if False else 0,
        )

    check(f, (X.clone().requires_grad_(),))


def test_optimizer_in_frame(check):
    def program(compile):
        p = nn.Parameter(X.clone())
        opt = torch.optim.Adam([p], lr=0.1)

        @compile
        def step(x):
            opt.zero_grad()
            l = ((p - x) ** 2).sum()
            l.backward()
            opt.step()
            return l.detach()

        r = [step(X * 2) for _ in range(5)]
        for g in opt.param_groups:
            g["lr"] = 0.01
        r += [step(X * 2) for _ in range(2)]
        return r, p.detach().clone(), opt.state[p]["step"], opt.state[p]["exp_avg"]

    check.script(program)


def test_lbfgs_closure(check):
    def program(compile):
        p = nn.Parameter(X.clone())
        opt = torch.optim.LBFGS([p], max_iter=3)

        @compile
        def step(x):
            def closure():
                opt.zero_grad()
                l = ((p - x) ** 2).sum()
                l.backward()
                return l

            return opt.step(closure).detach()

        return step(X * 2), step(X * 2), p.detach().clone()

    check.script(program)


def test_grad_scaler_clip(check):
    def program(compile):
        m = nn.Linear(3, 1)
        torch.nn.init.ones_(m.weight)
        torch.nn.init.zeros_(m.bias)

        @compile
        def f(x):
            m.zero_grad()
            (m(x) ** 2).sum().backward()
            n = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            nn.utils.clip_grad_value_(m.parameters(), 0.1)
            return n, [p.grad.clone() for p in m.parameters()]

        return f(X), f(X)

    check.script(program)


def test_swa_parametrize(check):
    def program(compile):
        m = nn.Linear(3, 3)
        torch.nn.init.ones_(m.weight)

        class Sym(nn.Module):
            def forward(self, w):
                return w.triu() + w.triu(1).T

        f = compile(m)
        a = f(X)
        nn.utils.parametrize.register_parametrization(m, "weight", Sym())
        return a, f(X), m(X)

    check.script(program)


def test_weight_norm_spectral(check):
    def program(compile):
        torch.manual_seed(0)
        m = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
        f = compile(m)
        return f(X), f(X)

    check.script(program)


def test_lazy_module(check):
    def program(compile):
        torch.manual_seed(0)
        m = nn.LazyLinear(2)
        f = compile(m)
        return f(X), f(X), m.weight.shape

    check.script(program)


def test_state_dict_roundtrip_in_frame(check):
    def program(compile):
        torch.manual_seed(0)
        m = nn.Linear(3, 3)

        @compile
        def f(x):
            sd = {k: v * 2 for k, v in m.state_dict().items()}
            m.load_state_dict(sd)
            return m(x)

        return f(X), f(X)

    check.script(program)


def test_deepcopy_module_in_frame(check):
    def program(compile):
        torch.manual_seed(0)
        m = nn.Linear(3, 3)

        @compile
        def f(x):
            n = copy.deepcopy(m)
            return n(x), n.weight is m.weight

        return f(X), f(X)

    check.script(program)


def test_apply_and_to(check):
    def program(compile):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        @compile
        def f(x):
            m.apply(lambda q: nn.init.ones_(q.weight) if isinstance(q, nn.Linear) else None)
            m.double()
            y = m(x.double())
            m.float()
            return y

        return f(X), f(X)

    check.script(program)


def test_rnn_lstm(check):
    torch.manual_seed(0)
    m = nn.LSTM(3, 4, batch_first=True)
    check(m, (torch.ones(2, 5, 3),))
    check(m, (torch.ones(5, 3),))


def test_packed(check):
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.manual_seed(0)
    g = nn.GRU(3, 4, batch_first=True)

    def f(x):
        p = pack_padded_sequence(x, torch.tensor([4, 2]), batch_first=True)
        o, h = g(p)
        return pad_packed_sequence(o, batch_first=True)

    check(f, (torch.ones(2, 4, 3),))


def test_mha(check):
    torch.manual_seed(0)
    m = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.ones(2, 3, 4)
    check(lambda x: m(x, x, x, need_weights=True), (x,))
    check(lambda x: m(x, x, x, need_weights=False, attn_mask=torch.ones(3, 3).tril() == 0), (x,))


def test_compiled_in_compiled_break(check):
    inner = capture.compile(lambda x: (brk(x) + 1).relu(), backend="eager")
    check(lambda x: inner(x) * inner(brk(x * 2)), (X,))


def test_compile_in_frame(check):
    def f(x):
        g = capture.compile(lambda t: t * 3, backend="eager")
        return g(x) + 1

    check(f, (X,))


def test_recursive_class_structures(check):
    class Node:
        def __init__(self, v, kids=()):
            self.v = v
            self.kids = list(kids)

        def total(self):
            return self.v + sum((k.total() for k in self.kids), 0)

    def f(x, n):
        n.kids.append(Node(x))
        new = Node(1, n.kids)
        n.parent = new
        return new.total(), new

    check(f, (X, Node(1, [Node(2)])))


def test_linked_list_walk(check):
    def f(x, n):
        c = 0
        while n is not None:
            x = x + n.v
            n = n.next
            c += 1
        return x, c

    check(f, (X, Box(v=1, next=Box(v=2, next=None))), (X, Box(v=1, next=None)))


def test_cyclic_args(check):
    a = Box(v=1)
    a.me = a
    l = [1]
    l.append(l)

    def f(x, a, l):
        a.me.me.v += 1
        l[1][1].append(5)
        return x + a.v, len(l), a.me is a, l[1] is l

    check(f, (X, a, l))


def test_star_expr_everything(check):
    def g(*a, **k):
        return a, k

    def f(x, t, d):
        return (
            g(*t, x, *range(2), **d, z=1),
            [*t, *d],
            {*t},
            {**d, "q": x},
            (*t,),
            max(*t),
            print(*t, sep="-"),
        )

    check(f, (X, (1, 2), {"a": 1}))


def test_nonlocal_in_class_and_lambda(check):
    def f(x):
        n = 0

        class C:
            nonlocal n
            n = 5
            v = n + 1

        return x + n, C.v, (lambda: n)()

    check(f, (X,))


def test_comprehension_scope(check):
    def f(x):
        i = 10
        a = [i for i in range(3)]
        b = [(i, j) for i in range(2) for j in range(i)]
        c = [y := i for i in range(2)]
        return x + i, a, b, c, y, [[k for k in range(m)] for m in range(3) if m % 2 == 0]

    check(f, (X,))


def test_chained_assignment_order(check):
    def f(x, log):
        class T:
            def __setitem__(s, k, v):
                log.append((k, v))

        t = T()
        t[log.append("a") or 0] = t[log.append("b") or 1] = log.append("v") or 5
        return x + 1

    check(f, (X, []))


def test_eval_order_dict_call(check):
    def f(x, log):
        def n(v):
            log.append(v)
            return v

        d = {n("k1"): n("v1"), n("k2"): n("v2")}
        l = n([0])[n(0)]
        s = n(1) if n(0) else n(2)
        z = n(1) + n(2) * n(3) ** n(4)
        q = n("a") in [n("b"), n("a")]
        return x + 1, n(5) < n(6) > n(9) < n(1), f"{n(1)}{n(2)!r:>{n(3)}}"

    check(f, (X, []))


def test_del_in_loop_and_exec_order(check):
    def f(x, d):
        for k in list(d):
            if d[k] is None:
                del d[k]
        return x + len(d), d

    check(f, (X, {"a": 1, "b": None, "c": None}))


def test_while_else_try_finally_continue(check):
    def f(x, log):
        n = 0
        while n < 5:
            n += 1
            try:
                if n == 2:
                    continue
                if n == 4:
                    break
                x = x + n
            except Exception:
                pass
            else:
                log.append(("else", n))
            finally:
                log.append(n)
        else:
            log.append("never")
        return x

    check(f, (X, []))


def test_return_in_loop_finally(check):
    def f(x, log):
        for i in range(3):
            try:
                for j in range(3):
                    with contextlib.suppress(KeyError):
                        if j == 1:
                            raise KeyError
                        if i == 1:
                            return x + i
                    log.append((i, j))
            finally:
                log.append("f")

    check(f, (X, []))


def test_exception_in_except_and_finally(check):
    def f(x, log):
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise ValueError(2)
            finally:
                log.append("f")
                raise IndexError(3)
        except IndexError as e:
            return x + 1, repr(e.__context__), repr(e.__context__.__context__)

    check(f, (X, []))


def test_exception_str_of_kinds(check):
    def f(x):
        out = []
        for e in (
            KeyError("a"),
            KeyError(),
            ValueError(1, 2),
            OSError(2, "m"),
            UnicodeDecodeError("u", b"a", 0, 1, "r"),
            ExceptionGroup("g", [ValueError()]),
        ):
            try:
                raise e
            except Exception as q:
                out.append((str(q), repr(q), q.args if not isinstance(q, ExceptionGroup) else 0))
        return x + 1, out

    check(f, (X,))


def test_add_note_and_with_traceback(check):
    def f(x):
        try:
            e = ValueError("v")
            e.add_note("n")
            raise e.with_traceback(None)
        except ValueError as q:
            return x + 1, q.__notes__, q.__traceback__ is not None

    check(f, (X,))


def test_traceback_module_in_handler(check):
    import traceback

    def f(x):
        y = x + 1
        try:
            raise ValueError("tb")
        except ValueError:
            t = traceback.format_exc()
        return y, t.splitlines()[-1], "raise ValueError" in t

    check(f, (X,))


def test_sys_exc_info_in_callee(check):
    def h():
        return repr(sys.exc_info()[1])

    def f(x):
        try:
            raise KeyError("z")
        except KeyError:
            a = h()
        return x + 1, a, h()

    check(f, (X,))
