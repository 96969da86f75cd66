"""Holds the tests of what keeps what alive: code, regions, sites, entries and values."""

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from capture import _native
from capture._native import CompiledFunction, Entry, Region, Site

from .support import Recorder, entry, guards, no_resume, returning


class Thing:
    """Can be weakly referenced."""


def add(a: Any, b: Any) -> Any:
    return a + b


def fresh_function(body: str = "return a + b") -> FunctionType:
    scope: dict[str, Any] = {}
    exec(f"def fresh(a, b): {body}", scope)
    made: FunctionType = scope["fresh"]
    return made


def calling(graph: Any) -> Callable[[list[Any]], Entry]:
    """Make entries that return the graph's first of two outputs."""
    return lambda values: entry(0, 1, graph=graph, outputs=2)


def test_site_dies_with_its_code() -> None:
    recorder = Recorder(fresh=returning(1))
    function = fresh_function()
    compiled = recorder(function)
    compiled(1, 2)
    site = weakref.ref(recorder.region.sites()[0][1])
    code = weakref.ref(function.__code__)
    del function, compiled
    gc.collect()
    assert code() is None
    assert site() is None
    assert recorder.region.sites() == []


def test_site_dies_with_its_region() -> None:
    recorder = Recorder(add=returning(1))
    recorder(add)(1, 2)
    site = weakref.ref(recorder.region.sites()[0][1])
    region = weakref.ref(recorder.region)
    del recorder
    gc.collect()
    assert region() is None
    assert site() is None


def test_site_that_outlives_its_region_is_harmless() -> None:
    recorder = Recorder(add=returning(1))
    recorder(add)(1, 2)
    (_, site), *_ = recorder.region.sites()
    assert site.code is add.__code__
    del recorder
    gc.collect()
    assert site.code is None
    assert len(site.entries) == 1
    site.clear()


def test_region_in_a_cycle_through_its_entry_is_collected() -> None:
    """The graph refers to the globals that hold the compiled function."""
    scope: Any = {}
    exec("def f(a, b): return a\ndef graph(*inputs): return inputs", scope)
    recorder: Any = Recorder(f=calling(scope["graph"]))
    scope["f"] = compiled = recorder(scope["f"])
    assert compiled(1, 2) == 1
    region, code = weakref.ref(recorder.region), weakref.ref(compiled.__code__)
    scope["recorder"] = recorder
    recorder = compiled = scope = None
    gc.collect()
    assert region() is None
    assert code() is None


def test_reference_counts_of_code_and_region_are_left_alone() -> None:
    recorder = Recorder(add=returning(1))
    code = add.__code__
    before = sys.getrefcount(code), sys.getrefcount(recorder.region)
    compiled = recorder(add)
    compiled(1, 2)
    recorder.values.clear()
    assert (sys.getrefcount(code), sys.getrefcount(recorder.region)) == (before[0], before[1] + 1)


def test_compile_and_drop_does_not_grow() -> None:
    """Functions that share one code object, each compiled in a region of its own."""

    def make(n: int) -> None:
        for i in range(n):

            def f(a: Any, b: Any = i) -> Any:
                return a

            def convert(site: Any, values: Any, func: Any, i: int = i) -> Any:
                made = entry(0, 1, graph=lambda *inputs: (i,))
                site.add_entry(made)
                return made

            compiled = CompiledFunction(f, Region(convert, no_resume))
            assert compiled(1) == i
            assert compiled(1) == i

    make(200)
    gc.collect()
    before = sys.getallocatedblocks()
    make(10_000)
    gc.collect()
    assert sys.getallocatedblocks() - before < 300


def test_code_that_comes_and_goes_does_not_grow() -> None:
    recorder = Recorder(fresh=returning(1))

    def make(n: int) -> None:
        for _ in range(n):
            recorder(fresh_function())(1, 2)
        recorder.values.clear()
        recorder.asked.clear()

    make(50)
    gc.collect()
    before = sys.getallocatedblocks()
    make(1000)
    gc.collect()
    assert sys.getallocatedblocks() - before < 300
    assert recorder.region.sites() == []


