"""Log artifacts: what turns them on, where they go, and files in the dump directory."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture import logs
from capture.errors import UserError


@pytest.fixture(autouse=True)
def _environment_choice() -> Iterator[None]:
    logs.configure("")
    yield
    logs.configure(os.environ.get("CAPTURE_LOGS"), dump_dir=os.environ.get("CAPTURE_DUMP_DIR"))


def test_silent_until_named(capsys: pytest.CaptureFixture[str]) -> None:
    breaks = logs.artifact("breaks")
    assert not breaks.enabled
    breaks.info("nobody listens")
    logs.configure("graph, breaks")
    assert breaks.enabled
    assert not breaks.verbose
    breaks.info("at %s", "model.py:3")
    breaks.debug("a detail")
    assert capsys.readouterr().err == "[capture.breaks] at model.py:3\n"


def test_plus_all_and_minus() -> None:
    logs.configure("all,+guards,-perf")
    assert logs.artifact("aot").enabled
    assert not logs.artifact("aot").verbose
    assert logs.artifact("guards").verbose
    assert not logs.artifact("perf").enabled


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UserError, match=r"did you mean 'graph'\?\); there are: all, graph, "):
        logs.configure("grahp")
    with pytest.raises(UserError, match="unknown log artifact 'x'"):
        logs.artifact("x")


def test_warning_is_shown_once_and_without_asking(caplog: pytest.LogCaptureFixture) -> None:
    key = object()
    for _ in range(3):
        logs.warning_once("recompiles", key, "limit hit in %s", "f")
    assert [record.getMessage() for record in caplog.records] == ["limit hit in f"]


def test_dump_writes_one_file_a_stage(tmp_path: Path) -> None:
    logs.configure("", dump_dir=tmp_path)
    assert logs.dumping()
    first = logs.dump("graph_code", "<lambda> 0.py", "x = 1")
    second = logs.dump("graph_code", "<lambda> 0.py", "x = 2\n")
    assert first == tmp_path / "graph_code" / "_lambda_0.py"
    assert first.read_text() == "x = 1\n"
    assert second is not None
    assert second.name == "_lambda_0.1.py"


def test_dump_without_a_directory_does_nothing() -> None:
    assert not logs.dumping()
    assert logs.dump("graph", "f.txt", "") is None


def test_environment_is_read_at_import(tmp_path: Path) -> None:
    code = (
        "from capture import logs; logs.artifact('graph').info('hello');"
        "logs.dump('graph', 'f.txt', 'text')"
    )
    variables = {**os.environ, "CAPTURE_LOGS": "graph", "CAPTURE_DUMP_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert result.stderr == "[capture.graph] hello\n"
    assert (tmp_path / "graph" / "f.txt").read_text() == "text\n"


def test_other_loggers_are_silenced_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    other = logging.getLogger("somebody.else")
    with logs.silenced("somebody.else"):
        other.error("unheard")
    other.error("heard")
    assert [record.message for record in caplog.records] == ["heard"]
