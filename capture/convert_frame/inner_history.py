"""Holds the look ahead for code that asks for the history of tensors; must not know backends.

A graph that a backend compiled as a whole is one node of autograd: tensors that leave it do not
depend on each other, as they do in eager. Code behind a graph break that puts a hook on one of
them, keeps its gradient or differentiates with regard to it would see the difference. What the
code of the frames names tells beforehand; what the callers of a compiled function do with its
results cannot be told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType

import torch

from capture.graph.values import TensorValue
from capture.instructions.decode import decode
from capture.instructions.ops import Op
from capture.symbolic_convert.frame import Frame
from capture.variables.base import Variable
from capture.variables.functions import FunctionVariable, MethodVariable

__all__ = ["asks_for_history"]

_OF_NODES = frozenset("grad_fn register_prehook get_gradient_edge".split())
_OF_TENSORS = frozenset("retain_grad register_hook register_multi_grad_hook".split())
_LOADS = frozenset({Op.LOAD_METHOD, Op.LOAD_GLOBAL, Op.LOAD_NAME, Op.LOAD_DEREF})
_TORCH = os.path.dirname(torch.__file__) + os.sep  # its modules look for hooks of theirs
_DEPTH = 2  # functions that the code calls by a global's name, and those that these call


def asks_for_history(frames: Sequence[Frame], outputs: Iterable[object]) -> bool:
    """Tell whether code of these frames, or functions it calls, may see a graph as one node.

    Args:
        frames: where the program goes on behind the graph.
        outputs: what the graph returns.
    """
    tensors = [v for v in outputs if isinstance(v, TensorValue) and v.meta.has_grad_fn]
    if not tensors:
        return False
    search = _Search(alone=len(tensors) == 1)
    return any(search.finds(code, names, _DEPTH) for code, names in _codes(frames))


def _codes(frames: Iterable[Frame]) -> Iterator[tuple[CodeType, dict[str, object]]]:
    for frame in frames:
        yield frame.code, _real(frame.globals)
        for v in frame.stack:
            fn = v.fn if isinstance(v, MethodVariable) else v
            if isinstance(fn, FunctionVariable):
                yield fn.code, _real(fn.globals)


def _real(namespace: Variable) -> dict[str, object]:
    known = getattr(namespace, "value", None)
    return known if isinstance(known, dict) else {}


class _Search:
    """A walk through the code of functions.

    Args:
        alone: whether the graph returns one tensor with a history: only that its node is another
            than in eager can be seen then.
    """

    def __init__(self, alone: bool) -> None:
        self.alone = alone
        self.seen: set[CodeType] = set()

    def finds(self, code: CodeType, known: dict[str, object], depth: int) -> bool:
        """Tell whether the code may ask, or what it calls through globals, ``depth`` calls deep."""
        if code in self.seen or code.co_filename.startswith(_TORCH):
            return False
        self.seen.add(code)
        names = code.co_names
        if not _OF_NODES.isdisjoint(names):
            return True
        if not self.alone and (not _OF_TENSORS.isdisjoint(names) or _differentiates(code)):
            return True
        inner = [each for each in code.co_consts if isinstance(each, CodeType)]
        if any(self.finds(each, known, depth) for each in inner):
            return True
        called = [known.get(name) for name in names] if depth else []
        return any(
            self.finds(fn.__code__, fn.__globals__, depth - 1)
            for fn in called
            if isinstance(fn, FunctionType)
        )


def _differentiates(code: CodeType) -> bool:
    """``autograd.grad``, however imported, and ``backward`` for given inputs."""
    names = {*code.co_names, *code.co_freevars, *code.co_varnames}
    if "grad" in names:
        if "autograd" in names:
            return True
        if any(i.op in _LOADS and i.arg == "grad" for i in decode(code).instructions):
            return True
    if "backward" in names:
        for inst in decode(code).instructions:
            if inst.op is Op.CALL and isinstance(inst.arg, tuple) and "inputs" in inst.arg[1]:
                return True
    return False
