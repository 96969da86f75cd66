"""Holds numbers in the graph: arithmetic, and what depends on data; must not know their uses."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from capture.config import settings
from capture.graph import data_sizes, op_rules
from capture.graph.derived import DerivedValue
from capture.graph.fx_adapter import (
    append_node,
)
from capture.graph.graph_inputs import FrameSummary, GraphInputs
from capture.graph.lifted_numbers import NUMBER, REFLEXIVE, lift, lift_condition
from capture.graph.propagate import (
    OperatorError,
    Outcome,
    SequenceResult,
)
from capture.graph.symbols import Dim, Inexpressible, Shapes
from capture.graph.tensor_meta import CannotPropagate, DependsOnData, TensorMeta
from capture.graph.values import ScalarValue, SizeValue, TensorValue

__all__ = ["GraphNumbers", "is_python_arithmetic"]


class GraphNumbers(GraphInputs):
    """A graph that has numbers which only it knows."""

    def item(self, tensor: TensorValue, frame_summary: FrameSummary = None) -> ScalarValue:
        """Add ``tensor.item()``: a number that only the graph knows.

        Raises:
            CannotPropagate: if the tensor has no such number, or not of one type.
        """
        pytype = self._number_type(tensor.meta)
        if any(size != 1 for size in tensor.meta.shape):
            raise CannotPropagate(f"item() of a tensor of shape {list(tensor.meta.shape)}")
        place = self._place_of(tensor)
        known = self._read.get(place)
        if known is not None:
            return known
        node = self._node("call_method", "item", (tensor.node,), {}, frame_summary)
        number = self._read[place] = self._number(node, pytype)
        return number

    def _place_of(self, tensor: TensorValue) -> Any:
        """Say which number of which tensor an element is, as long as nothing is written to it."""
        node: Any = tensor.node
        places: list[Any] = []
        while node.target is operator.getitem and type(node.args[1]) is int:
            if "capture_meta" not in node.args[0].meta:  # a part of a call's results
                break
            places.append(node.args[1])
            node = node.args[0]
        group = tensor.alias_group
        writes = sum(group in groups for groups in self.writes.values())
        return node, tuple(places), writes

    def items(self, tensor: TensorValue, frame_summary: FrameSummary = None) -> list[ScalarValue]:
        """Add ``tensor.tolist()`` of a tensor with one static dimension; its numbers.

        Raises:
            CannotPropagate: if the tensor has no such numbers, or not of one type.
        """
        pytype = self._number_type(tensor.meta)
        whole = self._node("call_method", "tolist", (tensor.node,), {}, frame_summary)
        found = []
        for place in range(tensor.meta.shape[0]):
            part = append_node(
                self.graph, "call_function", "getitem", operator.getitem, (whole, place), {}
            )
            self._parts.append(part)
            found.append(self._number(part, pytype))
        return found

    def number_of(
        self,
        function: Callable[..., Any],
        tensors: list[TensorValue],
        pytype: type,
        frame_summary: FrameSummary = None,
    ) -> ScalarValue:
        """Add a call that takes a number out of tensors and cannot fail.

        Raises:
            CannotPropagate: if that is not for this graph, or for such tensors.
        """
        for tensor in tensors:
            self._number_type(tensor.meta)
        arguments = tuple(tensor.node for tensor in tensors)
        node = self._node("call_function", function, arguments, {}, frame_summary)
        return self._number(node, pytype)

    def _number(self, node: fx.Node, pytype: type) -> ScalarValue:
        node.meta[NUMBER] = pytype
        self.data_dependent = True
        return ScalarValue(node, pytype, None)

    def _number_type(self, meta: TensorMeta) -> type:
        pytype = _NUMBER_TYPES.get(meta.dtype)
        if pytype is None or not meta.is_plain:
            raise CannotPropagate(f"numbers out of a tensor of type {meta.dtype}")
        return pytype

    def _scalar_call(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fx_args: tuple[Any, ...],
        fx_kwargs: dict[str, Any],
        frame_summary: FrameSummary,
    ) -> ScalarValue:
        """Add arithmetic on Python numbers."""
        numbers = [*args, *kwargs.values()]
        if any(
            type(n) not in (int, float, bool, ScalarValue, SizeValue, DerivedValue) for n in numbers
        ):
            raise CannotPropagate("arithmetic of a number of the graph with something else")
        known = all(n.example is not None for n in numbers if isinstance(n, ScalarValue))
        if op_rules.name_of(target) in ("pow", "ipow") and all(
            (n.pytype if isinstance(n, ScalarValue) else type(n)) is not float for n in numbers
        ):
            raise CannotPropagate("the type of a power of integers depends on their values")
        try:
            example = target(
                *(_number(n) for n in args), **{k: _number(n) for k, n in kwargs.items()}
            )
        except Exception as error:
            if not known:
                raise CannotPropagate("arithmetic that may fail on an unknown number") from None
            raise OperatorError(error.with_traceback(None)) from None
        if type(example) not in (int, float, bool):
            raise CannotPropagate(f"a number computed as a {type(example).__name__}")
        node = self._node(kind, target, fx_args, fx_kwargs, frame_summary)
        node.meta[NUMBER] = type(example)
        if _is_total(op_rules.name_of(target), numbers):
            self._spare[node] = None
        else:
            self.may_raise = True
        return ScalarValue(node, type(example), example if known else None)

    def spare(self, number: ScalarValue) -> None:
        """Arithmetic that is sure not to raise: it need not stay where nobody reads the number."""
        self._spare[number.node] = None

    def drop_spare(self, outputs: Sequence[TensorValue | ScalarValue]) -> None:
        """Take arithmetic out whose number became a constant, or decides behind the graph."""
        returned = {value.node for value in outputs}
        for node in reversed(self._spare):
            if not node.users and node not in returned:
                self.graph.erase_node(node)
                self.num_ops -= 1
        self._spare.clear()

    def _takes_data_sizes(self) -> bool:
        """Tell whether operators may bring sizes that depend on data into this graph."""
        return self.takes_data and settings.capture_dynamic_output_shape_ops

    def _take_data(self) -> None:
        """Let an operator into this graph that works on numbers in tensors.

        Raises:
            CannotPropagate: if the graph takes none.
        """
        if not self._takes_data_sizes():
            raise DependsOnData("an operator works on numbers in a tensor")
        self.data_dependent = True

    def _check_told(self, outcome: Outcome, shapes: Shapes) -> bool:
        """Tell whether a result has sizes of its own; a node can tell each of them.

        Raises:
            CannotPropagate: if it cannot, or if the graph takes none.
        """
        dims = list(data_sizes.dims_of(outcome.result))
        for _, meta in outcome.changed:
            dims += [n for n in (*meta.shape, *meta.stride) if type(n) is Dim]
        needed = {s for dim in dims for s in dim.expr.free_symbols if not shapes.is_known(s)}
        if not needed:
            return False
        if not self._takes_data_sizes():
            raise DependsOnData("the size of a result depends on data")
        if not needed <= {dim.expr for dim in _sizes_of(outcome.result)}:
            raise DependsOnData("a size of the result depends on data in a way that is not told")
        return True

    def _tell(self, result: Any) -> None:
        """Note what tells the sizes that depend on data; behind the operator that brings them."""
        if isinstance(result, tuple | list):
            for item in result:
                self._tell(item)
        elif isinstance(result, TensorValue):
            shapes = self.symbolic()
            for place, n in enumerate(result.meta.shape):
                if type(n) is Dim and n.expr.is_Symbol and not shapes.is_known(n.expr):
                    arguments = (result.node, place)
                    node = append_node(self.graph, "call_method", "size", "size", arguments, {})
                    node.meta[NUMBER] = int
                    self._parts.append(node)
                    shapes.tell(n.expr, node)
                    self.data_dependent = self.data_sizes = True

    def settle_assumptions(self) -> None:
        """Assert in the graph what was assumed of sizes that depend on data.

        Raises:
            CannotPropagate: if the piece could not start again where an assumption does not hold.
        """
        shapes = self.symbolic()
        known = {*shapes.inputs, *shapes.told}
        for relation in shapes.assumptions(known):
            if self.mutates_inputs or self._size_nodes is None:
                raise DependsOnData(f"{relation} has to hold, behind a change")
            try:
                node = self._size_nodes.node_of(relation)
            except Inexpressible as error:
                raise DependsOnData(str(error)) from None
            append_node(self.graph, "call_function", "assume", data_sizes.assume, (node,), {})
            shapes.asserted(relation)
            self.assumes = True

    def known_truth(self, condition: ScalarValue) -> bool | None:
        """Return what a comparison of numbers comes to whatever the data are, or None."""
        node = condition.node
        if node.graph is not self.graph:
            return None
        if node.target in REFLEXIVE and node.args[0] is node.args[1]:
            number: Any = node.args[0]
            if number.meta.get(NUMBER) is int:  # a float may be no number
                return REFLEXIVE[node.target]
        if self.shapes is None:
            return None
        relation = lift_condition(self.shapes, node, self._number_inputs())
        return self.shapes.known_truth(relation)

    def as_dim(self, scalar: ScalarValue) -> Any:
        """Return the int or ``Dim`` of an int that the graph computes, or None."""
        if scalar.pytype is not int or not self._takes_data_sizes():
            return None
        return lift(self.symbolic(), scalar.node, self._number_inputs())

    def _number_inputs(self) -> dict[fx.Node, tuple[Any, Any]]:
        rows = zip(self.placeholders, self.inputs, self.examples, strict=True)
        return {node: (key, example) for node, key, example in rows}

    def assume_number(self, condition: ScalarValue) -> None:
        """Take for granted that a bool of the graph is true; else the piece runs in Python.

        Raises:
            CannotPropagate: if the piece could not start again there, or if it is false.
        """
        if self.mutates_inputs:
            raise DependsOnData("a condition, behind a change")
        shapes = self.symbolic()
        relation = lift_condition(shapes, condition.node, self._number_inputs())
        if isinstance(relation, torch.SymBool):
            shapes.assume(relation)
            self.settle_assumptions()
        append_node(self.graph, "call_function", "assume", data_sizes.assume, (condition.node,), {})
        self.assumes = True


def _sizes_of(result: Any) -> list[Dim]:
    """Return the symbolic sizes of an outcome's tensors, strides left out."""
    meta = getattr(result, "meta", None)
    found = [n for n in meta.shape if type(n) is Dim] if isinstance(meta, TensorMeta) else []
    if type(result) is SequenceResult:
        for item in result.items:
            found += _sizes_of(item)
    return found


