"""Holds the rules of calls that take functions and run them in their own way.

Importing the package registers the rules.
"""

from __future__ import annotations

from capture.variables.higher_order import (
    autograd_function,
    checkpoint,
    control_flow,
    module_hooks,
    tensor_hooks,
    transforms,
)

__all__ = [
    "autograd_function",
    "checkpoint",
    "control_flow",
    "module_hooks",
    "tensor_hooks",
    "transforms",
]