def test_one_code_in_many_regions() -> None:
    recorders = [Recorder(add=returning(i)) for i in range(20)]
    for _ in range(2):
        assert [recorder(add)(1, 2) for recorder in recorders] == list(range(20))
    assert all(recorder.asked == ["add"] for recorder in recorders)
    del recorders[::2]
    gc.collect()
    assert [recorder(add)(1, 2) for recorder in recorders] == list(range(1, 20, 2))
    _native.reset_code(add.__code__)
    assert [recorder.region.sites() for recorder in recorders] == [[]] * 10


def test_killed_entry_leaves_its_site_and_lets_go() -> None:
    thing: Any = Thing()
    graph: Any = functools.partial(lambda thing, *inputs: ("replaced",), thing)
    recorder = Recorder(add=lambda values: entry(0, 1, graph=graph))
    compiled = recorder(add)
    compiled(1, 2)
    recorder.makers.clear()
    site = recorder.region.sites()[0][1]
    (made,) = site.entries
    alive = weakref.ref(thing)
    thing = graph = None
    assert made.alive
    made.kill()
    made.kill()
    gc.collect()
    assert not made.alive
    assert not site.entries
    assert alive() is None
    assert compiled(1, 2) == 3


def test_entry_goes_when_what_it_watches_dies() -> None:
    """Its guard compares an object by address; the object is dead: the next look-up drops it."""
    at_local, check_identity = 0, 1
    thing = Thing()

    def make(values: list[Any]) -> Entry:
        spec = ((at_local, 0, ((check_identity, values[0]),), (), (0,), -1),)
        tree = _native.GuardTree(spec, 1, (), None)
        return Entry(tree, None, 0, False, 0, (), False, 0)

    recorder = Recorder(add=make)
    compiled = recorder(add)
    assert compiled(thing, 1) is thing
    site = recorder.region.sites()[0][1]
    recorder.values.clear()
    recorder.makers.clear()
    assert len(site.entries) == 1
    del thing
    assert compiled(1, 2) == 3
    assert not site.entries


def test_entry_is_in_one_site_only() -> None:
    made = entry(0, epilogue=0)
    site, other = Site(0, None, 0, False), Site(0, None, 0, False)
    site.add_entry(made)
    with pytest.raises(ValueError, match="already"):
        other.add_entry(made)
    with pytest.raises(ValueError, match="not in this site"):
        other.remove_entry(made)
    site.remove_entry(made)
    assert not site.entries
    other.add_entry(made)
    other.clear()
    site.add_entry(made)
    assert site.entries == (made,)


def test_entry_of_a_dead_site_can_be_used_again() -> None:
    made = entry(0, epilogue=0)
    site = Site(0, None, 0, False)
    site.add_entry(made)
    del site
    other = Site(0, None, 0, False)
    other.add_entry(made)
    assert other.entries == (made,)


def test_clear_forgets_the_resume_sites_too() -> None:
    site = Site(0, None, 0, False)
    site.resume_sites["key"] = Site(1, None, 0, False)
    site.skip = True
    site.clear()
    assert site.resume_sites == {}
    assert not site.skip


def test_resume_sites_in_a_cycle_are_collected() -> None:
    site = Site(0, None, 0, False)
    site.resume_sites["self"] = site
    site.data = site
    alive = weakref.ref(site)
    del site
    gc.collect()
    assert alive() is None


def test_site_wants_code_as_resume_code() -> None:
    site = Site(0, None, 0, False)
    with pytest.raises(TypeError, match="code object"):
        site.resume_code = 3  # type: ignore[assignment]
    site.resume_code = add.__code__.replace()
    site.resume_code = None
    assert site.resume_code is None


def test_wrapper_in_a_cycle_is_collected() -> None:
    def f() -> Any:
        return compiled

    compiled: Any = CompiledFunction(f, Region(lambda *args: None, no_resume))
    alive = weakref.ref(compiled)
    compiled = None
    del f
    gc.collect()
    assert alive() is None


def test_tree_is_shared_by_nobody() -> None:
    tree = guards(0)
    before = sys.getrefcount(tree)
    made = Entry(tree, None, 0, False, 0, (), False, 0)
    assert made.guards is tree
    del made
    assert sys.getrefcount(tree) == before
