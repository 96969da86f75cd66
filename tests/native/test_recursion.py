"""Holds the tests of recursion under the hook: as deep as eager goes, and never a crash."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from capture import _native
from capture._native import Break, Continue, Region, Site

from .support import Recorder, entry, no_resume, run_fresh


@pytest.fixture
def limit() -> Iterator[Callable[[int], None]]:
    before = sys.getrecursionlimit()
    yield sys.setrecursionlimit
    sys.setrecursionlimit(before)


def down(n: int) -> int:
    return 0 if n == 0 else 1 + down(n - 1)


def forever() -> None:
    forever()


def test_python_recursion_is_as_deep_as_eager() -> None:
    depth = sys.getrecursionlimit() - 150
    assert Recorder()(down)(depth) == depth


def test_deep_recursion_under_a_high_limit(limit: Callable[[int], None]) -> None:
    limit(6000)
    assert Recorder()(down)(5000) == 5000


def test_recursion_error_is_eagers() -> None:
    with pytest.raises(RecursionError) as eager:
        forever()
    with pytest.raises(RecursionError) as captured:
        Recorder()(forever)()
    assert str(captured.value)[:32] == str(eager.value)[:32]
    # All is well again.
    assert Recorder()(down)(50) == 50


def test_recursion_error_comes_at_eagers_depth() -> None:
    depths: list[int] = []

    def deeper(n: int) -> None:
        depths[-1] = n
        deeper(n + 1)

    for call in (deeper, Recorder()(deeper)):
        depths.append(0)
        with pytest.raises(RecursionError):
            call(0)
    assert abs(depths[0] - depths[1]) < 10


def test_captured_frames_count_towards_the_limit() -> None:
    """A piece whose break calls the function again recurses as the function itself would."""
    site = Site(5, None, 0, True)
    scope: dict[str, Any] = {"depth": 0}
    source = """
def again(n):
    pass

def run(slot0, box):
    global depth
    depth = slot0
    return 0, again(slot0 + 1)
"""
    exec(source, scope)
    again, run = scope["again"], scope["run"]
    instruction = Break(run.__code__, (site,), True)
    recorder = Recorder(
        again=lambda values: entry(
            0, epilogue=lambda n: Continue(instruction, again, (), (n,)), arguments=(0,)
        )
    )
    with pytest.raises(RecursionError):
        recorder(again)(0)
    assert 800 < scope["depth"] <= sys.getrecursionlimit()
    assert recorder(down)(50) == 50


def test_hit_at_the_limit_raises_as_eager() -> None:
    """A frame that eager could not enter is not entered by way of its entry either."""

    def leaf() -> str:
        return "eager"

    recorder = Recorder(leaf=lambda values: entry(graph=lambda: ("hit",)))
    compiled = recorder(leaf)
    compiled()

    def deeper() -> None:
        compiled()
        deeper()

    with pytest.raises(RecursionError):
        recorder(deeper)()
    assert compiled() == "hit"


def test_recursion_through_c_is_survived() -> None:
    def through_c(n: int) -> Any:
        return sorted([n], key=lambda item: through_c(item + 1))

    with pytest.raises(RecursionError):
        Recorder()(through_c)(0)
    assert Recorder()(down)(50) == 50


def in_thread(size_kib: int, target: Callable[[], None]) -> None:
    before = threading.stack_size(size_kib * 1024)
    try:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)


@pytest.mark.parametrize("size_kib", [256, 1024, 8192])
@pytest.mark.parametrize("inside", [True, False])
def test_small_stack_raises_instead_of_crashing(
    limit: Callable[[int], None], size_kib: int, inside: bool
) -> None:
    """Also in a thread outside of regions, while another thread is inside one."""
    limit(1_000_000)
    seen: list[Any] = []
    region = Region(lambda *args: None, no_resume)

    def run() -> None:
        previous = _native.set_current(region if inside else None)
        try:
            forever()
        except RecursionError as error:
            seen.append(error)
        finally:
            _native.set_current(previous)

    previous = _native.set_current(None if inside else region)
    try:
        with_hook_off = _native.current() is None
        in_thread(size_kib, run)
    finally:
        _native.set_current(previous)
    assert with_hook_off is inside
    assert len(seen) == 1
    assert "maximum recursion depth exceeded" in str(seen[0])


def test_generators_on_a_small_stack(limit: Callable[[int], None]) -> None:
    limit(1_000_000)
    seen: list[Any] = []

    def chain(n: int) -> Iterator[int]:
        yield from chain(n + 1)

    def run() -> None:
        try:
            Recorder()(lambda: list(chain(0)))()
        except RecursionError as error:
            seen.append(error)

    in_thread(512, run)
    assert len(seen) == 1


def test_main_thread_survives_endless_recursion() -> None:
    source = """
    from capture._native import CompiledFunction, Region

    def forever():
        forever()

    sys.setrecursionlimit(10_000_000)
    try:
        CompiledFunction(forever, Region(lambda *args: None, None))()
    except RecursionError as error:
        print("survived")
    """
    assert run_fresh(source) == "survived"
