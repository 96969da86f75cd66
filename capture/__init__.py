"""Capture PyTorch programs from their bytecode into graphs: ``@capture.compile``.

Only public names; see README.md for a tour.
"""

from capture import aot, backends, config, counters, errors
from capture.backends import list_backends, lookup_backend, register_backend
from capture.counters import snapshot as stats
from capture.errors import (
    BackendCompilerFailed,
    CaptureError,
    FailOnRecompileLimitHit,
    RecompileError,
    TorchRuntimeError,
    Unsupported,
    UserError,
)
from capture.eval_frame import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    graph_break,
    is_compiling,
    reset,
)
from capture.observe.explain import Explanation, explain
from capture.stance import set_stance
from capture.variables.size_marks import mark_dynamic, mark_static, maybe_mark_dynamic

__version__ = "0.1.0"

__all__ = [
    "BackendCompilerFailed",
    "CaptureError",
    "Explanation",
    "FailOnRecompileLimitHit",
    "RecompileError",
    "TorchRuntimeError",
    "Unsupported",
    "UserError",
    "allow_in_graph",
    "aot",
    "assume_constant_result",
    "backends",
    "compile",
    "config",
    "counters",
    "disable",
    "errors",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "register_backend",
    "reset",
    "set_stance",
    "stats",
]
