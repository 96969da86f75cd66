"""Holds the cut of a graph under ``DistributedDataParallel``, so that its reductions overlap.

DDP reduces a bucket of gradients as soon as autograd has made them, while it computes the next. A
graph with one backward gives all gradients at its end: nothing would be left to overlap with. So a
graph that is compiled inside of DDP's forward is cut into parts, each with a backward of its own,
where the parameters of a bucket are complete. Must not know how a part is compiled.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from capture import logs
from capture.backends.aot import adapter
from capture.backends.registry import CompiledFn

__all__ = ["Buckets", "active_buckets", "compile_in_buckets"]

_artifact = logs.artifact("aot")
_FIRST_BUCKET = 1 << 20  # bytes; torch's default


@dataclasses.dataclass(frozen=True)
class Buckets:
    """How many bytes of gradients are reduced at once.

    Attributes:
        first: of the bucket that the backward completes first.
        rest: of all others.
    """

    first: int
    rest: int


def active_buckets() -> Buckets | None:
    """Return the buckets of the DDP module whose forward runs now, None outside of any."""
    module = sys.modules.get("torch.nn.parallel.distributed")
    ddp: Any = getattr(module, "DistributedDataParallel", None)
    active = getattr(ddp, "_active_ddp_module", None)
    rest = getattr(active, "bucket_bytes_cap", None)
    if type(rest) is not int:
        return None
    first = getattr(getattr(active, "_bucket_config", None), "first_bucket_bytes_cap", None)
    return Buckets(first if type(first) is int else min(_FIRST_BUCKET, rest), rest)


def compile_in_buckets(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_part: Callable[[fx.GraphModule, list[Any]], CompiledFn],
) -> CompiledFn:
    """Compile a graph in one piece, or, inside of DDP's forward, in one for each bucket."""
    buckets = active_buckets()
    if buckets is None or not torch.is_grad_enabled() or gm.meta.get("capture_whole"):
        return compile_part(gm, list(example_inputs))
    values = _values(gm, example_inputs)
    starts = [] if values is None else _cuts(gm, example_inputs, buckets, values)
    if values is None or not starts:
        return compile_part(gm, list(example_inputs))
    _artifact.info("cut into %d parts at the borders of DDP's buckets", len(starts) + 1)
    return _compile_parts(gm, list(example_inputs), starts, values, compile_part)


@dataclasses.dataclass
class _Values:
    """What a run on fake tensors showed.

    Attributes:
        of: the value of each node.
        calm: the nodes behind which autograd's and autocast's state is what it was at first.
    """

    of: dict[fx.Node, Any]
    calm: set[fx.Node]


class _Recorder(fx.Interpreter):
    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm, garbage_collect_values=False)
        self.state = _state()
        self.values = _Values({}, set())

    def run_node(self, n: fx.Node) -> Any:
        value = self.values.of[n] = super().run_node(n)
        if _state() == self.state:
            self.values.calm.add(n)
        return value


def _state() -> tuple[bool, bool]:
    return torch.is_grad_enabled(), adapter.any_autocast()


