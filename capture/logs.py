"""Holds the log artifacts, ``CAPTURE_LOGS`` and ``CAPTURE_DUMP_DIR``; must not know torch.

An artifact is one thing worth looking at (graphs, guards, breaks ...). Each has a standard logger
``capture.<name>`` that is silent until ``CAPTURE_LOGS`` or ``configure`` names it::

    CAPTURE_LOGS=graph,breaks        these two
    CAPTURE_LOGS=+guards             in more detail
    CAPTURE_LOGS=all,-perf           everything but one
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from capture.errors import UserError

__all__ = [
    "ARTIFACTS",
    "FAKE_RUNS",
    "Artifact",
    "artifact",
    "configure",
    "dump",
    "dumping",
    "silenced",
    "warning_once",
]

ARTIFACTS: dict[str, str] = {
    "graph": "each captured graph as a table of nodes",
    "graph_code": "each captured graph as Python code",
    "bytecode": "the instructions of each captured frame, and the code generated for it",
    "guards": "the guards of each entry, and which one failed",
    "breaks": "each graph break: the user's line, the reason, what to do",
    "recompiles": "each recompile and the guard that caused it",
    "aot": "joint graphs, partitions and the runtime wrapper",
    "side_effects": "what is replayed after a graph, and in which order",
    "dynamic": "which sizes and numbers became symbolic, and why",
    "perf": "where the time of capture goes",
}

_FORMAT = "[%(name)s] %(message)s"
_root = logging.getLogger("capture")
_lock = threading.Lock()


class Artifact:
    """One log artifact: a logger that is cheap to ask whether anybody listens."""

    __slots__ = ("logger", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.logger = _root.getChild(name)
        self.logger.setLevel(logging.WARNING)

    @property
    def enabled(self) -> bool:
        """Whether ``info`` would be shown; ask before building an expensive message."""
        return self.logger.isEnabledFor(logging.INFO)

    @property
    def verbose(self) -> bool:
        """Whether ``debug`` would be shown (``+name`` in ``CAPTURE_LOGS``)."""
        return self.logger.isEnabledFor(logging.DEBUG)

    def debug(self, message: str, *args: object) -> None:
        """Log a detail."""
        self.logger.debug(message, *args)

    def info(self, message: str, *args: object) -> None:
        """Log the artifact itself."""
        self.logger.info(message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Log what the user should see without having asked."""
        self.logger.warning(message, *args)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is now, as redirection in tests and notebooks expects."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter(_FORMAT))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


_artifacts = {name: Artifact(name) for name in ARTIFACTS}
_handler = _StderrHandler()
_dump_dir: Path | None = None
_dumped: dict[Path, int] = {}
_warned: set[object] = set()


def artifact(name: str) -> Artifact:
    """Return the artifact called ``name``."""
    try:
        return _artifacts[name]
    except KeyError:
        raise UserError(_unknown(name)) from None


def configure(spec: str | None = "", *, dump_dir: str | os.PathLike[str] | None = None) -> None:
    """Set which artifacts are shown and where files go, in place of the environment's choice.

    Args:
        spec: as in ``CAPTURE_LOGS``; empty or None silences everything.
        dump_dir: as ``CAPTURE_DUMP_DIR``; None writes no files.
    """
    global _dump_dir
    levels = _parse(spec or "")
    for name, each in _artifacts.items():
        each.logger.setLevel(levels.get(name, logging.WARNING))
    if levels:
        if _handler not in _root.handlers:
            _root.addHandler(_handler)
        # The root logger's handlers would print every line a second time.
        _root.propagate = False
    else:
        _root.removeHandler(_handler)
        _root.propagate = True
    _dump_dir = Path(dump_dir) if dump_dir else None


def dumping() -> bool:
    """Tell whether ``dump`` writes anything; ask before building an expensive text."""
    return _dump_dir is not None


def dump(name: str, filename: str, text: str) -> Path | None:
    """Write ``text`` to ``<dump dir>/<artifact>/<filename>`` and return the path.

    A name that this process has used already gets a number before its suffix. Does nothing, and
    returns None, without a dump directory.
    """
    artifact(name)
    if _dump_dir is None:
        return None
    path = _dump_dir / name / re.sub(r"[^\w.+-]+", "_", filename)
    with _lock:
        count = _dumped.get(path, 0)
        _dumped[path] = count + 1
    if count:
        path = path.with_name(f"{path.stem}.{count}{path.suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    return path


def warning_once(name: str, key: object, message: str, *args: object) -> None:
    """Log a warning on an artifact, once in this process for each ``(name, key)``."""
    with _lock:
        if (name, key) in _warned:
            return
        _warned.add((name, key))
    artifact(name).warning(message, *args)


@contextlib.contextmanager
def silenced(*names: str) -> Iterator[None]:
    """Keep other packages' loggers quiet about failures that are ours to report."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


# What torch's fake tensors and symbolic sizes log of each failure before they raise it.
FAKE_RUNS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


def _parse(spec: str) -> dict[str, int]:
    """Return the level of each artifact that ``spec`` turns on."""
    levels: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in spec.split(","))):
        sign, name = (item[0], item[1:]) if item[0] in "+-" else ("", item)
        if name != "all" and name not in ARTIFACTS:
            raise UserError(f"CAPTURE_LOGS: {_unknown(name)}")
        for each in ARTIFACTS if name == "all" else (name,):
            if sign == "-":
                levels.pop(each, None)
            else:
                levels[each] = logging.DEBUG if sign else logging.INFO
    return levels


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, ARTIFACTS, n=1)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown log artifact {name!r}{guess}; there are: all, {', '.join(ARTIFACTS)}"


configure(os.environ.get("CAPTURE_LOGS"), dump_dir=os.environ.get("CAPTURE_DUMP_DIR"))
