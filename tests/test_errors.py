"""Texts and attributes of errors and signals."""

from __future__ import annotations

import pickle

import pytest

from capture import errors
from capture.errors import BackendCompilerFailed, BreakReason, GraphBreak, SkipFrame, Unsupported

REASON = BreakReason(
    "CAP9999",
    "branch on a tensor",
    explanation="The branch depends on {var}.",
    hints=("Use torch.where.",),
)


def test_break_describes_line_reason_explanation_and_hints() -> None:
    signal = GraphBreak(REASON, var="x")
    signal.location = "model.py:7"
    assert str(signal).splitlines() == [
        "model.py:7: CAP9999: branch on a tensor",
        "  The branch depends on x.",
        "  hint: Use torch.where.",
        "  CAPTURE_LOGS=breaks shows every break as it happens.",
    ]


def test_missing_context_does_not_hide_the_reason() -> None:
    assert GraphBreak(REASON).explanation == "The branch depends on <var>."


def test_unsupported_keeps_reason_and_location() -> None:
    error = Unsupported.from_break(GraphBreak(REASON, var="x"), "model.py:7")
    assert error.reason is REASON
    assert error.location == "model.py:7"
    assert "model.py:7: CAP9999" in str(error)


def test_backend_failure_names_backend_and_cause() -> None:
    inner = ValueError("no such target")
    error = BackendCompilerFailed("mine", inner)
    assert str(error) == "backend 'mine' raised ValueError: no such target"
    assert error.__cause__ is inner
    assert pickle.loads(pickle.dumps(error)).backend_name == "mine"


def test_signals_are_not_errors() -> None:
    # User code that catches RuntimeError must never swallow a signal.
    assert not issubclass(GraphBreak, RuntimeError)
    assert not issubclass(SkipFrame, errors.CaptureError)


def test_skip_frame_names_its_reason() -> None:
    assert str(SkipFrame(REASON)) == "CAP9999: branch on a tensor"
    assert str(SkipFrame("no tensors")) == "no tensors"


@pytest.mark.parametrize(
    "name",
    ["Unsupported", "UserError", "TorchRuntimeError", "RecompileError", "FailOnRecompileLimitHit"],
)
def test_names_known_from_torch_are_there(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.CaptureError)
    assert issubclass(getattr(errors, name), RuntimeError)
