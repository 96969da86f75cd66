"""Holds the assembler: canonical instructions to a code object; the only user of ``bytecode``.

Chooses jump directions, adds what the running Python's code needs besides the instructions
(caches, RESUME, COPY_FREE_VARS, missing MAKE_CELLs), and computes stack size and jumps itself;
``bytecode`` writes the bytes and the tables. Must not know where the instructions come from.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING

from capture.errors import InternalError
from capture.instructions.analysis import stack_depths
from capture.instructions.instruction import ExceptionEntry, Instruction, Position
from capture.instructions.ops import JUMPS, TERMINATORS, Op
from capture.instructions.versions import FOR_END, LOWER
from capture.instructions.versions.rules import RawInstruction, Writer, cache_entries

if TYPE_CHECKING:
    from bytecode import ConcreteBytecode, ConcreteInstr
    from bytecode.concrete import ExceptionTableEntry
    from bytecode.instr import InstrLocation

__all__ = ["assemble"]

_CACHES = cache_entries()
#: Room for what a raw instruction sequence pushes in passing (keyword names, a second copy).
_SLACK = 2


def assemble(
    instructions: Sequence[Instruction],
    *,
    name: str,
    filename: str,
    firstlineno: int,
    qualname: str | None = None,
    argnames: Sequence[str] = (),
    varnames: Sequence[str] = (),
    cellvars: Sequence[str] = (),
    freevars: Sequence[str] = (),
    flags: int = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS,
    exception_table: Sequence[ExceptionEntry] = (),
    stacksize: int | None = None,
    posonlyargcount: int = 0,
    kwonlyargcount: int = 0,
) -> CodeType:
    """Build a code object.

    Args:
        instructions: canonical instructions; a jump target is a place in this very list, whatever
            the instructions' ``index`` says.
        name: ``co_name``.
        filename: ``co_filename``.
        firstlineno: ``co_firstlineno``.
        qualname: ``co_qualname``; ``name`` if None.
        argnames: all arguments, those of ``*`` and ``**`` last, as ``flags`` says.
        varnames: plain locals; the arguments are put first, and used names not given are added.
        cellvars: cells that the code makes; a missing MAKE_CELL is added.
        freevars: variables of the closure.
        flags: ``co_flags``.
        exception_table: disjoint entries in order; places in ``instructions``.
        stacksize: ``co_stacksize``; computed if None.
        posonlyargcount: ``co_posonlyargcount``.
        kwonlyargcount: ``co_kwonlyargcount``.

    Raises:
        InternalError: the instructions are not sound: unbalanced stack, missing name or target.
    """
    try:
        if stacksize is None:
            stacksize = _stack_size(instructions, exception_table)
        varnames = _all_varnames(instructions, argnames, varnames)
        lowered = _Lowered(instructions, exception_table, varnames, cellvars, freevars)
        sizes = lowered.resolve_jumps()
        concrete = _concrete(lowered, sizes, firstlineno)
    except InternalError as error:
        raise InternalError(f"{error}\n{listing(instructions, exception_table)}") from error
    star = bool(flags & inspect.CO_VARARGS) + bool(flags & inspect.CO_VARKEYWORDS)
    concrete.name = name
    concrete.qualname = name if qualname is None else qualname
    concrete.filename = filename
    concrete.first_lineno = firstlineno
    concrete.flags = flags
    concrete.argcount = len(argnames) - kwonlyargcount - star
    concrete.posonlyargcount = posonlyargcount
    concrete.kwonlyargcount = kwonlyargcount
    concrete.consts = lowered.writer.consts
    concrete.names = list(lowered.writer.names)
    concrete.varnames = list(varnames)
    concrete.cellvars = list(cellvars)
    concrete.freevars = list(freevars)
    concrete.exception_table = lowered.exception_entries(sizes)
    return concrete.to_code(stacksize=stacksize, compute_exception_stack_depths=False)


def listing(
    instructions: Sequence[Instruction], exception_table: Sequence[ExceptionEntry] = ()
) -> str:
    """Return the instructions as text, one a line, for error messages and dumps."""
    lines = [f"{place:4}: {str(inst)[5:]}" for place, inst in enumerate(instructions)]
    return "\n".join(lines + [str(entry) for entry in exception_table])


def _stack_size(
    instructions: Sequence[Instruction], exception_table: Sequence[ExceptionEntry]
) -> int:
    # No operation leaves more slots in passing than before or behind it, SLACK aside, and the
    # depth behind it is the depth before another one.
    depths = stack_depths(instructions, exception_table)
    return max(depths, default=0) + _SLACK


_PLAIN = frozenset({Op.LOAD_FAST, Op.STORE_FAST, Op.DELETE_FAST, Op.LOAD_FAST_AND_CLEAR})


def _all_varnames(
    instructions: Sequence[Instruction], argnames: Sequence[str], varnames: Sequence[str]
) -> list[str]:
    names = dict.fromkeys((*argnames, *varnames))
    for instruction in instructions:
        if instruction.op in _PLAIN:
            names.setdefault(str(instruction.arg))
    return list(names)


class _Lowered:
    """Raw instructions, with labels not yet resolved."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        exception_table: Sequence[ExceptionEntry],
        varnames: Sequence[str],
        cellvars: Sequence[str],
        freevars: Sequence[str],
    ) -> None:
        self.exception_table = exception_table
        loops = {inst.target: inst.position for inst in instructions if inst.op is Op.FOR_ITER}
        targets = {inst.target for inst in instructions if inst.op in JUMPS}
        targets.update(entry.target for entry in exception_table)
        if targets and not 0 <= min(targets) <= max(targets) < len(instructions):
            raise InternalError("a jump or handler leads out of the code")
        self.writer = writer = Writer(instructions, varnames, cellvars, freevars, targets)
        #: by canonical place: the first raw instruction written for it
        self.starts: list[int] = []
        #: by the place behind a loop: where its end is put, and the position of the loop
        self.loop_ends = (
            {target: (writer.new_label(), position) for target, position in loops.items()}
            if FOR_END
            else {}
        )
        position = instructions[0].position if instructions else None
        writer.position = position
        if freevars:
            writer.emit("COPY_FREE_VARS", len(freevars))
        body = self._make_missing_cells(instructions, cellvars)
        start = body
        if start < len(instructions) and instructions[start].op is Op.RETURN_GENERATOR:
            start += 2  # the frame's first line is only reached once the generator runs
        written_ahead = 0
        for place, instruction in enumerate(instructions):
            if place == start:
                writer.emit("RESUME", 0)
            writer.place = place
            writer.position = instruction.position
            self._begin(place, instructions)
            if written_ahead:
                written_ahead -= 1
                continue
            rule = LOWER.get(instruction.op)
            if rule is None:
                raise InternalError(f"{instruction} does not exist on this Python")
            if instruction.op is Op.FOR_ITER and self.loop_ends:
                self._write_for_iter(instruction)
                continue
            written_ahead = rule(writer, instruction) or 0
        self.starts.append(len(writer.raw))

    def _make_missing_cells(
        self, instructions: Sequence[Instruction], cellvars: Sequence[str]
    ) -> int:
        """Write the MAKE_CELLs that are missing; return where those present end."""
        body = 0
        while body < len(instructions) and instructions[body].op is Op.MAKE_CELL:
            body += 1
        made = {inst.arg for inst in instructions[:body]}
        for name in cellvars:
            if name not in made:
                self.writer.emit("MAKE_CELL", self.writer.cell(name))
        return body

    def _begin(self, place: int, instructions: Sequence[Instruction]) -> None:
        """Put the label of a canonical instruction, behind the end of a loop if one ends here."""
        writer = self.writer
        self.starts.append(len(writer.raw))
        loop_end = self.loop_ends.get(place)
        if loop_end is not None:
            if place and instructions[place - 1].op not in TERMINATORS:
                writer.jump("JUMP_FORWARD", place)
            # What the loop skips must not be where a line begins: a trace would miss the line.
            position, (label, writer.position) = writer.position, loop_end
            writer.put_label(label)
            for name in FOR_END:
                writer.emit(name)
            writer.position = position
        writer.put_label(place)

    def _write_for_iter(self, instruction: Instruction) -> None:
        if self.writer.is_backward(instruction.target):
            raise InternalError(f"FOR_ITER cannot jump backward: {instruction}")
        self.writer.jump("FOR_ITER", self.loop_ends[instruction.target][0])

    def resolve_jumps(self) -> _Sizes:
        """Compute the jumps' arguments; return the sizes of the raw instructions in units."""
        raw, labels = self.writer.raw, self.writer.labels
        opcodes = [dis.opmap[inst.name] for inst in raw]
        caches = [_CACHES[opcode] for opcode in opcodes]
        prefixes = [_extended_args(inst.arg) for inst in raw]
        jumps = [place for place, inst in enumerate(raw) if inst.label is not None]
        sizes = _Sizes(prefixes, caches)
        changed = True
        while changed:  # an argument that outgrows its bytes moves what is behind it
            changed = False
            starts = sizes.starts = _starts(prefixes, caches)
            for place in jumps:
                inst = raw[place]
                assert inst.label is not None
                distance = starts[labels[inst.label]] - starts[place + 1]
                inst.arg = -distance if "BACKWARD" in inst.name else distance
                if inst.arg < 0:
                    raise InternalError(f"{inst.name} jumps in the wrong direction")
                needed = _extended_args(inst.arg)
                if needed > prefixes[place]:
                    prefixes[place] = needed
                    changed = True
        return sizes

    def exception_entries(self, sizes: _Sizes) -> list[ExceptionTableEntry]:
        """Return the exception table in raw units."""
        from bytecode.concrete import ExceptionTableEntry

        labels, starts, entries = self.writer.labels, sizes.starts, []
        for entry in self.exception_table:
            first, end = starts[self.starts[entry.start]], starts[self.starts[entry.end]]
            if first < end:
                target = starts[labels[entry.target]]
                entries.append(
                    ExceptionTableEntry(first, end - 1, target, entry.depth, entry.lasti)
                )
        return entries


