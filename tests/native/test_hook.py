"""Holds the tests of the frame hook: which frames it acts on, and what a replaced frame leaves."""

import asyncio
import copy
import gc
import pickle
import sys
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from capture import _native
from capture._native import CompiledFunction, Disabled, Region

from .support import Recorder, current, entry, no_resume, returning

monitored = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")


class Thing:
    """Can be weakly referenced."""


def add(a: Any, b: Any) -> Any:
    return a + b


def fail(*inputs: Any) -> Any:
    raise ValueError("from the graph")


@pytest.fixture(autouse=True)
def hook_is_gone_after_each_test() -> Iterator[None]:
    yield
    assert not _native.stats()["installed"]
    assert _native.stats()["inside"] == 0
    _native.self_test()


def test_hit_replaces_the_frame() -> None:
    compiled = Recorder(add=returning("replaced"))(add)
    assert compiled(1, 2) == "replaced"
    assert compiled(1, 2) == "replaced"


def test_convert_is_asked_once() -> None:
    recorder = Recorder(add=returning(0))
    compiled = recorder(add)
    compiled(1, 2)
    compiled(1, 2)
    assert recorder.asked == ["add"]


def test_function_outside_the_region_stays_eager() -> None:
    Recorder(add=returning("replaced"))(add)(1, 2)
    assert add(1, 2) == 3


def test_hook_is_in_place_only_inside() -> None:
    seen = []

    def f() -> None:
        seen.append(_native.stats()["installed"])

    Recorder()(f)()
    assert seen == [True]
    assert not _native.stats()["installed"]


def test_hook_goes_when_the_function_raises() -> None:
    def f() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        Recorder()(f)()


def test_no_entry_means_eager() -> None:
    assert Recorder()(add)(1, 2) == 3


def test_callees_are_captured() -> None:
    def f(x: Any) -> Any:
        return add(x, 1)

    assert Recorder(add=returning("replaced"))(f)(1) == "replaced"


def test_values_are_the_bound_arguments() -> None:
    def f(a: Any, b: Any = 2, *rest: Any, c: Any, d: Any = 4, **more: Any) -> None:
        pass

    recorder = Recorder()
    recorder(f)(1, c=3, z=5)
    recorder.region.sites()[0][1].skip = False
    recorder(f)(1, 7, 8, 9, c=3)
    assert recorder.values == [[1, 2, 3, 4, (), {"z": 5}], [1, 7, 3, 4, (8, 9), {}]]


def test_argument_cells_are_not_made_yet() -> None:
    def f(a: Any, b: Any) -> Any:
        return lambda: b

    recorder = Recorder(f=lambda values: entry(0, 1, epilogue=1))
    assert recorder(f)(1, 2) == 2
    assert recorder.values == [[1, 2]]


def test_binding_errors_are_eagers() -> None:
    compiled = Recorder(add=returning(0))(add)
    for args in ((), (1, 2, 3)):
        with pytest.raises(TypeError) as eager:
            add(*args)
        with pytest.raises(TypeError) as captured:
            compiled(*args)
        assert str(captured.value) == str(eager.value)


def test_generators_and_coroutines_are_not_acted_on() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> int:
        return 2

    async def consume() -> list[int]:
        async def async_generator() -> Any:
            yield 3

        return [item async for item in async_generator()]

    def f() -> Any:
        return list(generator()), asyncio.run(coroutine()), asyncio.run(consume())

    recorder = Recorder()
    assert recorder(f)() == ([1], 2, [3])
    assert not {"generator", "coroutine", "consume", "async_generator"} & set(recorder.asked)


def test_class_bodies_and_executed_code_are_not_acted_on() -> None:
    def f() -> Any:
        class Body:
            value = 1

        scope: dict[str, Any] = {}
        exec("x = 2", scope)
        return Body.value, scope["x"]

    recorder = Recorder()
    assert recorder(f)() == (1, 2)
    # An audit hook that a library has put up is called for the exec, and is a frame like others.
    assert recorder.asked[0] == "f"
    assert not {"Body", "<module>"} & set(recorder.asked)


