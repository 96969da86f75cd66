"""The documents are true: their code runs, and the files they name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from capture import logs

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    path
    for pattern in ("*.md", "docs/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if not path.name.startswith(".")
]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_python_in_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert len(blocks) >= 3
    script = tmp_path / "tour.py"
    script.write_text("\n".join(blocks))
    result = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "1"
    assert "CAP" in result.stdout
    assert lines[-1].endswith(" nodes")


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    missing = [each for each in targets if "://" not in each and not (path.parent / each).exists()]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_named_files_exist(path: Path) -> None:
    names = re.findall(r"`((?:capture|tests|docs|\.ci)/[\w./-]+)`", path.read_text())
    missing = [name for name in names if "XY" not in name and not (ROOT / name).exists()]
    assert not missing


def test_artifacts_in_the_readme_are_all_there_are() -> None:
    text = (ROOT / "README.md").read_text()
    from_readme = re.search(r"The artifacts are (.*?)\.", text, re.S)
    assert from_readme is not None
    assert re.findall(r"`(\w+)`", from_readme[1]) == list(logs.ARTIFACTS)


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "adr"
    listed = (folder / "README.md").read_text()
    for page in folder.glob("[0-9]*.md"):
        assert f"]({page.name})" in listed, page.name
