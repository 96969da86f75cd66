"""Holds a randomised test of the driver: no mix of pieces, breaks and errors leaves a trace."""

import gc
import random
import sys
import weakref
from typing import Any

import pytest

from capture._native import Break, Continue, Entry, Region, Site

from .support import current, entry


class Value:
    """What flows through the frames; counted."""

    alive = 0

    def __init__(self) -> None:
        Value.alive += 1

    def __del__(self) -> None:
        Value.alive -= 1


class Stop(Exception):
    """Raised on purpose."""


def start(a: Any, b: Any, *rest: Any, c: Any = None, **more: Any) -> Any:
    return "eager"


def resume(slot0: Any, box: Any) -> Any:
    return "resumed", slot0, *box


def break_source(outcomes: int, raises: bool) -> Any:
    scope: dict[str, Any] = {}
    action = "raise Stop" if raises else f"return number % {outcomes}, slot0, *values, Value()"
    exec(f"def run(slot0, box):\n    number, *values = box\n    {action}", scope)
    return scope["run"].__code__


class Program:
    """A random graph of sites and breaks over one function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sites = [Site(i + 1, None, 0, True) for i in range(4)]
        for site in self.sites:
            site.resume_code = resume.__code__
        self.breaks = [
            Break(
                break_source(2, self.random.random() < 0.2),
                tuple(self.random.sample(self.sites, 2)),
                True,
            )
            for _ in range(3)
        ]
        self.steps = 0
        self.region = Region(self.convert, lambda site, func: resume.__code__)

    def convert(self, site: Site, values: list[Any], func: Any) -> Entry | None:
        if site.index == 0 and func is not start:
            return None
        pick = self.random.random()
        if pick < 0.1:
            return None
        if pick < 0.15:
            raise Stop
        if len(site.entries) > 3:
            site.clear()
        n = len(values)
        captures = [self.random.randrange(n) for _ in range(self.random.randrange(1, 40))]
        inputs = self.random.randrange(len(captures) + 1)
        outputs = self.random.randrange(1, 5)
        arguments = tuple(
            self.random.choice([self.random.randrange(len(captures)), ~i]) for i in range(outputs)
        )
        boxed = self.random.random() < 0.5
        made = entry(
            *captures,
            graph=self.graph(outputs, boxed),
            inputs=inputs,
            outputs=outputs,
            boxed=boxed,
            epilogue=self.epilogue if self.random.random() < 0.85 else ~0,
            arguments=arguments,
            restartable=self.random.random() < 0.5,
        )
        site.add_entry(made)
        return made

    def graph(self, outputs: int, boxed: bool) -> Any:
        def run(*inputs: Any) -> Any:
            if boxed:
                inputs[0].clear()
            if self.random.random() < 0.05:
                raise Stop
            if self.random.random() < 0.05:
                gc.collect(0)
            return tuple(Value() for _ in range(outputs))

        return run

    def epilogue(self, *values: Any) -> Any:
        self.steps += 1
        pick = self.random.random()
        if pick < 0.05:
            raise Stop
        if pick < 0.2 or self.steps > 30:
            return values
        if pick < 0.6:
            return Continue(self.random.choice(self.sites), None, (), values)
        if pick < 0.7:
            for site in self.sites:
                for each in site.entries:
                    if self.random.random() < 0.3:
                        each.kill()
        number = self.random.randrange(9)
        return Continue(self.random.choice(self.breaks), None, (), (Value(), number, *values))

    def run(self) -> None:
        self.steps = 0
        try:
            with current(self.region):
                start(Value(), Value(), Value(), c=Value(), d=Value())
        except Stop:
            pass


# Break and resume code runs with the globals of the frame's function.
start.__globals__.update(Value=Value, Stop=Stop)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_leave_nothing_behind(seed: int) -> None:
    before = Value.alive
    program = Program(seed)
    for _ in range(60):
        program.run()
    alive = weakref.ref(program.region)
    del program
    gc.collect()
    assert Value.alive == before
    assert alive() is None


def test_random_programs_do_not_grow() -> None:
    def run(seeds: range) -> None:
        for seed in seeds:
            program = Program(seed)
            for _ in range(20):
                program.run()
            del program
        gc.collect()

    run(range(20))
    before = sys.getallocatedblocks()
    run(range(20, 40))
    assert sys.getallocatedblocks() - before < 400
