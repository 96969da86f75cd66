"""What CPython asks of an iterable before it fills a list or tuple: code of the program may run."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import pytest
import torch

X = torch.tensor([1.0, 2.0])


class Sized:
    """Notes who asked, and may refuse to tell its length."""

    def __init__(self, log, error=None):
        self.log = log
        self.error = error

    def __iter__(self):
        self.log.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.log.append("len")
        if self.error is not None:
            raise self.error
        return 2


class Hinted:
    """An iterator that notes when its hint is asked for."""

    def __init__(self, log):
        self.log = log
        self.left = 2

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left

    def __length_hint__(self):
        self.log.append("hint")
        return 2


class Indexed:
    def __init__(self, log):
        self.log = log

    def __getitem__(self, index):
        return [5, 6][index]

    def __len__(self):
        self.log.append("len")
        return 2


def _assign(value):
    target = [0]
    target[1:] = value
    return target


def _extend(value):
    target = [0]
    target.extend(value)
    target += value
    return target


FILLS = {
    "list": list,
    "tuple": tuple,
    "star_list": lambda it: [*it],
    "star_tuple": lambda it: (0, *it),
    "star_set": lambda it: {*it},
    "star_call": lambda it: max(*it),
    "sorted": sorted,
    "extend": _extend,
    "slice": _assign,
    "set": set,
    "deque": collections.deque,
    "sum": sum,
    "join": lambda it: "-".join(map(str, it)),
    "size": torch.Size,
    "mapped": lambda it: list(map(str, it)),
    "iterator": lambda it: list(iter(it)),
    "reversed": lambda it: list(reversed(it)) if hasattr(it, "__getitem__") else None,
}


@pytest.mark.parametrize("made", [Sized, Hinted, Indexed])
@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_who_is_asked(check, fill, made):
    def fn(x):
        log = []
        return x + 1, fill(made(log)), log

    check(fn, (X,))


@pytest.mark.parametrize("error", [ValueError("unknown"), TypeError("unknown")], ids=repr)
@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_a_length_that_raises(check, fill, error):
    def fn(x):
        log = []
        try:
            return x + 1, fill(Sized(log, error)), log
        except ValueError as caught:
            return x + 2, str(caught), log

    check(fn, (X,))


def test_no_break_for_it(check):
    def fn(x):
        log = []
        return x + len(list(Sized(log))), log

    report = check(fn, (X,), fullgraph=True)
    assert report.graphs == 1


def test_a_length_that_is_given_later(check):
    class Later:
        def __iter__(self):
            return iter([1, 2])

    def program(compiled):
        log = []
        del_len = hasattr(Later, "__len__")
        if del_len:
            del Later.__len__

        @compiled
        def fn(x, it):
            return x + sum(list(it))

        out = [fn(X, Later())]
        Later.__len__ = lambda self: log.append("len") or 2
        return [*out, fn(X, Later()), log]

    check.script(program)


def test_starred_target_asks_the_iterator_again(check):
    class Restarting:
        def __iter__(self):
            self.at = 0
            return self

        def __next__(self):
            self.at += 1
            if self.at > 3:
                raise StopIteration
            return self.at

    def fn(x):
        first, *rest = Restarting()
        *most, last = Restarting()
        return x + first, rest, most, last

    check(fn, (X,))
