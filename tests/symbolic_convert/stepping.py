"""Holds a driver in Python for the codes that resume.py makes; the native one does the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from capture.instructions.decode import decode
from capture.instructions.instruction import Instruction
from capture.instructions.ops import Op
from capture.symbolic_convert import resume
from capture.symbolic_convert.loop_code import FINISHED, make_loop_code
from capture.symbolic_convert.resume import BreakCode, Layout, Slot


class Box:
    """Hands its items over and forgets them; takes the list over."""

    def __init__(self, items: list[object]) -> None:
        items.reverse()
        self.items = items

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        if not self.items:
            raise StopIteration
        return self.items.pop()


@dataclass
class State:
    """A frame between two instructions."""

    index: int
    layout: Layout
    values: list[object]


Key = tuple[int, int, Layout]


class Stepper:
    """Runs one function instruction by instruction."""

    break_codes: dict[Key, BreakCode]
    resume_codes: dict[Key, CodeType]
    loop_codes: dict[Key, BreakCode | None]

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.code = function.__code__
        self.decoded = decode(self.code)
        self.break_codes = {}
        self.resume_codes = {}
        self.loop_codes = {}
        self.made = 0
        self.loops = 0

    def start(self, *args: object) -> tuple[State, tuple[CellType, ...]]:
        """Return the state at the first instruction behind the making of cells, and the cells."""
        code = self.code
        names = code.co_varnames[: code.co_argcount]
        given = dict(zip(names, args, strict=True))
        cells = [CellType(given[n]) if n in given else CellType() for n in code.co_cellvars]
        cells.extend(self.function.__closure__ or ())
        index = 0
        while self.decoded.instructions[index].op is Op.MAKE_CELL:
            index += 1
        in_cell = bool(names) and names[0] in code.co_cellvars
        plain = tuple(name for name in names if name not in code.co_cellvars)
        values = [given[names[0]]] if in_cell else []
        values += [given[name] for name in plain]
        return State(index, Layout(plain, (), in_cell), values), tuple(cells)

    def call(self, code: CodeType, cells: tuple[CellType, ...], state: State) -> Any:
        """Call a made code with the state's values, which the state gives away."""
        values, layout = state.values, state.layout
        state.values = []
        function = FunctionType(code, self.function.__globals__, closure=cells or None)
        if not resume.takes_slot0(self.code):
            return function(Box(values))
        arg0 = self.code.co_varnames[0]
        bound = layout.arg0_in_cell or (arg0 not in self.code.co_cellvars and arg0 in layout.locals)
        return function(values.pop(0) if bound else None, Box(values))

    def instruction(self, state: State) -> Instruction:
        """Return the instruction that the state stands before."""
        return self.decoded.instructions[state.index]

    def step(self, state: State, cells: tuple[CellType, ...]) -> State:
        """Run one instruction natively."""
        key = (id(self.code), state.index, state.layout)
        broken = self.break_codes.get(key)
        if broken is None:
            broken = resume.make_break_code(self.code, state.index, state.layout)
            self.break_codes[key] = broken
        handled = sys.exception()
        number, *values = self.call(broken.code, cells, state)
        assert sys.exception() is handled
        outcome = broken.outcomes[number]
        expected = sum(slot is not Slot.NULL for slot in outcome.layout.stack)
        expected += len(outcome.layout.locals) + outcome.layout.arg0_in_cell
        assert len(values) == expected
        return State(outcome.index, outcome.layout, values)

    def resume(self, state: State, cells: tuple[CellType, ...]) -> Any:
        """Finish the frame natively."""
        key = (id(self.code), state.index, state.layout)
        code = self.resume_codes.get(key)
        if code is None:
            code = resume.make_resume_code(self.code, state.index, state.layout)
            self.resume_codes[key] = code
        return self.call(code, cells, state)

    def run(self, args: Sequence[object], steps: int) -> Any:
        """Run ``steps`` instructions one by one, then the rest natively; ``made`` counts them.

        With ``steps`` below zero everything is stepped through, down to the return.
        """
        state, cells = self.start(*args)
        self.made = 0
        while self.made != steps and self.instruction(state).op is not Op.RETURN_VALUE:
            state = self.step(state, cells)
            self.made += 1
        return self.resume(state, cells)

    def loop_code(self, state: State) -> BreakCode | None:
        """Return what runs the rest of the loop around the state."""
        key = (id(self.code), state.index, state.layout)
        if key not in self.loop_codes:
            self.loop_codes[key] = make_loop_code(self.code, state.index, state.layout)
        return self.loop_codes[key]

    def run_loops(self, args: Sequence[object], after: int) -> Any:
        """Step through; from the ``after``-th instruction on, run the rest of loops at once.

        ``made`` counts the instructions, ``loops`` the loops that were run so.
        """
        state, cells = self.start(*args)
        self.made = self.loops = 0
        while self.instruction(state).op is not Op.RETURN_VALUE:
            made = None
            if self.made >= after:
                made = self.loop_code(state)
            if made is None:
                state = self.step(state, cells)
                self.made += 1
                continue
            self.loops += 1
            number, *values = self.call(made.code, cells, state)
            if number == FINISHED:
                return values[0]
            outcome = made.outcomes[number]
            state = State(outcome.index, outcome.layout, values)
        return self.resume(state, cells)


def outcome_of(call: Callable[[], object]) -> tuple[object, ...]:
    """Return what a call gives or raises, in a form that compares."""
    try:
        return "returned", call()
    except BaseException as error:
        chain: list[object] = []
        current: BaseException | None = error
        while current is not None:
            chain.append((type(current), str(current)))
            current = current.__cause__ or current.__context__
        return "raised", tuple(chain)
