"""Holds tensors of the graph; must not know the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture.variables.base import Variable

if TYPE_CHECKING:
    from capture.graph.tensor_meta import TensorMeta
    from capture.graph.values import TensorValue
    from capture.sources import Source


class TensorVariable(Variable):
    """A tensor: an input of the graph or computed in it. It carries metadata, not a tensor.

    ``grad`` is what the attribute of that name holds now, and ``initial_grad`` what it held when it
    was read first; None as long as nobody asked. ``grad_node`` is what ``grad_fn`` is, if known.
    """

    __slots__ = ("attrs", "grad", "grad_node", "initial_grad", "retains_grad", "value")

    def __init__(self, value: TensorValue, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value
        self.attrs: dict[str, Variable] | None = None
        self.grad: Variable | None = None
        self.initial_grad: Variable | None = None
        self.grad_node: Variable | None = None
        self.retains_grad = False

    @property
    def meta(self) -> TensorMeta:
        """Shape, strides, dtype and so on, as of now."""
        return self.value.meta

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return self.value.meta.cls