def test_thrown_exceptions_reach_generators() -> None:
    def generator() -> Iterator[int]:
        try:
            yield 1
        except ValueError:
            yield 2

    def f() -> Any:
        iterator: Any = generator()
        return next(iterator), iterator.throw(ValueError)

    assert Recorder()(f)() == (1, 2)


def test_function_with_swapped_code_runs_it() -> None:
    def f() -> int:
        return 1

    def other() -> int:
        return 2

    compiled = Recorder(f=returning(3))(f)
    assert compiled() == 3
    f.__code__ = other.__code__
    compiled.region.enabled = False
    assert compiled() == 2


def test_traced_thread_is_not_captured() -> None:
    lines = []

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        lines.append(event)
        return tracer

    compiled = Recorder(add=returning("replaced"))(add)
    compiled(1, 2)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        result = compiled(1, 2)
    finally:
        sys.settrace(before)
    assert result == 3
    assert lines == ["call", "line", "return"]
    assert compiled(1, 2) == "replaced"


def test_profiled_thread_is_captured() -> None:
    events = []
    compiled = Recorder(add=returning("replaced"))(add)
    compiled(1, 2)

    def profiler(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code is not test_profiled_thread_is_captured.__code__:
            events.append((event, frame.f_code.co_name))

    sys.setprofile(profiler)
    try:
        result = compiled(1, 2)
    finally:
        sys.setprofile(None)
    assert result == "replaced"
    assert events == [("call", "<lambda>"), ("return", "<lambda>")]


@monitored
@pytest.mark.parametrize("event", ["LINE", "INSTRUCTION"])
@pytest.mark.parametrize("local", [False, True])
def test_line_monitoring_is_not_captured(event: str, local: bool) -> None:
    def other() -> int:
        return 1

    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009
    recorder = Recorder(add=returning("replaced"), other=returning("replaced"))
    compiled, compiled_other = recorder(add), recorder(other)
    compiled(1, 2)
    compiled_other()
    events = getattr(monitoring.events, event)
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.register_callback(3, events, lambda *args: None)
        if local:
            monitoring.set_local_events(3, add.__code__, events)
        else:
            monitoring.set_events(3, events)
        results = compiled(1, 2), compiled_other()
    finally:
        monitoring.set_events(3, 0)
        monitoring.set_local_events(3, add.__code__, 0)
        monitoring.register_callback(3, events, None)
        monitoring.free_tool_id(3)
    assert results == (3, "replaced" if local else 1)
    assert compiled(1, 2) == "replaced"


@monitored
def test_replaced_frame_fires_no_events() -> None:
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009
    events = monitoring.events
    kinds = [events.PY_START, events.PY_RETURN, events.PY_UNWIND, events.PY_THROW, events.RAISE]
    seen: list[Any] = []
    good = Recorder(add=lambda values: entry(0, 1, graph=divmod, outputs=2))(add)
    bad = Recorder(add=lambda values: entry(0, 1, graph=divmod, outputs=2))(add)
    good(3, 2)
    bad(3, 2)
    monitoring.use_tool_id(3, "test")
    try:
        for kind in kinds:
            monitoring.register_callback(
                3, kind, lambda code, *args, kind=kind: seen.append((kind, code))
            )
        monitoring.set_events(3, sum(kinds))
        good(3, 2)
        with pytest.raises(ZeroDivisionError):
            bad(3, 0)
    finally:
        monitoring.set_events(3, 0)
        for kind in kinds:
            monitoring.register_callback(3, kind, None)
        monitoring.free_tool_id(3)
    assert [kind for kind, code in seen if code is add.__code__] == []


def test_graph_error_has_no_false_traceback_entry() -> None:
    compiled = Recorder(add=lambda values: entry(0, 1, graph=fail))(add)
    for _ in range(2):
        with pytest.raises(ValueError, match="from the graph") as info:
            compiled(1, 2)
        names = [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
        assert names == ["test_graph_error_has_no_false_traceback_entry", "fail"]
        assert info.value.__context__ is None


def test_restartable_piece_runs_eagerly_when_its_graph_raises() -> None:
    compiled = Recorder(add=lambda values: entry(0, 1, graph=fail, restartable=True))(add)
    assert compiled(1, 2) == 3
    with pytest.raises(TypeError, match="unsupported operand"):
        compiled(1, "2")


def test_interrupt_is_not_taken_for_a_failing_graph() -> None:
    def interrupt(*inputs: Any) -> Any:
        raise KeyboardInterrupt

    compiled = Recorder(add=lambda values: entry(0, 1, graph=interrupt, restartable=True))(add)
    with pytest.raises(KeyboardInterrupt):
        compiled(1, 2)


def test_convert_error_leaves_the_frame() -> None:
    def convert(site: Any, values: Any, func: Any) -> Any:
        raise LookupError("in convert")

    thing = Thing()
    alive = weakref.ref(thing)
    compiled = CompiledFunction(add, Region(convert, no_resume))
    with pytest.raises(LookupError, match="in convert") as info:
        compiled(thing, 2)
    assert not _native.tracing()
    info.value.__traceback__ = None
    del thing, info
    gc.collect()
    assert alive() is None


def test_convert_returning_something_else_is_an_error() -> None:
    compiled = CompiledFunction(add, Region(lambda *args: 3, no_resume))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not an Entry"):
        compiled(1, 2)


def test_capture_is_off_while_compiling() -> None:
    seen: list[Any] = []

    def convert(site: Any, values: Any, func: Any) -> None:
        seen.append((func.__name__, _native.tracing(), _native.current()))
        add(1, 2)
        compiled(3, 4)

    compiled = CompiledFunction(add, Region(convert, no_resume))
    assert compiled(1, 2) == 3
    assert seen == [("add", True, None)]
    assert not _native.tracing()


def test_hook_is_out_while_compiling() -> None:
    seen = []

    def convert(site: Any, values: Any, func: Any) -> None:
        seen.append(_native.stats()["installed"])

    CompiledFunction(add, Region(convert, no_resume))(1, 2)
    assert seen == [False]


def test_capture_is_off_inside_a_graph() -> None:
    recorder = Recorder(add=lambda values: entry(0, 1, graph=graph))

    def helper() -> Any:
        return _native.current()

    def graph(*inputs: Any) -> Any:
        return (helper(),)

    compiled = recorder(add)
    assert compiled(1, 2) is None
    assert compiled(1, 2) is None
    assert recorder.asked == ["add"]


def test_capture_is_on_inside_an_epilogue_but_not_of_it() -> None:
    recorder = Recorder(
        add=lambda values: entry(0, 1, graph=divmod, outputs=2, epilogue=finish, arguments=(~1, 0))
    )

    def helper(x: Any) -> Any:
        return x

    def finish(x: Any, y: Any) -> Any:
        return helper(x), y, _native.current()

    assert recorder(add)(7, 4) == (3, 7, recorder.region)
    assert recorder.asked == ["add", "helper"]


def test_compiled_function_works_inside_a_graph() -> None:
    inner = Recorder(add=returning("inner"))(add)

    def f() -> None:
        pass

    outer = Recorder(f=lambda values: entry(graph=lambda: (inner(1, 2),)))(f)
    assert outer() == "inner"
    assert outer() == "inner"


def test_disabled_switches_capture_off() -> None:
    recorder = Recorder(add=returning("replaced"))

    def f() -> Any:
        return add(1, 2), Disabled(add)(1, 2), add(1, 2)

    assert recorder(f)() == ("replaced", 3, "replaced")


def test_inner_region_wins() -> None:
    inner, outer = Recorder(add=returning("inner")), Recorder(add=returning("outer"))
    compiled = inner(add)

    def f() -> Any:
        return add(1, 2), compiled(1, 2), add(1, 2)

    assert outer(f)() == ("outer", "inner", "outer")


def test_disabled_region_is_left_alone() -> None:
    compiled = Recorder(add=returning("replaced"))(add)
    compiled(1, 2)
    compiled.region.enabled = False
    assert compiled(1, 2) == 3
    with current(compiled.region):
        assert add(1, 2) == 3
    compiled.region.enabled = True
    assert compiled(1, 2) == "replaced"


def test_current_region_can_be_set() -> None:
    recorder = Recorder(add=returning("replaced"))
    assert _native.current() is None
    assert _native.set_current(recorder.region) is None
    assert _native.current() is recorder.region
    assert add(1, 2) == "replaced"
    assert _native.set_current(None) is recorder.region
    assert add(1, 2) == 3


def test_current_region_can_be_set_in_a_generator() -> None:
    recorder = Recorder(add=returning("replaced"))

    def generator() -> Iterator[Any]:
        with current(recorder.region):
            yield add(1, 2)

    iterator = generator()
    assert next(iterator) == "replaced"
    assert _native.current() is recorder.region
    assert list(iterator) == []
    assert _native.current() is None


def test_skipped_code_is_not_captured_but_its_callees_are() -> None:
    def f() -> Any:
        return add(1, 2)

    _native.skip_code(f.__code__)
    recorder = Recorder(add=returning("replaced"))
    assert recorder(f)() == "replaced"
    assert recorder.asked == ["add"]


def test_skipped_files() -> None:
    scope: dict[str, Any] = {}
    for path in ("/skipped/a.py", "/skipped/kept/b.py", "/other/c.py"):
        name = path[-4]
        exec(compile(f"def {name}(): pass", path, "exec"), scope)
    recorder = Recorder()

    def f() -> None:
        scope["a"](), scope["b"](), scope["c"]()

    recorder(f)()
    assert recorder.asked == ["f", "a", "b", "c"]
    before = _native.skip_files(("/none", "/skipped/"), ("/skipped/kept",))
    try:
        again = Recorder()
        again(f)()
        assert again.asked == ["f", "b", "c"]
    finally:
        _native.skip_files(*before)
    last = Recorder()
    last(f)()
    assert last.asked == ["f", "a", "b", "c"]


def test_reset_code_compiles_anew() -> None:
    recorder = Recorder(add=returning(0))
    compiled = recorder(add)
    compiled(1, 2)
    _native.reset_code(add.__code__)
    assert recorder.region.sites() == []
    compiled(1, 2)
    assert recorder.asked == ["add", "add"]


def test_site_marked_skip_still_uses_its_entries() -> None:
    recorder = Recorder(
        add=lambda values: entry(0, 1, graph=lambda *i: ("small",), check=lambda a, b: a < 5)
    )
    compiled = recorder(add)
    compiled(1, 2)
    recorder.region.sites()[0][1].skip = True
    assert compiled(1, 2) == "small"
    assert compiled(9, 2) == 11
    assert recorder.asked == ["add"]


def test_most_recent_hit_comes_first() -> None:
    def make(values: list[Any]) -> Any:
        wanted = values[0]
        return entry(0, 1, graph=lambda *i: (wanted,), check=lambda a, b: a == wanted)

    recorder = Recorder(add=make)
    compiled = recorder(add)
    assert [compiled(i, 0) for i in (1, 2, 3)] == [1, 2, 3]
    site = recorder.region.sites()[0][1]
    third, second, first = site.entries
    assert [compiled(i, 0) for i in (2, 2, 1)] == [2, 2, 1]
    assert site.entries == (first, second, third)
    assert [each.hits for each in (first, second, third)] == [2, 3, 1]
    assert recorder.asked == ["add"] * 3


def test_entry_whose_guards_do_not_hold_at_once_is_not_run() -> None:
    before = _native.stats()["stale"]
    compiled = Recorder(add=lambda values: entry(0, 1, graph=fail, check=lambda a, b: False))(add)
    assert compiled(1, 2) == 3
    assert _native.stats()["stale"] == before + 1


def test_guard_that_changes_the_site_is_survived() -> None:
    recorder = Recorder(add=lambda values: entry(0, 1, graph=fail, check=check))

    def check(a: Any, b: Any) -> bool:
        for _, site in recorder.region.sites():
            site.clear()
            site.skip = True
        return False

    assert recorder(add)(1, 2) == 3
    assert recorder(add)(1, 2) == 3


def test_entry_killed_by_its_own_graph_finishes() -> None:
    def graph(a: Any, b: Any) -> Any:
        recorder.region.sites()[0][1].entries[0].kill()
        return (a * b,)

    recorder = Recorder(
        add=lambda values: entry(
            0, 1, graph=graph, epilogue=lambda out, a: (out, a), arguments=(~0, 0)
        )
    )
    assert recorder(add)(3, 4) == (12, 3)
    assert recorder.region.sites()[0][1].entries == ()


def test_arguments_keep_their_reference_counts() -> None:
    compiled = Recorder(add=lambda values: entry(0, 1, epilogue=1))(add)
    a, b = Thing(), Thing()
    compiled(a, b)
    before = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(100):
        compiled(a, b)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == before


def test_arguments_die_with_the_call() -> None:
    recorder = Recorder(add=lambda values: entry(0, 1, epilogue=1))
    compiled = recorder(add)
    for _ in range(2):
        thing = Thing()
        alive = weakref.ref(thing)
        assert compiled(thing, 1) == 1
        recorder.values.clear()
        del thing
        assert alive() is None


def nothing() -> None:
    pass


def test_function_without_a_stack_is_replaced() -> None:
    compiled = Recorder(nothing=returning("replaced"))(nothing)
    assert [compiled() for _ in range(3)] == ["replaced"] * 3


def test_many_calls_and_exceptions_do_not_grow() -> None:
    good = Recorder(add=lambda values: entry(0, 1, graph=divmod, outputs=2))(add)

    def run(n: int) -> None:
        for i in range(n):
            good(i, 3)
            try:
                good(i, 0)
            except ZeroDivisionError:
                pass

    run(100)
    gc.collect()
    before = sys.getallocatedblocks()
    run(20_000)
    gc.collect()
    assert sys.getallocatedblocks() - before < 200


def test_wrapper_binds_as_a_method() -> None:
    class Holder:
        method = Recorder(method=lambda values: entry(0, 1, epilogue=1))(
            lambda self, x: pytest.fail("eager")
        )

    Holder.method.fn.__name__ = "method"
    holder = Holder()
    assert holder.method(5) == 5
    assert Holder.method(holder, 6) == 6
    assert holder.method.__self__ is holder
    assert Holder.__dict__["method"].__get__(None, Holder) is Holder.method


def test_wrapper_passes_attributes_through() -> None:
    compiled = Recorder()(add)
    assert compiled.__code__ is add.__code__
    assert compiled.__annotations__ == add.__annotations__
    compiled.extra = 3  # type: ignore[attr-defined]
    assert compiled.extra == 3
    assert compiled.__dict__ == {"extra": 3}
    with pytest.raises(AttributeError):
        compiled.nothing_of_the_kind  # noqa: B018
    assert weakref.ref(compiled)() is compiled
    assert "add" in repr(compiled)
    assert compiled.fn is add


module_level = Recorder()(add)
module_level.__qualname__ = "module_level"  # type: ignore[attr-defined]
module_level.__module__ = __name__


def test_wrapper_is_an_atom_to_copy() -> None:
    assert copy.copy(module_level) is module_level
    assert copy.deepcopy([module_level])[0] is module_level


def test_wrapper_pickles_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or pytest)
    if getattr(sys.modules[__name__], "module_level", None) is not module_level:
        pytest.skip("this test module is not importable")
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_wrapper_wants_a_callable() -> None:
    with pytest.raises(TypeError, match="takes a callable"):
        Disabled(3)  # type: ignore[arg-type]


def test_keyword_calls_pass_through() -> None:
    compiled = Recorder()(add)
    assert compiled(b=1, a="x" and 2) == 3
    assert compiled(*(1,), **{"b": 2}) == 3
