"""Decodes, assembles and compares every code object of the running Python's standard library.

    python -m tests.conformance.stdlib [--list] [FOLDERS]

Each module is compiled, each code object in it (module level, classes, functions, comprehensions,
generators and coroutines too) is decoded to canonical instructions, assembled again and decoded
once more: instructions, targets, positions, exception table and flags must be the same. Files that
are no valid source on purpose (``lib2to3`` and ``test`` data) are counted and left out.
"""

from __future__ import annotations

import argparse
import collections
import inspect
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from capture.instructions.assemble import assemble
from capture.instructions.decode import DecodedCode, decode

_KEPT = (
    "name", "qualname", "argcount", "posonlyargcount", "kwonlyargcount", "flags", "varnames",
    "cellvars", "freevars", "firstlineno",
)  # fmt: skip


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and all within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def reassemble(code: CodeType, decoded: DecodedCode) -> CodeType:
    """Build a code object again from what was decoded."""
    star = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return assemble(
        decoded.instructions,
        name=code.co_name,
        qualname=code.co_qualname,
        filename=code.co_filename,
        firstlineno=code.co_firstlineno,
        argnames=code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + star],
        varnames=code.co_varnames,
        cellvars=code.co_cellvars,
        freevars=code.co_freevars,
        flags=code.co_flags,
        exception_table=decoded.exception_table,
        posonlyargcount=code.co_posonlyargcount,
        kwonlyargcount=code.co_kwonlyargcount,
    )


def difference(code: CodeType) -> str | None:
    """What the round trip changes, or None."""
    before = decode(code)
    again = reassemble(code, before)
    after = decode(again)
    if len(before.instructions) != len(after.instructions):
        return f"{len(before.instructions)} instructions became {len(after.instructions)}"
    for old, new in zip(before.instructions, after.instructions, strict=True):
        if (old.op, old.target, old.position) != (new.op, new.target, new.position):
            return f"{old} became {new}"
        if old.arg is not new.arg and old.arg != new.arg:
            return f"{old} became {new}"
    if before.exception_table != after.exception_table:
        return f"exception table {before.exception_table} became {after.exception_table}"
    for name in _KEPT:
        old, new = getattr(code, f"co_{name}"), getattr(again, f"co_{name}")
        if old != new:
            return f"co_{name} {old!r} became {new!r}"
    return None


def compiled_files(folders: list[Path]) -> Iterator[tuple[Path, CodeType | None]]:
    """All source files with their code; None where Python itself refuses the file."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if "site-packages" in path.parts:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield path, compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                yield path, None


def main(arguments: list[str] | None = None) -> int:
    """Do the round trip and print the counts; the exit status tells whether all came back."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--list", action="store_true", help="print every difference, not ten")
    options = parser.parse_args(arguments)
    folders = options.folders or [Path(sysconfig.get_path("stdlib"))]
    counts: collections.Counter[str] = collections.Counter()
    found: list[str] = []
    began = time.perf_counter()
    for path, module in compiled_files(folders):
        if module is None:
            counts["refused"] += 1
            continue
        counts["files"] += 1
        for code in nested(module):
            counts["codes"] += 1
            try:
                text = difference(code)
            except Exception as error:
                text = repr(error)
            if text is not None:
                found.append(f"{path}:{code.co_firstlineno} {code.co_qualname}: {text}")
    for line in found if options.list else found[:10]:
        print(line)
    print(
        f"Python {sys.version.split()[0]}: {counts['codes']} code objects of {counts['files']} "
        f"files, {len(found)} differ; {counts['refused']} files are no valid source; "
        f"{time.perf_counter() - began:.0f} s"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
