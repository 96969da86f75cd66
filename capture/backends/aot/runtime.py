"""Holds what runs around the compiled forward and backward; must not know how they were made.

It writes inputs back, makes the outputs that alias something as views, gives autograd one function
for the whole graph, and keeps autocast away from operators that were cast in the trace.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from capture._native import disable_code
from capture.backends.aot import adapter
from capture.backends.aot.described import Joint, Output, View, Written
from capture.backends.aot.saved import Rebuild, rebuilds
from capture.backends.aot.toolchain import Boxed

__all__ = ["Again", "autograd_call", "inference_call", "wrap"]

#: (inputs, tangents or None) -> gradients, all of them with a history
Again: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor | None]], Sequence[Any]]


def inference_call(forward: Boxed, owned: Sequence[int] = ()) -> Boxed:
    """Return ``forward`` without autograd; the outputs at ``owned`` are to be no views."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        with torch.no_grad():
            results = _without_autocast(forward, inputs)
        return results if type(results) is tuple else tuple(results)

    def run_owned(inputs: list[Any]) -> Sequence[Any]:
        with torch.no_grad():
            results = list(_without_autocast(forward, inputs))
            for i in owned:
                results[i] = results[i].detach()
            return tuple(results)

    return run_owned if owned else run


def autograd_call(
    forward: Boxed,
    backward: Boxed,
    joint: Joint,
    needs_copy: Sequence[int],
    behind: Sequence[frozenset[int]],
    again: Again | None,
) -> Boxed:
    """Return ``forward`` and ``backward`` as one differentiable function.

    Args:
        forward: returns the outputs and what is saved.
        backward: takes what was saved and the tangents, returns a gradient for each input.
        joint: which outputs have a tangent, and of which geometry.
        needs_copy: what is saved of memory that the graph's caller writes to, by position.
        behind: the tangents that each gradient depends on.
        again: computes the gradients with torch calls, for a backward that is differentiated.
    """
    count, differentiable = joint.forward_outputs, joint.differentiable
    expected = list(zip(differentiable, joint.geometry, strict=True))
    tangents = joint.fakes[len(joint.fakes) - len(differentiable) :]
    kinds = [(tangent.dtype, tangent.device) for tangent in tangents]
    del tangents
    other = [i for i in range(count) if i not in set(differentiable)]
    copied = tuple(needs_copy)
    made_again: list[Rebuild] | None = None
    plain = False  # known after a call: what is saved are tensors, none copied, none made again

    def run_backward(arguments: list[Any]) -> Sequence[Any]:
        return _without_autocast(backward, arguments)

    class Twice(torch.autograd.Function):
        """The backward as a function of its own, which has no derivative."""

        @staticmethod
        def forward(ctx: Any, marker: Tensor, *arguments: Any) -> Any:
            return tuple(run_backward(list(arguments)))

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise RuntimeError(
                "capture: this graph, compiled with its backward, has no double backward: it "
                "writes to its inputs, is random, ran under autocast, or its inputs are gone or "
                'changed; compile it with backend="eager"'
            )

    def save(ctx: Any, inputs: Sequence[Any], outputs: list[Any], saved: list[Any]) -> None:
        nonlocal made_again, plain
        for i in copied:
            saved[i] = saved[i].clone()
        rebuilt = made_again
        if rebuilt is None:
            rebuilt = rebuilds([*inputs, *outputs], saved)
            if not joint.symbolic:  # else another call has other sizes
                made_again = rebuilt
        for each in rebuilt:
            source = each.source - len(inputs)
            saved[each.place] = inputs[source] if source < 0 else outputs[source]
        ctx.rebuilt = rebuilt
        ctx.numbers = [v if isinstance(v, int | float) else None for v in saved]
        ctx.save_for_backward(*[v for v in saved if not isinstance(v, int | float)])
        ctx.extra = sum(not isinstance(value, Tensor) for value in inputs)
        plain = (
            made_again is not None
            and not (copied or rebuilt or ctx.extra)
            and all(number is None for number in ctx.numbers)
        )

    def fill(ctx: Any, gradients: Sequence[Any], absent: Sequence[int]) -> list[Any]:
        """Put zeros where an output has no tangent: the graph takes all of them."""
        filled = list(gradients)
        for k in absent:
            shape = ctx.shapes[k] if joint.symbolic else expected[k][1][0]
            dtype, device = kinds[k]
            filled[differentiable[k]] = torch.zeros(shape, dtype=dtype, device=device)
        return filled

    def without(absent: Sequence[int], found: Sequence[Any]) -> Sequence[Any]:
        """Leave out the gradients that depend on tangents which are not there."""
        if not absent:
            return found
        missing = frozenset(absent)
        return [
            None if where and where <= missing else gradient
            for where, gradient in zip(behind, found, strict=True)
        ]

    class Graph(torch.autograd.Function):
        """The forward and backward of one captured graph."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            results = _without_autocast(forward, list(inputs))
            # A view made here could not be written to.
            outputs = [t.detach() if t._is_view() else t for t in results[:count]]
            saved = list(results[count:])
            del results
            ctx.set_materialize_grads(False)
            if joint.symbolic:
                ctx.shapes = [outputs[i].shape for i in differentiable]
            ctx.plain = plain
            if plain:
                ctx.save_for_backward(*saved)
            else:
                save(ctx, inputs, outputs, saved)
            if again is not None:
                # Weakly: the graph keeps no more alive than eager code would.
                ctx.inputs = [
                    (weakref.ref(t), t._version) if isinstance(t, Tensor) else (None, t)
                    for t in inputs
                ]
            if other:
                ctx.mark_non_differentiable(*[outputs[i] for i in other])
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            nothing: tuple[None, ...] = ()
            if ctx.plain:
                arguments = list(ctx.saved_tensors)
            else:
                tensors = iter(ctx.saved_tensors)
                arguments = [next(tensors) if v is None else v for v in ctx.numbers]
                del tensors
                nothing = (None,) * ctx.extra
                for each in ctx.rebuilt:
                    arguments[each.place] = each.view_of(arguments[each.place])
            if not adapter.keeps_graph():
                adapter.clear_saved(ctx)
            absent = [k for k, i in enumerate(differentiable) if gradients[i] is None]
            filled: Sequence[Any] = fill(ctx, gradients, absent) if absent else gradients
            for i, demanded in expected:
                tangent = filled[i]
                if isinstance(demanded, list):
                    demanded = tuple(tangent.shape), _strides_in(tangent.shape, demanded)
                shape, stride = demanded
                if tangent.stride() != stride:
                    same = torch.empty_strided(
                        shape, stride, dtype=tangent.dtype, device=tangent.device
                    )
                    tangent = same.copy_(tangent)
                arguments.append(tangent)
            if torch.is_grad_enabled():
                if again is not None and (inputs := _unchanged(ctx.inputs)) is not None:
                    found = again(inputs, [gradients[i] for i in differentiable])
                else:
                    twice: Any = Twice.apply
                    # The marker gives the result a history, however little of it requires grad.
                    found = twice(torch.empty(0, requires_grad=True), *arguments)
                return (*without(absent, found), *nothing)
            del gradients, filled
            return (*without(absent, run_backward(arguments)), *nothing)

    careful_apply: Any = Graph.apply
    # Torch's own apply, in C, without the look for function transforms around it.
    plain_apply: Any = super(torch.autograd.Function, Graph).apply

    def run(inputs: list[Any]) -> Any:
        apply = careful_apply if adapter.in_transform() else plain_apply
        arguments = tuple(inputs)
        inputs.clear()
        if not torch.is_grad_enabled():  # the graph itself turned it on
            with torch.enable_grad():
                return apply(*arguments)
        return apply(*arguments)

    return run


def _strides_in(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense tensor whose dimensions lie in that order, innermost first."""
    strides, step = [0] * len(order), 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def _unchanged(inputs: Sequence[tuple[Any, Any]]) -> list[Any] | None:
    found = [(None if ref is None else ref(), ref, known) for ref, known in inputs]
    if any(ref is not None and (t is None or t._version != known) for t, ref, known in found):
        return None
    return [known if ref is None else tensor for tensor, ref, known in found]


def _without_autocast(function: Boxed, arguments: list[Any]) -> Sequence[Any]:
    if adapter.any_autocast():
        with adapter.autocast_off():
            return function(arguments)
    return function(arguments)


# A backward runs when the program calls it: what it runs is compiled already, not to be captured.
disable_code(_without_autocast.__code__)


def wrap(joint: Joint, call: Boxed, eager: Boxed) -> Boxed:
    """Return the graph as its caller sees it.

    Args:
        joint: what the outputs and the written inputs are.
        call: the compiled graph.
        eager: the graph of torch calls; runs when inputs share memory in a way that matters.
    """
    outputs, written = joint.outputs, joint.written
    positions = [each.index for each in written]
    in_graph = [each.index for each in written if each.in_graph]
    outside = [each for each in written if not each.in_graph]
    plain = [
        (each.index, each.source)
        for each in outside
        if each.source is not None and each.geometry is None and not each.differentiable
    ]
    outside = [each for each in outside if (each.index, each.source) not in set(plain)]
    kept = sorted({o.index for o in outputs if o.kind == "input"} | set(positions))
    freed = any(o.freed is not None for o in outputs)
    views = freed or any(o.view is not None for o in outputs)
    forward_only = [o.index for o in outputs if o.kind == "forward"]
    simple = not kept and not views and len(forward_only) == len(outputs)
    in_order = simple and forward_only == list(range(joint.forward_outputs))
    single, grad_mode = joint.single, joint.grad_mode

    # The graph writes nothing itself, so that after an error the torch-level one starts afresh.
    again = bool(positions) and not in_graph
    random = again and adapter.is_random(joint.gm)

    def careful(inputs: list[Any]) -> Sequence[Any]:
        """Call the graph; if it raises, leave written what eager would have written by then."""
        kept, state = list(inputs), adapter.random_state() if random else None
        try:
            return call(inputs)
        except Exception as error:
            if isinstance(error, MemoryError | torch.OutOfMemoryError):
                raise
            if state is not None:
                adapter.set_random_state(state)
            eager(kept)
            raise

    attempt = careful if again else call

    if in_order and not positions and not single and grad_mode is None:
        # Nothing to do around it.
        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def run(inputs: list[Any]) -> Any:
        if positions and adapter.same_storage(inputs, positions):
            return eager(inputs)
        ours = {i: inputs[i] for i in kept} if kept else {}
        behind = []
        if freed:
            behind = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
        results = attempt(inputs)
        if in_graph:
            adapter.count_writes([ours[i] for i in in_graph])
        for each in outside:
            _write(ours[each.index], each, results)
        if plain:
            with torch.no_grad():
                adapter.copy_all([ours[i] for i, _ in plain], [results[k] for _, k in plain])
        if in_order:
            found = results
        elif simple:
            found = [results[i] for i in forward_only]
        else:
            made: dict[int, Any] = {}
            found = [_output(each, ours, results, made, behind) for each in outputs]
        if grad_mode is not None:
            torch.set_grad_enabled(grad_mode)
        return found[0] if single else tuple(found)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _write(tensor: Tensor, each: Written, results: Sequence[Any]) -> None:
    if each.geometry is not None:
        size, stride, offset = each.geometry
        tensor.as_strided_(size, stride, tensor.storage_offset() + offset)
    if each.source is None:
        return
    if each.differentiable:
        tensor.copy_(results[each.source])
    else:
        with torch.no_grad():
            tensor.copy_(results[each.source])


