"""Holds the one trace of the AOT stage: a graph of torch calls to a functional joint ATen graph.

The forward runs on fake tensors below autograd with mutation turned into new values, then autograd
itself runs into the same trace. What is mutated and what aliases what is read off the tensors at
the end. Must not know how the graphs are split, compiled or called.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from capture.backends.aot import adapter
from capture.backends.aot.numbers import reads_numbers

__all__ = ["CannotTrace", "Joint", "Output", "View", "Written", "trace_joint"]

# Methods and functions that give a tensor other memory or free geometry.
_NEW_MEMORY = frozenset(
    "set_ resize_ resize_as_ as_strided_ untyped_storage storage data __set__ swap_tensors".split()
)
# Methods that leave something with a tensor for autograd's backward to find.
_AUTOGRAD_STATE = frozenset(("register_hook", "retain_grad"))
# Their backward needs a workspace that the forward leaves out under no_grad, where graphs run.
_SAVE_IN_GRAD_MODE = frozenset(("aten::mkldnn_rnn_layer_backward",))
# Their decompositions loop over the steps.
_UNROLLED = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
_NO_OPS = frozenset(("aten::detach", "aten::alias", "aten::lift_fresh"))


class CannotTrace(Exception):
    """The stage cannot do this graph right; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class View:
    """How an output is made from the tensor that it aliases.

    Attributes:
        steps: view operators, each with its arguments behind the tensor and the element to take.
        strided: size, stride, and offset relative to the base, where no operators are known.
        requires_grad: whether the output does.
        detached: whether autograd takes the output for no view (``detach``).
        one_of_many: whether autograd forbids writing to it, as one of an operator's several views.
    """

    steps: tuple[tuple[Any, tuple[Any, ...], Mapping[str, Any], int | None], ...]
    strided: tuple[Any, ...] | None
    requires_grad: bool
    detached: bool
    one_of_many: bool


@dataclasses.dataclass(frozen=True)
class Output:
    """What one output of the torch-level graph is.

    Attributes:
        kind: ``constant``, ``input`` (that very object) or ``forward`` (made by the forward graph).
        index: the position of the input or of the forward graph's output.
        value: the constant.
        view: how to make the output if it only aliases the input or the forward's output.
        freed: what autograd says of the output's history, if a backward call in the graph freed it.
    """

    kind: str
    index: int = 0
    value: Any = None
    view: View | None = None
    freed: str | None = None


@dataclasses.dataclass(frozen=True)
class Written:
    """An input that the graph writes to.

    Attributes:
        index: its position among the tensor inputs.
        source: the forward graph's output with the new value; None if only the geometry changes.
        differentiable: whether autograd sees the write.
        geometry: the new size, stride and relative offset, if they change.
        in_graph: whether the forward graph itself writes the new value.
    """

    index: int
    source: int | None
    differentiable: bool
    geometry: tuple[Any, ...] | None
    in_graph: bool = False


@dataclasses.dataclass
class Joint:
    """A joint graph and what has to be done around it.

    Attributes:
        gm: inputs ``primals_N`` and ``tangents_N``, outputs of the forward, then gradients.
        fakes: the fake tensors of the inputs, tangents included.
        forward_outputs: how many outputs the forward has.
        differentiable: those among them that have a tangent, in the tangents' order.
        geometry: size and stride that each tangent must have; with symbolic sizes, the order of
            its dimensions in memory, the innermost first.
        outputs: the torch-level outputs.
        written: the inputs to write to.
        single: whether the torch-level graph returned one value, not a tuple.
        symbolic: whether some size is symbolic.
        grad_mode: the grad mode that the graph leaves behind, if it changes it.
        mode: the mode of the fake tensors.
        owned: forward outputs that are no views for autograd, though an operator made them so.
    """

    gm: fx.GraphModule
    fakes: list[Tensor]
    forward_outputs: int
    differentiable: list[int]
    geometry: list[tuple[tuple[int, ...], tuple[int, ...]] | list[int]]
    outputs: list[Output]
    written: list[Written]
    single: bool
    symbolic: bool
    grad_mode: bool | None
    mode: Any
    owned: tuple[int, ...] = ()


