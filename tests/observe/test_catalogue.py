"""The page of break reasons."""

from __future__ import annotations

import re
from pathlib import Path

from capture.break_reasons import CATALOGUE
from capture.observe import catalogue_page

PAGE = Path(__file__).parents[2] / "docs" / "graph-breaks.md"


def test_page_is_up_to_date() -> None:
    how = "run: python -m capture breaks > docs/graph-breaks.md"
    assert PAGE.read_text() == catalogue_page(), how


def test_ids_are_unique() -> None:
    ids = [reason.id for reason in CATALOGUE]
    assert len(set(ids)) == len(ids)


def test_ids_have_the_form_of_ids() -> None:
    assert all(re.fullmatch(r"CAP\d{4}", reason.id) for reason in CATALOGUE)
