"""Tensors die when eager lets them die: order of finalisation, and peak memory."""

# mypy: ignore-errors

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch

import capture

LOG = []


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield


@capture.disable
def watch(tensor, name):
    """Note when the tensor goes."""
    weakref.finalize(tensor, LOG.append, name)
    return tensor


@capture.disable
def note(what):
    LOG.append(what)


@capture.disable
def brk(*_):
    pass


def deleted(x):
    y = watch(x + 1, "y")
    z = watch(y * 2, "z")
    note(1)
    del y
    note(2)
    z = watch(z + 1, "z2")
    note(3)
    return z


def deleted_between_operators(x):
    y = watch(x + 1, "y")
    a = y * 2
    del y
    b = a + 1
    note(1)
    return b + 1


def rebound_in_a_loop(x):
    for i in range(3):
        x = watch(x + 1, f"x{i}")
        note(i)
    return x


def lives_to_the_end(x):
    y = watch(x + 1, "y")
    z = y * 2
    note(1)
    return z


def inlined(t):
    t = watch(t * 2, "t")
    note("in")
    return t + 1


def in_a_callee(x):
    r = inlined(watch(x + 1, "argument"))
    note("back")
    return r


def in_a_list(x):
    items = [watch(x + i, i) for i in range(3)]
    note("made")
    items.pop(0)
    note("popped")
    items.clear()
    note("cleared")
    return x


def in_a_cell(x):
    y = watch(x + 1, "y")

    def get():
        return y

    note(1)
    y = watch(get() + 1, "y2")
    note(2)
    return get()


def in_an_attribute(x):
    class Holder:
        pass

    h = Holder()
    h.a = watch(x + 1, "a")
    note(1)
    h.a = watch(h.a + 1, "a2")
    note(2)
    del h.a
    note(3)
    return x


def across_a_handler(x):
    try:
        y = watch(x + 1, "y")
        raise ValueError
    except ValueError:
        note(1)
        del y
        note(2)
    return x


def argument_rebound(x):
    y = x * 2
    x = watch(y + 1, "x")
    note(1)
    x = x + 1
    note(2)
    return x


def argument_deleted(x):
    del x
    note(1)
    return 1


FINALISED = [
    deleted,
    deleted_between_operators,
    rebound_in_a_loop,
    lives_to_the_end,
    in_a_callee,
    in_a_list,
    in_a_cell,
    in_an_attribute,
    across_a_handler,
    argument_rebound,
    argument_deleted,
]


def events(f, hold):
    LOG.clear()
    argument = watch(torch.zeros(3), "ARGUMENT")
    if hold:
        result = f(argument)
    else:
        box = [argument]
        del argument
        result = f(box.pop())
    LOG.append("returned")
    del result
    return list(LOG)


@pytest.mark.parametrize("f", FINALISED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("hold", [True, False])
def test_finalised_in_eagers_order(f, hold):
    gc.collect()
    # A native callable's caller holds the arguments; so it does for eager here.
    expected = events(functools.partial(f), hold)
    compiled = capture.compile(f, backend="eager")
    gc.disable()
    try:
        assert [events(compiled, hold) for _ in range(3)] == [expected] * 3
    finally:
        gc.enable()


SIZE = 9 * 1024 * 1024  # 36 MiB of float32: malloc maps this much, and gives it back at once


def resident_mib(key):
    with open("/proc/self/status") as status:
        return next(int(s.split()[1]) for s in status if s.startswith(key)) / 1024


def peak_mib(f):
    gc.collect()
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")  # the peak starts anew
    except OSError:
        pytest.skip("the peak of resident memory cannot be reset here")
    before = resident_mib("VmRSS")
    f()
    return resident_mib("VmHWM") - before


def loop(n):
    x = torch.ones(SIZE)
    for _ in range(n):
        x = x * 1.01
        brk()
        x = x + 1
    return x.sum()


def loop_with_two_values(n):
    x = torch.ones(SIZE)
    for _ in range(n):
        y = x * 1.01
        brk()
        z = torch.sin(y)
        x = z + y
    return x.sum()


def loop_that_deletes(n):
    x = torch.ones(SIZE)
    for _ in range(n):
        y = x * 1.01
        brk()
        z = torch.sin(y)
        del y
        x = z + 1
        del z
        x = x * 2
    return x.sum()


def loop_over_an_argument(n, x=None):
    x = torch.ones(SIZE) if x is None else x
    for _ in range(n):
        x = x * 1.01
        brk()
        x = torch.sin(x)
        x = x + 1
    return x.sum()


def breaking_callee(x):
    y = x * 2
    brk()
    return y + 1


def loop_with_a_callee(n):
    x = torch.ones(SIZE)
    for _ in range(n):
        x = breaking_callee(x)
        x = x + 1
    return x


def no_grad_loop(n):
    x = torch.ones(SIZE)
    with torch.no_grad():
        for _ in range(n):
            x = x * 1.01
            brk()
            x = torch.sin(x)
            x = x + 1
    return x


def chain(n):
    x = torch.ones(SIZE)
    brk()
    for _ in range(n):
        x = x + 1
    return x


PEAKS = [
    loop,
    loop_with_two_values,
    loop_that_deletes,
    loop_over_an_argument,
    loop_with_a_callee,
    no_grad_loop,
    chain,
]


@pytest.mark.parametrize("f", PEAKS, ids=lambda f: f.__name__)
def test_peak_memory_is_eagers(f):
    f(2)
    capture.compile(chain, backend="eager")(2)  # what capture imports is there
    expected = peak_mib(lambda: f(5))
    compiled = capture.compile(f, backend="eager")
    for _ in range(2):
        assert peak_mib(lambda: compiled(5)) <= 1.05 * expected + 3


def test_first_call_keeps_nothing():
    def f(x):
        y = x + 1
        brk()
        return y * 2

    gc.disable()
    try:
        x = torch.ones(2)
        gone = weakref.ref(x)
        capture.compile(f, backend="eager")(x)
        del x
        assert gone() is None
    finally:
        gc.enable()
