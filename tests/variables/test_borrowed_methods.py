"""Attribute hooks that are methods in C: ``__getattr__ = dict.__getitem__`` and its kin."""

# mypy: ignore-errors

from __future__ import annotations

import collections
import copy

import pytest
import torch

X = torch.tensor([1.0, 2.0])


class Copied:
    def __deepcopy__(self, memo):
        return type(self)({k: copy.deepcopy(v, memo) for k, v in self.items()})


class Items(Copied, dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Lenient(Copied, dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class Ordered(Copied, collections.OrderedDict):
    __getattr__ = collections.OrderedDict.__getitem__
    __setattr__ = collections.OrderedDict.__setitem__
    __delattr__ = collections.OrderedDict.__delitem__


class Filling(Copied, dict):
    __getattr__ = dict.__getitem__

    def __missing__(self, key):
        return key * 2


@pytest.mark.parametrize("kind", [Items, Ordered])
def test_read_write_delete(check, kind):
    def fn(x, config):
        y = x * config.scale + config.inner.bias
        config.steps = config.steps + 1
        config.last = y
        del config.old
        made = kind(a=1)
        made.b = x
        del made.a
        return y, made, made.b, "steps" in config, hasattr(config, "keys")

    args = [(X, kind(scale=s, inner=kind(bias=1.0), steps=0, old=1)) for s in (2.0, 3.0)]
    report = check(fn, *args, fullgraph=True)
    assert not report.breaks


def test_errors(check):
    def fn(x, config):
        out = []
        try:
            config.nothing
        except KeyError as error:
            out.append(error.args)
        try:
            del config.nothing
        except KeyError as error:
            out.append(error.args)
        return x + 1, out

    check(fn, (X, Items(a=1)))


def test_get_and_missing(check):
    def fn(x, lenient, filling):
        if lenient.flag:
            x = x + 1
        lenient.flag = not lenient.flag
        return x * 2, lenient.nothing, filling.ab, filling.here

    check(fn, (X, Lenient(), Filling(here=1)), fullgraph=True)


def test_hook_that_is_replaced(check):
    class Config(dict):
        __getattr__ = dict.__getitem__

    def program(compiled):
        Config.__getattr__ = dict.__getitem__
        fn = compiled(lambda x, config: x * config.scale)
        out = [fn(X, Config(scale=2.0))]
        Config.__getattr__ = lambda self, name: 5.0
        return [*out, fn(X, Config(scale=2.0))]

    check.script(program)