class _Sizes:
    """How many units each raw instruction's EXTENDED_ARGs and caches take, and where it starts."""

    def __init__(self, prefixes: list[int], caches: list[int]) -> None:
        self.prefixes = prefixes
        self.caches = caches
        self.starts: list[int] = []


def _extended_args(arg: int | None) -> int:
    if arg is None or arg < 0x100:
        return 0
    return 1 if arg < 0x10000 else 2 if arg < 0x1000000 else 3


def _starts(prefixes: Iterable[int], caches: Iterable[int]) -> list[int]:
    starts, place = [0], 0
    for prefix, cached in zip(prefixes, caches, strict=True):
        place += prefix + 1 + cached
        starts.append(place)
    return starts


def _concrete(lowered: _Lowered, sizes: _Sizes, firstlineno: int) -> ConcreteBytecode:
    from bytecode import ConcreteBytecode, ConcreteInstr

    locations: dict[Position | None, InstrLocation] = {}
    concrete: list[ConcreteInstr] = []
    for inst, prefix, cached in zip(lowered.writer.raw, sizes.prefixes, sizes.caches, strict=True):
        location = locations.get(inst.position)
        if location is None:
            location = locations[inst.position] = _location(inst.position, firstlineno)
        concrete.append(_concrete_instr(inst, prefix, location))
        if cached:
            concrete.extend([ConcreteInstr("CACHE", 0, location=location)] * cached)
    return ConcreteBytecode(concrete)


def _concrete_instr(inst: RawInstruction, prefix: int, location: InstrLocation) -> ConcreteInstr:
    from bytecode import ConcreteInstr
    from bytecode.instr import opcode_has_argument

    if not opcode_has_argument(dis.opmap[inst.name]):
        return ConcreteInstr(inst.name, location=location)
    return ConcreteInstr(inst.name, inst.arg or 0, location=location, extended_args=prefix or None)


def _location(position: Position | None, firstlineno: int) -> InstrLocation:
    from bytecode.instr import InstrLocation

    if position is None:
        return InstrLocation(firstlineno, None, None, None)
    line, end_line, column, end_column = position
    if line is None:
        return InstrLocation(None, None, None, None)
    if end_line is None or column is None or end_column is None or end_line < line:
        return InstrLocation(line, None, None, None)
    return InstrLocation(line, end_line, column, end_column)
