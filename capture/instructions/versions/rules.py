"""Holds the reader and writer that the version tables are written against, and common rules.

A table's RAISE maps a raw opcode name to a rule that reads it; LOWER maps a canonical operation to
a rule that writes it. Must not know any one Python version beyond the names in its ``dis`` module.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, cast

from capture.errors import InternalError, UnsupportedPythonError
from capture.instructions.instruction import Instruction, Position
from capture.instructions.ops import Op

__all__ = ["FUNCTION_PARTS", "LowerRule", "RaiseRule", "Reader", "Writer", "cache_entries"]

#: What a function is made with besides its code, by the bit that asks for it.
FUNCTION_PARTS = {1: "defaults", 2: "kwdefaults", 4: "annotations", 8: "closure"}
CONVERSIONS = ("", "str", "repr", "ascii")
BINARY_SYMBOLS: tuple[str, ...] = tuple(symbol for _, symbol in getattr(dis, "_nb_ops"))  # noqa: B009
COMPARE_SYMBOLS: tuple[str, ...] = dis.cmp_op
BINARY_NUMBERS = {symbol: number for number, symbol in enumerate(BINARY_SYMBOLS)}
COMPARE_NUMBERS = {symbol: number for number, symbol in enumerate(COMPARE_SYMBOLS)}


def cache_entries() -> list[int]:
    """Return the number of inline cache units behind each raw opcode."""
    entries: Any = getattr(dis, "_inline_cache_entries")  # noqa: B009
    if isinstance(entries, dict):
        return [entries.get(name, 0) for name in dis.opname]
    return list(entries)


CACHES = cache_entries()


class Reader:
    """Collects canonical instructions while the raw ones of a code object are read in order."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.names = code.co_names
        self.consts = code.co_consts
        varnames = code.co_varnames
        bound = set(varnames)
        self.n_plain = len(varnames)
        self.slots = (
            *varnames,
            *(name for name in code.co_cellvars if name not in bound),
            *code.co_freevars,
        )
        # Slots that a comprehension uses for a variable of its own while the function's variable
        # of that name lives in a cell: plain ones, and ones where it makes another cell.
        self.shared: frozenset[str] = frozenset()
        self.remade: frozenset[str] = frozenset()
        self.cells = frozenset(code.co_cellvars)
        self.raw = b""
        self.opcode = 0
        self.offset = 0
        self.position: Position | None = None
        self.kwnames: tuple[str, ...] = ()
        self.skip_pop = False
        self.instructions: list[Instruction] = []

    def emit(self, op: Op, arg: object = None) -> None:
        """Append an instruction."""
        instructions = self.instructions
        instructions.append(Instruction(op, arg, len(instructions), self.offset, self.position, -1))

    def jump(self, op: Op, target: int, arg: object = None) -> None:
        """Append a jump to the raw byte offset ``target``."""
        instructions = self.instructions
        instructions.append(
            Instruction(op, arg, len(instructions), self.offset, self.position, target)
        )

    @property
    def next_offset(self) -> int:
        """The byte offset that relative jumps count from."""
        return self.offset + 2 + 2 * CACHES[self.opcode]

    def following(self, count: int) -> list[tuple[str, int]]:
        """Return name and argument of the next raw instructions, caches left out."""
        found: list[tuple[str, int]] = []
        offset, extended = self.offset + 2, 0
        while offset < len(self.raw) and len(found) < count:
            name, arg = dis.opname[self.raw[offset]], extended | self.raw[offset + 1]
            extended = arg << 8 if name == "EXTENDED_ARG" else 0
            if name not in ("CACHE", "EXTENDED_ARG"):
                found.append((name, arg))
            offset += 2
        return found


class RawInstruction:
    """A raw instruction whose jump target is still a label."""

    __slots__ = ("arg", "label", "name", "position")

    def __init__(
        self, name: str, arg: int | None, label: int | None, position: Position | None
    ) -> None:
        self.name = name
        self.arg = arg
        self.label = label
        self.position = position


