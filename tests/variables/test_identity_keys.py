"""Registries keyed by ``id(...)``: they are tied to the objects they were captured with."""

# mypy: ignore-errors

from __future__ import annotations

import collections

import torch


class Thing:
    pass


def noted(x, thing, registry):
    entry = registry[id(thing)]
    entry["calls"] = entry.get("calls", 0) + 1
    return x * entry["calls"]


def run(decorate):
    f = decorate(noted)
    registry = collections.defaultdict(dict)
    first, second = Thing(), Thing()
    results = [f(torch.ones(2), thing, registry) for thing in (first, first, second, first, second)]
    return results, [registry[id(t)] for t in (first, second)], len(registry)


def test_each_object_has_its_entry(check):
    report = check.script(run)
    assert not report.breaks


def looked_up(x, thing, table):
    return x + 1 if id(thing) in table else x - 1


def run_lookup(decorate):
    f = decorate(looked_up)
    first, second = Thing(), Thing()
    table = {id(first): 1}
    return [f(torch.ones(2), thing, table) for thing in (first, second, first, second)]


def test_an_object_that_is_not_there(check):
    report = check.script(run_lookup)
    assert not report.breaks
