"""Graphs that raise when they run: exception, handlers, state and random numbers as in eager."""

# mypy: ignore-errors

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import capture

W = torch.randn(10, 4, generator=torch.Generator().manual_seed(5))
GOOD, BAD = torch.tensor([1, 2]), torch.tensor([1, 99])


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


@capture.disable
def brk(*_):
    pass


class Obj:
    pass


def e_plain(o, x, i):
    return F.embedding(i, W) + x.sum()


def e_frame(o, x, i):
    try:
        y = F.embedding(i, W)
    except IndexError as e:
        y = torch.zeros(2, 4)
        o.err = str(e)
    return y + 1


def e_callee(o, x, i):
    def inner():
        try:
            return F.embedding(i, W)
        except Exception:
            return torch.ones(2, 4)

    return inner() * 2


def e_caller_in(o, x, i):
    def inner():
        return F.embedding(i, W)

    try:
        return inner()
    except Exception as e:
        return torch.full((2, 4), 3.0)


def e_effects(o, x, i):
    o.n += 1
    o.log.append("a")
    y = F.embedding(i, W)
    o.n += 1
    o.log.append("b")
    return y


def e_inplace(o, x, i):
    x.add_(1)
    y = F.embedding(i, W)
    x.add_(1)
    return y


def e_inplace_try(o, x, i):
    try:
        x.add_(1)
        y = F.embedding(i, W)
        x.add_(1)
    except IndexError:
        x.mul_(2)
        y = x
    return y


def e_inplace_effect(o, x, i):
    o.n += 1
    x.add_(1)
    y = F.embedding(i, W)
    o.n += 1
    return y


def e_rng(o, x, i):
    z = torch.rand(3)
    y = F.embedding(i, W)
    return y.sum() + z


def e_rng_try(o, x, i):
    try:
        z = torch.rand(3)
        y = F.embedding(i, W).sum()
    except IndexError:
        y = torch.rand(3)
        z = y
    return y + z


def e_rng_effect(o, x, i):
    o.n += 1
    z = torch.rand(3)
    y = F.embedding(i, W)
    o.log.append(1)
    return y.sum() + z


def e_rng_after(o, x, i):
    y = F.embedding(i, W)
    return F.dropout(y, 0.5)


def e_ce(o, x, i):
    lg = F.dropout(W[:2] * 1.0, 0.5)
    return F.cross_entropy(lg, i)


def e_setitem(o, x, i):
    try:
        x[i] = 5.0
        o.n += 1
    except Exception as e:
        o.n += 100
    return x * 1


def e_indexadd(o, x, i):
    try:
        x.index_add_(0, i, torch.ones(2))
    except Exception as e:
        o.n += 100
    return x * 1


def e_nograd(o, x, i):
    with torch.no_grad():
        y = F.embedding(i, W)
    return y


def e_nograd_brk(o, x, i):
    with torch.no_grad():
        brk()
        z = torch.rand(1)
        y = F.embedding(i, W)
    return y


def e_nograd_brk_try(o, x, i):
    try:
        with torch.no_grad():
            brk()
            x.add_(1)
            y = F.embedding(i, W)
    except IndexError:
        y = torch.ones(2, 4) * x.sum()
        o.g = torch.is_grad_enabled()
    return y


def e_autocast_brk(o, x, i):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        brk()
        z = torch.rand(1)
        y = F.embedding(i, W) @ W.t()
    return y


def e_infer(o, x, i):
    with torch.inference_mode():
        z = torch.rand(1)
        y = F.embedding(i, W)
    return y


def e_infer_brk(o, x, i):
    with torch.inference_mode():
        brk()
        z = torch.rand(1)
        y = F.embedding(i, W)
    return y


def e_with_user(o, x, i):
    class CM:
        def __enter__(s):
            o.log.append("in")
            return s

        def __exit__(s, *a):
            o.log.append(("out", a[0] and a[0].__name__))
            return True

    with CM():
        x.add_(1)
        y = F.embedding(i, W)
        o.log.append("done")
        return y
    return x


def e_finally(o, x, i):
    try:
        x.add_(1)
        y = F.embedding(i, W)
        return y
    finally:
        o.log.append("fin")
        o.n += 1


