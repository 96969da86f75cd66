"""Holds the tables of rules for callables that are not run as bytecode, and what fills them.

A rule gets (tracer, args, kwargs) with realised positional arguments and returns a variable, or
None: it does not apply to these arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from capture.variables.base import Tracer, Variable

Args = list[Variable]
Kwargs = dict[str, Variable]
Rule = Callable[[Tracer, Args, Kwargs], Variable | None]

RULES: dict[Any, Rule] = {}
"""C callable or class -> its rule."""
PYTHON_RULES: dict[Any, Rule] = {}
"""Python function -> its rule."""


def rule(*callables: Any) -> Callable[[Rule], Rule]:
    """Register the rule of C callables."""

    def register(fn: Rule) -> Rule:
        for callable_ in callables:
            assert callable_ not in RULES, callable_
            RULES[callable_] = fn
        return fn

    return register


def python_rule_for(*functions: Any) -> Callable[[Rule], Rule]:
    """Register the rule of Python functions that are not to be inlined."""

    def register(fn: Rule) -> Rule:
        for function in functions:
            assert function not in PYTHON_RULES, function
            PYTHON_RULES[function] = fn
        return fn

    return register


def has_rule(callable_: Any) -> bool:
    """True if there is a rule for the C callable."""
    try:
        return callable_ in RULES
    except TypeError:
        return False
