"""Holds the tests of the extension module as a whole."""

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from capture import _native

ROOT = str(Path(_native.__file__).parent.parent)


def run(source: str) -> str:
    """What a fresh interpreter prints that finds the package where this one did."""
    prelude = f"""
import sys, types
sys.path.insert(0, {ROOT!r})
package = types.ModuleType("capture")
package.__path__ = [{ROOT + "/capture"!r}]
sys.modules["capture"] = package
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", prelude + textwrap.dedent(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


def test_self_test_passes() -> None:
    _native.self_test()


def test_second_import_shares_the_types() -> None:
    source = """
    import importlib
    from capture import _native as first
    del sys.modules["capture._native"]
    second = importlib.import_module("capture._native")
    print(first.Region is second.Region, first.Entry is second.Entry)
    """
    assert run(source) == "True True"


def test_subinterpreters_are_refused_with_one_clear_message() -> None:
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    pytest.importorskip(name)
    source = f"""
    import {name} as interpreters
    import capture._native
    lines = '''
    import sys, types
    package = types.ModuleType("capture")
    package.__path__ = [{ROOT + "/capture"!r}]
    sys.modules["capture"] = package
    try:
        import capture._native
    except ImportError as error:
        print(error)
    '''
    import textwrap
    where = interpreters.create()
    interpreters.run_string(where, textwrap.dedent(lines))
    """
    said = run(source)
    assert "subinterpreters" in said


def test_exit_inside_a_region_is_clean() -> None:
    source = """
    from capture._native import CompiledFunction, Region, set_current
    region = Region(lambda site, values, func: None, None)
    set_current(region)
    def f():
        print("leaving")
        sys.exit(0)
    CompiledFunction(f, region)()
    """
    assert run(source) == "leaving"


def test_module_is_the_one_under_test() -> None:
    assert importlib.import_module("capture._native") is _native
