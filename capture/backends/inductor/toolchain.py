"""Holds the compilation of forward and backward graphs by Inductor; must not know the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from capture import logs
from capture.backends.aot import make_boxed, min_cut_partition
from capture.backends.aot.adapter import Decompositions
from capture.backends.aot.random_ops import opaque_random
from capture.backends.aot.toolchain import Boxed, Parts
from capture.backends.inductor import adapter
from capture.backends.inductor.written_out import write_out
from capture.errors import CaptureError

__all__ = ["InductorFailed", "InductorToolchain", "MissingCompiler"]

_artifact = logs.artifact("aot")
# An error shows so much of the graph; the attribute has all of it.
_SHOWN_LINES = 40


class InductorFailed(CaptureError):
    """Raised where Inductor cannot compile a graph.

    Attributes:
        part: ``forward``, ``backward`` or ``inference``.
        graph: the ATen graph.
        inner: what Inductor raised; also ``__cause__``.
    """

    def __init__(self, part: str, graph: fx.Graph, inner: BaseException) -> None:
        lines = str(graph).splitlines()
        shown = lines[:_SHOWN_LINES]
        if len(lines) > len(shown):
            shown.append(f"    ... {len(lines) - len(shown)} more lines, all of them in `.graph`")
        super().__init__(
            f"Inductor could not compile this {part} graph: {type(inner).__name__}: {inner}\n"
            + "\n".join(shown)
            + '\nbackend="aot_eager" runs the same ATen graphs without Inductor, '
            'backend="eager" the operators as they were captured.'
        )
        self.part = part
        self.graph = graph
        self.inner = inner
        self.__cause__ = inner

    def __reduce__(self) -> tuple[object, ...]:
        return RuntimeError, (str(self),)


class MissingCompiler(CaptureError):
    """Raised where Inductor finds no C++ compiler."""

    def __init__(self, inner: BaseException) -> None:
        super().__init__(
            "Inductor needs a working C++ compiler and found none (on Debian: apt-get install g++; "
            'or name one in the environment variable CXX). backend="aot_eager" compiles the same '
            "graphs of forward and backward without one."
        )
        self.inner = inner
        self.__cause__ = inner

    def __reduce__(self) -> tuple[object, ...]:
        return RuntimeError, (str(self),)


class InductorToolchain:
    """Inductor for the AOT stage.

    Args:
        settings: Inductor's settings that are changed while a graph is compiled.
        partition_fn: splits the joint graph; by default Inductor improves it first and then splits
            it where the least is saved.
    """

    writes_inputs = True
    costly = True

    def __init__(self, settings: Mapping[str, Any], partition_fn: Any = None) -> None:
        self.settings = settings
        self.partition_fn = partition_fn
        self.functions = adapter.inner()
        if self.functions is None:
            # Slower to compile, and equally right.
            _artifact.warning("this torch has other inner functions of Inductor: uses compile_fx")
            self.writes_inputs = False
        with adapter.patched(settings):
            table = {**adapter.decompositions(), **opaque_random()}
            self.decompositions: Decompositions | None = table

    def split(
        self, joint: fx.GraphModule, inputs: Sequence[Any], outputs: int, static: Sequence[int]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Split as Inductor does."""
        mode = next(value.fake_mode for value in inputs if hasattr(value, "fake_mode"))
        write_out(joint, mode)
        if self.partition_fn is not None:
            return self.partition_fn(joint, inputs, num_fwd_outputs=outputs)  # type: ignore[no-any-return]
        if self.functions is None:
            return min_cut_partition(joint, inputs, num_fwd_outputs=outputs)
        with adapter.patched(self.settings), adapter.compiling(mode):
            return adapter.split(self.functions, joint, inputs, outputs, list(static))

    def compile(self, parts: Parts) -> tuple[Boxed, Boxed | None]:
        """Compile forward and backward.

        Raises:
            InductorFailed: with the graph and what can be done.
            MissingCompiler: there is no C++ compiler.
        """
        pieces = [parts.forward] if parts.backward is None else [parts.forward, parts.backward]
        names = ["inference"] if parts.backward is None else ["forward", "backward"]
        texts = [_copy(piece.graph) for piece in pieces]
        for piece in pieces:
            write_out(piece, parts.mode)
        compiled: list[Boxed] = []
        with adapter.patched(self.settings), adapter.compiling(parts.mode):
            made = self._each(parts, pieces)
            for name, graph in zip(names, texts, strict=True):
                try:
                    compiled.append(make_boxed(next(made)))
                except Exception as error:
                    if adapter.is_missing_compiler(error):
                        raise MissingCompiler(error) from error
                    raise InductorFailed(name, graph, error) from error
        return compiled[0], compiled[1] if len(compiled) > 1 else None

    def _each(self, parts: Parts, pieces: Sequence[fx.GraphModule]) -> Any:
        if self.functions is None:
            return (adapter.compile_whole(piece) for piece in pieces)
        return adapter.compile_pair(
            self.functions, parts.forward, parts.backward, parts.outputs, parts.static
        )


def _copy(graph: fx.Graph) -> fx.Graph:
    """Inductor changes a graph while it compiles: an error is to show what it was given."""
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy
