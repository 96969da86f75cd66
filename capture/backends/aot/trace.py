"""Holds the run that is traced: forward, then autograd, and what is read off the tensors.

The forward runs on functional tensors below autograd: mutation becomes new values, and what is
mutated and what aliases what is read off at the end. Must not know who records the operators, nor
what graph is made of the record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from capture.backends.aot import adapter
from capture.backends.aot.described import CannotTrace

__all__ = ["Result", "Trace", "geometry_of"]


class _Fresh(torch.autograd.Function):
    """Makes the graph's own tensor of an input: no leaf, so that it may be written to."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


@dataclasses.dataclass
class Result:
    """One tensor that the graph returned."""

    tensor: Tensor
    storage: int
    input: int | None  # of which input it is a view


class Trace:
    """Everything that one trace found out, by position in the list of values that it returns."""

    def __init__(
        self,
        call: Callable[..., Any],
        requires_grad: Sequence[bool],
        leaves: Sequence[bool],
        goes_backward: bool,
        functional_mode: Callable[[], Any] = adapter.functional_mode,
    ) -> None:
        self.functional_mode = functional_mode
        self.call = call
        self.goes_backward = goes_backward
        self.requires_grad = requires_grad
        self.leaves = leaves
        self.values: list[Tensor] = []
        self.single = False
        self.plain: list[Any] = []
        self.results: list[Result] = []
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
        self.autocast = adapter.any_autocast()
        with self.functional_mode():
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
        geometry = [geometry_of(argument) for argument in arguments]
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
            new = geometry_of(argument)
            if new != geometry[i] and argument.requires_grad:
                raise CannotTrace("the shape of an input that requires grad is changed in place")
            if visible and self.leaves[i] and self.requires_grad[i]:
                raise CannotTrace("a leaf that requires grad is written to")
            self.visible.append(visible)
            self.final_grad.append(argument.requires_grad)
            self.changed.append(new if new != geometry[i] else None)
            value = adapter.from_functional(argument)
            if value.shape != argument.shape:
                raise CannotTrace("an input is given another size by an operator that writes to it")
            self.inputs.append(self._add(value))

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
                self.results.append(Result(each, key, storages.get(key)))
        return self._bases(arguments)

    def _bases(self, arguments: Sequence[Tensor]) -> list[tuple[int, Tensor]]:
        differentiable: list[tuple[int, Tensor]] = []
        groups: dict[int, list[Result]] = {}
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
                if not adapter.same_as_written(value.stride(), tensor.stride()):
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


def geometry_of(tensor: Tensor) -> tuple[Any, ...]:
    """Return a tensor's size, stride and offset."""
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """Return the tensor's stride; that of a contiguous one if it has holes or overlaps."""
    if adapter.is_contiguous_as_written(tensor):
        return tensor.stride()
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
