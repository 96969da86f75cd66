"""Holds the FX graph that capture builds, call by call, and its handing over to a backend.

Must not know bytecode, variables or sources: inputs carry opaque keys.
"""

from __future__ import annotations

import operator
import types
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from capture import collector, logs
from capture.backends.boxed import BoxedCodeGen, EitherWay, takes_boxed_graph
from capture.backends.registry import backend_name
from capture.config import settings
from capture.errors import BackendCompilerFailed, DataRefused
from capture.graph import data_sizes, fake, op_rules
from capture.graph.arguments import Arguments
from capture.graph.derived import DerivedValue
from capture.graph.fx_adapter import (
    append_node,
    append_placeholder,
    make_graph_module,
    new_graph,
)
from capture.graph.gradients import gradient_meta, gradients, leaf_gradients
from capture.graph.history import History, check, is_open, is_rewritten, leaves_behind, release
from capture.graph.lifted_numbers import NUMBER, lift, lift_condition
from capture.graph.links import MAYBE, UNKNOWN
from capture.graph.propagate import (
    ConstantResult,
    FreshResult,
    InputResult,
    OperatorError,
    Outcome,
    SequenceResult,
    SizeResult,
    ViewResult,
    memo,
    propagate,
    remember,
)
from capture.graph.shadow import Shadow
from capture.graph.size_nodes import SizeNodes
from capture.graph.state import TorchState, applied, restored, snapshot
from capture.graph.symbols import Dim, Inexpressible, Shapes
from capture.graph.tensor_meta import CannotPropagate, DependsOnData, TensorMeta, meta_of
from capture.graph.values import ScalarValue, SizeValue, StateToken, TensorValue, ViewKind
from capture.graph.verify import verify

__all__ = ["CompiledGraph", "OutputGraph"]

FrameSummary = Callable[[], str] | str | None


@dataclass
class CompiledGraph:
    """A graph as a backend compiled it.

    Attributes:
        fn: takes the inputs (one list of them if ``boxed``), gives a sequence of ``n_outputs``.
        input_keys: the keys of the inputs that are left, in order.
        gm: what the backend was given.
    """

    fn: Callable[..., Any]
    n_inputs: int
    input_keys: list[object]
    n_outputs: int
    boxed: bool
    gm: fx.GraphModule


