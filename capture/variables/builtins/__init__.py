"""Holds the rules for callables implemented in C: one small function each, in a table.

Pure functions of constants need no rule; functions that call back are inlined as polyfills.
Importing the package fills the table.
"""

from __future__ import annotations

# Imported for the rules they add to the table.
from capture.variables.builtins import (
    attributes,
    copying,
    descriptors,
    distributions,
    equivalents,
    exceptions,
    functions,
    identities,
    inspection,
    iterators,
    numbers,
    pickling,
    profiling,
    refused,
    regex,
    sequences,
    sets,
    threads,
    warned,
    weak,
)
from capture.variables.builtins.classes import class_list, native_new
from capture.variables.builtins.dispatch import call_builtin, class_rule, python_rule
from capture.variables.builtins.mappings import fill_dict
from capture.variables.builtins.registry import has_rule
from capture.variables.builtins.text import format_value, to_text

__all__ = [
    "attributes",
    "call_builtin",
    "class_list",
    "class_rule",
    "copying",
    "descriptors",
    "distributions",
    "equivalents",
    "exceptions",
    "fill_dict",
    "format_value",
    "functions",
    "has_rule",
    "identities",
    "inspection",
    "iterators",
    "native_new",
    "numbers",
    "pickling",
    "profiling",
    "python_rule",
    "refused",
    "regex",
    "sequences",
    "sets",
    "threads",
    "to_text",
    "warned",
    "weak",
]
