"""Holds what we need of torch.fx beyond its documented interface, for speed and for memory.

Must not know tensors. Every private name is used here only; checked on torch 2.13 and 2.14.
"""

from __future__ import annotations

import linecache
import sys
import types
import weakref
from typing import Any

from torch import fx
from torch.fx import graph_module as _graph_module

from capture.graph.source import quick_source

__all__ = ["append_node", "append_placeholder", "make_graph_module", "new_graph"]


# Names that the generated function has for itself; FX would give them to nodes.
_RESERVED = ("self", "inputs_")


def new_graph() -> fx.Graph:
    """An empty graph whose nodes may have any name."""
    graph = fx.Graph()
    for name in _RESERVED:
        graph._graph_namespace.create_name(name, None)
    return graph


def append_node(
    graph: fx.Graph,
    op: str,
    name: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> fx.Node:
    """Append a node: ``Graph.create_node`` without its walk over the arguments (4 us, not 13)."""
    namespace = graph._graph_namespace
    name = namespace.create_name(name, None)
    node = fx.Node(graph, name, op, target, args, kwargs)
    namespace.associate_name_with_obj(name, node)
    graph._insert(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    return node


def append_placeholder(graph: fx.Graph, name: str, last: fx.Node | None) -> fx.Node:
    """Add a placeholder behind ``last``, the last one so far, and before all other nodes."""
    namespace = graph._graph_namespace
    name = namespace.create_name(name, None)
    node = fx.Node(graph, name, "placeholder", name, (), {})
    namespace.associate_name_with_obj(name, node)
    (graph._root if last is None else last).append(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    return node


def make_graph_module(graph: fx.Graph, class_name: str) -> fx.GraphModule:
    """Generate the module once; its source leaves FX's cache for good when the module dies.

    The line cache, where FX put the source too, is the program's: a name that came and went while
    it walks over them would be an error there. Tracebacks find the source by the loader.
    """
    with quick_source(graph):
        gm = fx.GraphModule({}, graph, class_name)
    forward = type(gm).forward
    filename = forward.__code__.co_filename
    linecache.cache.pop(filename, None)
    forward.__globals__.update(__name__=filename, __loader__=_graph_module._loader)
    weakref.finalize(gm, _evict, filename)
    return gm


_waiting: list[str] = []


def _evict(filename: str) -> None:
    """Forget generated source, which FX would keep until the process ends.

    A printed traceback may have put it into the line cache. ``linecache.checkcache`` expects all
    names that it began with to stay, and the collector may come here in the midst of it: then they
    wait for the next module that dies.
    """
    _graph_module._loader.eval_cache.pop(filename, None)
    _waiting.append(filename)
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == linecache.__file__:
            return
        frame = frame.f_back
    while _waiting:
        linecache.cache.pop(_waiting.pop(), None)