class OutputGraph:
    """The graph of one captured piece.

    Attributes:
        inputs: the keys of the inputs, in placeholder order.
        num_ops: calls in the graph, parts of results not counted.
        mutates_inputs: whether some input's data or metadata is changed.
        uses_rng: whether some call draws random numbers.
        may_raise: whether some call can fail because of data.
        switches: the fields of torch's state that some call changes.
        backward_calls: how many calls of autograd there are.
        placeholders: the nodes of the inputs, in order.
        group_of: of each node that is a tensor, its ``alias_group``.
        writes: of each node that writes to memory, the alias groups it writes to.
        no_views: the keys of inputs that must not be views: autograd could refuse a write then.
        drawing: the nodes that draw random numbers.
        shapes: what is decided about symbolic sizes; None while all sizes are static.
        takes_data: whether numbers out of tensors, and sizes that depend on data, may come into it.
        data_dependent: whether it has numbers out of tensors, or sizes that depend on data.
        data_sizes: whether it has such sizes.
        assumes: whether something is assumed of them: the graph raises if it does not hold.
    """

    layout_known = True
    """Whether strides are what the program would see (in ``vmap`` they are not)."""

    def __init__(self, name: str, state: TorchState | None = None) -> None:
        self.name = name
        self.graph = new_graph()
        self.inputs: list[object] = []
        self.examples: list[Any] = []
        self._state = snapshot() if state is None else state
        self._state_key = _state_key(self._state)
        self.num_ops = 0
        self.mutates_inputs = False
        self.uses_rng = False
        self.may_raise = False
        self.switches: set[str] = set()
        self.placeholders: list[fx.Node] = []
        self._groups = 0
        self._by_view_group: dict[int, list[TensorValue]] = {}
        self._input_groups: dict[tuple[str, int], int] = {}
        self._input_alias_groups: dict[int, list[tuple[object, ViewKind]]] = {}
        self.no_views: dict[object, None] = {}
        # operators that may have saved tensors of an alias group, as the tensors are now
        self._savers: dict[int, list[History]] = {}
        self.backward_calls = 0
        self._shadow: Shadow | None = None
        self._initial_state = self._state
        self._parts: list[fx.Node] = []
        self._dirty: set[int] = set()  # groups of inputs that were written to
        self.group_of: dict[fx.Node, int] = {}
        self.writes: dict[fx.Node, set[int]] = {}
        self.drawing: set[fx.Node] = set()
        self.shapes: Shapes | None = None
        self.takes_data = True
        self.data_dependent = False
        self.data_sizes = False
        self.assumes = False
        self._size_nodes: SizeNodes | None = None
        self._derived: dict[object, DerivedValue] = {}

    @property
    def state(self) -> TorchState:
        """Torch's state at the current point of the program being captured."""
        return self._state

    @state.setter
    def state(self, state: TorchState) -> None:
        self._state = state
        self._state_key = _state_key(state)

    # --- inputs --------------------------------------------------------------------------------

    def add_input(
        self,
        name: str,
        tensor: torch.Tensor,
        key: object,
        shape: tuple[Any, ...] | None = None,
        stride: tuple[Any, ...] | None = None,
    ) -> TensorValue:
        """Make ``tensor`` an input; ``name`` is a hint for readers.

        Args:
            shape: its sizes, with a ``Dim`` of ``shapes`` for what is symbolic.
            stride: its strides, likewise.

        Raises:
            CannotPropagate: if a graph cannot take such a tensor.
        """
        meta = meta_of(tensor)
        if shape is not None and stride is not None:
            meta = meta._replace(shape=shape, stride=stride)
        if meta.is_plain:
            alias_group = self._input_group("storage", tensor.untyped_storage()._cdata)
            kind, view_group = ViewKind.NOT_A_VIEW, self._input_group("base", id(tensor))
            if tensor._is_view():
                kind = ViewKind.VIEW
                view_group = self._input_group("base", id(tensor._base))
        else:
            alias_group = view_group = self._new_group()
            kind = ViewKind.NOT_A_VIEW
        node = self._placeholder(name, tensor, key)
        node.meta["capture_meta"] = meta
        value = TensorValue(node, meta, alias_group, view_group, kind, is_input=True)
        if meta.has_grad_fn:
            value.history = History(untold="it reaches a tensor that was computed before the graph")
        elif meta.requires_grad:
            value.history = History(leaf=value)
        self.group_of[node] = alias_group
        self._note_input(alias_group, key, kind)
        self._by_view_group.setdefault(view_group, []).append(value)
        return value

    def _note_input(
        self, alias_group: int, key: object = None, kind: ViewKind = ViewKind.VIEW
    ) -> None:
        """Note the memory of an input; unless it is known to be no view, it may be one."""
        self._input_alias_groups.setdefault(alias_group, []).append((key, kind))

    def add_scalar_input(self, name: str, number: int | float | bool, key: object) -> ScalarValue:
        """Make a Python number an input."""
        node = self._placeholder(name, number, key)
        node.meta[NUMBER] = type(number)
        return ScalarValue(node, type(number), number, is_input=True)

    def derived_number(self, name: str, example: int | float | bool, key: object) -> DerivedValue:
        """Return a number that is computed before the graph, an input once it is used."""
        known = self._derived.get(key)
        if known is None:
            known = self._derived[key] = DerivedValue(
                type(example), example, lambda: self._placeholder(name, example, key)
            )
        return known

    def item(self, tensor: TensorValue, frame_summary: FrameSummary = None) -> ScalarValue:
        """Add ``tensor.item()``: a number that only the graph knows.

        Raises:
            CannotPropagate: if the tensor has no such number, or not of one type.
        """
        pytype = self._number_type(tensor.meta)
        if any(size != 1 for size in tensor.meta.shape):
            raise CannotPropagate(f"item() of a tensor of shape {list(tensor.meta.shape)}")
        node = self._node("call_method", "item", (tensor.node,), {}, frame_summary)
        return self._number(node, pytype)

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

    def symbolic(self) -> Shapes:
        """Return what symbolic sizes are made of; the graph has some from now on."""
        if self.shapes is None:
            self.shapes = Shapes(self.takes_data)
            self._size_nodes = SizeNodes(self.graph, self.shapes, self._placeholder)
        return self.shapes

    def size_value(self, dim: Dim) -> SizeValue:
        """Return a size as a value of the graph."""
        assert self._size_nodes is not None
        return SizeValue(dim, self._size_nodes.node)

    def product(self, sizes: Sequence[Any]) -> Any:
        """Return the product of sizes: an int or a ``Dim``."""
        result: Any = 1
        for n in sizes:
            if type(n) is Dim or type(result) is Dim:
                result = self.symbolic().arithmetic(operator.mul, result, n)
            else:
                result *= n
        return result

    def is_contiguous(self, meta: TensorMeta, memory_format: torch.memory_format) -> bool:
        """Tell what ``Tensor.is_contiguous`` tells; of symbolic sizes, a decision."""
        if not meta.is_symbolic:
            return meta.is_contiguous(memory_format)
        tensor = fake.make_fake(meta, self.symbolic())
        return bool(tensor.is_contiguous(memory_format=memory_format))

    def _gradient_meta(self, leaf: TensorMeta) -> TensorMeta:
        if not leaf.is_symbolic:
            return gradient_meta(leaf)
        if data_sizes.depends_on_data(leaf):
            raise DependsOnData("the gradient of a leaf whose size depends on data")
        if not self.is_contiguous(leaf, torch.contiguous_format):
            raise CannotPropagate("the gradient of a leaf with symbolic strides")
        return TensorMeta(leaf.shape, leaf.stride, leaf.dtype, leaf.device)

    def _placeholder(self, name: str, example: object, key: object) -> fx.Node:
        last = self.placeholders[-1] if self.placeholders else None
        node = append_placeholder(self.graph, name, last)
        self.placeholders.append(node)
        self.inputs.append(key)
        self.examples.append(example)
        return node

    def _new_group(self) -> int:
        self._groups += 1
        return self._groups

    def _input_group(self, space: str, number: int) -> int:
        group = self._input_groups.get((space, number))
        if group is None:
            group = self._input_groups[space, number] = self._new_group()
        return group

    # --- calls ---------------------------------------------------------------------------------

    def call(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        frame_summary: FrameSummary = None,
    ) -> Any:
        """Add a call to the graph and return its result.

        Args:
            kind: ``call_function`` or ``call_method``.
            target: the function, or the method's name.
            args: values of the graph and constants, in tuples, lists, dicts and slices as well.
            frame_summary: the user's line for the node, or what gives it (asked at most once, now).

        Raises:
            OperatorError: if the call fails as it would in eager; nothing is added.
            CannotPropagate: if its result cannot be known; nothing is added.
        """
        found = Arguments()
        fx_args, key_args = found.walk_items(args)
        if kwargs:
            fx_values, key_values = found.walk_items(kwargs.values())
            fx_kwargs = dict(zip(kwargs, fx_values, strict=True))
            key: Any = (kind, target, key_args, tuple(kwargs), key_values, self._state_key)
        else:
            kwargs = fx_kwargs = {}
            key = (kind, target, key_args, self._state_key)
        tensors = found.tensors
        outcome = memo.get(key)
        shapes = self.shapes
        if outcome is None and shapes is not None:
            outcome = shapes.memo.get(key)
        if outcome is None:
            if not tensors:
                if (found.scalars or found.sizes) and _is_python_arithmetic(target):
                    return self._scalar_call(
                        kind, target, args, kwargs, fx_args, fx_kwargs, frame_summary
                    )
                if kind == "call_function":
                    rule = op_rules.classify(target)
                    if rule is not None and rule.kind is op_rules.RuleKind.STATE:
                        return self._state_call(target, args, kwargs, fx_args, found, frame_summary)
            if shapes is not None and not found.sizes:
                if not any(value.meta.is_symbolic for value in tensors):
                    shapes = None
            call = (kind, target, args, kwargs, tensors, found.scalars, self._state, found.sizes)
            try:
                outcome = propagate(*call, shapes)
            except DependsOnData:
                if shapes is not None or not self._takes_data_sizes():
                    raise
                shapes = self.symbolic()
                outcome = propagate(*call, shapes)
            if shapes is None:
                if op_rules.lives_on(target):
                    remember(key, outcome)
            elif not self._check_told(outcome, shapes):
                shapes.memo[key] = outcome
        if self.shapes is not None:
            self.settle_assumptions()
        if outcome.written:
            self._check_write(outcome, tensors)
        self.uses_rng = self.uses_rng or outcome.uses_rng
        self.may_raise = self.may_raise or outcome.may_raise
        if type(outcome.result) is InputResult:
            # It gives back its argument (dropout in eval mode, ...): the program's step all the
            # same, and what a backend may look for. The tensor goes on under the new node.
            given = tensors[outcome.result.position]
            node = given.node = self._node(kind, target, fx_args, fx_kwargs, frame_summary)
            self.group_of[node] = given.alias_group
            if outcome.written or outcome.changed:
                self._write(node, outcome, tensors)
            if outcome.uses_rng:
                self.drawing.add(node)
            return given
        if not outcome.needs_node:
            return self._result(outcome.result, None, tensors)
        node = self._node(kind, target, fx_args, fx_kwargs, frame_summary)
        if outcome.written or outcome.changed:
            self._write(node, outcome, tensors)
        if outcome.uses_rng:
            self.drawing.add(node)
        result = outcome.result
        if type(result) is FreshResult:  # the common case
            group = self._new_group()
            node.meta["capture_meta"] = result.meta
            value = TensorValue(node, result.meta, group, group)
            self.group_of[node] = group
            if result.meta.requires_grad:
                self._record(value, result.links, tensors)
            self._by_view_group[group] = [value]
            if self.shapes is not None and result.meta.is_symbolic:
                self._tell(value)
            return value
        made = self._result(result, node, tensors)
        if self.shapes is not None:
            self._tell(made)
        return made

    # --- sizes that depend on data ---------------------------------------------------------------

    def _takes_data_sizes(self) -> bool:
        """Tell whether operators may bring sizes that depend on data into this graph."""
        return self.takes_data and settings.capture_dynamic_output_shape_ops

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

    def _node(
        self,
        kind: str,
        target: Any,
        fx_args: tuple[Any, ...],
        fx_kwargs: dict[str, Any],
        frame_summary: FrameSummary,
    ) -> fx.Node:
        name = target if type(target) is str else op_rules.name_of(target)
        node = append_node(self.graph, kind, name, target, fx_args, fx_kwargs)
        if frame_summary is not None:
            # at once: what a callable would say changes as the program goes on
            node.meta["stack_trace"] = frame_summary() if callable(frame_summary) else frame_summary
        self.num_ops += 1
        return node

    def _result(self, described: Any, node: fx.Node | None, tensors: list[TensorValue]) -> Any:
        return self._build(described, node, tensors, {})

    def _build(
        self,
        described: Any,
        node: fx.Node | None,
        tensors: list[TensorValue],
        groups: dict[tuple[str, int], int],
    ) -> Any:
        kind = type(described)
        if kind is InputResult:
            return tensors[described.position]
        if kind is ConstantResult:
            return described.value
        if kind is SizeResult:
            return self.size_value(described.dim)
        if kind is FreshResult:
            assert node is not None
            alias_group = groups.setdefault(("a", described.alias_group), 0) or self._new_group()
            view_group = groups.setdefault(("v", described.view_group), 0) or self._new_group()
            groups["a", described.alias_group] = alias_group
            groups["v", described.view_group] = view_group
            value = self._value(node, described.meta, alias_group, view_group, ViewKind.NOT_A_VIEW)
            self._record(value, described.links, tensors)
            return value
        if kind is ViewResult:
            assert node is not None
            value = self._view(node, described, tensors[described.position])
            self._record(value, described.links, tensors)
            return value
        items = []
        for position, item in enumerate(described.items):
            part = None
            if node is not None and type(item) not in (InputResult, ConstantResult, SizeResult):
                part = append_node(
                    self.graph, "call_function", "getitem", operator.getitem, (node, position), {}
                )
                self._parts.append(part)
            items.append(self._build(item, part, tensors, groups))
        cls: Any = described.cls
        return cls(*items) if hasattr(cls, "_fields") else cls(items)

    def _view(self, node: fx.Node, described: ViewResult, given: TensorValue) -> TensorValue:
        kind = described.kind
        if described.differentiable:
            if kind is ViewKind.VIEW and given.view_kind > ViewKind.VIEW:
                kind = given.view_kind
            view_group = given.view_group
        else:
            view_group = self._new_group()
        return self._value(node, described.meta, given.alias_group, view_group, kind)

    def _value(
        self, node: fx.Node, meta: TensorMeta, alias_group: int, view_group: int, kind: ViewKind
    ) -> TensorValue:
        node.meta["capture_meta"] = meta
        value = TensorValue(node, meta, alias_group, view_group, kind)
        self.group_of[node] = alias_group
        self._by_view_group.setdefault(view_group, []).append(value)
        return value

    # --- what autograd records -----------------------------------------------------------------

    def _record(
        self, value: TensorValue, links: tuple[int, ...], tensors: list[TensorValue]
    ) -> None:
        """Note what a gradient for a new tensor flows to."""
        if value.meta.requires_grad:
            if value.meta.has_grad_fn:
                value.history = _history(links, tensors)
            else:
                value.history = History(leaf=value)
            self._note_saver(value.history, value, tensors)

    def _note_saver(self, history: History, value: TensorValue, given: list[TensorValue]) -> None:
        """Note that an operator may have saved its result and what it was given."""
        for group in {value.alias_group, *(tensor.alias_group for tensor in given)}:
            self._savers.setdefault(group, []).append(history)

    def _rewrite(self, outcome: Outcome, tensors: list[TensorValue]) -> None:
        """Note what in-place operators do to the histories of their tensors and families."""
        for index in outcome.written:
            for history in self._savers.pop(tensors[index].alias_group, ()):
                history.rewritten = True
        made = [(index, _history(links, tensors)) for index, links in outcome.links]
        for index, history in made if outcome.recorded else ():
            value = tensors[index]
            self._note_saver(history, value, tensors)
            for member in self._by_view_group[value.view_group]:
                if member is value or member.history is None:
                    member.history = history
                else:
                    member.history = History((member.history, history))
        for index, meta in outcome.changed:
            value = tensors[index]
            if not meta.requires_grad:
                value.history = None
            elif not meta.has_grad_fn and value.history is None:
                value.history = History(leaf=value)

    def leaves_of(
        self, outputs: list[TensorValue], grad_outputs: list[TensorValue | None]
    ) -> list[tuple[TensorValue, torch.layout]]:
        """Return the leaves that a backward call gives gradients to, and the gradients' layouts.

        Raises:
            CannotPropagate: if that cannot be foretold.
        """
        ends = [value.history for value in outputs if value.history is not None]
        order = {id(node): place for place, node in enumerate(self.graph.nodes)}
        leaves = leaves_behind(ends)
        if any(id(leaf.node) not in order for leaf in leaves):
            raise CannotPropagate("a leaf belongs to the graph around this one")
        leaves.sort(key=lambda value: order[id(value.node)])
        if not is_open(ends):
            return [(leaf, torch.strided) for leaf in leaves]
        leaves = [leaf for leaf in leaves if leaf.meta.requires_grad]
        if not leaves:
            return []
        found = self._shadow_so_far().gradients(
            [value.node for value in outputs],
            [leaf.node for leaf in leaves],
            [None if value is None else value.node for value in grad_outputs],
            retain_graph=True,
        )
        pairs = zip(leaves, found, strict=True)
        return [(leaf, grad.layout) for leaf, grad in pairs if grad is not None]

    def _shadow_so_far(self) -> Shadow:
        """Return the run of the graph on fake tensors, up to its last node."""
        if self.shapes is not None or "inference_mode" in self.switches:
            raise CannotPropagate("some sizes are symbolic, or inference mode is switched")
        if self._shadow is None:
            self._shadow = Shadow(self.graph, self._initial_state)
        examples = zip(self.placeholders, self.examples, strict=True)
        self._shadow.catch_up({n: e for n, e in examples if not isinstance(e, torch.Tensor)})
        return self._shadow

    def add_leaf_gradients(
        self,
        outputs: list[TensorValue],
        grad_outputs: list[TensorValue | None],
        leaves: list[TensorValue],
        layouts: list[torch.layout],
        fresh: list[bool],
        retain_graph: bool,
        frame_summary: FrameSummary = None,
    ) -> list[TensorValue]:
        """Add a backward call and return the gradients of ``leaves``.

        Args:
            outputs: what is differentiated; ``leaves_of`` them are the leaves.
            grad_outputs: the gradient of each output, or None for a single element.
            layouts: of each leaf's gradient.
            fresh: which gradients become the leaf's ``grad``, others are added to the one there.
            retain_graph: whether what the operators saved is kept.
        """
        metas = [
            self._gradient_meta(leaf.meta)
            if layout is torch.strided
            else gradient_meta(leaf.meta, layout)
            for leaf, layout in zip(leaves, layouts, strict=True)
        ]
        ends = [value.history for value in outputs if value.history is not None]
        arguments = (
            tuple(value.node for value in outputs),
            tuple(None if value is None else value.node for value in grad_outputs),
            tuple(value.node for value in leaves),
            tuple(fresh),
            retain_graph,
        )
        node = self._node("call_function", leaf_gradients, arguments, {}, frame_summary)
        self.may_raise = self.may_raise or is_rewritten(ends) or is_open(ends)
        if not retain_graph:
            release(ends)
        self.backward_calls += 1
        found = []
        for position, meta in enumerate(metas):
            part = append_node(
                self.graph, "call_function", "getitem", operator.getitem, (node, position), {}
            )
            self._parts.append(part)
            group = self._new_group()
            found.append(self._value(part, meta, group, group, ViewKind.NOT_A_VIEW))
        return found

    def add_gradients(
        self,
        outputs: list[TensorValue],
        grad_outputs: list[TensorValue | None],
        inputs: list[TensorValue],
        options: dict[str, bool],
        frame_summary: FrameSummary = None,
    ) -> list[TensorValue | None]:
        """Add a call of ``torch.autograd.grad`` and return the gradients of ``inputs``.

        Args:
            outputs: what is differentiated.
            grad_outputs: the gradient of each output, or None for a single element.
            options: ``retain_graph``, ``create_graph`` and ``materialize_grads``.

        Raises:
            CannotPropagate: if what the call gives, or that it fails, cannot be told.
        """
        ends = [value.history for value in outputs if value.history is not None]
        check(ends)
        shadow = self._shadow_so_far()
        nodes = [value.node for value in outputs]
        wanted = [value.node for value in inputs]
        given = [None if value is None else value.node for value in grad_outputs]
        results = shadow.gradients(nodes, wanted, given, **options)
        values = [value for family in self._by_view_group.values() for value in family]
        described = _Gradients(shadow, values)
        arguments = (tuple(nodes), tuple(wanted), tuple(given))
        node = self._node("call_function", gradients, arguments, dict(options), frame_summary)
        shadow.set(node, results)
        if not options["retain_graph"]:
            release(ends)
        self.backward_calls += 1
        self.may_raise = self.may_raise or is_rewritten(ends) or is_open(ends)
        found: list[TensorValue | None] = []
        made: dict[int, TensorValue] = {}
        for position, result in enumerate(results):
            if result is None:
                found.append(None)
                continue
            value = described.same.get(id(result)) or made.get(id(result))
            if value is None:
                part = append_node(
                    self.graph, "call_function", "getitem", operator.getitem, (node, position), {}
                )
                self._parts.append(part)
                shadow.set(part, result)
                group = described.groups.get(result.untyped_storage()._cdata)
                if group is None:
                    group = self._new_group()
                    described.groups[result.untyped_storage()._cdata] = group
                meta = meta_of(result)._replace(cls=torch.Tensor)
                kind = ViewKind.NOT_A_VIEW
                if result._is_view():
                    kind = ViewKind.VIEW if options["create_graph"] else ViewKind.NO_GRAD
                value = self._value(part, meta, group, self._new_group(), kind)
                made[id(result)] = value
                if meta.requires_grad:
                    value.history = described.history(result, ends)
                    for savers in self._savers.values():  # the backward's operators save as well
                        savers.append(value.history)
                    self._savers.setdefault(group, []).append(value.history)
            found.append(value)
        return found

    # --- in-place operators --------------------------------------------------------------------

    def _check_write(self, outcome: Outcome, tensors: list[TensorValue]) -> None:
        """Refuse what autograd's view tracking may refuse; natively run, it says so itself."""
        if not outcome.recorded:
            return
        for index in outcome.written:
            value = tensors[index]
            family = self._by_view_group[value.view_group]
            if value.view_kind > ViewKind.VIEW or any(
                member.view_kind is ViewKind.NO_GRAD for member in family
            ):
                raise CannotPropagate("an in-place operator on a view that autograd may refuse")
            if value.view_kind is ViewKind.VIEW and any(
                member.meta.requires_grad and member.meta.is_leaf for member in family
            ):
                raise CannotPropagate("an in-place operator on a view of a leaf that needs grad")

    def _write(self, node: fx.Node, outcome: Outcome, tensors: list[TensorValue]) -> None:
        """Apply to the values what an in-place operator does to them and to their family."""
        self.writes[node] = {tensors[index].alias_group for index in outcome.written}
        changed = dict(outcome.changed)
        self._rewrite(outcome, tensors)
        for index in outcome.written:
            value = tensors[index]
            if value.alias_group in self._input_alias_groups:
                self.mutates_inputs = True
                self._dirty.add(value.alias_group)
                if outcome.recorded:
                    self._write_recorded(self._input_alias_groups[value.alias_group])
        if outcome.written and len(tensors) > 1 and not self.may_raise:
            sharing = Counter(value.alias_group for value in tensors)
            self.may_raise = any(sharing[group] > 1 for group in self.writes[node])
        for index, meta in changed.items():
            value = tensors[index]
            before, value.meta = value.meta, meta
            if value.is_input:
                self.mutates_inputs = True
                self._dirty.add(value.alias_group)
            if meta.has_grad_fn and not before.has_grad_fn:
                for member in self._by_view_group[value.view_group]:
                    if member is not value:
                        member.meta = member.meta._replace(
                            requires_grad=True, is_leaf=False, has_grad_fn=True
                        )

    def _write_recorded(self, inputs: list[tuple[object, ViewKind]]) -> None:
        """Note a write that autograd records to inputs that share memory.

        What lies behind an input that is a view is known when the graph runs.
        """
        if all(kind is ViewKind.NOT_A_VIEW for _, kind in inputs):
            self.no_views.update((key, None) for key, _ in inputs)
        else:
            self.may_raise = True

    # --- numbers and state ---------------------------------------------------------------------

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
        self.may_raise = self.may_raise or not _is_total(op_rules.name_of(target), numbers)
        return ScalarValue(node, type(example), example if known else None)

    def _state_call(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fx_args: tuple[Any, ...],
        found: Arguments,
        frame_summary: FrameSummary,
    ) -> Any:
        """Add a call that changes torch's state, and follow it."""
        name = op_rules.name_of(target)
        result: Any = None
        before = self.state
        if found.tokens:
            self.state = found.tokens[0].before  # type: ignore[assignment]
        else:
            try:
                with restored(), applied(before):
                    returned = target(*args, **kwargs)
                    self.state = snapshot()
                    if name == "_enter_autocast":
                        torch.amp.autocast_mode._exit_autocast(returned)  # type: ignore[no-untyped-call]
                    elif name == "_enter_inference_mode":
                        returned.__exit__(None, None, None)
            except Exception as error:
                self.state = before
                raise OperatorError(error.with_traceback(None)) from None
            result = returned
        self.switches.update(
            field
            for field, old, new in zip(before._fields, before, self.state, strict=True)
            if old != new
        )
        node = self._node("call_function", target, fx_args, dict(kwargs), frame_summary)
        if name.startswith("_enter_"):
            return StateToken(node, before)
        return result

    def state_value(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Return what ``function`` gives for constants in the tracked state, or raise what it does.

        Nothing is added to the graph.
        """
        with applied(self._state):
            return function(*args, **(kwargs or {}))

    # --- the end -------------------------------------------------------------------------------

    def compile(
        self,
        outputs: Sequence[TensorValue | ScalarValue],
        backend: Callable[[fx.GraphModule, list[Any]], Callable[..., Any]],
        example_inputs: Sequence[Any] | None = None,
    ) -> CompiledGraph:
        """Finish the graph and have it compiled.

        Args:
            outputs: what the graph returns, as a tuple.
            backend: takes the module and the inputs that are left.
            example_inputs: one for each of ``inputs``; those given to ``add_input`` by default.

        Raises:
            BackendCompilerFailed: whatever the backend raises.
        """
        symbolic = (
            self.shapes is not None and bool(self.shapes.inputs) and not takes_boxed_graph(backend)
        )
        self.graph.output(tuple(value.node for value in outputs))
        for part in reversed(self._parts):
            if not part.users:
                self.graph.erase_node(part)
        if self._size_nodes is not None:
            self._size_nodes.drop_unused()
        examples = list(self.examples if example_inputs is None else example_inputs)
        keys: list[object] = []
        kept: list[Any] = []
        for node, key, example in zip(self.placeholders, self.inputs, examples, strict=True):
            if node.users:
                keys.append(key)
                kept.append(self._symbolic_example(node, example) if symbolic else example)
            else:
                self.graph.erase_node(node)
        if takes_boxed_graph(backend):
            self.graph.set_codegen(BoxedCodeGen())
        gm = make_graph_module(self.graph, self.name)
        gm.meta["capture_mutates"] = self.mutates_inputs
        gm.meta["capture_data"] = self.data_sizes
        gm.meta["capture_takes_data"] = self.takes_data and self.data_dependent
        self._log(gm)
        if settings.verify:
            verify(gm, kept, len(outputs), self.shapes)
        name = backend_name(backend)
        try:
            with collector.resumed():
                fn = backend(gm, kept)
        except DataRefused:
            raise
        except Exception as error:
            raise BackendCompilerFailed(name, error) from error
        if isinstance(fn, EitherWay):
            fn = fn.boxed
            boxed = True
        else:
            boxed = bool(getattr(fn, "_boxed_call", False))
        if not callable(fn):
            wrong = TypeError(f"a backend must return a callable, not a {type(fn).__name__}")
            raise BackendCompilerFailed(name, wrong)
        return CompiledGraph(
            fn=fn,
            n_inputs=len(keys),
            input_keys=keys,
            n_outputs=len(outputs),
            boxed=boxed,
            gm=gm,
        )

    def _symbolic_example(self, node: fx.Node, example: Any) -> Any:
        """Return what a backend is shown for an input of a graph with symbolic sizes."""
        shapes = self.shapes
        assert shapes is not None
        if isinstance(example, torch.Tensor):
            meta: TensorMeta = node.meta["capture_meta"]
            return fake.make_fake(meta, shapes) if meta.is_plain else example
        for symbol, number in shapes.inputs.items():
            if number.node is node:
                return shapes.symint(Dim(symbol, number.hint, shapes))
        return example

    def _log(self, gm: fx.GraphModule) -> None:
        for artifact in ("graph", "graph_code"):
            log = logs.artifact(artifact)
            if log.enabled:
                text = str(gm.graph) if artifact == "graph" else gm.code
                log.info("%s\n%s", self.name, text)


class _Gradients:
    """What is known of gradients that the shadow of a graph gave."""

    def __init__(self, shadow: Shadow, values: list[TensorValue]) -> None:
        self.shadow = shadow
        self.values = values
        self.groups: dict[int, int] = {}
        self.same: dict[int, TensorValue] = {}  # by the id of its tensor
        for value in values:
            tensor = shadow.env.get(value.node)
            if isinstance(tensor, torch.Tensor):
                self.same[id(tensor)] = value
                self.groups[tensor.untyped_storage()._cdata] = value.alias_group

    def history(self, result: torch.Tensor, ends: list[History]) -> History:
        """The history of a gradient that requires grad."""
        leaves, complete = self.shadow.leaves_of(result, self.values)
        if not complete:
            return History(untold="it runs through a gradient with a history of its own")
        if result.grad_fn is None:
            return History(untold="a gradient is a leaf")
        parents = [leaf.history for leaf in leaves if leaf.history is not None]
        return History(parents, through=ends)


def _history(links: tuple[int, ...], tensors: list[TensorValue]) -> History:
    parents = []
    for position in links:
        if position == UNKNOWN:
            parents.append(History(untold="it reaches a leaf that is no value of the graph"))
        elif position != MAYBE:
            history = tensors[position].history
            if history is not None:
                parents.append(history)
    return History(parents, open=MAYBE in links)


def _sizes_of(result: Any) -> list[Dim]:
    """Return the symbolic sizes of an outcome's tensors, strides left out."""
    meta = getattr(result, "meta", None)
    found = [n for n in meta.shape if type(n) is Dim] if isinstance(meta, TensorMeta) else []
    if type(result) is SequenceResult:
        for item in result.items:
            found += _sizes_of(item)
    return found


_state_keys: dict[TorchState, int] = {}


def _state_key(state: TorchState) -> int:
    """Return a number for ``state`` that is cheaper to hash; there are only a few states."""
    return _state_keys.setdefault(state, len(_state_keys))


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


def _is_python_arithmetic(target: Any) -> bool:
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
