"""Holds the making of break, await and resume code from a user's code object.

A frame that leaves its captured stretch goes on in code made here: a *break code* runs one
instruction natively, an *await code* runs the rest of a callee in the place of a call, a *resume
code* is the original bytecode behind a prologue that restores a state and jumps into the middle.
Must not know variables, guards or graphs.

The state is a ``Layout`` and values: the arguments of the code and the items of its ``.box``. All
cells of the frame come as the closure, so every cell is a free variable here. Argument slot 0 keeps
its place, because ``super()`` without arguments looks for it there. A ``PREV_EXC`` slot stands for
"inside this handler": its value is the exception being handled there (whether or not it is also on
the stack), and the prologue enters the handler with it. A name of ``DecodedCode.remade_cells`` in
``Layout.locals`` stands for the cell that its slot holds in the place of the frame's own.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import cast

from capture.errors import InternalError
from capture.instructions.analysis import pops_pushes
from capture.instructions.assemble import assemble
from capture.instructions.decode import decode
from capture.instructions.instruction import ExceptionEntry, Instruction, Position
from capture.instructions.ops import JUMPS, TERMINATORS, Op
from capture.instructions.versions import LOWER, NULL_BEFORE_CALLABLE

__all__ = [
    "SILENT",
    "BreakCode",
    "FrameCode",
    "Layout",
    "Outcome",
    "Slot",
    "layout_after",
    "make_await_code",
    "make_break_code",
    "make_resume_code",
    "takes_slot0",
]

BOX = ".box"
_PLAIN_OPS = frozenset({Op.LOAD_FAST, Op.STORE_FAST, Op.DELETE_FAST, Op.LOAD_FAST_AND_CLEAR})
_GENERATOR_FLAGS = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
_DOCSTRING_AND_METHOD = 0x4000000 | 0x8000000  # of the compiler's own, since 3.13
_DROPPED_FLAGS = (
    _GENERATOR_FLAGS | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | _DOCSTRING_AND_METHOD
)
#: Instructions that cannot raise, so a handler around them is no outcome.
SILENT = frozenset(
    {
        Op.LOAD_CONST,
        Op.LOAD_FAST_AND_CLEAR,
        Op.LOAD_CELL_AND_CLEAR,
        Op.STORE_CELL,
        Op.STORE_FAST,
        Op.STORE_DEREF,
        Op.MAKE_CELL,
        Op.LOAD_CLOSURE,
        Op.PUSH_NULL,
        Op.POP_TOP,
        Op.COPY,
        Op.SWAP,
        Op.IS_OP,
        Op.JUMP,
        Op.POP_JUMP_IF_TRUE,
        Op.POP_JUMP_IF_FALSE,
        Op.POP_JUMP_IF_NONE,
        Op.POP_JUMP_IF_NOT_NONE,
        Op.BUILD_TUPLE,
        Op.BUILD_LIST,
        Op.LIST_APPEND,
        Op.LIST_TO_TUPLE,
        Op.PUSH_EXC_INFO,
        Op.POP_EXCEPT,
    }
)
_PLACEHOLDER = Exception()  # what is handled for the time of no instruction of the program
_NOT_ALONE = frozenset({Op.RETURN_VALUE, Op.RETURN_GENERATOR, Op.YIELD_VALUE, Op.SEND})


class Slot(enum.IntEnum):
    """What a slot of the stack is."""

    VALUE = 0
    NULL = 1
    PREV_EXC = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of a frame's state.

    Attributes:
        locals: bound plain locals, in the order of ``co_varnames``.
        stack: the slots of the stack, bottom first.
        arg0_in_cell: whether argument slot 0 lives in a cell that is not empty.
    """

    locals: tuple[str, ...]
    stack: tuple[Slot, ...] = ()
    arg0_in_cell: bool = False


@dataclass(frozen=True)
class Outcome:
    """Where a frame goes on: canonical index of the original code, and the state's shape."""

    index: int
    layout: Layout


@dataclass(frozen=True)
class BreakCode:
    """Code that runs one instruction and returns ``(number of the outcome, *values)``."""

    code: CodeType
    outcomes: tuple[Outcome, ...]


def takes_slot0(code: CodeType) -> bool:
    """Tell whether codes made from ``code`` take the value of argument slot 0 before the box."""
    return _count_arguments(code) > 0


def layout_after(code: CodeType, index: int, layout: Layout, *, jump: bool = False) -> Layout:
    """Return the state's shape behind the instruction at ``index`` (where it jumps to, if asked).

    A method load leaves NULL and the bound method, as break code does.
    """
    return FrameCode(code, index).after(layout, jump=jump)


