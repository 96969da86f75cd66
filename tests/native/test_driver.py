"""Holds the tests of the driver: graphs, epilogues, breaks, resume sites, and what they keep."""

import gc
import sys
import textwrap
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import pytest

from capture import _native
from capture._native import Break, CompiledFunction, Continue, Entry, Region, Site, State

from .support import Recorder, entry, no_resume


class Thing:
    """Can be weakly referenced."""


def code_of(fn: Any) -> CodeType:
    code: CodeType = fn.__code__
    return code


def add(a: Any, b: Any) -> Any:
    return a + b


def compiled_from(source: str) -> CodeType:
    """The code of the one function in `source`, which has no closure."""
    (code,) = (
        constant
        for constant in compile(textwrap.dedent(source), __file__, "exec").co_consts
        if isinstance(constant, CodeType)
    )
    return code


def goes_on(target: Break | Site, fn: Any, cells: tuple[Any, ...] = ()) -> Callable[..., Continue]:
    """An epilogue that goes on at `target` with its arguments as the values."""
    return lambda *values: Continue(target, fn, cells, values)


class Resumable(Recorder):
    """A recorder with resume code, and with entries for resume sites by their index."""

    def __init__(
        self,
        resume: Callable[..., Any] | None = None,
        sites: dict[int, Callable[[list[Any]], Entry | None]] | None = None,
        **makers: Any,
    ) -> None:
        super().__init__(**makers)
        self.resume = resume
        self.sites = sites or {}
        self.made_resume: list[int] = []
        self.region = Region(self.convert, self.make_resume)

    def make_resume(self, site: Site, func: FunctionType) -> CodeType:
        self.made_resume.append(site.index)
        assert self.resume is not None
        return code_of(self.resume)

    def convert(self, site: Site, values: list[Any], func: FunctionType) -> Entry | None:
        if site.index == 0:
            return super().convert(site, values, func)
        self.asked.append(f"site {site.index}")
        self.values.append(list(values))
        maker = self.sites.get(site.index)
        made = maker(values) if maker is not None else None
        if made is not None:
            site.add_entry(made)
        else:
            site.skip = True
        return made


# ---- one piece ----------------------------------------------------------------------------------


def test_epilogue_number_names_a_capture_or_an_output() -> None:
    for number, expected in ((0, 7), (1, 4), (~0, 1), (~1, 3)):
        maker = lambda values, number=number: entry(0, 1, graph=divmod, outputs=2, epilogue=number)  # noqa: E731
        compiled = Recorder(add=maker)(add)
        assert [compiled(7, 4), compiled(7, 4)] == [expected] * 2


def test_epilogue_function_gets_captures_and_outputs() -> None:
    maker = lambda values: entry(  # noqa: E731
        0, 1, graph=divmod, outputs=2, epilogue=lambda *args: args, arguments=(~1, 0, ~0, 1, 0)
    )
    assert Recorder(add=maker)(add)(7, 4) == (3, 7, 1, 4, 7)


def test_captures_behind_the_inputs_go_to_the_epilogue_only() -> None:
    maker = lambda values: entry(  # noqa: E731
        0, 1, graph=lambda x: (x,), inputs=1, epilogue=lambda *args: args, arguments=(1, ~0)
    )
    assert Recorder(add=maker)(add)(7, 4) == (4, 7)


def test_entry_without_a_graph() -> None:
    maker = lambda values: entry(0, 1, epilogue=lambda *args: args, arguments=(1, 0))  # noqa: E731
    assert Recorder(add=maker)(add)(7, 4) == (4, 7)


def test_graph_may_return_a_list() -> None:
    compiled = Recorder(add=lambda values: entry(0, 1, graph=lambda *i: list(i), outputs=2))(add)
    assert compiled(7, 4) == 7


@pytest.mark.parametrize("outputs", [(), (1, 2), None, "x"])
def test_wrong_outputs_are_an_error(outputs: Any) -> None:
    compiled = Recorder(add=lambda values: entry(0, 1, graph=lambda *i: outputs))(add)
    with pytest.raises(RuntimeError, match="captured graph returned"):
        compiled(1, 2)


def test_many_captures_and_arguments() -> None:
    scope: dict[str, Any] = {}
    names = ", ".join(f"a{i}" for i in range(200))
    exec(f"def many({names}): return a7", scope)
    maker = lambda values: entry(  # noqa: E731
        *range(200),
        graph=lambda *inputs: inputs[::-1],
        outputs=200,
        epilogue=lambda *args: args,
        arguments=(*range(200), *(~i for i in range(200))),
    )
    compiled = Recorder(many=maker)(scope["many"])
    numbers = tuple(range(1000, 1200))
    assert compiled(*numbers) == numbers + numbers[::-1]
    assert compiled(*numbers) == numbers + numbers[::-1]