_NUMBER_TYPES: dict[torch.dtype, type] = {
    **dict.fromkeys((torch.float64, torch.float32, torch.float16, torch.bfloat16), float),
    **dict.fromkeys((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), int),
    torch.bool: bool,
}


_TOTAL_ARITHMETIC = frozenset(
    {"add", "sub", "mul", "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge", "min", "max"}
)


def _is_total(name: str, numbers: list[Any]) -> bool:
    """Tell whether arithmetic cannot raise whatever the numbers of the graph are."""
    if name in ("truediv", "floordiv", "mod"):
        divisor = numbers[1]
        fits = divisor.nonzero if isinstance(divisor, ScalarValue) else divisor != 0
        if name == "truediv":  # a quotient of integers may be too large for a float
            kinds = [n.pytype if isinstance(n, ScalarValue) else type(n) for n in numbers]
            return fits and float in kinds
        return fits
    return name in _TOTAL_ARITHMETIC


def is_python_arithmetic(target: Any) -> bool:
    """Tell whether ``target`` works on Python numbers, rather than on tensors."""
    if target in (int, float, bool):
        return True
    return isinstance(target, types.BuiltinFunctionType) and target.__module__ in (
        "_operator",
        "builtins",
        "math",
    )


def _number(value: Any) -> Any:
    if not isinstance(value, ScalarValue):
        return value
    return value.pytype(1) if value.example is None else value.example