def make_break_code(code: CodeType, index: int, layout: Layout) -> BreakCode:
    """Make code that runs the canonical instruction at ``index`` natively.

    Args:
        code: the original code object.
        index: the canonical index.
        layout: the state before the instruction.

    Raises:
        InternalError: the instruction cannot run on its own, or does not fit the layout.
    """
    frame = FrameCode(code, index)
    instruction = frame.instruction
    if instruction.op in _NOT_ALONE:
        raise InternalError(f"{code.co_qualname}: {instruction} cannot run on its own")
    frame.restore(layout)
    start = frame.begin_guarded()
    ways: list[tuple[int, Outcome]] = []  # place of the jump that leads there, or -1
    if instruction.op is Op.JUMP:
        ways.append((-1, Outcome(instruction.target, layout)))
    else:
        frame.run_alone(layout)
        if instruction.op not in TERMINATORS:
            ways.append((-1, Outcome(index + 1, frame.after(layout))))
        if instruction.op in JUMPS:
            target = Outcome(instruction.target, frame.after(layout, jump=True))
            ways.append((len(frame.out) - 1, target))
    end = len(frame.out)
    outcomes: list[Outcome] = []
    for place, outcome in ways:
        if place >= 0:
            frame.out[place].target = len(frame.out)
        frame.hand_over(len(outcomes), outcome.layout)
        outcomes.append(outcome)
    if instruction.op in (Op.LOAD_DEREF, Op.DELETE_DEREF) and instruction.arg in code.co_cellvars:
        start, end = frame.raise_unbound(start, len(layout.stack))
    if instruction.op not in SILENT:
        outcomes.extend(frame.catch(start, end, layout, len(outcomes)))
    return BreakCode(frame.assemble(), tuple(outcomes))


def make_await_code(code: CodeType, index: int, layout: Layout, discard: bool) -> BreakCode:
    """Make code that calls the last value in the place of the call at ``index``.

    Args:
        code: the original code object.
        index: the canonical index of an instruction whose callee goes on elsewhere.
        layout: the state with the instruction's operands popped; the values have one more item,
            a callable without arguments that gives the result.
        discard: whether the result is dropped instead of pushed.
    """
    frame = FrameCode(code, index)
    callee = (Slot.NULL, Slot.VALUE) if NULL_BEFORE_CALLABLE else (Slot.VALUE, Slot.NULL)
    frame.restore(replace(layout, stack=layout.stack + callee))
    start = frame.begin_guarded()
    frame.emit(Op.CALL, (0, ()))
    end = len(frame.out)
    after = layout
    if discard:
        frame.emit(Op.POP_TOP)
    else:
        after = replace(layout, stack=(*layout.stack, Slot.VALUE))
    frame.hand_over(0, after)
    outcomes = [Outcome(index + 1, after), *frame.catch(start, end, layout, 1)]
    return BreakCode(frame.assemble(), tuple(outcomes))


def make_resume_code(code: CodeType, index: int, layout: Layout) -> CodeType:
    """Make code that restores a state and finishes the frame from the instruction at ``index``."""
    frame = FrameCode(code, index)
    frame.restore(layout)
    jump = frame.emit(Op.JUMP)
    places = frame.copy_body()
    jump.target = places[index]
    return frame.assemble()


def _count_arguments(code: CodeType) -> int:
    star = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + star


