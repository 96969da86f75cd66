"""The demo's text and loader: deterministic, and one epoch is the asked number of steps."""

from __future__ import annotations

import pytest
import torch

from capture.demo.data import VOCABULARY, Windows, make_loader, standard_library_text


def test_text_is_deterministic_and_limited() -> None:
    text = standard_library_text(5000)
    assert len(text) == 5000
    assert text == standard_library_text(5000)


def test_target_is_the_next_character() -> None:
    windows = Windows("abcdefghij", length=4, count=3)
    characters, targets = windows[1]
    assert characters.dtype == torch.int64
    assert torch.equal(characters[1:], targets[:-1])
    last = "".join(VOCABULARY[i] for i in windows[2][1])
    assert last == "ghij"[-4:]


def test_unknown_characters_share_the_last_entry() -> None:
    codes = Windows("a\u03b1\n", length=1, count=1).codes
    assert codes.tolist() == [VOCABULARY.index("a"), len(VOCABULARY) - 1, 0]


def test_too_short_a_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="no window of 4"):
        Windows("abcd", length=4, count=1)


def test_epoch_has_the_steps_and_order_follows_the_seed() -> None:
    text = standard_library_text(3000)
    first, second, other = (
        [batch[0] for batch in make_loader(text, context=8, batch_size=4, steps=7, seed=seed)]
        for seed in (1, 1, 2)
    )
    assert len(first) == 7
    assert all(map(torch.equal, first, second))
    assert not all(map(torch.equal, first, other))