class Writer:
    """Collects raw instructions while canonical ones are written in order.

    Labels: a label ``i >= 0`` is the canonical instruction ``i``; negative ones come from
    ``new_label``.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        varnames: Sequence[str],
        cellvars: Sequence[str],
        freevars: Sequence[str],
        targets: set[int],
    ) -> None:
        self.instructions = instructions
        self.targets = targets
        self.consts: list[object] = []
        self.names: dict[str, int] = {}
        self._const_index: dict[int, int] = {}
        self._local_slots = {name: slot for slot, name in enumerate(varnames)}
        self._cell_slots: dict[str, int] = {}
        free_slot = len(varnames)
        for name in cellvars:
            slot = self._local_slots.get(name, free_slot)
            free_slot += slot == free_slot
            self._cell_slots[name] = slot
        for name in freevars:
            self._cell_slots[name] = free_slot
            free_slot += 1
        self.raw: list[RawInstruction] = []
        self.labels: dict[int, int] = {}
        self.place = 0
        self.position: Position | None = None
        self._next_label = -1

    def emit(self, name: str, arg: int | None = None) -> None:
        """Append a raw instruction."""
        self.raw.append(RawInstruction(name, arg, None, self.position))

    def jump(self, name: str, label: int) -> None:
        """Append a raw jump to ``label``."""
        self.raw.append(RawInstruction(name, 0, label, self.position))

    def new_label(self) -> int:
        """Return a fresh label."""
        self._next_label -= 1
        return self._next_label

    def put_label(self, label: int) -> None:
        """Let ``label`` be the place of the next raw instruction."""
        self.labels[label] = len(self.raw)

    def is_backward(self, target: int) -> bool:
        """Tell whether a jump from the present instruction to ``target`` goes backward."""
        return target <= self.place

    def const(self, value: object) -> int:
        """Return the index of a constant; the same object gets the same index."""
        index = self._const_index.get(id(value))
        if index is None:
            index = self._const_index[id(value)] = len(self.consts)
            self.consts.append(value)
        return index

    def name(self, name: object) -> int:
        """Return the index of a name."""
        return self.names.setdefault(cast(str, name), len(self.names))

    def local(self, name: object) -> int:
        """Return the slot of a plain local."""
        try:
            return self._local_slots[cast(str, name)]
        except KeyError:
            raise InternalError(f"{name!r} is no plain local of this code") from None

    def cell(self, name: object) -> int:
        """Return the slot of a cell or free variable."""
        try:
            return self._cell_slots[cast(str, name)]
        except KeyError:
            raise InternalError(f"{name!r} is no cell of this code") from None

    def upcoming(self, count: int) -> list[Instruction]:
        """Return the next canonical instructions, stopping before one that is jumped to."""
        found: list[Instruction] = []
        for place in range(self.place + 1, min(self.place + 1 + count, len(self.instructions))):
            if place in self.targets:
                break
            found.append(self.instructions[place])
        return found


RaiseRule = Callable[[Reader, int], None]
LowerRule = Callable[[Writer, Instruction], int | None]
"""Writes the instruction; returns how many of the following ones it wrote as well."""


# --- rules that read -----------------------------------------------------------------------------


def same(op: Op) -> RaiseRule:
    """Read an instruction without argument."""
    return lambda reader, arg: reader.emit(op)


def counted(op: Op) -> RaiseRule:
    """Read an instruction whose argument is a number."""
    return lambda reader, arg: reader.emit(op, arg)


def flag(op: Op) -> RaiseRule:
    """Read an instruction whose argument is a truth value."""
    return lambda reader, arg: reader.emit(op, bool(arg))


def named(op: Op) -> RaiseRule:
    """Read an instruction on a name of ``co_names``."""
    return lambda reader, arg: reader.emit(op, reader.names[arg])


def slot(op: Op) -> RaiseRule:
    """Read an instruction on a slot of the frame."""
    return lambda reader, arg: reader.emit(op, reader.slots[arg])


def forward(op: Op) -> RaiseRule:
    """Read a jump that goes forward."""
    return lambda reader, arg: reader.jump(op, reader.next_offset + 2 * arg)


def truth_forward(op: Op) -> RaiseRule:
    """Read a forward jump that tests its operand's truth itself."""

    def rule(reader: Reader, arg: int) -> None:
        reader.emit(Op.TO_BOOL)
        reader.jump(op, reader.next_offset + 2 * arg)

    return rule


