"""Holds what the attempts to translate a piece have taught the next one.

Translation is deterministic: an instruction is known by its number. Must not know the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capture.errors import GraphBreak

__all__ = ["Attempts"]


@dataclass
class Attempts:
    """What is to be done differently, by the number of the instruction.

    Attributes:
        break_at: where the graph breaks, and why.
        without_trial: where a trial failed and left traces (``Translator.attempt``).
        cutting: where a hook is registered that changes gradients.
    """

    break_at: dict[int, GraphBreak] = field(default_factory=dict)
    without_trial: set[int] = field(default_factory=set)
    cutting: set[int] = field(default_factory=set)
