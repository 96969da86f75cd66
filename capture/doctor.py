"""Holds the checks of ``python -m capture doctor``; must not repair anything."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

import capture
from capture import _native
from capture.backends import list_backends, lookup_backend
from capture.backends.inductor.adapter import cpp_compiler

__all__ = ["main"]


def main(console: Console | None = None) -> int:
    """Print what this installation is and whether it works; return 1 if a check fails."""
    console = console or Console()
    checks: list[tuple[str, Callable[[], object]]] = [
        ("Python", lambda: f"{platform.python_implementation()} {platform.python_version()}"),
        ("torch", lambda: torch.__version__),
        ("native module", _check_native),
        ("capture of a function", _check_capture),
        ("backends", _check_backends),
        ("C++ compiler", _compiler),
        ("environment", _environment),
    ]
    table = Table("check", "", "result")
    failed = False
    for name, check in checks:
        try:
            result, mark = str(check()), "[green]ok[/green]"
        except Exception as error:
            result, mark = f"{type(error).__name__}: {error}", "[red]failed[/red]"
            failed = True
        table.add_row(name, mark, result)
    console.print(table)
    return int(failed)


def _check_native() -> str:
    _native.self_test()
    return str(_native.__file__)


def _check_capture() -> str:
    def add(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    calls: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        calls.append(len(gm.graph.nodes))
        return gm.forward

    x = torch.arange(3.0)
    if not torch.equal(capture.compile(add, backend=backend)(x), add(x)):
        raise RuntimeError("the captured function gives another result than eager")
    if not calls:
        raise RuntimeError("the function ran, but it was not captured")
    return "one graph, result equal to eager's"


def _check_backends() -> str:
    names = list_backends(exclude_tags=None)
    for name in names:
        lookup_backend(name)
    return ", ".join(names)


def _compiler() -> str:
    # Only the backend ``inductor`` needs one: that there is none is no failure of the installation.
    return cpp_compiler() or 'none, which "inductor" needs; use backend="aot_eager"'


def _environment() -> str:
    found = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("CAPTURE_")]
    return " ".join(sorted(found)) or "no CAPTURE_ variable is set"
