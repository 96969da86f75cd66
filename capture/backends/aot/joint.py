"""Holds the one trace of the AOT stage: a graph of torch calls to a functional joint ATen graph.

Must not know how the graphs are split, compiled or called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, fx

from capture import logs
from capture.backends.aot import adapter
from capture.backends.aot.assembly import assemble
from capture.backends.aot.described import CannotTrace, Joint
from capture.backends.aot.functional_adapter import lean_functional_mode
from capture.backends.aot.numbers import reads_numbers
from capture.backends.aot.recorder import record
from capture.backends.aot.trace import Trace
from capture.config import settings
from capture.errors import UserError

__all__ = ["trace_joint", "tracer_name"]

_artifact = logs.artifact("aot")

# Methods and functions that give a tensor other memory or free geometry.
_NEW_MEMORY = frozenset(
    "set_ resize_ resize_as_ as_strided_ untyped_storage storage data __set__ swap_tensors".split()
)
# Methods that leave something with a tensor for autograd's backward to find.
_AUTOGRAD_STATE = frozenset(("register_hook", "retain_grad"))
# Numbers in tensors decide what they do.
_PACKED = frozenset(("_pack_padded_sequence", "_pad_packed_sequence"))
# Their decompositions loop over the steps.
_UNROLLED = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))


def _is_packed(node: fx.Node) -> bool:
    """Tell whether a recurrent network works on a packed sequence; it has one argument more."""
    return len(node.args) > 3 and isinstance(node.args[3], tuple | list)


def _record(found: Trace, inputs: list[Any], table: Any, mode: Any) -> fx.GraphModule:
    return record(found.run, inputs, table, mode)


def _make_fx(found: Trace, inputs: list[Any], table: Any, mode: Any) -> fx.GraphModule:
    return adapter.trace_to_aten(found.run, inputs, table)


_TRACERS = {"recorder": _record, "make_fx": _make_fx}
_FUNCTIONAL_MODES = {"recorder": lean_functional_mode, "make_fx": adapter.functional_mode}


def tracer_name() -> str:
    """Return which tracer the settings ask for.

    Raises:
        UserError: there is none of this name.
    """
    name = settings.aot_tracer
    if name not in _TRACERS:
        raise UserError(f"config.aot_tracer is one of {', '.join(_TRACERS)}, not {name!r}")
    return name


def trace_joint(
    gm: fx.GraphModule,
    call: Callable[..., Any],
    tensors: Sequence[Tensor],
    decompositions: adapter.Decompositions | None,
    numbers: Sequence[Any] = (),
    tracer: str | None = None,
) -> Joint:
    """Trace a graph of torch calls, forward and backward.

    Args:
        gm: the torch-level graph, to look at.
        call: runs it on tensors in the place of ``tensors``, and numbers in that of ``numbers``.
        tensors: the inputs; only their metadata is used.
        numbers: symbolic ints among the inputs.
        decompositions: operator to function, as for ``make_fx``.
        tracer: ``recorder``, which leaves to ``make_fx`` what it cannot do, or ``make_fx``; if not
            given, as in the settings.

    Raises:
        CannotTrace: this graph has to run eagerly.
    """
    for node in gm.graph.nodes:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if node.op in ("call_method", "call_function") and name in _NEW_MEMORY:
            raise CannotTrace(f"{name} gives a tensor other memory")
        if name in _AUTOGRAD_STATE or not getattr(node.target, "capture_traceable", True):
            raise CannotTrace(f"{name} runs code of the program in the backward")
        if name in _PACKED or (name in _UNROLLED and _is_packed(node)):
            raise CannotTrace(f"{name} works on a packed sequence")
        if name in _UNROLLED and any(map(adapter.is_symbolic, tensors)):
            raise CannotTrace(f"{name} would be unrolled over a symbolic size")
    if not all(adapter.is_plain(tensor) for tensor in tensors):
        raise CannotTrace("an input is no plain strided tensor")
    with adapter.plain_state(), logs.silenced(*logs.FAKE_RUNS):
        reads = reads_numbers(gm) or gm.meta.get("capture_data", False)
        symbolic = any(map(adapter.is_symbolic, tensors))
        mode = adapter.mode_of(tensors) if symbolic or numbers else None
        mode = mode or adapter.fake_mode(reads)
        fast = (tracer or tracer_name()) == "recorder" and not (reads or symbolic or numbers)
        for name in ("recorder", "make_fx") if fast else ("make_fx",):
            fakes = adapter.fakes_of(mode, tensors)
            found = Trace(
                call,
                [t.requires_grad for t in tensors],
                [t.is_leaf for t in tensors],
                any(getattr(node.target, "capture_backward", False) for node in gm.graph.nodes),
                _FUNCTIONAL_MODES[name],
            )
            # New tensors are to be fake, too.
            with mode, adapter.numbers_allowed(mode, reads):
                try:
                    traced = _TRACERS[name](found, [*fakes, *numbers], decompositions, mode)
                    break
                except CannotTrace:
                    raise
                except Exception as error:
                    # Whatever happened: if it is an error of the program, make_fx raises it.
                    if name == "make_fx":
                        raise
                    _artifact.debug("left to make_fx: %s: %s", type(error).__name__, error)
    if reads:
        if found.tangents and not gm.meta.get("capture_takes_data"):
            raise CannotTrace("it reads numbers out of tensors, and has a backward")
        adapter.bind_numbers(traced, mode)
    return assemble(traced, found, fakes, mode, numbers)