def _values(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> _Values | None:
    """Run the graph on fake tensors; None where that cannot be, or it has a backward inside."""
    if any(getattr(node.target, "capture_backward", False) for node in gm.graph.nodes):
        return None
    if adapter.inside_a_mode():
        return None
    mode = adapter.mode_of(example_inputs) or adapter.fake_mode()
    grad = torch.is_grad_enabled()
    recorder = _Recorder(gm)
    try:
        with mode, adapter.keep_generators():
            fakes = [
                mode.from_tensor(v) if isinstance(v, Tensor) and adapter.mode_of([v]) is None else v
                for v in example_inputs
            ]
            recorder.run(*fakes)
    except Exception as error:
        _artifact.info("not cut at the borders of DDP's buckets: %s", error)
        return None
    finally:
        torch.set_grad_enabled(grad)
    return recorder.values


def _cuts(
    gm: fx.GraphModule, example_inputs: Sequence[Any], buckets: Buckets, values: _Values
) -> list[fx.Node]:
    """Return the nodes at which a new part starts, in the graph's order."""
    nodes = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
    sizes = _parameter_bytes(gm, example_inputs)
    last_use = {each: i for i, node in enumerate(gm.graph.nodes) for each in node.all_input_nodes}
    place = {node: i for i, node in enumerate(gm.graph.nodes)}
    starts: list[fx.Node] = []
    limit, filled = buckets.first, 0
    seen: set[fx.Node] = set()
    for i in range(len(nodes) - 1, 0, -1):
        for each in nodes[i].all_input_nodes:
            if each in sizes and each not in seen:
                seen.add(each)
                filled += sizes[each]
        if filled < limit or nodes[i - 1] not in values.calm:
            continue
        if not any(
            each in sizes and each not in seen for n in nodes[:i] for each in n.all_input_nodes
        ):
            break  # nothing is left for another bucket
        border = place[nodes[i]]
        crossing = (n for n in nodes[:i] if last_use.get(n, -1) >= border)
        if all(isinstance(values.of[n], Tensor | torch.SymInt) for n in crossing):
            starts.append(nodes[i])
            limit, filled = buckets.rest, 0
    return starts[::-1]


def _parameter_bytes(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> dict[fx.Node, int]:
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return {
        node: value.numel() * value.element_size()
        for node, value in zip(placeholders, example_inputs, strict=True)
        if isinstance(value, Tensor)
        and value.requires_grad
        and value.is_leaf
        and not adapter.is_symbolic(value)
    }


@dataclasses.dataclass
class _Part:
    """One stretch of the graph: which values it takes and gives, by their place in the list."""

    call: CompiledFn
    takes: list[int]
    gives: list[int]
    drops: list[int]


def _compile_parts(
    gm: fx.GraphModule,
    example_inputs: list[Any],
    starts: Sequence[fx.Node],
    values: _Values,
    compile_part: Callable[[fx.GraphModule, list[Any]], CompiledFn],
) -> CompiledFn:
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    examples = {**values.of, **dict(zip(placeholders, example_inputs, strict=True))}
    slots = {node: i for i, node in enumerate(placeholders)}
    stretches = _stretches(gm, starts)
    parts: list[_Part] = []
    wanted = set(output.all_input_nodes)
    for i, stretch in enumerate(stretches):
        inside = set(stretch)
        later = {each for other in stretches[i + 1 :] for n in other for each in n.all_input_nodes}
        takes = list(
            dict.fromkeys(e for n in stretch for e in n.all_input_nodes if e not in inside)
        )
        gives = [node for node in stretch if node in later or node in wanted]
        for node in gives:
            slots[node] = len(slots)
        piece = _piece(gm, stretch, takes, gives)
        parts.append(
            _Part(
                compile_part(piece, [examples[node] for node in takes]),
                [slots[node] for node in takes],
                [slots[node] for node in gives],
                [slots[n] for n in takes if n not in later and n not in wanted],
            )
        )
    results, count = output.args[0], len(slots)
    unused = [slots[n] for n in placeholders if not n.users]

    def run(inputs: list[Any]) -> Any:
        held: list[Any] = [*inputs, *[None] * (count - len(inputs))]
        inputs.clear()
        for place in unused:
            held[place] = None
        for part in parts:
            arguments = [held[place] for place in part.takes]
            for place in part.drops:
                held[place] = None
            found = _call(part.call, arguments)
            for place, value in zip(part.gives, found, strict=True):
                held[place] = value
            del found
        return fx.node.map_arg(results, lambda node: held[slots[node]])

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _call(function: CompiledFn, arguments: list[Any]) -> Any:
    if getattr(function, "_boxed_call", False):
        return function(arguments)
    return function(*arguments)


def _stretches(gm: fx.GraphModule, starts: Sequence[fx.Node]) -> list[list[fx.Node]]:
    found: list[list[fx.Node]] = [[]]
    for node in gm.graph.nodes:
        if node in starts:
            found.append([])
        if node.op not in ("placeholder", "output"):
            found[-1].append(node)
    return found


def _piece(
    gm: fx.GraphModule, stretch: list[fx.Node], takes: list[fx.Node], gives: list[fx.Node]
) -> fx.GraphModule:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in takes:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in stretch:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in gives))
    return fx.GraphModule(gm, graph)
