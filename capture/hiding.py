"""Holds how code that capture makes is kept from torch's own frontend; must not know its purpose.

Where a compiled function runs inside ``torch.compile``, that sees each frame first. It must not
compile epilogues and pieces of frames: it would make new code of them, which capture would take for
the user's. What such code calls is its affair all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

__all__ = ["hide"]


def _hider() -> Callable[[CodeType], Any]:
    frontend: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    set_strategy = getattr(frontend, "set_code_exec_strategy", None)
    if set_strategy is None:
        return lambda code: None
    action = frontend._FrameAction
    strategy = frontend._FrameExecStrategy(action.SKIP, action.DEFAULT)
    return lambda code: set_strategy(code, strategy)


_hide = _hider()


def hide(code: CodeType) -> CodeType:
    """Make torch's frontend leave frames of ``code`` alone, and return it."""
    _hide(code)
    return code
