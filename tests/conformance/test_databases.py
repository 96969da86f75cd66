"""A small part of the sweeps of torch's databases, and that they see what differs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

pytest.importorskip("capture._native")
pytest.importorskip("expecttest")  # torch's own tests want it

import capture
from capture.config import patch
from tests.conformance import database, moduleinfo, opinfo, optiminfo

OPERATORS = """
    bool cat cumsum geqrf histogram index_put linalg.svd masked.mean max.reduction_with_dim
    nn.functional.batch_norm nn.functional.dropout nonzero_static sum_to_size where
""".split()
MODULES = "nn.BatchNorm2d nn.GRUCell nn.LazyConv1d"


def _rows(module: Any, names: list[str], count: int) -> list[database.Row]:
    rows = []
    with patch(suppress_errors=False):
        for name, entry in module.entries():
            if name in names:
                for row in module.cases(entry, count):
                    row.entry = name
                    rows.append(row)
    return rows


def _assert_equal(rows: list[database.Row]) -> None:
    wrong = [r for r in rows if r.verdict not in ("equal", "skipped")]
    assert not wrong, database.listing(wrong)


@pytest.mark.filterwarnings("ignore")
def test_operators_equal_eager_and_do_not_break() -> None:
    rows = _rows(opinfo, OPERATORS, 1)
    assert {row.entry for row in rows} == set(OPERATORS)
    _assert_equal(rows)
    assert not database.reasons(rows)


@pytest.mark.filterwarnings("ignore")
def test_modules_equal_eager() -> None:
    rows = _rows(moduleinfo, MODULES.split(), 1)
    assert len({row.entry for row in rows}) == len(MODULES.split())
    _assert_equal(rows)


@pytest.mark.filterwarnings("ignore")
def test_optimizers_equal_eager() -> None:
    rows = _rows(optiminfo, ["SparseAdam"], 1)
    assert len(rows) > 5
    _assert_equal(rows)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x + 1,
        lambda x: x.double(),
        lambda x: x.detach(),
        lambda x: x.clone() if x.is_leaf else x.sum(0),
        lambda x: x.mul_(2) if not x.is_leaf else x.data.mul_(2),
    ],
)
def test_sweep_sees_a_difference(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(first: Any, args: Any, kwargs: Any) -> Any:
        return first * 3

    def compile_wrongly(fn: Any, **options: Any) -> Any:
        return lambda *args: change(fn(*args))

    row = database.Row("", "")
    x = torch.randn(3, 3, requires_grad=True)
    assert database.check(row, program, (x, (), {})).verdict == "equal"
    monkeypatch.setattr(capture, "compile", compile_wrongly)
    assert database.check(row, program, (x, (), {})).verdict == "differs"


def test_page_is_written_section_by_section(tmp_path: Any) -> None:
    page = tmp_path / "coverage.md"
    good = database.Row("add", "function float32 0", graphs=1, whole=True)
    broken = database.Row("item", "function float32 0", breaks=["CAP0002 a|b"])
    database.write_docs(page, "Operators", [good, broken])
    database.write_docs(page, "Modules", [good])
    database.write_docs(page, "Operators", [good, broken, broken])
    text = page.read_text()
    assert re.findall(r"(?m)^## (.*)", text) == ["Modules", "Operators"]
    assert "| 2 | CAP0002 a/b | `item` |" in text