def test_boxed_graph_owns_its_inputs() -> None:
    counts = []

    def graph(box: list[Any]) -> tuple[Any]:
        while box:
            thing = box.pop()
            counts.append(sys.getrefcount(thing))
        return (1,)

    def plain(x: Any) -> Any:
        return x

    recorder = Recorder(plain=lambda values: entry(0, graph=graph, boxed=True))
    compiled = recorder(plain)
    thing = Thing()
    baseline = sys.getrefcount(thing)
    compiled(thing)
    recorder.values.clear()
    counts.clear()
    compiled(thing)
    # `thing` here, the caller's stack, the local in graph() and getrefcount's argument; the frame's
    # own slot has been let go of.
    assert counts == [baseline + 2]


def test_boxed_graph_input_can_be_returned() -> None:
    def graph(box: list[Any]) -> tuple[Any]:
        box.clear()
        return (1,)

    maker = lambda values: entry(  # noqa: E731
        0, 1, graph=graph, boxed=True, epilogue=lambda *args: args, arguments=(1, ~0)
    )
    thing = Thing()
    compiled = Recorder(add=maker)(add)
    assert compiled(None, thing) == (thing, 1)
    assert compiled(None, thing) == (thing, 1)


def test_epilogue_error_leaves_the_frame_once() -> None:
    def finish(value: Any) -> None:
        raise LookupError("in the epilogue")

    maker = lambda values: entry(  # noqa: E731
        0, 1, graph=divmod, outputs=2, epilogue=finish, arguments=(~0,), restartable=True
    )
    compiled = Recorder(add=maker)(add)
    for _ in range(3):
        with pytest.raises(LookupError, match="in the epilogue"):
            compiled(1, 2)


def test_entry_refuses_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="names no capture"):
        entry(0, epilogue=1)
    with pytest.raises(ValueError, match="names no capture"):
        entry(0, graph=divmod, epilogue=~1)
    with pytest.raises(ValueError, match="names no capture"):
        entry(0, epilogue=print, arguments=(~0,))
    with pytest.raises(ValueError, match="out of range"):
        entry(0, graph=divmod, inputs=2)
    with pytest.raises(TypeError, match="epilogue"):
        entry(0, epilogue="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Entry(3, None, 0, False, 0, (), False, 0)  # type: ignore[arg-type]


# ---- going on -----------------------------------------------------------------------------------


def test_goes_on_at_a_site() -> None:
    site = Site(5, None, 0, True)
    recorder = Resumable(
        add=lambda values: entry(
            0, 1, graph=divmod, outputs=2, epilogue=goes_on(site, add), arguments=(~0, ~1, 1)
        ),
        sites={5: lambda values: entry(0, 1, 2, graph=lambda *i: (sum(i),))},
    )
    compiled = recorder(add)
    assert [compiled(7, 4), compiled(8, 4)] == [1 + 3 + 4, 2 + 0 + 4]
    assert recorder.asked == ["add", "site 5"]
    assert recorder.values[1] == [1, 3, 4]


def test_loop_of_pieces_runs_at_constant_depth() -> None:
    site = Site(5, None, 0, True)

    def step(n: int, total: int) -> Any:
        return Continue(site, add, (), (n - 1, total + n)) if n else total

    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=goes_on(site, add), arguments=(0, 1)),
        sites={5: lambda values: entry(0, 1, epilogue=step, arguments=(0, 1))},
    )
    compiled = recorder(add)
    assert compiled(100_000, 0) == 5_000_050_000
    assert recorder.asked == ["add", "site 5"]


def test_resume_code_runs_a_site_that_is_not_captured() -> None:
    def resume(slot0: Any, box: Any) -> Any:
        a, b = box
        return slot0, a, b, len(box)

    site = Site(5, None, 0, True)
    recorder = Resumable(
        resume, add=lambda values: entry(0, 1, epilogue=goes_on(site, add), arguments=(0, 1, 0))
    )
    compiled = recorder(add)
    assert [compiled(1, 2), compiled(3, 4)] == [(1, 2, 1, 0), (3, 4, 3, 0)]
    assert recorder.made_resume == [5]
    assert site.resume_code is code_of(resume)
    assert recorder.asked == ["add", "site 5"]