def _output(
    each: Output,
    inputs: dict[int, Any],
    results: Sequence[Any],
    made: dict[int, Any],
    behind: Sequence[Tensor],
) -> Any:
    if each.kind == "constant":
        return each.value
    base = inputs[each.index] if each.kind == "input" else results[each.index]
    if each.view is None and each.freed is None:
        return base
    # The same output twice is one tensor.
    if id(each) not in made:
        if each.view is not None:
            made[id(each)] = _view(base, each.view)
        else:
            with torch.enable_grad():
                made[id(each)] = _freed(each.freed, base, *behind)
    return made[id(each)]


class _Freed(torch.autograd.Function):
    """Gives a tensor the history that eager leaves behind a backward: there, but freed."""

    @staticmethod
    def forward(ctx: Any, message: str, tensor: Tensor, *behind: Tensor) -> Tensor:
        ctx.message = message
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(ctx.message)


_freed: Any = _Freed.apply


def _view(base: Tensor, view: View) -> Tensor:
    if not view.requires_grad and view.detached:
        base = base.detach()
    if base.requires_grad != view.requires_grad or not torch.is_grad_enabled():
        with torch.set_grad_enabled(view.requires_grad):
            tensor = _replay(base, view)
    else:
        tensor = _replay(base, view)
    if view.one_of_many:
        adapter.make_one_of_many(tensor)
    return tensor


def _replay(base: Tensor, view: View) -> Tensor:
    if view.strided is not None:
        size, stride, offset = view.strided
        return base.as_strided(size, stride, base.storage_offset() + offset)
    tensor: Any = base
    for target, arguments, keywords, item in view.steps:
        tensor = target(tensor, *arguments, **keywords)
        if item is not None:
            tensor = tensor[item]
    if tensor is base and not view.detached:  # no step at all: another tensor of the same memory
        tensor = torch.ops.aten.alias.default(base)
    return cast("Tensor", tensor)
