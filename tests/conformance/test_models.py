"""One model of each library from the sweep of models."""

from __future__ import annotations

import pytest

pytest.importorskip("capture._native")

import capture
from tests.conformance import models
from tests.conformance.database import Row

NAMES = ["transformers.bloom", "torchvision.mobilenet_v2", "timm.tinynet"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_model_is_one_graph(name: str) -> None:
    pytest.importorskip(name.partition(".")[0])
    with capture.config.patch(suppress_errors=False):
        for row in models.cases(models.MODELS[name], 1):
            assert (row.verdict, row.breaks, row.graphs) == ("equal", [], 1), row


@pytest.mark.slow
@pytest.mark.parametrize("case", models.MOST_GRAPHS)
@pytest.mark.parametrize("name", models.GENERATE)
def test_generated_tokens_are_those_of_eager(name: str, case: str) -> None:
    pytest.importorskip("transformers")
    with capture.config.patch(suppress_errors=False):
        row = models.generates(Row(name, case), models.GENERATE[name])
    assert row.verdict == "equal", row
    assert row.graphs <= models.MOST_GRAPHS[case], row
    assert case == "static" or not row.breaks, row
