"""Holds the tests of living with another frame evaluator in one process."""

import ctypes
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capture import _native

from .support import Recorder, current, returning


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.PyDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    target = tmp_path_factory.mktemp("neighbour") / "neighbour.so"
    source = Path(__file__).with_name("neighbour.c")
    include = sysconfig.get_path("include")
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target)], check=True
    )
    return ctypes.PyDLL(str(target))


@pytest.fixture
def neighbour(library: ctypes.PyDLL) -> Iterator[ctypes.PyDLL]:
    assert library.default_is_current()
    yield library
    library.neighbour_leave()
    plain()  # a frame, for our hook to go if it has been put back
    assert library.default_is_current()
    assert _native.stats()["inside"] == 0


def add(a: Any, b: Any) -> Any:
    return a + b


def plain() -> Any:
    return None


def fresh() -> Any:
    return Recorder(add=returning("replaced"))(add)


def test_region_inside_a_neighbour(neighbour: ctypes.PyDLL) -> None:
    neighbour.neighbour_enter()
    assert fresh()(1, 2) == "replaced"
    assert neighbour.neighbour_is_current()
    assert add(1, 2) == 3


def test_frames_not_captured_go_to_the_neighbour(neighbour: ctypes.PyDLL) -> None:
    neighbour.neighbour_enter()
    with current(Recorder().region):
        plain()
        before = neighbour.neighbour_seen()
        plain()
        assert neighbour.neighbour_seen() == before + 1


def test_neighbour_inside_a_region(neighbour: ctypes.PyDLL) -> None:
    results = []

    def f() -> None:
        neighbour.neighbour_enter()
        results.append(add(1, 2))
        neighbour.neighbour_leave()
        results.append(add(1, 2))

    Recorder(add=returning("replaced"))(f)()
    assert results == ["replaced", "replaced"]
    assert neighbour.default_is_current()


def test_hook_stays_as_a_pass_through_under_a_neighbour(neighbour: ctypes.PyDLL) -> None:
    def f() -> None:
        neighbour.neighbour_enter()

    Recorder()(f)()
    assert neighbour.neighbour_is_current()
    assert add(1, 2) == 3
    assert fresh()(1, 2) == "replaced"
    assert neighbour.neighbour_is_current()
    neighbour.neighbour_leave()
    # The neighbour has put our hook back, and nobody is inside: the next frame takes it out.
    plain()
    assert neighbour.default_is_current()


def test_hook_is_not_chained_twice(neighbour: ctypes.PyDLL) -> None:
    """The neighbour chains to us already: going in again must not make a ring."""

    def f() -> None:
        neighbour.neighbour_enter()
        for _ in range(3):
            assert fresh()(1, 2) == "replaced"
            assert neighbour.neighbour_is_current()

    Recorder()(f)()
    for _ in range(3):
        assert fresh()(1, 2) == "replaced"
    assert neighbour.neighbour_is_current()


def test_ring_of_evaluators_ends(neighbour: ctypes.PyDLL) -> None:
    """Ours chains to the neighbour, which then puts itself on top of ours."""
    neighbour.neighbour_enter()

    def f() -> Any:
        neighbour.neighbour_enter()
        return add(1, 2), sum(add(i, i) for i in range(3)), [plain() for _ in range(3)]

    compiled = Recorder()(f)
    for _ in range(3):
        assert compiled() == (3, 6, [None] * 3)
    assert add(1, 2) == 3


def test_ring_still_captures(neighbour: ctypes.PyDLL) -> None:
    neighbour.neighbour_enter()

    def f() -> Any:
        neighbour.neighbour_enter()
        return add(1, 2)

    assert Recorder(add=returning("replaced"))(f)() == "replaced"


def test_neighbour_that_takes_the_hook_away_costs_capture_only(neighbour: ctypes.PyDLL) -> None:
    neighbour.neighbour_enter()

    def f() -> Any:
        neighbour.neighbour_leave()
        return add(1, 2)

    assert Recorder(add=returning("replaced"))(f)() == 3
    assert fresh()(1, 2) == "replaced"


def test_exceptions_and_generators_pass_through(neighbour: ctypes.PyDLL) -> None:
    neighbour.neighbour_enter()

    def numbers() -> Iterator[int]:
        try:
            yield 1
        except ValueError:
            yield 2

    def f() -> Any:
        iterator: Any = numbers()
        first = next(iterator), iterator.throw(ValueError)
        with pytest.raises(ZeroDivisionError):
            add(1 // len(()), 2)
        return first

    assert Recorder()(f)() == (1, 2)


def test_neighbour_in_another_thread(neighbour: ctypes.PyDLL) -> None:
    results = []

    def other() -> None:
        neighbour.neighbour_enter()
        results.append(add(1, 2))
        results.append(fresh()(1, 2))

    recorder = Recorder(add=returning("replaced"))
    with current(recorder.region):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        results.append(add(1, 2))
    assert results == [3, "replaced", "replaced"]
    assert neighbour.neighbour_is_current()


def test_probe_does_not_disturb_an_exception(neighbour: ctypes.PyDLL) -> None:
    neighbour.neighbour_enter()
    compiled = fresh()
    try:
        raise KeyError("being handled")
    except KeyError:
        assert compiled(1, 2) == "replaced"
        assert isinstance(sys.exc_info()[1], KeyError)
