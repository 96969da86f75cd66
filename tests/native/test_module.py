"""Holds the tests of the extension module as a whole."""

import importlib
import sys

import pytest

from capture import _native

from .support import ROOT, run_fresh


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
    assert run_fresh(source) == "True True"


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
    said = run_fresh(source)
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
    assert run_fresh(source) == "leaving"


def test_module_is_the_one_under_test() -> None:
    assert importlib.import_module("capture._native") is _native