def test_resume_code_without_a_value_for_slot0_gets_none() -> None:
    def resume(slot0: Any, box: Any) -> Any:
        return slot0, *box

    site = Site(5, None, 0, False)
    recorder = Resumable(
        resume, add=lambda values: entry(0, 1, epilogue=goes_on(site, add), arguments=(1,))
    )
    assert recorder(add)(1, 2) == (None, 2)


def test_resume_code_of_a_function_without_arguments_gets_the_box_only() -> None:
    def nothing() -> None:
        pass

    site = Site(5, None, 0, False)
    recorder = Resumable(
        lambda box: list(box),
        nothing=lambda values: entry(epilogue=lambda: Continue(site, nothing, (), [1, 2])),
    )
    assert recorder(nothing)() == [1, 2]


def test_cells_come_before_the_values_and_are_the_closure() -> None:
    captured = 10

    def f(a: Any) -> Any:
        return a + captured

    def resume(slot0: Any, box: Any) -> Any:
        return slot0, *box, captured

    assert f.__closure__ is not None
    cells = f.__closure__
    for index in (5, 6):
        site = Site(index, None, 1, True)
        recorder = Resumable(
            resume,
            f=lambda values, site=site: entry(
                0, epilogue=goes_on(site, f, cells), arguments=(0, 0)
            ),
            sites={5: lambda values: entry(0, 1, 2, epilogue=lambda *i: i, arguments=(0, 1, 2))},
        )
        result = recorder(f)(3)
        assert recorder.values[1] == [cells[0], 3, 3]
        assert result == ((cells[0], 3, 3) if index == 5 else (3, 3, 10))


def test_wrong_number_of_cells_is_an_error() -> None:
    def resume(slot0: Any, box: Any) -> Any:
        return no_resume

    site = Site(5, None, 0, True)
    recorder = Resumable(
        resume,
        add=lambda values: entry(
            0, epilogue=lambda a: Continue(site, add, (a,), (1,)), arguments=(0,)
        ),
    )
    with pytest.raises(SystemError, match="wants 0 cells, the frame has 1"):
        recorder(add)(1, 2)


def test_break_runs_natively_and_goes_on() -> None:
    def callee(x: Any) -> Any:
        return x + 1

    scope = {"callee": callee}
    run = compiled_from(
        """
        def run(slot0, box):
            b, = box
            return (1 if b > 5 else 0), slot0, callee(b)
        """
    )
    instruction = Break(run, (Site(5, None, 0, True), Site(6, None, 0, True)), True)
    recorder = Resumable(
        add=lambda values: entry(
            0, 1, epilogue=goes_on(instruction, FunctionType(add.__code__, scope)), arguments=(0, 1)
        ),
        callee=lambda values: entry(0, graph=lambda x: (x * 100,)),
        sites={
            5: lambda values: entry(0, 1, epilogue=lambda *i: ("five", *i), arguments=(0, 1)),
            6: lambda values: entry(0, 1, epilogue=lambda *i: ("six", *i), arguments=(0, 1)),
        },
    )
    compiled = recorder(add)
    assert compiled(1, 2) == ("five", 1, 200)
    assert compiled(1, 7) == ("six", 1, 700)
    assert recorder.asked == ["add", "callee", "site 5", "site 6"]


def test_break_without_a_value_for_slot0_gets_none() -> None:
    def run(slot0: Any, box: Any) -> Any:
        return 0, slot0, *box

    site = Site(5, None, 0, True)
    instruction = Break(code_of(run), (site,), True, has_slot0=False)
    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=goes_on(instruction, add), arguments=(0, 1)),
        sites={5: lambda values: entry(0, 1, 2, epilogue=lambda *i: i, arguments=(0, 1, 2))},
    )
    assert recorder(add)(1, 2) == (None, 1, 2)


def test_break_code_keeps_the_qualified_name() -> None:
    def run(slot0: Any, box: Any) -> Any:
        return 0, sys._getframe().f_code.co_name, list(box)

    site = Site(5, None, 0, True)
    instruction = Break(code_of(run), (site,), True)
    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=goes_on(instruction, add), arguments=(0, 1)),
        sites={5: lambda values: entry(0, 1, epilogue=lambda *i: i, arguments=(0, 1))},
    )
    assert recorder(add)(1, 2) == ("run", [2])


