"""The lines of the user in tracebacks of graphs that raise where nothing starts again."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import torch

import capture


def inner(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Write, then read where there may be nothing."""
    x.add_(1)
    return x[i] + 1


def outer(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Call ``inner``."""
    y = x * 2
    return inner(x, i) + y


def drawing(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Draw a random number first."""
    noise = torch.rand(1)
    x.mul_(2)
    return x[i] + noise


def item_written(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Raise in an assignment to items of what was written before."""
    x.add_(1)
    x.mul_(2)
    x[i] = 4
    return x


def written_in_place(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Raise in an operator that writes to what was written before."""
    x.add_(1)
    x.mul_(2)
    x -= torch.nn.functional.embedding(i, x.view(3, 1)).sum()
    return x


def places(fn: Any) -> list[tuple[str, str, int | None]]:
    """Where the exception of a call with a bad index came from, below the caller."""
    with pytest.raises(IndexError) as caught:
        fn(torch.ones(3), torch.tensor([7]))
    entries = traceback.extract_tb(caught.value.__traceback__)
    return [(e.filename, e.name, e.lineno) for e in entries[1:]]


@pytest.mark.parametrize("fn", [outer, drawing, item_written, written_in_place])
def test_lines_of_all_inlined_frames_are_there(fn: Any) -> None:
    compiled = capture.compile(fn, backend="eager")
    compiled(torch.ones(3), torch.tensor([1]))
    assert places(compiled) == places(fn)


def test_other_backends_keep_their_own_traceback() -> None:
    def backend(gm: Any, examples: Any) -> Any:
        def run(*args: Any) -> Any:
            raise ValueError("of the backend")

        return run

    with pytest.raises(ValueError, match="of the backend"):
        capture.compile(outer, backend=backend)(torch.ones(3), torch.tensor([1]))


def overlapping(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Refuse, as both sides share memory."""
    x.add_(1)
    x.mul_(2)
    x -= x[i.numel() - 1]
    return x


def test_line_of_an_operator_that_writes_in_place() -> None:
    found = []
    for fn in (overlapping, capture.compile(overlapping, backend="eager")):
        with pytest.raises(RuntimeError, match="single memory location") as caught:
            fn(torch.ones(3), torch.tensor([1]))
        found.append([e.lineno for e in traceback.extract_tb(caught.value.__traceback__)[1:]])
    assert found[0] == found[1]
