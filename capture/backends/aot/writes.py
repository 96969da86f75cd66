"""Holds the writes to inputs that a forward graph does itself; must not know what compiles it.

A new value that is returned and copied afterwards costs one more pass over its memory. Where
autograd takes no notice of the write the graph can end with the copy, and a compiler that fuses
writes the value where it belongs in the first place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor, fx

from capture.backends.aot.described import Joint, Output, Written
from capture.backends.aot.toolchain import Parts

__all__ = ["write_in_graph"]


def write_in_graph(
    joint: Joint, parts: Parts, overwritten: Sequence[int]
) -> tuple[Joint, list[int]]:
    """Let the forward end with the writes that it can do; changes ``parts``.

    Args:
        joint: what has to be written.
        parts: the graphs.
        overwritten: which saved values lie in the memory of inputs that are written to.

    Returns:
        the joint graph's description with the outputs counted anew, and what is left of
        ``overwritten``: values saved from memory that the graph's caller writes to.
    """
    graph = parts.forward.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in graph.nodes if node.op == "output")
    results = list(output.args[0])
    done = {
        each.index: each.source
        for each in joint.written
        if each.source is not None and _can_write(each, joint.fakes[each.index])
    }
    if not done:
        return joint, list(overwritten)
    gone = {source for source in done.values() if not _is_returned(source, joint)}
    for i in overwritten:
        # The graph itself overwrites it: what the backward is to see has to be kept before.
        results[parts.outputs + i] = _copy(graph, results[parts.outputs + i], inputs[-1])
    with graph.inserting_before(output):
        for index, source in done.items():
            graph.call_function(
                torch.ops.aten.copy_.default, (inputs[index], results[source])
            ).meta["val"] = joint.fakes[index]
    new = {old: k for k, old in enumerate(i for i in range(parts.outputs) if i not in gone)}
    output.args = (tuple(node for i, node in enumerate(results) if i not in gone),)
    parts.forward.recompile()
    parts.outputs = len(new)
    written = [
        dataclasses.replace(each, source=None, in_graph=True)
        if each.index in done
        else dataclasses.replace(each, source=None if each.source is None else new[each.source])
        for each in joint.written
    ]
    moved = dataclasses.replace(
        joint,
        forward_outputs=len(new),
        differentiable=[new[i] for i in joint.differentiable],
        outputs=_renumbered(joint.outputs, new),
        owned=tuple(new[i] for i in joint.owned),
        written=written,
    )
    return moved, []


def _can_write(each: Written, fake: Tensor) -> bool:
    if each.differentiable or each.geometry is not None:
        return False
    # Memory that overlaps itself may not be written to: that is eager's error.
    dims = sorted((s, n) for s, n in zip(fake.stride(), fake.shape, strict=True) if n > 1)
    reach = 1
    for stride, size in dims:
        if stride < reach:
            return False
        reach = stride * (size - 1) + reach
    return True


def _is_returned(source: int, joint: Joint) -> bool:
    return any(each.kind == "forward" and each.index == source for each in joint.outputs)


def _copy(graph: fx.Graph, node: fx.Node, last_input: fx.Node) -> fx.Node:
    with graph.inserting_after(last_input if node.op == "placeholder" else node):
        copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta["val"] = node.meta["val"].clone()
    return copy


def _renumbered(outputs: Sequence[Output], new: dict[int, int]) -> list[Output]:
    """Count outputs anew; the same description stays one object, it stands for one tensor."""
    moved: dict[int, Output] = {}
    for each in outputs:
        if id(each) not in moved:
            forward = each.kind == "forward"
            moved[id(each)] = dataclasses.replace(each, index=new[each.index]) if forward else each
    return [moved[id(each)] for each in outputs]