class _Fresh(torch.autograd.Function):
    """Makes the graph's own tensor of an input: no leaf, so that it may be written to."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


@dataclasses.dataclass
class _Result:
    """One tensor that the graph returned."""

    tensor: Tensor
    storage: int
    input: int | None  # of which input it is a view


class _Trace:
    """Everything that one trace found out, by position in the list of values that it returns."""

    def __init__(
        self,
        call: Callable[..., Any],
        requires_grad: Sequence[bool],
        leaves: Sequence[bool],
        goes_backward: bool,
    ) -> None:
        self.call = call
        self.goes_backward = goes_backward
        self.requires_grad = requires_grad
        self.leaves = leaves
        self.values: list[Tensor] = []
        self.single = False
        self.plain: list[Any] = []
        self.results: list[_Result] = []
        self.position: list[int] = []  # of each result
        self.inputs: list[int] = []  # of the final value of each input
        self.initial: list[int] = []
        self.changed: list[tuple[Any, ...] | None] = []
        self.visible: list[bool] = []
        self.final_grad: list[bool] = []
        self.bases: dict[int, int] = {}  # storage -> value of the base that autograd needs
        self.base_tensors: dict[int, Tensor] = {}
        self.detached: list[bool] = []
        self.tangents: list[int] = []
        self.tangent_of: list[int] = []  # the value that each tangent belongs to
        self.gradients: list[int | None] = []
        self.grad_mode: bool | None = None
        self.freed: dict[int, str] = {}  # id of a result's tensor -> what autograd says
        self.numbers: Sequence[Any] = ()

    def _add(self, value: Tensor) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def run(self, *primals: Any) -> list[Tensor]:
        """Trace forward and backward; return every value somebody may ask for."""
        count = len(self.requires_grad)
        self.numbers = primals[count:]
        with adapter.functional_mode():
            self._run(primals[:count])
            return self.values

    def _run(self, primals: Sequence[Tensor]) -> None:
        sources = [adapter.to_functional(primal) for primal in primals]
        arguments = []
        fresh: Any = _Fresh.apply
        with torch.enable_grad():
            for source, needs in zip(sources, self.requires_grad, strict=True):
                arguments.append(fresh(source.requires_grad_(True)) if needs else source)
        edges = [argument.grad_fn for argument in arguments]
        geometry = [_geometry(argument) for argument in arguments]
        # A value of their own, so that what is a view of it can be told.
        self.initial = [self._add(adapter.from_functional(a)) for a in arguments]

        mode = torch.is_grad_enabled()
        outputs = self.call(*arguments, *self.numbers)
        if torch.is_grad_enabled() != mode:
            self.grad_mode = torch.is_grad_enabled()
            torch.set_grad_enabled(mode)
        if adapter.any_autocast() != self.autocast:
            raise CannotTrace("the graph leaves autocast in another state")

        self._read_inputs(arguments, edges, geometry)
        differentiable = self._read_outputs(outputs, arguments)
        for i, argument in enumerate(arguments):
            if self.visible[i]:
                differentiable.append((self.inputs[i], argument))
        if self.goes_backward:
            differentiable = self._without_freed(differentiable, sources)
        if differentiable:
            self._backward(differentiable, sources)

    def trace(self, fakes: Sequence[Any], table: adapter.Decompositions | None) -> Any:
        self.autocast = adapter.any_autocast()
        return adapter.trace_to_aten(self.run, fakes, table)

    def _read_inputs(
        self, arguments: Sequence[Tensor], edges: Sequence[Any], geometry: Sequence[Any]
    ) -> None:
        for i, argument in enumerate(arguments):
            if adapter.storage_was_changed(argument):
                raise CannotTrace("an input is given other memory")
            visible = argument.requires_grad and argument.grad_fn is not edges[i]
            if argument.requires_grad and argument.grad_fn is None:
                raise CannotTrace("the graph makes an input require grad")
            if self.requires_grad[i] and not argument.requires_grad:
                raise CannotTrace("the graph detaches an input in place")
            new = _geometry(argument)
            if new != geometry[i] and argument.requires_grad:
                raise CannotTrace("the shape of an input that requires grad is changed in place")
            if visible and self.leaves[i] and self.requires_grad[i]:
                raise CannotTrace("a leaf that requires grad is written to")
            self.visible.append(visible)
            self.final_grad.append(argument.requires_grad)
            self.changed.append(new if new != geometry[i] else None)
            self.inputs.append(self._add(adapter.from_functional(argument)))

    def _read_outputs(self, outputs: Any, arguments: Sequence[Tensor]) -> list[tuple[int, Tensor]]:
        self.single = not isinstance(outputs, tuple | list)
        flat = [outputs] if self.single else list(outputs)
        storages = {adapter.storage_key(a): i for i, a in enumerate(arguments)}
        identity = {id(a): i for i, a in enumerate(arguments)}
        seen: dict[int, int] = {}
        for each in flat:
            if not isinstance(each, Tensor):
                if isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool | tuple | list):
                    raise CannotTrace(f"an output is a {type(each).__name__}")
                self.plain.append(("constant", each))
            elif id(each) in identity:
                self.plain.append(("input", identity[id(each)]))
            elif id(each) in seen:
                self.plain.append(("result", seen[id(each)]))
            else:
                if not hasattr(each, "elem"):
                    raise CannotTrace("an output is a tensor that the graph owns")
                if each.requires_grad and each.grad_fn is None:
                    raise CannotTrace("an output is a new leaf that requires grad")
                key = adapter.storage_key(each)
                seen[id(each)] = len(self.results)
                self.plain.append(("result", len(self.results)))
                self.results.append(_Result(each, key, storages.get(key)))
        return self._bases(arguments)

    def _bases(self, arguments: Sequence[Tensor]) -> list[tuple[int, Tensor]]:
        differentiable: list[tuple[int, Tensor]] = []
        groups: dict[int, list[_Result]] = {}
        for result in self.results:
            groups.setdefault(result.storage, []).append(result)
        bases: dict[int, Tensor] = {}
        for result in self.results:
            tensor, base = result.tensor, adapter.base_of(result.tensor)
            index = result.input
            self.detached.append(base is None if index is None else base is not arguments[index])
            value = adapter.from_functional(tensor)
            if result.input is not None:
                if tensor.requires_grad and base is not arguments[result.input]:
                    raise CannotTrace("an output shares the memory of an input but not its history")
            elif len(groups[result.storage]) == 1:
                if value.stride() != tensor.stride():
                    value = _restride(value, tensor)
                if tensor.requires_grad:
                    differentiable.append((len(self.values), tensor))
            elif tensor.requires_grad:
                base = tensor if base is None else base
                if bases.setdefault(result.storage, base) is not base:
                    raise CannotTrace("outputs share memory but not their history")
            self.position.append(self._add(value))
        for storage, base in bases.items():
            self.bases[storage] = self._add(adapter.from_functional(base))
            self.base_tensors[storage] = base
            differentiable.append((self.bases[storage], base))
        for i, result in enumerate(self.results):
            known = self.base_tensors.get(result.storage)
            if known is not None and not result.tensor.requires_grad:
                self.detached[i] = adapter.base_of(result.tensor) is not known
        return differentiable

    def _without_freed(
        self, differentiable: list[tuple[int, Tensor]], sources: Sequence[Tensor]
    ) -> list[tuple[int, Tensor]]:
        """Leave out what a backward call in the graph let autograd forget the history of.

        Autograd is asked for each; what that adds to the trace is dead.
        """
        wanted = [s for s, needs in zip(sources, self.requires_grad, strict=True) if needs]
        kept = []
        for position, tensor in differentiable:
            try:
                with adapter.autocast_off():
                    torch.autograd.grad(
                        [tensor],
                        wanted,
                        [torch.empty_like(tensor)],
                        retain_graph=True,
                        allow_unused=True,
                    )
            except RuntimeError as error:
                if not adapter.tells_of_freed_graph(error):
                    raise
                key = adapter.storage_key(tensor)
                with_history = [r.tensor for r in self.results if r.tensor.requires_grad]
                sharing = [t for t in with_history if adapter.storage_key(t) == key]
                if len(sharing) != 1 or sharing[0] is not tensor:
                    raise CannotTrace("what shares memory has a freed history") from None
                self.freed[id(tensor)] = str(error)
            else:
                kept.append((position, tensor))
        return kept

    def _backward(
        self, differentiable: list[tuple[int, Tensor]], sources: Sequence[Tensor]
    ) -> None:
        wanted = [s for s, needs in zip(sources, self.requires_grad, strict=True) if needs]
        tangents = []
        for position, tensor in differentiable:
            # An operator without inputs stands for the tangent until the trace is over.
            tangent = torch.empty_strided(
                tensor.shape,
                _dense_stride(self.values[position]),
                dtype=tensor.dtype,
                device=tensor.device,
            )
            tangents.append(tangent)
            self.tangents.append(self._add(adapter.from_functional(tangent)))
            self.tangent_of.append(position)
        with adapter.autocast_off():
            found = torch.autograd.grad(
                [tensor for _, tensor in differentiable], wanted, tangents, allow_unused=True
            )
        remaining = iter(found)
        for needs in self.requires_grad:
            gradient = next(remaining) if needs else None
            self.gradients.append(
                None if gradient is None else self._add(adapter.from_functional(gradient))
            )


def _geometry(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """Return the tensor's stride; that of a contiguous one if it has holes or overlaps."""
    expected, contiguous = 1, []
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            break
        expected *= size
    else:
        return tensor.stride()
    expected = 1
    for size in reversed(tensor.shape):
        contiguous.append(expected)
        expected *= max(size, 1)
    return tuple(reversed(contiguous))


