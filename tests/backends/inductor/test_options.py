"""``mode`` and ``options`` of the Inductor backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture
from capture.backends.inductor.options import settings_for


def test_modes_are_those_of_torch() -> None:
    assert settings_for("max-autotune-no-cudagraphs", None)["max_autotune"] is True
    assert settings_for("default", None) == settings_for(None, None)


def test_random_numbers_are_eagers_unless_asked_otherwise() -> None:
    assert settings_for(None, None)["fallback_random"] is True
    assert settings_for(None, {"fallback_random": False})["fallback_random"] is False


def test_hyphens_stand_for_underscores() -> None:
    assert settings_for(None, {"max-autotune": True})["max_autotune"] is True


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mode": "fastest"}, "unknown mode 'fastest'.*'max-autotune'"),
        ({"options": {"max_autotun": True}}, "did you mean 'max_autotune"),
        ({"options": {"max_autotune": "yes"}}, "is a bool, not a str"),
    ],
)
def test_wrong_ones_are_refused_before_anything_is_compiled(
    settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(capture.UserError, match=text):
        capture.compile(lambda x: x, backend="inductor", **settings)


def test_freezing_never_keeps_an_old_weight() -> None:
    model = torch.nn.Linear(4, 3).eval()
    x = torch.randn(2, 4)
    compiled = capture.compile(model, backend="inductor", options={"freezing": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model.weight.add_(1)
        torch.testing.assert_close(compiled(x), model(x))
        model.weight = torch.nn.Parameter(torch.randn(3, 4))
        torch.testing.assert_close(compiled(x), model(x))
