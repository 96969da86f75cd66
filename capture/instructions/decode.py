"""Holds the decoder: code object to canonical instructions; must not know assembling or torch."""

from __future__ import annotations

import dis
import itertools
import weakref
from types import CodeType

from capture.errors import InternalError, UnsupportedPythonError
from capture.instructions.instruction import ExceptionEntry, Instruction, Position
from capture.instructions.versions import DROPPED, RAISE, UNSUPPORTED
from capture.instructions.versions.rules import RaiseRule, Reader, find_shared_slots

__all__ = ["DecodedCode", "decode"]

_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_RULES: list[RaiseRule | None] = [RAISE.get(name) for name in dis.opname]
_DROPPED = frozenset(dis.opmap[name] for name in DROPPED)
_HIDES_LOCALS = "LOAD_FAST_AND_CLEAR" in dis.opmap  # comprehensions are inlined


class DecodedCode:
    """A code object's canonical form; treat it as frozen, it is shared.

    Attributes:
        instructions: the canonical instructions; an instruction's ``index`` is its place here.
        exception_table: the exception entries, in order and disjoint.
        remade_cells: cell variables for which a comprehension makes a cell of its own (3.12+).
    """

    __slots__ = ("__weakref__", "_code", "_handlers", "exception_table", "instructions",
                 "remade_cells")  # fmt: skip

    def __init__(
        self,
        code: CodeType,
        instructions: list[Instruction],
        exception_table: list[ExceptionEntry],
        remade_cells: frozenset[str],
    ) -> None:
        self._code = weakref.ref(code)
        self.instructions = instructions
        self.exception_table = exception_table
        self.remade_cells = remade_cells
        self._handlers: list[ExceptionEntry | None] | None = None

    @property
    def code(self) -> CodeType:
        """The code object; only its user keeps it alive, the decoded form does not."""
        code = self._code()
        if code is None:
            raise InternalError("the decoded code object is gone")
        return code

    def handler_at(self, index: int) -> ExceptionEntry | None:
        """Return the exception entry that covers the instruction, or None."""
        if not self.exception_table:
            return None
        if self._handlers is None:
            self._handlers = [None] * len(self.instructions)
            for entry in self.exception_table:
                for covered in range(entry.start, entry.end):
                    self._handlers[covered] = entry
        return self._handlers[index]


# Code objects compare by content, so the cache goes by identity.
_decoded: dict[int, tuple[weakref.ref[CodeType], DecodedCode]] = {}


def decode(code: CodeType) -> DecodedCode:
    """Return the canonical form of a code object of the running Python.

    Raises:
        UnsupportedPythonError: it holds an instruction that is not supported.
    """
    key = id(code)
    known = _decoded.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    decoded = _decode(code)

    def forget(reference: weakref.ref[CodeType]) -> None:
        entry = _decoded.get(key)
        if entry is not None and entry[0] is reference:
            del _decoded[key]

    _decoded[key] = (weakref.ref(code, forget), decoded)
    return decoded


def _decode(code: CodeType) -> DecodedCode:
    reader = Reader(code)
    raw = reader.raw = code.co_code
    if _HIDES_LOCALS and code.co_cellvars:
        find_shared_slots(reader, dis.opmap)
    instructions = reader.instructions
    index_at: list[int] = []  # by raw unit: the first canonical instruction there or behind
    extended = 0
    rules, dropped = _RULES, _DROPPED
    last_place: tuple[int | None, ...] = ()
    units = len(raw) // 2
    # A line table that the program made may tell of too few instructions, or of too many.
    places = itertools.chain(code.co_positions(), itertools.repeat((None, None, None, None)))
    for unit, place in zip(range(units), places, strict=False):
        index_at.append(len(instructions))
        opcode = raw[2 * unit]
        if opcode in dropped:
            if opcode == _EXTENDED_ARG:
                extended = (extended | raw[2 * unit + 1]) << 8
            continue
        rule = rules[opcode]
        if rule is None:
            raise _unsupported(code, opcode)
        if place != last_place:
            last_place = place
            reader.position = Position(*place)
        reader.offset = 2 * unit
        reader.opcode = opcode
        rule(reader, extended | raw[2 * unit + 1])
        extended = 0
    index_at.append(len(instructions))
    for instruction in instructions:
        if instruction.target >= 0:
            instruction.target = index_at[instruction.target >> 1]
    entries = _exception_entries(code.co_exceptiontable, index_at)
    return DecodedCode(code, instructions, entries, reader.remade)


def _unsupported(code: CodeType, opcode: int) -> UnsupportedPythonError:
    name = dis.opname[opcode]
    reason = UNSUPPORTED.get(name, "is not known")
    return UnsupportedPythonError(f"{code.co_qualname}: instruction {name} {reason}")


def _exception_entries(table: bytes, index_at: list[int]) -> list[ExceptionEntry]:
    """Parse an exception table (the format is CPython's Objects/exception_handling_notes.txt)."""
    entries: list[ExceptionEntry] = []
    numbers: list[int] = []
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if byte & 64:
            continue
        numbers.append(number)
        number = 0
        if len(numbers) == 4:
            start, length, target, depth = numbers
            first, end = index_at[start], index_at[start + length]
            if first < end:  # else it covers dropped instructions only
                entries.append(
                    ExceptionEntry(first, end, index_at[target], depth >> 1, bool(depth & 1))
                )
            numbers = []
    return entries
