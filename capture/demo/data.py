"""Holds the demo's text: Python's own standard library as windows of characters."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

__all__ = ["VOCABULARY", "Windows", "make_loader", "standard_library_text"]

# Printable ASCII and the newline; anything else becomes the last entry.
VOCABULARY = "\n" + "".join(map(chr, range(32, 127))) + "\ufffd"


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Evenly spaced windows over a text, with the same window one character later as target.

    Args:
        text: the text.
        length: characters in a window.
        count: how many windows; they overlap if the text is short.
    """

    def __init__(self, text: str, length: int, count: int) -> None:
        if len(text) <= length:
            raise ValueError(f"a text of {len(text)} characters has no window of {length}")
        self.codes = _encode(text)
        self.length = length
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return (characters, targets), both (length,) int64."""
        start = index * (len(self.codes) - self.length - 1) // max(1, self.count - 1)
        window = self.codes[start : start + self.length + 1]
        return window[:-1], window[1:]


def standard_library_text(size: int = 1_000_000) -> str:
    """Return the first ``size`` characters of the standard library's top-level modules.

    Files come in the order of their names, so the same Python gives the same text.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    parts: list[str] = []
    missing = size
    for path in sorted(folder.glob("*.py")):
        if missing <= 0:
            break
        part = path.read_text(encoding="utf-8", errors="replace")[:missing]
        parts.append(part)
        missing -= len(part)
    return "".join(parts)


def make_loader(
    text: str, *, context: int, batch_size: int, steps: int, seed: int
) -> DataLoader[tuple[Tensor, Tensor]]:
    """Return a shuffling loader whose one epoch has ``steps`` batches."""
    return DataLoader(
        Windows(text, context, steps * batch_size),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator().manual_seed(seed),
    )


def _encode(text: str) -> Tensor:
    """Return the indices into ``VOCABULARY``: (characters,) int64."""
    last = len(VOCABULARY) - 1
    table = {ord(character): index for index, character in enumerate(VOCABULARY)}
    return torch.tensor([table.get(ord(character), last) for character in text])
