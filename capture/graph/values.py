"""Holds the values that live in a graph: tensors, Python numbers, sizes, opaque state tokens.

Must not know how a graph is built or how metadata is computed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from capture.graph.history import History
from capture.graph.symbols import Dim
from capture.graph.tensor_meta import TensorMeta

__all__ = [
    "GraphFunction",
    "ScalarValue",
    "SizeValue",
    "StateToken",
    "TensorValue",
    "ViewKind",
]


class ViewKind(enum.IntEnum):
    """How autograd sees a tensor that shares another one's memory."""

    NOT_A_VIEW = 0
    VIEW = 1
    MULTI_OUTPUT = 2  # a part of unbind, split, chunk: in-place operators are refused
    NO_GRAD = 3  # made with grad mode off: in-place operators that record are refused


class TensorValue:
    """A tensor in the graph.

    One object stands for one Python tensor: an in-place operator returns the object it was given.

    Attributes:
        node: what computes it; after an in-place operator still the first one.
        meta: its metadata at the current point of the program.
        alias_group: tensors that share memory have the same number.
        view_group: tensors that autograd takes for views of one base have the same number;
            ``detach`` starts a new one within the alias group.
        view_kind: how it came to be a view.
        is_input: whether it is an input of the graph.
        history: what autograd knows behind it; None if it does not require grad.
    """

    __slots__ = (
        "__weakref__",
        "alias_group",
        "history",
        "is_input",
        "meta",
        "node",
        "view_group",
        "view_kind",
    )

    def __init__(
        self,
        node: fx.Node,
        meta: TensorMeta,
        alias_group: int,
        view_group: int | None = None,
        view_kind: ViewKind = ViewKind.NOT_A_VIEW,
        *,
        is_input: bool = False,
    ) -> None:
        self.node = node
        self.meta = meta
        self.alias_group = alias_group
        self.view_group = alias_group if view_group is None else view_group
        self.view_kind = view_kind
        self.is_input = is_input
        self.history: History | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape as eager gives it."""
        return torch.Size(self.meta.shape)

    def __repr__(self) -> str:
        return f"TensorValue({self.node.name}, {list(self.meta.shape)}, {self.meta.dtype})"


class ScalarValue:
    """A Python number that the graph takes as an input or computes.

    Attributes:
        node: what computes it.
        pytype: its exact type: int, float or bool.
        example: its value in the call that is being captured, or None if only the graph knows it.
        nonzero: whether it is known not to be zero in any call.
    """

    __slots__ = ("__weakref__", "example", "is_input", "node", "nonzero", "pytype")

    def __init__(
        self,
        node: fx.Node,
        pytype: type,
        example: int | float | bool | None,
        *,
        is_input: bool = False,
    ) -> None:
        self.node = node
        self.pytype = pytype
        self.example = example
        self.nonzero = False
        self.is_input = is_input

    def __repr__(self) -> str:
        return f"ScalarValue({self.node.name}, {self.pytype.__name__}, {self.example!r})"


class SizeValue(ScalarValue):
    """An int that is an expression over sizes and numbers of the graph's inputs.

    It gets a node when something in the graph asks for it.

    Attributes:
        dim: the expression.
    """

    __slots__ = ("_make_node", "dim")

    def __init__(self, dim: Dim, make_node: Callable[[Dim], fx.Node]) -> None:
        self.dim = dim
        self._make_node = make_node
        self.pytype = int
        self.example = dim.hint
        self.nonzero = False
        self.is_input = False

    @property
    def node(self) -> fx.Node:  # type: ignore[override]
        """What computes it."""
        return self._make_node(self.dim)

    def __repr__(self) -> str:
        return f"SizeValue({self.dim!r}, {self.example!r})"


class StateToken:
    """What a state-changing call returned, to be handed to the call that undoes it."""

    __slots__ = ("__weakref__", "before", "node")

    def __init__(self, node: fx.Node, before: object) -> None:
        self.node = node
        self.before = before

    def __repr__(self) -> str:
        return f"StateToken({self.node.name})"


class GraphFunction:
    """A target of a node: a named callable that a backend can call on what it traces with.

    Attributes:
        stand_in: what propagation calls in its place, if the callable itself does not do.
        capture_traceable: whether it does the same each time, so that a backend may record it once.
        effect: whether it returns None and changes something that metadata does not tell.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        stand_in: Callable[..., Any] | None = None,
        traceable: bool = True,
        *,
        effect: bool = False,
    ) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "capture.functions"
        self.call = call
        self.stand_in = stand_in
        self.capture_traceable = traceable
        self.effect = effect

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.__name__}>"
