"""Holds the making of the page of graph-break reasons; must not know where breaks happen."""

from __future__ import annotations

from capture.break_reasons import CATALOGUE

__all__ = ["catalogue_page"]


def catalogue_page() -> str:
    """Return ``docs/graph-breaks.md``: every reason with its explanation and hints."""
    lines = [
        "# Why graphs break",
        "",
        "Made by `python -m capture breaks` from `capture/break_reasons.py`. Where a graph breaks,",
        "Python runs the one instruction named, and capture goes on behind it; results are eager's",
        "either way. `CAPTURE_LOGS=breaks` shows each break with your line, and `capture.explain`",
        "collects them.",
        "",
    ]
    for reason in sorted(CATALOGUE, key=lambda each: each.id):
        lines += [f"## {reason.id}: {reason.title}", "", reason.explanation, ""]
        lines += [f"- {hint}" for hint in reason.hints]
        if reason.hints:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"