class FrameCode:
    """The code being made from ``code`` around its instruction ``index``."""

    def __init__(self, code: CodeType, index: int) -> None:
        if code.co_flags & _GENERATOR_FLAGS:
            raise InternalError(f"{code.co_qualname} is a generator or coroutine")
        self.code = code
        self.index = index
        self.decoded = decode(code)
        self.instruction = self.decoded.instructions[index]
        self.position: Position | None = self.instruction.position
        self.out: list[Instruction] = []
        self.entries: list[ExceptionEntry] = []
        self.cells = (*code.co_cellvars, *code.co_freevars)
        self.remade = self.decoded.remade_cells
        self.order = {name: place for place, name in enumerate(code.co_varnames)}
        self.arg0: str | None = code.co_varnames[0] if _count_arguments(code) else None
        self.arg0_is_cell = self.arg0 in code.co_cellvars
        self.slot0: str | None = self.arg0
        if self.arg0_is_cell and any(
            inst.op in _PLAIN_OPS and inst.arg == self.arg0 for inst in self.decoded.instructions
        ):
            self.slot0 = f".{self.arg0}"  # a comprehension has a plain local of this name

    def emit(self, op: Op, arg: object = None) -> Instruction:
        """Append an instruction."""
        instruction = Instruction(op, arg, len(self.out), -1, self.position)
        self.out.append(instruction)
        return instruction

    # --- into the state and out of it ---

    def restore(self, layout: Layout) -> None:
        """Write the prologue: unpack the box into locals and stack, enter handlers."""
        names = list(layout.locals)
        if self.slot0 is not None and not layout.arg0_in_cell:
            if not self.arg0_is_cell and self.arg0 in names:
                names.remove(self.slot0)
            else:
                self.emit(Op.DELETE_FAST, self.slot0)
        values = [slot for slot in layout.stack if slot is not Slot.NULL]
        self._take(BOX)
        if names or values:
            self.emit(Op.UNPACK_SEQUENCE, len(names) + len(values))
        else:
            self.emit(Op.POP_TOP)
        for name in names:
            self.emit(Op.STORE_CELL if name in self.remade else Op.STORE_FAST, name)
        if all(slot is Slot.VALUE for slot in layout.stack) and len(values) <= 2:
            if len(values) == 2:  # unpacking left the first on top
                self.emit(Op.SWAP, 2)
            return
        hidden = [f".{place}" for place in range(len(values))]
        for name in hidden:
            self.emit(Op.STORE_FAST, name)
        for slot in layout.stack:
            if slot is Slot.NULL:
                self.emit(Op.PUSH_NULL)
                continue
            self._take(hidden.pop(0))
            if slot is Slot.PREV_EXC:
                self.emit(Op.PUSH_EXC_INFO)
                self.emit(Op.POP_TOP)

    def hand_over(
        self, number: int, layout: Layout, *, caught: bool = False, lasti: int | None = None
    ) -> None:
        """Write the way out: leave handlers, return the number and the values.

        Args:
            number: the number of the outcome.
            layout: the state's shape.
            caught: whether the top value is an exception just caught. Its traceback keeps this
                frame, which must not keep what the program deletes or rebinds from now on.
            lasti: a constant to hand over below the top value; the layout has a slot for it, the
                real stack has not.
        """
        stack = list(layout.stack)
        if lasti is not None:
            del stack[-2]
        hidden: list[str] = []
        for place in reversed(range(len(stack))):
            slot = stack[place]
            if slot is Slot.PREV_EXC:
                self._copy_handled()
            name = f".{place}"
            self.emit(Op.STORE_FAST, name)  # storing NULL pops it
            if slot is Slot.PREV_EXC:
                self.emit(Op.POP_EXCEPT)
            if slot is not Slot.NULL:
                hidden.append(name)
        hidden.reverse()
        self.emit(Op.LOAD_CONST, number)
        if layout.arg0_in_cell:
            assert self.slot0 is not None
            self._take(self.slot0)
        for name in layout.locals:
            if name in self.remade:
                self.emit(Op.LOAD_CLOSURE, name)
            elif caught:
                self._take(name)
            else:
                self.emit(Op.LOAD_FAST, name)
        for name in hidden[:-1] if lasti is not None else hidden:
            self._take(name)
        if lasti is not None:
            self.emit(Op.LOAD_CONST, lasti)
            self._take(hidden[-1])
        count = 1 + layout.arg0_in_cell + len(layout.locals) + len(hidden) + (lasti is not None)
        self.emit(Op.BUILD_TUPLE, count)
        self.emit(Op.RETURN_VALUE)

    def begin_guarded(self) -> int:
        """Begin what ``catch`` guards; return its place."""
        if self.decoded.handler_at(self.index) is not None:
            # 3.13 looks an exception that leaves a Python callee up one unit before the call
            # (resume_with_error in ceval.c), so no call may be the first in its entry.
            self.emit(Op.NOP)
            return len(self.out) - 1
        return len(self.out)

    def raise_unbound(self, start: int, depth: int) -> tuple[int, int]:
        """Write what raises UnboundLocalError in place of the NameError of a free variable.

        The cells of the original's own variables are free variables here.

        Returns:
            The places that may raise now.
        """
        place = next(
            i for i in range(start, len(self.out)) if self.out[i].op is self.instruction.op
        )
        handler = len(self.out)
        self.entries.append(ExceptionEntry(place, place + 1, handler, depth, False))
        self.emit(Op.POP_TOP)
        text = "cannot access local variable {!r} where it is not associated with a value"
        message = text.format(self.instruction.arg)
        self._call_constant(functools.partial(UnboundLocalError, message))
        self.emit(Op.RAISE_VARARGS, 1)
        return handler, len(self.out)

    def catch(self, start: int, end: int, layout: Layout, number: int) -> list[Outcome]:
        """Write the way out into the handler around the instruction, if there is one.

        Args:
            start: place of the first guarded instruction.
            end: place behind the last one.
            layout: the state before the instruction.
            number: the number of the outcome.
        """
        entry = self.decoded.handler_at(self.index)
        if entry is None:
            return []
        kept = layout.stack[: entry.depth]
        if len(kept) < entry.depth or Slot.PREV_EXC in layout.stack[entry.depth :]:
            raise InternalError(f"{self.code.co_qualname}: {entry} does not fit {layout}")
        self.entries.append(ExceptionEntry(start, end, len(self.out), entry.depth, False))
        values = (Slot.VALUE, Slot.VALUE) if entry.lasti else (Slot.VALUE,)
        caught = replace(layout, stack=kept + values)
        lasti = self.instruction.offset // 2 if entry.lasti else None
        self.hand_over(number, caught, caught=True, lasti=lasti)
        return [Outcome(entry.target, caught)]

    def _take(self, name: str) -> None:
        """Move a hidden local to the stack."""
        if Op.LOAD_FAST_AND_CLEAR in LOWER:
            self.emit(Op.LOAD_FAST_AND_CLEAR, name)
        else:
            self.emit(Op.LOAD_FAST, name)
            self.emit(Op.DELETE_FAST, name)

    def _copy_handled(self) -> None:
        """Push the exception being handled.

        Entering a handler leaves it on the stack. A call of ``sys.exception`` would do as well, but
        where the recursion limit is near it raises, and nobody would leave the handlers.
        """
        self.emit(Op.LOAD_CONST, _PLACEHOLDER)
        self.emit(Op.PUSH_EXC_INFO)
        self.emit(Op.POP_TOP)
        self.emit(Op.COPY, 1)
        self.emit(Op.POP_EXCEPT)

    def _call_constant(self, function: object) -> None:
        if NULL_BEFORE_CALLABLE:
            self.emit(Op.PUSH_NULL)
        self.emit(Op.LOAD_CONST, function)
        if not NULL_BEFORE_CALLABLE:
            self.emit(Op.PUSH_NULL)
        self.emit(Op.CALL, (0, ()))

    # --- the original's instructions ---

    def run_alone(self, layout: Layout) -> None:
        """Write the instruction so that it runs in the state of ``layout`` and a jump is last."""
        instruction = self.instruction
        op, arg = instruction.op, instruction.arg
        if op is Op.MAKE_CELL:
            if self._is_prefix(self.index):
                return  # the closure has the cell already
            if arg not in layout.locals:  # a layout cannot say that the slot is empty; make it so
                self.emit(Op.LOAD_CELL_AND_CLEAR, arg)
                self.emit(Op.STORE_FAST, ".0")
            self.emit(op, arg)
        elif op is Op.LOAD_METHOD or (op is Op.SUPER_ATTR and _is_pair(instruction)):
            if op is Op.LOAD_METHOD:
                self.emit(Op.LOAD_ATTR, arg)
            else:
                name, _, two_arguments = cast("tuple[str, bool, bool]", arg)
                self.emit(Op.SUPER_ATTR, (name, False, two_arguments))
            self.emit(Op.PUSH_NULL)
            if NULL_BEFORE_CALLABLE:
                self.emit(Op.SWAP, 2)
        else:
            self.copy(instruction)

    def copy_body(self, finished: int | None = None) -> list[int]:
        """Append all the original's instructions; return their places.

        Args:
            finished: a number to return in front of the original's result.
        """
        instructions = self.decoded.instructions
        places: list[int] = []
        copies: list[Instruction] = []
        for instruction in instructions:
            places.append(len(self.out))
            if instruction.op is Op.MAKE_CELL and self._is_prefix(instruction.index):
                continue
            self.position = instruction.position
            if instruction.op is Op.RETURN_VALUE and finished is not None:
                self.emit(Op.LOAD_CONST, finished)
                self.emit(Op.SWAP, 2)
                self.emit(Op.BUILD_TUPLE, 2)
            jump = self.copy(instruction)
            if instruction.target >= 0:
                copies.append(jump)
        places.append(len(self.out))
        for jump in copies:
            jump.target = places[jump.target]
        self.entries.extend(
            replace(
                entry,
                start=places[entry.start],
                end=places[entry.end],
                target=places[entry.target],
            )
            for entry in self.decoded.exception_table
        )
        return places

    def copy(self, instruction: Instruction) -> Instruction:
        """Append an instruction of the original; slot 0 follows its cell."""
        op, arg = instruction.op, instruction.arg
        follows = arg == self.arg0 and self.arg0_is_cell
        if op is Op.STORE_DEREF and follows:
            self.emit(Op.COPY, 1)
            self.emit(Op.STORE_FAST, self.slot0)
        copy = self.emit(op, arg)
        copy.offset, copy.target = instruction.offset, instruction.target
        if op is Op.DELETE_DEREF and follows:
            self.emit(Op.LOAD_CONST, None)  # slot 0 may be empty already, so no plain delete
            self.emit(Op.STORE_FAST, self.slot0)
            self.emit(Op.DELETE_FAST, self.slot0)
        return copy

    def _is_prefix(self, index: int) -> bool:
        """Tell whether all up to the instruction makes cells at the frame's start."""
        return all(inst.op is Op.MAKE_CELL for inst in self.decoded.instructions[: index + 1])

    def after(self, layout: Layout, *, jump: bool = False) -> Layout:
        """Return the state's shape behind the instruction."""
        instruction = self.instruction
        op, arg = instruction.op, instruction.arg
        pops, pushes = pops_pushes(op, arg, jump=jump)
        if len(layout.stack) < pops:
            raise InternalError(f"{self.code.co_qualname}: {instruction} does not fit {layout}")
        kept = layout.stack[: len(layout.stack) - pops]
        popped = layout.stack[len(layout.stack) - pops :]
        if Slot.PREV_EXC in popped and op is not Op.POP_EXCEPT:
            raise InternalError(f"{self.code.co_qualname}: {instruction} pops a handler's state")
        stack = kept + self._pushed(instruction, layout, popped, pushes)
        if op is Op.SWAP:
            other = -_number(arg)
            swapped = list(stack)
            swapped[-1], swapped[other] = swapped[other], swapped[-1]
            stack = tuple(swapped)
        if op is Op.COPY and stack[-1] is Slot.PREV_EXC:
            # Cleanup code copies it to leave the handler by the copy, so that is the one that
            # counts; what stays below is a value that nobody reads.
            place = -1 - _number(arg)
            stack = (*stack[:place], Slot.VALUE, *stack[place + 1 :])
        bound = set(layout.locals)
        if op is Op.STORE_FAST and popped == (Slot.NULL,):
            bound.discard(str(arg))
        elif op in (Op.STORE_FAST, Op.STORE_CELL):
            bound.add(str(arg))
        elif op is Op.MAKE_CELL and arg in self.remade and not self._is_prefix(self.index):
            bound.add(str(arg))
        elif op in (Op.DELETE_FAST, Op.LOAD_FAST_AND_CLEAR, Op.LOAD_CELL_AND_CLEAR):
            bound.discard(str(arg))
        arg0_in_cell = layout.arg0_in_cell
        if self.arg0_is_cell and arg == self.arg0 and op in (Op.STORE_DEREF, Op.DELETE_DEREF):
            arg0_in_cell = op is Op.STORE_DEREF
        names = tuple(sorted(bound, key=self.order.__getitem__))
        return Layout(names, stack, arg0_in_cell)

    def _pushed(
        self, instruction: Instruction, layout: Layout, popped: Sequence[Slot], pushes: int
    ) -> tuple[Slot, ...]:
        op, arg = instruction.op, instruction.arg
        if op is Op.PUSH_NULL or (op is Op.LOAD_FAST_AND_CLEAR and arg not in layout.locals):
            return (Slot.NULL,)
        if op is Op.COPY:
            return (layout.stack[-_number(arg)],)
        if op is Op.PUSH_EXC_INFO:
            return (Slot.PREV_EXC, Slot.VALUE)
        if op is Op.LOAD_METHOD or (op is Op.SUPER_ATTR and _is_pair(instruction)):
            pair = (Slot.NULL, Slot.VALUE)
            return pair if NULL_BEFORE_CALLABLE else pair[::-1]
        return (Slot.VALUE,) * pushes

    def assemble(self) -> CodeType:
        """Return the code object."""
        code = self.code
        arguments = (BOX,) if self.slot0 is None else (self.slot0, BOX)
        cells = set(self.cells)
        return assemble(
            self.out,
            name=code.co_name,
            qualname=code.co_qualname,
            filename=code.co_filename,
            firstlineno=code.co_firstlineno,
            argnames=arguments,
            varnames=[name for name in code.co_varnames if name not in cells],
            freevars=self.cells,
            flags=code.co_flags & ~_DROPPED_FLAGS | inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS,
            exception_table=self.entries,
        )


def _is_pair(instruction: Instruction) -> bool:
    arg = instruction.arg
    return isinstance(arg, tuple) and bool(arg[1])


def _number(arg: object) -> int:
    assert isinstance(arg, int)
    return arg