def jump_forward(reader: Reader, arg: int) -> None:
    """Read an unconditional jump forward."""
    reader.jump(Op.JUMP, reader.next_offset + 2 * arg, False)


def jump_backward(reader: Reader, arg: int) -> None:
    """Read an unconditional jump backward."""
    reader.jump(Op.JUMP, reader.next_offset - 2 * arg, True)


def load_const(reader: Reader, arg: int) -> None:
    """Read the load of a constant."""
    reader.emit(Op.LOAD_CONST, reader.consts[arg])


def load_assertion_error(reader: Reader, arg: int) -> None:
    """Read the load of ``AssertionError``."""
    reader.emit(Op.LOAD_CONST, AssertionError)


def return_const(reader: Reader, arg: int) -> None:
    """Read a load and a return in one."""
    reader.emit(Op.LOAD_CONST, reader.consts[arg])
    reader.emit(Op.RETURN_VALUE)


def binary_op(reader: Reader, arg: int) -> None:
    """Read an arithmetic operator."""
    reader.emit(Op.BINARY_OP, BINARY_SYMBOLS[arg])


def binary_subscr(reader: Reader, arg: int) -> None:
    """Read ``obj[key]``."""
    reader.emit(Op.BINARY_OP, "[]")


def unpack_ex(reader: Reader, arg: int) -> None:
    """Read a starred unpacking."""
    reader.emit(Op.UNPACK_EX, (arg & 0xFF, arg >> 8))


def load_fast(reader: Reader, arg: int) -> None:
    """Read the load of a local, which is a load of a cell where the slot holds one."""
    name = reader.slots[arg]
    if arg >= reader.n_plain or (name in reader.cells and _loads_cell(reader, name)):
        reader.emit(Op.LOAD_CLOSURE, name)
    else:
        reader.emit(Op.LOAD_FAST, name)


def _loads_cell(reader: Reader, name: str) -> bool:
    """Tell whether a LOAD_FAST of a slot that is a cell at times loads the cell.

    It does if the loads' tuple becomes the closure of a function.
    """
    if name not in reader.shared:
        return True
    following = reader.following(len(reader.slots) + 5)
    while following and following[0][0] in ("LOAD_FAST", "LOAD_FAST_LOAD_FAST"):
        following.pop(0)
    if [raw for raw, _ in following[:4]] != [
        "BUILD_TUPLE",
        "LOAD_CONST",
        "MAKE_FUNCTION",
        "SET_FUNCTION_ATTRIBUTE",
    ]:
        return False
    made = reader.consts[following[1][1]]
    return (
        following[3][1] == 8
        and isinstance(made, CodeType)
        and len(made.co_freevars) == following[0][1]
        and name in made.co_freevars
    )


def load_fast_and_clear(reader: Reader, arg: int) -> None:
    """Read the save of a variable that a comprehension hides."""
    name = reader.slots[arg]
    reader.emit(Op.LOAD_CELL_AND_CLEAR if name in reader.remade else Op.LOAD_FAST_AND_CLEAR, name)


def store_fast(reader: Reader, arg: int) -> None:
    """Read the store of a local, or the restore of a cell that a comprehension hid."""
    name = reader.slots[arg]
    reader.emit(Op.STORE_CELL if name in reader.remade else Op.STORE_FAST, name)


def kw_names(reader: Reader, arg: int) -> None:
    """Keep the keyword names for the call that follows."""
    reader.kwnames = reader.consts[arg]


def call(reader: Reader, arg: int) -> None:
    """Read a call; its keyword names were read before."""
    reader.emit(Op.CALL, (arg, reader.kwnames))
    reader.kwnames = ()


def call_function_ex(reader: Reader, arg: int) -> None:
    """Read a call with ``*args``."""
    reader.emit(Op.CALL_FUNCTION_EX, bool(arg & 1))