def test_break_error_leaves_the_frame() -> None:
    def run(slot0: Any, box: Any) -> Any:
        raise LookupError("native")

    instruction = Break(code_of(run), (), True)
    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=goes_on(instruction, add), arguments=(0, 1))
    )
    thing = Thing()
    alive = weakref.ref(thing)
    with pytest.raises(LookupError, match="native") as info:
        recorder(add)(thing, 2)
    names = []
    step = info.value.__traceback__
    while step is not None:
        names.append(step.tb_frame.f_code.co_name)
        step = step.tb_next
    assert names == ["test_break_error_leaves_the_frame", "run"]
    info.value.__traceback__ = None
    recorder.values.clear()
    del thing, info, step
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("outcome", [None, (), (1,), (-1,), ("x",)])
def test_wrong_outcome_is_an_error(outcome: Any) -> None:
    run = compiled_from(f"def run(slot0, box): return {outcome!r}")
    instruction = Break(run, (Site(5, None, 0, True),), True)
    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=goes_on(instruction, add), arguments=(0, 1))
    )
    with pytest.raises(SystemError, match="no outcome"):
        recorder(add)(1, 2)


def test_break_checks_its_code() -> None:
    with pytest.raises(ValueError, match="takes"):
        Break(code_of(add), (), False)


# ---- what is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("restartable", [False, True])
def test_values_of_a_resume_site_are_dropped_before_its_graph(restartable: bool) -> None:
    site = Site(5, None, 0, False)
    alive: list[Any] = []

    def graph() -> tuple[Any]:
        return (alive[-1]() is not None,)

    def start(*args: Any) -> Continue:
        thing = Thing()
        alive.append(weakref.ref(thing))
        return Continue(site, add, (), (thing,))

    recorder = Resumable(
        add=lambda values: entry(epilogue=start),
        sites={5: lambda values: entry(graph=graph, restartable=restartable)},
    )
    compiled = recorder(add)
    compiled(1, 2)
    recorder.values.clear()
    assert compiled(1, 2) is restartable


def test_captures_are_dropped_after_their_last_use() -> None:
    site = Site(5, None, 0, False)
    alive: list[Any] = []
    seen: list[bool] = []

    def graph(thing: Any) -> tuple[Any]:
        return (1,)

    def start(*args: Any) -> Continue:
        thing = Thing()
        alive.append(weakref.ref(thing))
        return Continue(site, add, (), (thing,))

    def finish(output: Any) -> Any:
        seen.append(alive[-1]() is not None)
        return output

    recorder = Resumable(
        add=lambda values: entry(epilogue=start),
        sites={5: lambda values: entry(0, graph=graph, epilogue=finish, arguments=(~0,))},
    )
    compiled = recorder(add)
    compiled(1, 2)
    recorder.values.clear()
    compiled(1, 2)
    assert seen[-1] is False


def test_break_outcome_values_are_moved() -> None:
    run = compiled_from("def run(slot0, box): return 0, Thing()")
    resume = compiled_from(
        """
        def resume(slot0, box):
            for thing in box:
                return sys.getrefcount(thing)
        """
    )
    function = FunctionType(add.__code__, {"Thing": Thing, "sys": sys})
    site = Site(5, None, 0, False)
    site.resume_code = resume
    instruction = Break(run, (site,), True)
    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=goes_on(instruction, function), arguments=(0, 1)),
    )
    compiled = recorder(add)
    compiled(1, 2)
    recorder.values.clear()
    assert compiled(1, 2) == 2


def test_frame_lets_go_of_its_arguments_when_it_goes_on() -> None:
    site = Site(5, None, 0, False)
    counts: list[int] = []
    kept: list[Any] = []

    def f(**more: Any) -> None:
        pass

    def start(more: dict[str, Any]) -> Continue:
        kept.append(more)
        return Continue(site, f, (), ())

    def graph() -> tuple[Any]:
        counts.append(sys.getrefcount(kept[-1]))
        return (1,)

    recorder = Resumable(
        f=lambda values: entry(0, epilogue=start, arguments=(0,), restartable=True),
        sites={5: lambda values: entry(graph=graph)},
    )
    compiled = recorder(f)
    compiled(x=1)
    recorder.values.clear()
    compiled(x=1)
    assert counts[-1] == 2  # `kept` and getrefcount's argument


# ---- restarting a resume site -------------------------------------------------------------------


def test_restartable_resume_site_runs_its_resume_code() -> None:
    def fail(*inputs: Any) -> Any:
        raise ValueError("graph")

    def resume(slot0: Any, box: Any) -> Any:
        return slot0, list(box)

    site = Site(5, None, 0, True)
    recorder = Resumable(
        resume,
        add=lambda values: entry(0, 1, epilogue=goes_on(site, add), arguments=(0, 1)),
        sites={5: lambda values: entry(0, 1, graph=fail, restartable=True)},
    )
    compiled = recorder(add)
    assert [compiled(1, 2), compiled(3, 4)] == [(1, [2]), (3, [4])]


