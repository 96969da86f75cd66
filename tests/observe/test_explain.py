"""What ``explain`` tells about a call."""

from __future__ import annotations

import os

import pytest
import torch

import capture


def breaks_once(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    os.getpid()
    return y * 2


def test_graphs_are_kept_in_order() -> None:
    found = capture.explain(breaks_once)(torch.ones(2))
    targets = [[n.name for n in gm.graph.nodes if n.op == "call_function"] for gm in found.graphs]
    assert targets == [["add"], ["mul"]]


def test_break_names_the_line_and_the_call() -> None:
    found = capture.explain(breaks_once)(torch.ones(2))
    (place,) = found.breaks
    line = breaks_once.__code__.co_firstlineno + 2
    assert place.user_location == f"{__file__}:{line}"
    assert "getpid" in place.detail


def test_result_is_the_call_s() -> None:
    found = capture.explain(breaks_once)(torch.ones(2))
    assert torch.equal(found.result, breaks_once(torch.ones(2)))


def test_text_counts_graphs_and_breaks() -> None:
    text = str(capture.explain(breaks_once)(torch.ones(2)))
    assert text.startswith("2 graphs, 1 graph breaks, 0 recompiles")


def test_settings_reach_compile() -> None:
    with pytest.raises(capture.Unsupported, match="CAP0003"):
        capture.explain(breaks_once, fullgraph=True)(torch.ones(2))
