"""``format``: what it checks itself, before any ``__format__``."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
import torch


class Plain:
    def __format__(self, spec):
        return f"<{spec!r}>"


class Text(str):
    pass


@pytest.mark.parametrize("value", [Plain(), 3, 2.5, "text", None, True], ids=repr)
def test_the_specification_is_a_str(check, value):
    def fn(x, spec):
        try:
            return x + 1, format(value, spec)
        except (TypeError, ValueError) as error:
            return x, type(error).__name__, str(error)

    check(fn, *[(torch.ones(1), spec) for spec in ("", None, 3, b"", Text(""), ">9")])