# ---- Continue and State by themselves -----------------------------------------------------------


def test_continue_can_be_called() -> None:
    site = Site(5, None, 0, True)

    def resume(slot0: Any, box: Any) -> Any:
        return slot0, *box

    site.resume_code = code_of(resume)
    onward = Continue(site, add, (), iter([1, 2]))
    assert (onward.target, onward.func, onward.cells, onward.values) == (site, add, (), (1, 2))
    assert onward() == (1, 2)
    assert onward.values == (None, None)


def test_continue_without_a_function_belongs_to_its_frame() -> None:
    site, other = Site(5, None, 0, True), Site(6, None, 0, True)
    site.resume_code = other.resume_code = compiled_from("def resume(slot0, box): return name")
    function = FunctionType(add.__code__, {"name": "found"})
    recorder = Resumable(
        add=lambda values: entry(0, epilogue=goes_on(site, None), arguments=(0,)),
        sites={5: lambda values: entry(0, epilogue=goes_on(other, None), arguments=(0,))},
    )
    assert recorder(function)(1, 2) == "found"
    assert recorder.asked == ["add", "site 5", "site 6"]
    with pytest.raises(RuntimeError, match="belongs to a frame"):
        Continue(site, None, (), [1])()


def test_continue_runs_once() -> None:
    site = Site(5, None, 0, True)
    site.resume_code = code_of(lambda slot0, box: 1)
    onward = Continue(site, add, (), [1])
    onward()
    with pytest.raises(RuntimeError, match="once"):
        onward()
    with pytest.raises(TypeError, match="no arguments"):
        Continue(site, add, (), [1])(3)  # type: ignore[call-arg]


def test_continue_outside_of_regions_asks_the_one_it_was_made_in() -> None:
    site = Site(5, None, 0, True)
    recorder = Resumable(
        lambda slot0, box: ("resumed", slot0),
        add=lambda values: entry(
            0, 1, epilogue=lambda a, b: [Continue(site, add, (), [a])], arguments=(0, 1)
        ),
    )
    (onward,) = recorder(add)(1, 2)
    assert onward() == ("resumed", 1)
    assert recorder.asked == ["add"]


def test_continue_without_any_region_needs_resume_code() -> None:
    with pytest.raises(RuntimeError, match="no region"):
        Continue(Site(5, None, 0, True), add, (), [1])()


def test_callee_that_goes_on_is_awaited() -> None:
    """An inlined callee breaks: it goes on first, then its caller, in a piece of its own."""
    inner, outer = Site(7, None, 0, False), Site(8, None, 0, True)

    def await_call(slot0: Any, box: Any) -> Any:
        (onward,) = box
        return 0, slot0, onward()

    instruction = Break(code_of(await_call), (outer,), True)

    def start(a: Any, b: Any) -> Continue:
        return Continue(instruction, add, (), (a, Continue(inner, add, (), (b,))))

    recorder = Resumable(
        add=lambda values: entry(0, 1, epilogue=start, arguments=(0, 1)),
        sites={
            7: lambda values: entry(0, graph=lambda b: (b * 10,)),
            8: lambda values: entry(0, 1, epilogue=lambda *i: i, arguments=(0, 1)),
        },
    )
    compiled = recorder(add)
    assert [compiled(1, 2), compiled(1, 3)] == [(1, 20), (1, 30)]


def test_continue_in_a_cycle_is_collected() -> None:
    site = Site(5, None, 0, True)
    thing: Any = Thing()
    thing.onward = Continue(site, add, (), [thing])
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is None


def test_state_hands_its_items_over() -> None:
    thing = Thing()
    before = sys.getrefcount(thing)
    box = State([thing, 2])
    assert len(box) == 2
    assert next(box) is thing
    assert sys.getrefcount(thing) == before
    assert list(box) == [2]
    assert list(box) == []
    a, b = State((1, 2))
    assert (a, b) == (1, 2)


def test_state_in_a_cycle_is_collected() -> None:
    thing: Any = Thing()
    thing.box = State([thing])
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is None


def test_native_counters() -> None:
    before = _native.stats()
    compiled = CompiledFunction(add, Recorder(add=lambda values: entry(0, 1, epilogue=0)).region)
    compiled(1, 2)
    compiled(1, 2)
    after = _native.stats()
    assert after["hits"] - before["hits"] == 2
    assert after["converted"] - before["converted"] == 1