def make_function(reader: Reader, arg: int) -> None:
    """Read the making of a function, parts given by bits."""
    parts = frozenset(part for bit, part in FUNCTION_PARTS.items() if arg & bit)
    reader.emit(Op.MAKE_FUNCTION, parts)


def format_value(reader: Reader, arg: int) -> None:
    """Read a conversion and a formatting in one."""
    has_spec = bool(arg & 4)
    if arg & 3:
        if has_spec:  # the value lies below the spec, which was evaluated first
            reader.emit(Op.SWAP, 2)
        reader.emit(Op.CONVERT, CONVERSIONS[arg & 3])
        if has_spec:
            reader.emit(Op.SWAP, 2)
    reader.emit(Op.FORMAT, has_spec)


def yield_value(reader: Reader, arg: int) -> None:
    """Read a yield; the RESUME behind it adds its argument."""
    reader.emit(Op.YIELD_VALUE, (arg, 0))


def resume(reader: Reader, arg: int) -> None:
    """Drop a RESUME, noting its argument at the yield before it."""
    if reader.instructions and (last := reader.instructions[-1]).op is Op.YIELD_VALUE:
        last.arg = (cast("tuple[int, int]", last.arg)[0], arg)


def make_cell(reader: Reader, arg: int) -> None:
    """Read the making of a cell."""
    reader.emit(Op.MAKE_CELL, reader.slots[arg])


def find_shared_slots(reader: Reader, names: dict[str, int]) -> None:
    """Find the slots of cells that comprehensions use for variables of their own.

    Args:
        reader: its ``raw`` is set; gets ``shared`` and ``remade``.
        names: opcode numbers by name.
    """
    if reader.n_plain + len(reader.code.co_cellvars) == len(reader.slots) - len(
        reader.code.co_freevars
    ):
        return  # no slot is both a plain local and a cell
    clear, make, start = names["LOAD_FAST_AND_CLEAR"], names["MAKE_CELL"], names["RESUME"]
    extended_arg = names["EXTENDED_ARG"]
    shared: set[str] = set()
    remade: set[str] = set()
    started, extended, raw = False, 0, reader.raw
    for offset in range(0, len(raw), 2):
        opcode, arg = raw[offset], extended | raw[offset + 1]
        extended = arg << 8 if opcode == extended_arg else 0
        started = started or opcode == start
        if opcode == clear and reader.slots[arg] in reader.cells:
            shared.add(reader.slots[arg])
        elif opcode == make and started:
            remade.add(reader.slots[arg])
    if remade & set(reader.code.co_freevars):
        raise UnsupportedPythonError(
            f"{reader.code.co_qualname}: a comprehension makes a cell of a free variable's name"
        )
    reader.shared, reader.remade = frozenset(shared), frozenset(remade)


# --- rules that write ----------------------------------------------------------------------------


def write_same(name: str) -> LowerRule:
    """Write an instruction without argument."""
    return lambda writer, inst: writer.emit(name)


def write_counted(name: str) -> LowerRule:
    """Write an instruction whose argument is a number or a truth value."""
    return lambda writer, inst: writer.emit(name, int(cast(int, inst.arg)))


def write_named(name: str, shift: int = 0, bits: int = 0) -> LowerRule:
    """Write an instruction on a name; its index is shifted to make room for ``bits``."""
    return lambda writer, inst: writer.emit(name, writer.name(inst.arg) << shift | bits)


def write_local(name: str) -> LowerRule:
    """Write an instruction on a plain local."""
    return lambda writer, inst: writer.emit(name, writer.local(inst.arg))


def write_cell(name: str) -> LowerRule:
    """Write an instruction on a cell or free variable."""
    return lambda writer, inst: writer.emit(name, writer.cell(inst.arg))


def write_const(writer: Writer, inst: Instruction) -> None:
    """Write the load of a constant."""
    writer.emit("LOAD_CONST", writer.const(inst.arg))


def write_jump(writer: Writer, inst: Instruction) -> None:
    """Write an unconditional jump in the direction needed."""
    backward = writer.is_backward(inst.target)
    writer.jump("JUMP_BACKWARD" if backward else "JUMP_FORWARD", inst.target)


