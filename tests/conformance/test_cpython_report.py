"""Tests the page made of the results of CPython's own tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.conformance import cpython_report


def result(module: str, **kept: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"module": module, "methods": 10, "differ": 0, "dead": 0, "slow": []}
    return {**row, "counted": 8, "whole": 4, "failing": [], "reasons": {}, **kept}


def page_of(folder: Path, *results: dict[str, Any]) -> str:
    for one in results:
        cpython_report.save(folder / "kept", one)
    page = folder / "page.md"
    cpython_report.write(page, folder / "kept", ["list", "dict"], 20)
    return page.read_text()


def test_results_are_kept_by_version(tmp_path: Path) -> None:
    cpython_report.save(tmp_path, result("list"))
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert cpython_report.load(tmp_path) == {running: {"list": result("list")}}


def test_a_later_result_replaces_the_earlier_one(tmp_path: Path) -> None:
    page = page_of(tmp_path, result("list", whole=1), result("list", whole=6))
    assert "| list | 10 | 0 | 0 | 6/8 (75 %) |" in page


def test_required_modules_are_summed_up_apart_from_the_others(tmp_path: Path) -> None:
    page = page_of(tmp_path, result("list"), result("dict"), result("math", methods=3))
    required, further = page.split("## Further modules")
    assert "| all | 20 | 0 | 0 | 8/16 (50 %) |" in required
    assert "| all | 3 | 0 | 0 | 4/8 (50 %) |" in further


def test_what_differs_and_what_is_slow_is_named(tmp_path: Path) -> None:
    kept = {
        "differ": 1,
        "failing": ["test.test_list.T.test_a"],
        "slow": ["test.test_list.T.test_b"],
    }
    page = page_of(tmp_path, result("list", **kept))
    assert ": `test_list.T.test_a`." in page
    assert ": `test_list.T.test_b`." in page


def test_modules_without_a_result_are_named(tmp_path: Path) -> None:
    assert ": dict." in page_of(tmp_path, result("list"))


def test_reasons_are_added_up_over_the_required_modules(tmp_path: Path) -> None:
    first = result("list", reasons={"CAP0001 a|b": 2})
    second = result("dict", reasons={"CAP0001 a|b": 3})
    other = result("math", reasons={"CAP0001 a|b": 4})
    assert "| 5 | CAP0001 a\\|b |" in page_of(tmp_path, first, second, other)
