"""What the backend takes from Inductor, and what it does where that has changed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

from capture.backends.inductor import adapter


def test_installed_torch_has_the_inner_functions() -> None:
    assert adapter.inner() is not None


def test_name_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch._inductor.compile_fx")
    monkeypatch.delattr(module, "compile_fx_backward")
    assert adapter.inner() is None


def test_argument_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch._inductor.compile_fx")

    def compile_fx_forward(gm: Any, example_inputs: Any) -> None: ...

    monkeypatch.setattr(module, "compile_fx_forward", compile_fx_forward)
    assert adapter.inner() is None


def test_importing_the_backend_does_not_import_inductor() -> None:
    script = (
        "import sys, torch; import capture.backends.inductor; "
        "print([n for n in sys.modules if n.startswith(('torch._inductor', 'torch._dynamo'))])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
