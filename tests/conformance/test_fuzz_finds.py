"""What the fuzzer found, each made small."""

# mypy: ignore-errors

from __future__ import annotations

import contextlib
import operator
import os

import pytest
import torch

import capture

T = torch.tensor([1.0, 2.0])


@contextlib.contextmanager
def managed(log):
    log.append(1)
    try:
        yield 5
    finally:
        log.append(2)


def test_number_of_operator_function_is_not_baked_in(check):
    def f(n, t):
        return divmod(operator.sub(1, n), 3)[0], t + 1

    check(f, (4, T), (1, T), (7, T))


def test_with_block_left_by_an_exception_behind_a_break(check):
    def f(log, o):
        with managed(log):
            os.getpid()
            o.m(3)

    check(f, ([], 3))


def test_exception_leaving_a_with_block_leaves_no_context_behind(check):
    def f(s):
        with torch.no_grad():
            return s[4]

    def g(t):
        t[...] = sum

    check(f, ("abc",))
    check(g, (1,))


def test_dict_filled_before_it_is_iterated_over_with_breaks(check):
    def f(d):
        d["b"] = abs
        seen = []
        for k, _ in d.items():
            os.getpid()
            seen.append(k)
        return seen

    check(f, ({},), ({"a": 1},))


def test_dict_grown_behind_its_iterator(check):
    def f(d):
        it = iter(d)
        first = next(it)
        d["q"] = 1
        os.getpid()
        return first, next(it)

    check(f, ({"a": 1, "b": 2},))


def test_list_grown_in_front_of_its_iterator(check):
    def f(items):
        items.append(3)
        items.append(4)
        it = iter(items)
        next(it)
        os.getpid()
        return list(it)

    check(f, ([],), ([1, 2],))


def test_list_grown_behind_its_reversed_iterator(check):
    def f(items):
        it = reversed(items)
        next(it)
        items.append(3)
        items.append(4)
        os.getpid()
        return list(it)

    check(f, ([1, 2],), ([1],))


def test_set_changed_before_it_is_iterated_over_with_breaks(check):
    def f(s):
        s.add(4)
        seen = []
        for i in s:
            os.getpid()
            seen.append(i)
        return seen

    check(f, ({1, 2},))


@pytest.mark.parametrize(
    "sort",
    [
        lambda x: sorted(x, reverse=1.5),
        lambda x: sorted(x, foo=1),
        lambda x: x.sort(abs),
        lambda x: sorted(x, reverse=2),
    ],
)
def test_arguments_of_sorting(check, sort):
    check(sort, ([2, 1],), ([],))


def test_key_function_with_effects_is_called_once_an_item(check):
    def f(items, log):
        def key(t):
            log.append(1)
            return t.sum()

        return sorted(items, key=key)

    check(f, ([T, T * 2], []))


def test_exception_thrown_into_a_fresh_generator_has_its_frame(check):
    def gen(n):
        yield n

    def f(n):
        gen(n).throw(ValueError)

    check(f, (3,))


def test_only_a_mapping_is_unpacked_into_a_dict(check):
    def f(items):
        return {**items, "k": 1}

    check(f, ([],), ({"a": 1},))


def test_super_of_something_else_is_a_type_error(check):
    class Base:
        p = 1

    class Derived(Base):
        def m(self):
            self = 3
            return super().p

    def f(o):
        return o.m()

    check(f, (Derived(),))


def test_number_decided_behind_a_mode_leaves_the_change_of_the_mode(check):
    def called(v):
        os.getpid()
        return v

    def f(x, grad):
        with torch.set_grad_enabled(grad):
            x *= max(x, called(x))
        return x, torch.is_grad_enabled()

    check(f, (0.5, False), (0.5, False), (0.0, False), (0.25, True))


def test_value_goes_when_its_frame_is_left_by_an_exception_of_a_generator():
    gone = []

    def kept():
        try:
            yield 1
        finally:
            gone.append(1)

    def f(n):
        generator = kept()
        next(generator)
        return any(a > n for a in [None])

    with contextlib.suppress(TypeError):
        capture.compile(f, backend="eager")(None)
    assert gone == [1]


def test_sum_of_nothing_is_the_start_itself(check):
    def f(items, start):
        return sum(items, start), start

    check(f, ([], {"k": 3}), ((), [1]), ([], (1, [2])))


def test_sum_of_lists_holds_their_items_themselves(check):
    def f(inner):
        return sum([[inner], [inner]], []), inner

    check(f, ([1],))


def test_sum_cannot_begin_with_text(check):
    def f(items, start):
        return sum(items, start)

    check(f, ([], ""), ([], bytearray()), ([1], b""))


def test_default_of_max_is_itself_behind_a_break(check):
    def f(items, d):
        d.update({"k": max(items, default=d)})
        raise TypeError

    check(f, ([], {}), ([{}], {}))


def test_greatest_list_is_itself(check):
    def f(a, b):
        return max([a, b], default=None), min([a, b], key=len), a, b

    check(f, ([1], [2, 3]))


def test_failing_write_leaves_the_random_numbers_in_front_drawn():
    def f(u, flag):
        u *= torch.rand(3)
        with managed([]):
            return flag / 2

    def outcome(fn):
        u = torch.ones(3, requires_grad=True).view(-1)
        torch.manual_seed(7)
        with pytest.raises(RuntimeError):
            fn(u, 0.5)
        return torch.rand(1).item()

    compiled = capture.compile(f, backend="eager")
    assert outcome(f) == outcome(compiled) == outcome(compiled)