def _restride(value: Tensor, like: Tensor) -> Tensor:
    new = torch.ops.aten.empty_strided.default(
        list(like.shape), list(like.stride()), dtype=like.dtype, device=like.device
    )
    return cast("Tensor", torch.ops.aten.copy.default(new, value))


def trace_joint(
    gm: fx.GraphModule,
    call: Callable[..., Any],
    tensors: Sequence[Tensor],
    decompositions: adapter.Decompositions | None,
    numbers: Sequence[Any] = (),
) -> Joint:
    """Trace a graph of torch calls, forward and backward.

    Args:
        gm: the torch-level graph, to look at.
        call: runs it on tensors in the place of ``tensors``, and numbers in that of ``numbers``.
        tensors: the inputs; only their metadata is used.
        numbers: symbolic ints among the inputs.
        decompositions: operator to function, as for ``make_fx``.

    Raises:
        CannotTrace: this graph has to run eagerly.
    """
    for node in gm.graph.nodes:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if node.op in ("call_method", "call_function") and name in _NEW_MEMORY:
            raise CannotTrace(f"{name} gives a tensor other memory")
        if name in _AUTOGRAD_STATE or not getattr(node.target, "capture_traceable", True):
            raise CannotTrace(f"{name} runs code of the program in the backward")
        if name in _UNROLLED and any(map(adapter.is_symbolic, tensors)):
            raise CannotTrace(f"{name} would be unrolled over a symbolic size")
    if not all(adapter.is_plain(tensor) for tensor in tensors):
        raise CannotTrace("an input is no plain strided tensor")
    with adapter.plain_state():
        reads = reads_numbers(gm)
        mode = adapter.mode_of(tensors) if any(map(adapter.is_symbolic, tensors)) else None
        mode = mode or adapter.fake_mode(reads)
        fakes = adapter.fakes_of(mode, tensors)
        found = _Trace(
            call,
            [t.requires_grad for t in tensors],
            [t.is_leaf for t in tensors],
            any(getattr(node.target, "capture_backward", False) for node in gm.graph.nodes),
        )
        with mode, adapter.numbers_allowed(mode, reads):  # new tensors are to be fake, too
            traced = found.trace([*fakes, *numbers], decompositions)
    if reads:
        if found.tangents:
            raise CannotTrace("it reads numbers out of tensors, and has a backward")
        adapter.bind_numbers(traced, mode)
    return _Assembly(traced, found, fakes, mode, numbers).joint()


