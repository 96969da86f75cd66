"""Holds the demo: a character-level transformer trained eagerly and captured, step for step equal.

It is ordinary user code: nothing in it is written for capture, and it uses the public API only.
"""

from __future__ import annotations

from capture.demo.run import main

__all__ = ["main"]
