"""Holds what the tests of the native core share; must not know torch."""

import contextlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from capture import _native
from capture._native import CompiledFunction, Entry, GuardTree, Region, Site

Convert = Callable[[Site, list[Any], FunctionType], Entry | None]


AT_LOCAL, POST_EXPRESSION = 0, 4  # as in csrc/guard_tree.h


def guards(*slots: int, check: Callable[..., object] | None = None) -> GuardTree:
    """A tree that holds if ``check`` does on the leading values, and captures these value slots."""
    n_checked = check.__code__.co_argcount if check is not None else 0
    captures: dict[int, list[int]] = {slot: [] for slot in range(n_checked)}
    for capture, slot in enumerate(slots):
        captures.setdefault(slot, []).append(capture)
    nodes = tuple(
        (AT_LOCAL, slot, (), (), tuple(places), slot if slot < n_checked else -1)
        for slot, places in captures.items()
    )
    post = ((POST_EXPRESSION, tuple(range(n_checked)), check),) if check is not None else ()
    return GuardTree(nodes, len(slots), post, None, n_checked)


def entry(
    *slots: int,
    graph: Callable[..., Any] | None = None,
    epilogue: int | Callable[..., Any] = ~0,
    arguments: tuple[int, ...] = (),
    inputs: int | None = None,
    outputs: int = 1,
    boxed: bool = False,
    restartable: bool = False,
    check: Callable[..., object] | None = None,
) -> Entry:
    """An entry that captures these slots and passes them all to the graph."""
    n_inputs = (len(slots) if graph is not None else 0) if inputs is None else inputs
    return Entry(
        guards(*slots, check=check),
        graph,
        n_inputs,
        boxed,
        epilogue,
        arguments,
        restartable,
        outputs if graph is not None else 0,
    )


def no_resume(site: Site, func: FunctionType) -> CodeType:
    """For regions that need no resume code."""
    raise AssertionError(f"no resume code expected for {site}, {func}")


class Recorder:
    """A region that compiles what it is told to and notes what it was asked for."""

    def __init__(self, **makers: Callable[[list[Any]], Entry | None]) -> None:
        self.makers = makers
        self.asked: list[str] = []
        self.values: list[list[Any]] = []
        self.region = Region(self.convert, no_resume, name="recorder")

    def convert(self, site: Site, values: list[Any], func: FunctionType) -> Entry | None:
        self.asked.append(func.__name__)
        self.values.append(list(values))
        maker = self.makers.get(func.__name__)
        made = maker(values) if maker is not None else None
        if made is not None:
            site.add_entry(made)
        else:
            site.skip = True
        return made

    def __call__(self, fn: Callable[..., Any]) -> CompiledFunction[..., Any]:
        return CompiledFunction(fn, self.region)


def returning(value: object) -> Callable[[list[Any]], Entry]:
    """Make entries whose graph ignores its inputs and gives this one value."""

    def make(values: list[Any]) -> Entry:
        return entry(*range(len(values)), graph=lambda *inputs: (value,))

    return make


@contextlib.contextmanager
def current(region: Region | None) -> Iterator[None]:
    """Make a region current for a block."""
    previous = _native.set_current(region)
    try:
        yield
    finally:
        _native.set_current(previous)


ROOT = str(Path(_native.__file__).parent.parent)


def run_fresh(source: str) -> str:
    """What a fresh interpreter prints that finds the native module only, where this one did."""
    prelude = f"""
import sys, types
package = types.ModuleType("capture")
package.__path__ = [{ROOT + "/capture"!r}]
sys.modules["capture"] = package
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", prelude + textwrap.dedent(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()
