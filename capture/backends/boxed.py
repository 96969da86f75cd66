"""Holds the boxed calling convention for FX graphs; must not know which backend wants it.

A boxed function takes its inputs as one list and empties it. Only so can an input be freed after
its last use: arguments passed one by one are kept alive by the caller until the call returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import fx
from torch.fx.graph import CodeGen

__all__ = ["BoxedCodeGen", "EitherWay", "boxed_forward", "takes_boxed_graph"]

_NAME = re.compile(r"\**(\w+)")
_OPERATOR = re.compile(r"= torch\.ops\.(\w+)\.(\w+)\.(\w+)\(")


class BoxedCodeGen(CodeGen):
    """Generates ``forward(self, inputs: list)``, which unpacks and empties the list first.

    Set it with ``graph.set_codegen`` before the ``GraphModule`` is made, and the code is generated
    once. FX itself lets go of each value after its last use, inputs included.

    Args:
        unused: inputs that no node uses; they are let go at once.
    """

    def __init__(self, unused: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.unused = unused

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, **options: object
    ) -> str:
        """Return the ``def`` line and the lines that unpack the list."""
        names = [match[1] for each in free_vars if (match := _NAME.match(each))]
        names = [name for name in names if name != "self"]
        lines = [f"def {self._func_name}(self, inputs_){maybe_return_annotation}:"]
        if names:
            lines.append(f"    {', '.join(names)}, = inputs_; inputs_.clear()")
        if unused := [name for name in names if name in self.unused]:
            lines.append(f"    {' = '.join(unused)} = None")
        return "\n".join(lines)

    def process_inputs(self, *args: object) -> tuple[object, ...]:
        """Return the graph's inputs, for ``fx.Interpreter`` called in either way."""
        if len(args) == 1 and isinstance(args[0], list):
            return tuple(args[0])
        return args


class EitherWay:
    """A boxed function that takes its inputs one by one as well.

    So a backend may call what another backend compiled without knowing the convention. An input of
    a graph is never a list, which tells the two apart.
    """

    __slots__ = ("boxed",)

    _boxed_call = True

    def __init__(self, boxed: Callable[[list[Any]], Any]) -> None:
        self.boxed = boxed

    def __call__(self, *inputs: Any) -> Any:
        """Call with one list, which is emptied, or with the inputs one by one."""
        if len(inputs) == 1 and type(inputs[0]) is list:
            return self.boxed(inputs[0])
        return self.boxed(list(inputs))


def takes_boxed_graph(backend: object) -> bool:
    """Tell whether the backend wants a ``GraphModule`` that was made with ``BoxedCodeGen``."""
    return bool(getattr(backend, "takes_boxed_graph", False))


def boxed_forward(gm: fx.GraphModule) -> Callable[..., tuple[object, ...]]:
    """Return ``gm``'s forward as a function ``(self, inputs: list)``, whatever its convention."""
    graph = gm.graph
    codegen = graph._codegen
    if isinstance(codegen, BoxedCodeGen):
        return type(gm).forward
    # The module keeps its own code: somebody may print it or call it with positional arguments.
    unused = frozenset(
        str(node.target) for node in graph.nodes if node.op == "placeholder" and not node.users
    )
    graph.set_codegen(BoxedCodeGen(unused))
    try:
        python_code = graph.python_code("self")
    finally:
        graph.set_codegen(codegen)
    namespace = dict(python_code.globals)
    source = _with_operators_bound(python_code.src, namespace)
    exec(compile(source, f"<boxed {type(gm).__name__}>", "exec"), namespace)
    return cast("Callable[..., tuple[object, ...]]", namespace["forward"])


def _with_operators_bound(source: str, namespace: dict[str, object]) -> str:
    """Let calls of operators go to their C functions, instead of through four look-ups and Python.

    That is most of what a small operator costs beside its work.
    """

    def bound(match: re.Match[str]) -> str:
        overload: Any = torch.ops
        for name in match.groups():
            overload = getattr(overload, name)
        function = getattr(overload, "_op", None)
        if type(overload) is not torch._ops.OpOverload or function is None:
            return match[0]
        name = "op_" + "_".join(match.groups())
        if namespace.setdefault(name, function) is not function:
            return match[0]
        return f"= {name}("

    return _OPERATOR.sub(bound, source)
