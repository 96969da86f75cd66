"""Holds the AOT stage: trace, partition, compile, wrap; runs eagerly what it cannot do right."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from capture import logs
from capture._native import disable_code
from capture.backends.aot import adapter, recorder_adapter, runtime
from capture.backends.aot.checked_ops import with_checks
from capture.backends.aot.dependence import tangents_behind
from capture.backends.aot.described import CannotTrace, Joint
from capture.backends.aot.held_numbers import can_hold, hold, split_numbers
from capture.backends.aot.inference import (
    in_inference_mode,
    made_in_inference_mode,
    without_inference_mode,
)
from capture.backends.aot.joint import trace_joint, tracer_name
from capture.backends.aot.late_numbers import split_late
from capture.backends.aot.numbers import for_symbols
from capture.backends.aot.toggles import without_toggles
from capture.backends.aot.toolchain import Boxed, Parts, Toolchain
from capture.backends.aot.unknown_ops import reason_against
from capture.backends.aot.writes import write_in_graph
from capture.backends.boxed import boxed_forward
from capture.errors import DataRefused, WholeRefused

__all__ = ["Stage"]

# A graph with Python numbers among its inputs is traced once for each of so many values.
_MOST_VALUES = 8
_MOST_COSTLY_VALUES = 2
_artifact = logs.artifact("aot")


class Stage:
    """One captured graph, compiled when its inputs are known.

    Args:
        gm: the graph of torch calls.
        toolchain: splits and compiles what is traced.
    """

    def __init__(self, gm: fx.GraphModule, toolchain: Toolchain) -> None:
        tracer_name()  # an error of the program, not a reason to run eagerly
        self.gm = for_symbols(with_checks(without_inference_mode(gm)))
        self.given = gm
        self.toolchain = toolchain
        self.owned = dict([*gm.named_parameters(), *gm.named_buffers()])
        self.whole = bool(gm.meta.get("capture_whole"))
        instead = _raise_instead if self.whole else boxed_forward(gm)
        eager: Any = functools.partial(instead, gm)
        eager._boxed_call = True
        self.eager: Boxed = eager

    def compile(self, inputs: Sequence[Any]) -> Boxed:
        """Return the graph as a boxed function for inputs like these."""
        if self.gm.meta.get("capture_asks_history"):
            return self._run_eagerly("code behind the graph asks for the history of its tensors")
        inference = made_in_inference_mode(self.given, inputs)
        if inference is None:
            return self._run_eagerly("some of its results are inference tensors, others are not")
        compiled = self._compile_parts(inputs)
        return in_inference_mode(compiled) if inference and compiled is not self.eager else compiled

    def _compile_parts(self, inputs: Sequence[Any]) -> Boxed:
        steady = without_toggles(self.gm, inputs)
        if steady is not None:
            inner = Stage(steady, self.toolchain)
            compiled = inner.compile(inputs)
            return self.eager if compiled is inner.eager else compiled
        late = self._late(inputs)
        if late is not None:
            return late
        held = self._held(inputs)
        if held is not None:
            return held
        places = [i for i, value in enumerate(inputs) if isinstance(value, Tensor)]
        if any(map(adapter.is_symbolic, inputs)):
            return self._symbolic(inputs, places)
        if len(places) < len(inputs):
            return self._by_numbers(inputs, places)
        return self._specialize(inputs, places)

    def _by_numbers(self, inputs: Sequence[Any], places: list[int]) -> Boxed:
        others = [i for i in range(len(inputs)) if i not in set(places)]
        most = _MOST_COSTLY_VALUES if self.toolchain.costly else _MOST_VALUES
        compiled: dict[tuple[Any, ...], Boxed] = {}

        def run(arguments: list[Any]) -> Any:
            key = tuple((type(arguments[i]), repr(arguments[i])) for i in others)
            call = compiled.get(key)
            if call is None:
                if len(compiled) >= most:
                    return self.eager(arguments)
                call = compiled[key] = self._specialize(arguments, places)
                if len(compiled) == most:
                    _artifact.info("runs eagerly for further values of the inputs %s", others)
            return call(arguments)

        if not all(isinstance(inputs[i], bool | int | float | complex | str) for i in others):
            return self._run_eagerly("an input is neither a tensor nor a number")
        compiled[tuple((type(inputs[i]), repr(inputs[i])) for i in others)] = self._specialize(
            inputs, places
        )
        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _late(self, inputs: Sequence[Any]) -> Boxed | None:
        """The graph with its returned numbers read behind it; None if it returns none."""
        numbers = [i for i, value in enumerate(inputs) if not isinstance(value, Tensor)]
        split = split_late(self.gm, numbers, not self.gm.meta.get("capture_mutates", True))
        if split is None:
            return None
        inner = Stage(split.gm, self.toolchain)
        compiled = inner.compile(inputs)
        if compiled is inner.eager:
            return self.eager
        places = split.given

        def run(arguments: list[Any]) -> Any:
            given = [arguments[i] for i in places]
            return split.finish(compiled(arguments), given)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _held(self, inputs: Sequence[Any]) -> Boxed | None:
        """One trace for all values of the numbers; None if there are none, or it cannot be.

        Integers often decide something: they are traced one by one where that costs little.
        """
        numbers = [
            i
            for i, value in enumerate(inputs)
            if can_hold(value) and (self.toolchain.costly or type(value) is float)
        ]
        if not numbers:
            return None
        split = split_numbers(self.gm, numbers)
        met = split.prelude(*[inputs[i] for i in numbers])[: split.met]
        if not all(map(can_hold, met)):
            return None
        places = [i for i in range(len(inputs)) if i not in set(numbers)]
        compiled: Boxed | None = None
        if split.rest is not None:
            inner = Stage(split.rest, self.toolchain)
            compiled = inner.compile([*(inputs[i] for i in places), *map(hold, met)])
            if compiled is inner.eager:
                return None
        kinds = [(i, type(inputs[i])) for i in numbers]
        met_kinds = list(map(type, met))
        outputs, count = split.outputs, split.met

        def run(arguments: list[Any]) -> Any:
            if any(type(arguments[i]) is not kind for i, kind in kinds):
                return self.eager(arguments)
            known = split.prelude(*[arguments[i] for i in numbers])
            met = known[:count]
            if list(map(type, met)) != met_kinds or not all(map(can_hold, met)):
                return self.eager(arguments)
            given = [arguments[i] for i in places]
            arguments.clear()
            given += map(hold, met)
            results = () if compiled is None else compiled(given)
            found = tuple(results[i] if rest else known[i] for rest, i in outputs)
            return found[0] if split.single else found

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _symbolic(self, inputs: Sequence[Any], places: list[int]) -> Boxed:
        """One trace for all sizes; other numbers than those of the example run eagerly."""
        sizes = [i for i, value in enumerate(inputs) if isinstance(value, torch.SymInt)]
        known = {*places, *sizes}
        others = [(i, value) for i, value in enumerate(inputs) if i not in known]
        if not places:
            return self._run_eagerly("no input is a tensor")
        compiled = self._specialize(inputs, places, sizes)
        if not others or compiled is self.eager:
            return compiled
        expected = [(i, type(value), repr(value)) for i, value in others]

        def run(arguments: list[Any]) -> Any:
            for i, kind, text in expected:
                if type(arguments[i]) is not kind or repr(arguments[i]) != text:
                    return self.eager(arguments)
            return compiled(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _run_eagerly(self, reason: str) -> Boxed:
        if self.gm.meta.get("capture_takes_data"):
            _artifact.info("breaks at what depends on data: %s", reason)
            raise DataRefused(reason)
        if self.whole:
            _artifact.info("breaks at what may raise behind a write: %s", reason)
            raise WholeRefused(reason)
        _artifact.info("runs eagerly: %s", reason)
        return self.eager

    def _specialize(
        self, inputs: Sequence[Any], places: list[int], sizes: Sequence[int] = ()
    ) -> Boxed:
        with adapter.keep_generators():
            return self._traced(inputs, places, sizes)

    def _traced(self, inputs: Sequence[Any], places: list[int], sizes: Sequence[int]) -> Boxed:
        template = list(inputs)
        for i in (*places, *sizes):
            template[i] = None
        names = list(self.owned)
        owned = list(self.owned.values())
        tensors = [inputs[i] for i in places] + owned
        numbers = [inputs[i] for i in sizes]
        del inputs

        def call(*arguments: Any) -> Any:
            values = list(template)
            if sizes:
                for i, value in zip(sizes, arguments[-len(sizes) :], strict=True):
                    values[i] = value
                arguments = arguments[: -len(sizes)]
            for i, value in zip(places, arguments[: len(places)], strict=True):
                values[i] = value
            if not names:
                return self.gm.forward(*values)  # FX's own __call__ prints what is raised
            replaced = dict(zip(names, arguments[len(places) :], strict=True))
            return torch.func.functional_call(self.gm, replaced, tuple(values))

        if adapter.inside_a_mode():
            return self._run_eagerly("a torch mode or functorch transform is active")
        against = reason_against(self.gm, any(tensor.requires_grad for tensor in tensors))
        if against is not None:
            return self._run_eagerly(against)
        try:
            joint = trace_joint(self.gm, call, tensors, self.toolchain.decompositions, numbers)
        except Exception as error:
            if not isinstance(error, CannotTrace):
                _artifact.debug("the trace failed\n%s", "".join(traceback.format_exception(error)))
            return self._run_eagerly(_reason(error))
        finally:
            numbers.clear()
        _artifact.debug("joint graph\n%s", joint.gm.graph)
        static = tuple(
            i
            for i, tensor in enumerate(tensors)
            if i >= len(places) or isinstance(tensor, torch.nn.Parameter | torch.nn.Buffer)
        )
        try:
            parts = self._split(joint, static)
        except Exception as error:
            return self._run_eagerly(f"the partitioner failed: {_reason(error)}")
        again = self._again(joint, call, tensors)
        joint, inner = self._compile(joint, parts, again)
        whole = len(template) == len(places) and not owned
        eager = self.eager if whole else self._eager_of(template, places, sizes)
        wrapped = runtime.wrap(joint, inner, eager)
        if whole:
            return wrapped

        def run(arguments: list[Any]) -> Any:
            picked = [arguments[i] for i in places]
            counts = [arguments[i] for i in sizes]
            arguments.clear()
            picked += owned + counts
            return wrapped(picked)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _eager_of(self, template: list[Any], places: list[int], sizes: Sequence[int]) -> Boxed:
        def run(tensors: list[Any]) -> Any:
            values = list(template)
            if sizes:
                for i, value in zip(sizes, tensors[-len(sizes) :], strict=True):
                    values[i] = value
            for i, value in zip(places, tensors, strict=False):
                values[i] = value
            tensors.clear()
            return self.eager(values)

        return run

    def _split(self, joint: Joint, static: tuple[int, ...]) -> Parts:
        count = joint.forward_outputs
        if not joint.differentiable:
            (output,) = (node for node in joint.gm.graph.nodes if node.op == "output")
            output.args = (tuple(output.args[0][:count]),)
            joint.gm.graph.eliminate_dead_code()
            joint.gm.recompile()
            return Parts(joint.gm, None, count, static, joint.mode)
        with recorder_adapter.lazy_code():
            forward, backward = self.toolchain.split(joint.gm, joint.fakes, count, static)
        _drop_unused(forward, backward, count)
        return Parts(forward, backward, count, static, joint.mode)

    def _again(
        self, joint: Joint, call: Callable[..., Any], tensors: Sequence[Tensor]
    ) -> runtime.Again | None:
        """Return what computes the differentiable outputs again with torch calls, if that can be.

        A backward that is itself differentiated needs them with their history.
        """
        if joint.written or adapter.any_autocast() or adapter.is_random(joint.gm):
            return None
        outputs = enumerate(joint.outputs)
        places = {o.index: i for i, o in outputs if o.kind == "forward" and o.view is None}
        wanted = [places[k] for k in joint.differentiable if k in places]
        if len(wanted) < len(joint.differentiable):
            return None
        needs = [tensor.requires_grad for tensor in tensors]
        whole = len(tensors)

        def again(inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Sequence[Any]:
            # Names of their own: an input may be computed from another one.
            numbers, inputs = inputs[whole:], inputs[:whole]
            ours = [t.view_as(t) if need else t for t, need in zip(inputs, needs, strict=True)]
            found = call(*ours, *numbers)
            outputs = [found] if joint.single else found
            met = [(outputs[i], t) for i, t in zip(wanted, tangents, strict=True) if t is not None]
            gradients = iter(
                torch.autograd.grad(
                    [output for output, _ in met],
                    [t for t, need in zip(ours, needs, strict=True) if need],
                    [tangent for _, tangent in met],
                    create_graph=True,
                    allow_unused=True,
                )
            )
            return [next(gradients) if need else None for need in needs]

        disable_code(again.__code__)
        return again

    def _compile(
        self, joint: Joint, parts: Parts, again: runtime.Again | None
    ) -> tuple[Joint, Boxed]:
        saved = _saved(parts)
        copied = _overwritten(joint, saved)
        order, behind = None, []
        if parts.backward is not None:
            behind = tangents_behind(parts.backward)
            order = _order_of(parts.backward, saved, len(joint.differentiable))
        if self.toolchain.writes_inputs and not self.whole:
            joint, copied = write_in_graph(joint, parts, copied)
        _artifact.info("forward graph\n%s", parts.forward.graph)
        if parts.backward is not None:
            _artifact.info("backward graph\n%s", parts.backward.graph)
        forward, backward = self.toolchain.compile(parts)
        if backward is None:
            return joint, runtime.inference_call(forward, joint.owned)
        if order is not None:
            backward = _reorder(backward, order)
        return joint, runtime.autograd_call(forward, backward, joint, copied, behind, again)


def _raise_instead(gm: fx.GraphModule, inputs: list[Any]) -> Any:
    """Raise for what would run eagerly: that writes as it goes. The program itself runs then."""
    raise RuntimeError("capture: these inputs are not compiled for")


def _saved(parts: Parts) -> list[fx.Node]:
    (output,) = (node for node in parts.forward.graph.nodes if node.op == "output")
    return list(output.args[0][parts.outputs :])


def _drop_unused(forward: fx.GraphModule, backward: fx.GraphModule, outputs: int) -> None:
    """Take dead nodes out of the backward, and what was saved for them out of the forward.

    torch's partitioners leave random operators in: the backward would draw numbers again.
    """
    backward.graph.eliminate_dead_code(is_impure_node=_has_effect)
    (output,) = (node for node in forward.graph.nodes if node.op == "output")
    results = output.args[0]
    taken = {node.name: node for node in backward.graph.nodes if node.op == "placeholder"}
    kept = list(results[:outputs])
    for node in results[outputs:]:
        placeholder = taken.get(node.name) if isinstance(node, fx.Node) else None
        if placeholder is not None and not placeholder.users:
            backward.graph.erase_node(placeholder)
        else:
            kept.append(node)
    output.args = (tuple(kept),)
    forward.recompile()
    backward.recompile()


def _has_effect(node: fx.Node) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return not random and node.is_impure()


def _order_of(
    backward: fx.GraphModule, saved: Sequence[fx.Node], tangents: int
) -> list[int] | None:
    """Return where each input of the backward is among what was saved and all tangents.

    None if that is the order already; a partitioner may leave out tangents or mix them.
    """
    taken = [node.name for node in backward.graph.nodes if node.op == "placeholder"]
    given = [node.name for node in saved] + [f"tangents_{i + 1}" for i in range(tangents)]
    return None if taken == given else [given.index(name) for name in taken]


def _reorder(backward: Boxed, order: Sequence[int]) -> Boxed:
    def call(arguments: list[Any]) -> Any:
        picked = [arguments[i] for i in order]
        arguments.clear()
        return backward(picked)

    return call


def _overwritten(joint: Joint, saved: Sequence[fx.Node]) -> list[int]:
    """Return which saved values lie in the memory of inputs that are written to afterwards."""
    written = [each.index for each in joint.written if each.source is not None]
    keys = {adapter.storage_key(joint.fakes[i]) for i in written}
    names = {f"primals_{i + 1}" for i in written}
    return [
        i
        for i, node in enumerate(saved)
        if node.name in names
        or (
            isinstance(value := node.meta.get("val"), Tensor) and adapter.storage_key(value) in keys
        )
    ]


def _reason(error: BaseException) -> str:
    if isinstance(error, CannotTrace):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