def e_nested(o, x, i):
    try:
        try:
            y = F.embedding(i, W)
        except ValueError:
            o.log.append("no")
    except IndexError as e:
        o.log.append("yes")
        raise RuntimeError("x") from e
    return y


def e_loop(o, x, i):
    for k in range(4):
        try:
            o.n += 1
            x = x + 1
            brk(k)
            y = F.embedding(i if k == 2 else GOOD, W)
            o.log.append(k)
        except IndexError:
            o.log.append(("bad", k))
            continue
    return x, y


def e_div(o, x, i):
    n = o.k
    try:
        z = 10 // n
    except ZeroDivisionError:
        z = -1
    return x * z


def e_oom(o, x, i):
    try:
        z = torch.empty(10**14 if i[1] > 50 else 10)
    except RuntimeError as e:
        return x * 0 - 1
    return x + 1


def e_oom2(o, x, i):
    o.n += 1
    try:
        z = x.repeat(o.big)
        r = z[:3] + 1
    except RuntimeError as e:
        return x * 0 - 1
    return r


def e_linalg(o, x, i):
    a = torch.zeros(2, 2) + (0.0 if False else 1) * torch.eye(2) * (i[1] < 50)
    try:
        return torch.linalg.inv(a)
    except Exception as e:
        return torch.ones(2, 2), type(e).__name__


def e_gather(o, x, i):
    o.n += 1
    return x.gather(0, i)


def e_ctx(o, x, i):
    try:
        raise KeyError(1)
    except KeyError:
        y = F.embedding(i, W)
    return y


def e_model(o, x, i):
    return M(i)


class Mod(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.e = torch.nn.Embedding(10, 4)
        s.bn = torch.nn.BatchNorm1d(4)
        s.d = torch.nn.Dropout(0.5)
        s.steps = 0

    def forward(s, i):
        s.steps += 1
        h = s.bn(W)
        h = s.d(h)
        y = s.e(i)
        s.steps += 1
        return h.sum() + y


M = Mod()


STATE = {name: value.clone() for name, value in M.state_dict().items()}
PROGRAMS = {name[2:]: fn for name, fn in list(globals().items()) if name.startswith("e_")}


def observe(fn, index):
    """Everything that a call shows."""
    torch.manual_seed(0)
    M.load_state_dict(STATE)
    M.steps = 0
    o = Obj()
    o.n, o.log, o.k = 0, [], 0 if index is BAD else 3
    o.big = 10**14 if index is BAD else 2
    x = torch.zeros(5)
    try:
        result = fn(o, x, index)
    except BaseException as error:
        cause, context = error.__cause__, error.__context__
        result = (type(error), str(error), type(cause), type(context), str(context)[:80])
    modes = (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        sys.exception(),
    )
    buffers = (M.bn.running_mean.clone(), M.bn.num_batches_tracked.clone(), M.steps)
    # a copy: the collector of 3.13.0 empties what a dead object's dict holds
    attributes = {**vars(o), "log": list(o.log)}
    return result, attributes, x.clone(), torch.rand(2), modes, buffers


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


@pytest.mark.parametrize("calls", [(GOOD, BAD, GOOD, BAD), (BAD, BAD, GOOD)], ids=["good", "bad"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_eager(name, calls):
    fn = PROGRAMS[name]
    compiled = capture.compile(fn, backend="eager")
    for number, index in enumerate(calls):
        expected, found = observe(fn, index), observe(compiled, index)
        assert same(expected, found), (number, expected, found)


def test_random_numbers_before_a_caught_error_need_no_break():
    compiled = capture.compile(PROGRAMS["rng_try"], backend="eager")
    observe(compiled, GOOD)
    assert capture.counters.snapshot().graphs == 1
    assert capture.counters.snapshot().breaks == []


def test_error_that_nobody_sees_inside_needs_no_break():
    compiled = capture.compile(PROGRAMS["inplace"], backend="eager")
    observe(compiled, GOOD)
    assert capture.counters.snapshot().graphs == 1
    assert capture.counters.snapshot().breaks == []


def test_traceback_names_the_users_line():
    compiled = capture.compile(PROGRAMS["plain"], backend="eager")
    with pytest.raises(IndexError) as caught:
        compiled(Obj(), torch.zeros(5), BAD)
    assert any(entry.name == "e_plain" for entry in caught.traceback)
