"""The command line: every command, its exit status, and its messages for wrong arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from capture import demo
from capture.__main__ import main
from capture.errors import UserError


def test_backends_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends"]) == 0
    assert "eager" in capsys.readouterr().out


def test_doctor_finds_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    output = capsys.readouterr().out
    assert status == 0, output
    assert "native module" in output


def test_demo_gets_its_options_and_gives_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    def fake(steps: int, backend: str) -> int:
        asked.append((steps, backend))
        return 1

    monkeypatch.setattr(demo, "main", fake)
    assert main(["demo", "--steps", "5"]) == 1
    assert asked == [(5, "inductor")]
    with pytest.raises(UserError, match="unknown backend 'eagr'"):
        main(["demo", "--backend", "eagr"])


@pytest.mark.parametrize("arguments", [[], ["demo", "--steps", "0"], ["dance"]])
def test_wrong_arguments_exit_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_runs_as_a_module() -> None:
    root = Path(__file__).resolve().parent.parent
    result = subprocess.run(
        [sys.executable, "-m", "capture", "backends"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "eager" in result.stdout
