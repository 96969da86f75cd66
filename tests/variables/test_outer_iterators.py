"""Loops that go on behind a graph break: iterators that are older than the piece."""

# mypy: ignore-errors

from __future__ import annotations

import itertools

import pytest
import torch

import capture
from capture.sources import LocalSource, RangeIteratorSource, Scope


@capture.disable
def brk(*_):
    pass


@pytest.mark.parametrize(
    "numbers",
    [range(5), range(3, 40, 7), range(10, -9, -3), range(1), range(0), range(2**62, 2**62 + 9, 4)],
    ids=str,
)
def test_a_loop_gives_the_numbers_of_its_range(check, numbers):
    def fn(x, numbers):
        seen = []
        for i in numbers:
            x = x + float(i)
            brk()
            seen.append(i)
        else:
            seen.append("else")
        return x * 2, seen

    check(fn, (torch.ones(3), numbers))


def test_a_round_is_one_graph_whatever_its_number_is(check):
    def fn(x):
        for i in range(50):
            x = x * 0.5 + i
            brk()
            x = x.relu()
        return x

    assert check(fn, (torch.ones(3),)).graphs == 3  # up to the break, a round, the last half of one


def test_a_short_loop_has_a_graph_of_its_own_for_its_first_numbers(check):
    def fn(x):
        for i in range(4):
            x = x.cos() + i
            brk()
            x = x.relu() - 0.5
        return x.tanh()

    assert check(fn, (torch.ones(3),)).graphs == 4


def test_rounds_without_a_break_stay_in_one_piece(check):
    def fn(x):
        for i in range(12):
            x = x + i
            if i % 4 == 1:
                brk()
        return x

    check(fn, (torch.ones(3),))


def test_a_long_loop_over_what_is_left(check):
    def fn(x, numbers, last):
        seen = []
        for i in numbers:
            if i % 800 == 3:
                brk()
            if i == last:
                break
            seen.append(i)
        return x + 1, seen, next(numbers, None)

    calls = [(0, 2500), (3, 2500), (3, 2600), (5, 2040), (5, 1300)]
    for start, end in calls:
        for last in (None, 1500, end - 1):
            check(fn, lambda s=start, e=end, n=last: (torch.ones(3), iter(range(s, e)), n))


def test_a_long_loop_serves_other_ranges():
    def fn(x, numbers):
        brk()
        seen = []
        for i in numbers:
            seen.append(i)
        return x + 1, seen, next(numbers, None)

    compiled = capture.compile(fn, backend="eager")
    x = torch.ones(3)
    for start, end in [(0, 1300), (1, 1300), (1, 1400), (7, 1007), (7, 1008), (7, 1006), (0, 1300)]:
        expected = fn(x, iter(range(start, end)))[1:]
        assert compiled(x, iter(range(start, end)))[1:] == expected


def test_an_iterator_is_left_where_it_stands(check):
    def script(decorate):
        it = iter(range(9))

        @decorate
        def fn(x, it):
            for i in it:
                x = x + i
                if i == 3:
                    break
            return x, next(it), [i for i in it if i % 2]

        out = [fn(torch.ones(2), it), next(it, "end")]
        other = iter(range(2, 30, 2))
        try:
            out.append(fn(torch.ones(2), other))
        except StopIteration as error:
            out.append(type(error))
        return out, list(other)

    check.script(script)


def test_two_names_of_one_iterator(check):
    def script(decorate):
        @decorate
        def fn(x, first, second):
            return x + next(first) * 10 + next(second), next(first)

        one, two = iter(range(20)), iter(range(50, 70))
        out = [
            fn(torch.ones(2), one, two),
            fn(torch.ones(2), one, one),
            fn(torch.ones(2), two, one),
        ]
        return out, list(one), list(two)

    check.script(script)


def test_an_iterator_that_a_break_interrupts_is_advanced_before_it(check):
    def script(decorate):
        seen = []

        @capture.disable
        def look(it):
            seen.append(it.__length_hint__())

        @decorate
        def fn(x, it):
            total = x
            for i in it:
                total = total + i
                look(it)
            return total

        return fn(torch.ones(2), iter(range(6))), seen

    check.script(script)


def test_an_exception_in_a_round_leaves_the_iterator_behind_it(check):
    def script(decorate):
        @decorate
        def fn(x, it):
            for i in it:
                brk()
                if i == 2:
                    raise ValueError(i)
                x = x + i
            return x

        it = iter(range(5))
        try:
            fn(torch.ones(2), it)
        except ValueError as error:
            return str(error), list(it)

    check.script(script)


@pytest.mark.parametrize("numbers", [range(7), range(5, -20, -3), range(0)], ids=str)
def test_guards_read_what_python_reads(numbers):
    for consumed in range(len(numbers) + 1):
        it = iter(numbers)
        list(itertools.islice(it, consumed))
        scope = Scope([it], None)
        base = LocalSource(0, "it")
        read = {p: RangeIteratorSource(base, p).read(scope) for p in RangeIteratorSource.PARTS}
        assert read["left"] == len(numbers) - consumed
        assert read["step"] == numbers.step
        if read["left"]:
            assert read["next"] == numbers[consumed]
