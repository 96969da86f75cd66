"""Holds the command line, ``python -m capture``; must not do any work itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from capture import demo, doctor
from capture.backends import list_backends, lookup_backend
from capture.eval_frame import DEFAULT_BACKEND
from capture.observe.catalogue import catalogue_page

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m capture")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("demo", help="train a small transformer eagerly and captured")
    train.add_argument("--steps", type=_positive, default=150, help="default: %(default)s")
    train.add_argument("--backend", default=DEFAULT_BACKEND, help="default: %(default)s")
    commands.add_parser("backends", help="list the backends")
    commands.add_parser("breaks", help="print the page of graph-break reasons")
    commands.add_parser("doctor", help="check this installation")
    options = parser.parse_args(arguments)
    if options.command == "demo":
        lookup_backend(options.backend)
        return demo.main(steps=options.steps, backend=options.backend)
    if options.command == "doctor":
        return doctor.main()
    if options.command == "breaks":
        sys.stdout.write(catalogue_page())
        return 0
    return _print_backends()


def _print_backends() -> int:
    table = Table("backend", "what it does")
    for name in list_backends(exclude_tags=None):
        text = (lookup_backend(name).__doc__ or "").strip()
        table.add_row(name, text.partition("\n")[0])
    Console().print(table)
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


if __name__ == "__main__":
    sys.exit(main())
