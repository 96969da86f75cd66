"""Holds the instruction handlers, one module per family; importing it fills the registry."""

from capture.symbolic_convert.handlers import (
    calls,
    containers,
    context,
    exceptions,
    generators,
    jumps,
    loads,
    names,
    operators,
    stores,
)

__all__ = [
    "calls",
    "containers",
    "context",
    "exceptions",
    "generators",
    "jumps",
    "loads",
    "names",
    "operators",
    "stores",
]