class _Assembly:
    """Makes the joint graph from a trace: tangents become inputs, no-ops go, outputs are chosen."""

    def __init__(
        self,
        traced: fx.GraphModule,
        found: _Trace,
        fakes: list[Tensor],
        mode: Any,
        numbers: Sequence[Any],
    ) -> None:
        self.mode = mode
        self.numbers = numbers
        self.traced = traced
        self.found = found
        self.fakes = fakes
        nodes = list(traced.graph.nodes)
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        self.values: list[Any] = list(nodes[-1].args[0])
        if any(not isinstance(value, fx.Node) for value in self.values):
            raise CannotTrace("a value in the trace is a constant")
        if any(_name_of(node) in _SAVE_IN_GRAD_MODE for node in nodes):
            raise CannotTrace("an operator saves something only where grad mode is on")
        self.forward: list[fx.Node] = []  # the outputs of the forward
        self.forward_values: dict[int, int] = {}  # value -> position among them

    def joint(self) -> Joint:
        found = self.found
        written = [w for i in range(len(found.inputs)) if (w := self._written(i)) is not None]
        outputs = self._outputs()
        differentiable = []
        for position in found.tangent_of:
            differentiable.append(self._output(position))
        gradients: list[fx.Node | None] = [
            None if position is None else self.values[position] for position in found.gradients
        ]
        gm, tangents = self._graph(gradients)
        return Joint(
            gm=gm,
            fakes=[*self.fakes, *self.numbers, *tangents],
            symbolic=any(map(adapter.is_symbolic, [*self.fakes, *self.numbers])),
            forward_outputs=len(self.forward),
            differentiable=differentiable,
            geometry=[_demanded(t) for t in tangents],
            outputs=outputs,
            written=written,
            single=found.single,
            grad_mode=found.grad_mode,
            mode=self.mode,
            owned=self._owned(),
        )

    def _owned(self) -> tuple[int, ...]:
        found = self.found
        return tuple(
            self.forward_values[position]
            for position, result in zip(found.position, found.results, strict=True)
            if position in self.forward_values
            and not result.tensor.requires_grad
            and adapter.base_of(result.tensor) is None
            and adapter.is_view_op(self._strip(self.values[position]).target)
        )

    def _output(self, position: int) -> int:
        """Let the forward return a value; return where."""
        if position not in self.forward_values:
            self.forward_values[position] = len(self.forward)
            self.forward.append(self.values[position])
        return self.forward_values[position]

    def _strip(self, node: fx.Node) -> fx.Node:
        """Return the node behind operators that only make another name."""
        while _is_no_op(node):
            node = node.args[0]  # type: ignore[assignment]
        return node

    def _written(self, i: int) -> Written | None:
        found = self.found
        position = found.inputs[i]
        _, root = self._steps(self.values[position])
        new_data = root is not self.placeholders[i]
        geometry = found.changed[i]
        if not new_data and not found.visible[i]:
            if geometry is None:
                return None
            position_or_none = None
        else:
            position_or_none = self._output(position)
        if geometry is not None:
            if _is_symbolic(geometry):
                raise CannotTrace("an input gets a symbolic shape")
            offset = self.fakes[i].storage_offset()
            geometry = (*geometry[:2], geometry[2] - offset)
        return Written(i, position_or_none, found.visible[i], geometry)

    def _steps(self, node: fx.Node) -> tuple[list[Any], fx.Node]:
        """Return the view operators that made a value, first one first, and what they began at."""
        steps: list[Any] = []
        stops = {self.values[p] for p in (*self.found.inputs, *self.found.initial)}
        while True:
            item = None
            source = node
            if node in stops:
                break
            if node.op == "call_function" and node.target is operator.getitem:
                source, item = node.args  # type: ignore[assignment]
            if source.op != "call_function" or not adapter.is_view_op(source.target):
                break
            first, *rest = source.args
            if _holds_node(rest) or _holds_node(source.kwargs.values()):
                break
            if _is_symbolic((rest, list(source.kwargs.values()))):
                break
            if not _is_no_op(source):
                steps.append((source.target, tuple(rest), dict(source.kwargs), item))
            node = first  # type: ignore[assignment]
        return steps[::-1], self._strip(node)

    def _outputs(self) -> list[Output]:
        found = self.found
        groups: dict[int, list[int]] = {}
        for i, result in enumerate(found.results):
            groups.setdefault(result.storage, []).append(i)
        made: list[Output] = []
        for i, result in enumerate(found.results):
            if result.input is not None:
                made.append(self._view_of_input(i, result))
            elif len(groups[result.storage]) == 1:
                freed = found.freed.get(id(result.tensor))
                made.append(Output("forward", self._output(found.position[i]), freed=freed))
            else:
                made.append(self._shared(i, result, groups[result.storage]))
        outputs = []
        for kind, value in found.plain:
            if kind == "constant":
                outputs.append(Output("constant", value=value))
            elif kind == "input":
                outputs.append(Output("input", value))
            else:
                outputs.append(made[value])
        return outputs

    def _view(self, i: int, steps: list[Any] | None, strided: Any) -> View:
        tensor = self.found.results[i].tensor
        return View(
            () if steps is None else tuple(steps),
            strided if steps is None else None,
            tensor.requires_grad,
            self.found.detached[i],
            adapter.is_one_of_many(tensor),
        )

    def _view_of_input(self, i: int, result: _Result) -> Output:
        found, index = self.found, result.input
        assert index is not None
        if result.tensor.requires_grad and not found.final_grad[index]:
            raise CannotTrace("a view of an input requires grad, the input does not")
        steps, root = self._steps(self.values[found.position[i]])
        last = self._strip(self.values[found.inputs[index]])
        if root is last and found.changed[index] is None:
            return Output("input", index, view=self._view(i, steps, None))
        fake, tensor = self.fakes[index], result.tensor
        if fake.dtype != tensor.dtype or found.changed[index] is not None:
            raise CannotTrace("an output is a view of an input in a way that is not known")
        size, stride, offset = _geometry(tensor)
        if _is_symbolic((size, stride, offset)):
            raise CannotTrace("an output is a view of an input with a symbolic shape")
        strided = (size, stride, offset - fake.storage_offset())
        return Output("input", index, view=self._view(i, None, strided))

    def _shared(self, i: int, result: _Result, group: list[int]) -> Output:
        """Return how to make one of several outputs that share memory."""
        found = self.found
        position = found.bases.get(result.storage)
        if position is None:
            # Nobody needs a gradient: an output that is no view is the base, or the hidden base is.
            roots = [self._steps(self.values[found.position[k]])[1] for k in group]
            for k, root in zip(group, roots, strict=True):
                if self._strip(self.values[found.position[k]]) is root:
                    position = found.position[k]
                    found.base_tensors[result.storage] = found.results[k].tensor
                    break
            else:
                position = len(self.values)
                self.values.append(roots[0])
            found.bases[result.storage] = position
        base = self._strip(self.values[position])
        index = self._output(position)
        if found.base_tensors.get(result.storage) is result.tensor:
            return Output("forward", index, freed=found.freed.get(id(result.tensor)))
        steps, root = self._steps(self.values[found.position[i]])
        if root is not base:
            raise CannotTrace("outputs share memory in a way that is not known")
        return Output("forward", index, view=self._view(i, steps, None))

    def _graph(self, gradients: Sequence[fx.Node | None]) -> tuple[fx.GraphModule, list[Tensor]]:
        found, old = self.found, self.traced.graph
        new = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        stand_ins = [self.values[position] for position in found.tangents]
        for i, node in enumerate(self.placeholders, 1):
            copies[node] = new.placeholder(f"primals_{i}")
            copies[node].meta = dict(node.meta)
        for i, node in enumerate(stand_ins, 1):
            copies[node] = new.placeholder(f"tangents_{i}")
            copies[node].meta = dict(node.meta)
        tag = "is_forward"  # for torch's partitioners
        for node in old.nodes:
            if stand_ins and node is stand_ins[0]:
                tag = "is_backward"
            if node in copies or node.op == "output":
                continue
            if _is_no_op(node):
                copies[node] = copies[node.args[0]]
            else:
                copies[node] = new.node_copy(node, copies.__getitem__)
                copies[node].meta["partitioner_tag"] = tag
        taken: set[fx.Node] = set()
        results: list[fx.Node | None] = []
        for node in self.forward:
            copy = copies[node]
            root = copy
            while root.op == "call_function" and adapter.is_view_op(root.target):
                root = root.args[0]  # type: ignore[assignment]
            if copy in taken or root.op == "placeholder" or root.op == "get_attr":
                copy = self._clone(new, copy)
            taken.add(copy)
            results.append(copy)
        results += [None if node is None else copies[node] for node in gradients]
        new.output(tuple(results))
        gm = fx.GraphModule(self.traced, new)
        return gm, [node.meta["val"] for node in stand_ins]

    @staticmethod
    def _clone(graph: fx.Graph, node: fx.Node) -> fx.Node:
        value = node.meta["val"]
        after = node
        if node.op == "placeholder":
            after = [each for each in graph.nodes if each.op == "placeholder"][-1]
        with graph.inserting_after(after):
            clone = graph.call_function(torch.ops.aten.clone.default, (node,))
        clone.meta["partitioner_tag"] = "is_forward"
        clone.meta["val"] = value.clone()
        return clone


def _name_of(node: fx.Node) -> str:
    return getattr(getattr(node.target, "_schema", None), "name", "")


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_is_symbolic, value))
    return isinstance(value, torch.SymInt)


def _demanded(tensor: Tensor) -> Any:
    """The geometry of a tangent: as numbers, or as the order of its dimensions."""
    if not adapter.is_symbolic(tensor):
        return tuple(tensor.shape), tensor.stride()
    return [d for _, d in sorted((stride, d) for d, stride in enumerate(tensor.stride()))]


def _is_no_op(node: fx.Node) -> bool:
    return (
        node.op == "call_function"
        and _name_of(node) in _NO_OPS
        and isinstance(node.args[0], fx.Node)
    )


def _holds_node(arguments: Any) -> bool:
    found: list[fx.Node] = []
    fx.map_arg(tuple(arguments), found.append)
    return bool(found)
