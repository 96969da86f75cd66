"""Tables of the running Python: complete, consistent, and clear about other Pythons."""

from __future__ import annotations

import dis
import sys

import pytest

from capture.errors import UnsupportedPythonError
from capture.instructions import versions
from capture.instructions.ops import EFFECTS, JUMPS, Op


def test_every_raw_opcode_is_read_dropped_or_refused() -> None:
    names = {
        name
        for name, number in dis.opmap.items()
        if number < 256 and not name.startswith("INSTRUMENTED_")
    }
    known = set(versions.RAISE) | set(versions.UNSUPPORTED) | versions.DROPPED
    assert names <= known
    assert known - names <= {"PRINT_EXPR"}


def test_no_opcode_has_two_fates() -> None:
    assert not versions.DROPPED & set(versions.RAISE)
    assert not set(versions.UNSUPPORTED) & (set(versions.RAISE) | versions.DROPPED)


def test_every_operation_has_a_stack_effect() -> None:
    assert set(EFFECTS) == set(Op)


def test_written_operations_are_known() -> None:
    assert set(versions.LOWER) <= set(Op)
    assert set(versions.LOWER) >= JUMPS


@pytest.mark.parametrize(
    ("version", "implementation"), [((3, 10), "cpython"), ((3, 14), "cpython"), ((3, 11), "pypy")]
)
def test_other_pythons_give_a_clear_error(version: tuple[int, int], implementation: str) -> None:
    with pytest.raises(UnsupportedPythonError, match=r"CPython 3\.11, 3\.12, 3\.13, not of "):
        versions.table_module(version, implementation)


def test_the_running_python_is_chosen() -> None:
    expected = f"capture.instructions.versions.py{sys.version_info[0]}{sys.version_info[1]}"
    assert versions.table_module(sys.version_info[:2], "cpython") == expected
