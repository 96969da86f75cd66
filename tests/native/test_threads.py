"""Holds the tests of regions and compilation in several threads."""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from capture import _native
from capture._native import CompiledFunction, Region

from .support import Recorder, current, entry, no_resume, returning


def add(a: Any, b: Any) -> Any:
    return a + b


def in_thread(target: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(target()))
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return results[0]


def test_region_is_the_threads_own() -> None:
    recorder = Recorder(add=returning("replaced"))
    with current(recorder.region):
        assert in_thread(lambda: (add(1, 2), _native.current())) == (3, None)
        assert add(1, 2) == "replaced"


def test_hook_stays_while_one_thread_is_inside() -> None:
    recorder = Recorder(add=returning("replaced"))
    entered, leave = threading.Event(), threading.Event()
    results: list[Any] = []

    def other() -> None:
        with current(recorder.region):
            entered.set()
            leave.wait(30)
            results.append(add(1, 2))

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(30)
    assert recorder(add)(1, 2) == "replaced"
    assert _native.stats()["installed"]
    leave.set()
    thread.join(30)
    assert results == ["replaced"]
    assert not _native.stats()["installed"]


def test_entries_are_shared_between_threads() -> None:
    recorder = Recorder(add=returning("replaced"))
    compiled = recorder(add)
    compiled(1, 2)
    assert in_thread(lambda: compiled(1, 2)) == "replaced"
    assert recorder.asked == ["add"]


def test_other_threads_run_eagerly_while_one_compiles() -> None:
    compiling, finish = threading.Event(), threading.Event()

    def convert(site: Any, values: Any, func: Any) -> Any:
        compiling.set()
        assert finish.wait(30)
        made = entry(0, 1, graph=lambda *inputs: ("replaced",))
        site.add_entry(made)
        return made

    compiled = CompiledFunction(add, Region(convert, no_resume))
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(compiled(1, 2)))
    thread.start()
    assert compiling.wait(30)
    before = _native.stats()["busy"]
    assert not _native.tracing()
    assert compiled(3, 4) == 7
    assert _native.stats()["busy"] == before + 1
    finish.set()
    thread.join(30)
    assert results == ["replaced"]
    assert compiled(3, 4) == "replaced"


def test_entries_serve_other_threads_while_one_compiles() -> None:
    compiling, finish = threading.Event(), threading.Event()
    ready = Recorder(add=returning("replaced"))(add)
    ready(1, 2)

    def other(x: Any) -> Any:
        return x

    def convert(site: Any, values: Any, func: Any) -> Any:
        compiling.set()
        assert finish.wait(30)

    compiled = CompiledFunction(other, Region(convert, no_resume))
    thread = threading.Thread(target=lambda: compiled(1))
    thread.start()
    assert compiling.wait(30)
    assert ready(1, 2) == "replaced"
    finish.set()
    thread.join(30)


def test_many_threads_at_once() -> None:
    def make(values: list[Any]) -> Any:
        wanted = values[0]
        time.sleep(0.001)
        return entry(0, 1, graph=divmod, outputs=2, check=lambda a, b: a == wanted)

    recorder = Recorder(add=make)
    compiled = recorder(add)
    failures: list[Any] = []

    def work(seed: int) -> None:
        for i in range(300):
            a, b = (seed + i) % 7, 3
            if compiled(a, b) not in (a // b, a + b):
                failures.append((a, b))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert failures == []
    assert not _native.stats()["installed"]
    assert [compiled(a, 3) for a in range(7)] == [a // 3 for a in range(7)]


def test_tracing_excludes_its_own_thread_only() -> None:
    compiled = Recorder(add=returning("replaced"))(add)
    compiled(1, 2)
    started, stop = threading.Event(), threading.Event()

    def traced() -> None:
        sys.settrace(lambda *args: None)
        started.set()
        stop.wait(30)
        results.append(compiled(1, 2))

    results: list[Any] = []
    thread = threading.Thread(target=traced)
    thread.start()
    started.wait(30)
    assert compiled(1, 2) == "replaced"
    stop.set()
    thread.join(30)
    assert results == [3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_child_of_a_fork_can_compile_and_leaves_no_hook() -> None:
    """Another thread is inside a region, and compiling, at the fork."""
    compiling, finish = threading.Event(), threading.Event()

    def convert(site: Any, values: Any, func: Any) -> Any:
        compiling.set()
        assert finish.wait(30)

    other = CompiledFunction(add, Region(convert, no_resume))
    thread = threading.Thread(target=lambda: other(1, 2))
    thread.start()
    assert compiling.wait(30)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            compiled = Recorder(add=returning("replaced"))(add)
            good = compiled(1, 2) == "replaced" and not _native.stats()["installed"]
            status = 0 if good and _native.stats()["inside"] == 0 else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    finish.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(status) == 0