def write_forward(name: str) -> LowerRule:
    """Write a jump that can only go forward."""

    def rule(writer: Writer, inst: Instruction) -> None:
        if writer.is_backward(inst.target):
            raise InternalError(f"{name} cannot jump backward: {inst}")
        writer.jump(name, inst.target)

    return rule


def write_binary_op(writer: Writer, inst: Instruction) -> None:
    """Write an operator or a subscript."""
    if inst.arg == "[]":
        writer.emit("BINARY_SUBSCR")
    else:
        writer.emit("BINARY_OP", BINARY_NUMBERS[cast(str, inst.arg)])


def write_unpack_ex(writer: Writer, inst: Instruction) -> None:
    """Write a starred unpacking."""
    before, after = cast("tuple[int, int]", inst.arg)
    writer.emit("UNPACK_EX", before | after << 8)


def write_to_bool(writer: Writer, inst: Instruction) -> None:
    """Write a truth test on Pythons whose jumps test the truth themselves."""
    following = writer.place + 1
    if following < len(writer.instructions) and writer.instructions[following].op in (
        Op.POP_JUMP_IF_TRUE,
        Op.POP_JUMP_IF_FALSE,
    ):
        return
    writer.emit("UNARY_NOT")
    writer.emit("UNARY_NOT")


def write_make_function(writer: Writer, inst: Instruction) -> None:
    """Write the making of a function, parts given by bits."""
    parts = cast("frozenset[str]", inst.arg)
    writer.emit("MAKE_FUNCTION", sum(bit for bit, part in FUNCTION_PARTS.items() if part in parts))


def write_convert(writer: Writer, inst: Instruction) -> int:
    """Write a conversion, together with the formatting behind it if there is one."""
    writer.emit("FORMAT_VALUE", CONVERSIONS.index(cast(str, inst.arg)))
    following = writer.upcoming(1)
    return int(bool(following) and following[0].op is Op.FORMAT and not following[0].arg)


def write_swap(writer: Writer, inst: Instruction) -> int:
    """Write a SWAP, or the conversion of a value below its format spec that begins with it."""
    if inst.arg == 2:
        following = writer.upcoming(3)
        if (
            [other.op for other in following] == [Op.CONVERT, Op.SWAP, Op.FORMAT]
            and following[1].arg == 2
            and following[2].arg
        ):
            conversion = CONVERSIONS.index(cast(str, following[0].arg))
            writer.emit("FORMAT_VALUE", conversion | 4)
            return 3
    writer.emit("SWAP", cast(int, inst.arg))
    return 0


def write_format(writer: Writer, inst: Instruction) -> None:
    """Write a formatting without conversion."""
    writer.emit("FORMAT_VALUE", 4 if inst.arg else 0)


def write_yield(writer: Writer, inst: Instruction) -> None:
    """Write a yield and its RESUME."""
    value, resumed = cast("tuple[int, int]", inst.arg or (0, 1))
    writer.emit("YIELD_VALUE", value)
    writer.emit("RESUME", resumed)


def simple_pairs(pairs: dict[str, Op]) -> tuple[dict[str, RaiseRule], dict[Op, LowerRule]]:
    """Return rules both ways for instructions without argument."""
    return (
        {name: same(op) for name, op in pairs.items()},
        {op: write_same(name) for name, op in pairs.items()},
    )


def counted_pairs(pairs: dict[str, Op]) -> tuple[dict[str, RaiseRule], dict[Op, LowerRule]]:
    """Return rules both ways for instructions whose argument is a number."""
    return (
        {name: counted(op) for name, op in pairs.items()},
        {op: write_counted(name) for name, op in pairs.items()},
    )


def named_pairs(pairs: dict[str, Op]) -> tuple[dict[str, RaiseRule], dict[Op, LowerRule]]:
    """Return rules both ways for instructions on a name."""
    return (
        {name: named(op) for name, op in pairs.items()},
        {op: write_named(name) for name, op in pairs.items()},
    )
