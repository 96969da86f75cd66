"""Holds every private name of torch that the AOT stage needs; must not know what they are used for.

Nothing heavy is imported before the first graph is compiled: all imports are inside functions.
``CHECKED_VERSIONS`` are the versions of torch whose names and behaviour were tested.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, fx
from torch.autograd import grad_mode

__all__ = [
    "CHECKED_VERSIONS",
    "INFERENCE_SWITCHES",
    "Decompositions",
    "any_autocast",
    "autocast_off",
    "base_of",
    "bind_numbers",
    "clear_saved",
    "copy_all",
    "core_aten_decompositions",
    "count_writes",
    "fake_mode",
    "fakes_of",
    "from_functional",
    "functional_mode",
    "inside_a_mode",
    "is_contiguous_as_written",
    "is_one_of_many",
    "is_plain",
    "is_random",
    "is_symbolic",
    "is_view_op",
    "keep_generators",
    "keeps_graph",
    "make_one_of_many",
    "mode_of",
    "numbers_allowed",
    "plain_state",
    "random_state",
    "same_as_written",
    "same_storage",
    "set_random_state",
    "storage_key",
    "storage_was_changed",
    "tells_of_freed_graph",
    "to_functional",
    "torch_default_partition",
    "torch_min_cut_partition",
    "trace_to_aten",
    "version_is_checked",
]

#: The versions (major, minor) that the tests were run on.
CHECKED_VERSIONS = ((2, 13), (2, 14))

Decompositions: TypeAlias = Mapping[Any, Callable[..., Any]]


def version_is_checked() -> bool:
    """Tell whether the installed torch is one that the private names were tested on."""
    major, minor = torch.__version__.split(".")[:2]
    return (int(major), int(minor)) in CHECKED_VERSIONS


# -- tensors ---------------------------------------------------------------------------------------


def is_plain(tensor: Tensor) -> bool:
    """Tell whether this is a tensor that can be traced: no subclass, strided, no wrapper."""
    return (
        (
            type(tensor) in (Tensor, torch.nn.Parameter, torch.nn.Buffer)
            or mode_of([tensor]) is not None
        )
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not torch._is_functional_tensor(tensor)
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def is_symbolic(value: object) -> bool:
    """Tell whether this is a symbolic int, or a fake tensor with symbolic sizes or strides."""
    if isinstance(value, Tensor):
        return bool(value._has_symbolic_sizes_strides)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def same_as_written(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Compare numbers; symbolic ones by their expressions, without a decision about them."""
    return [str(each) for each in left] == [str(each) for each in right]


def is_contiguous_as_written(tensor: Tensor) -> bool:
    """Tell whether a tensor with symbolic sizes is contiguous whatever these are."""
    if not is_symbolic(tensor):
        return False
    expected: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if str(stride) != str(expected):
            return False
        expected = expected * size
    return True


def mode_of(values: Sequence[object]) -> Any:
    """Return the mode of the first fake tensor, or None."""
    return next((m for v in values if (m := getattr(v, "fake_mode", None)) is not None), None)


def storage_key(tensor: Tensor) -> int:
    """Return a number that tensors share if and only if they share a storage, while both live."""
    return int(tensor.untyped_storage()._cdata)


def same_storage(tensors: Sequence[object], written: Sequence[int]) -> bool:
    """Tell whether one of the tensors at the positions ``written`` shares memory with another."""
    keys = [storage_key(t) if isinstance(t, Tensor) else -i for i, t in enumerate(tensors)]
    if len(set(keys)) == len(keys):
        return False
    return any(keys.count(keys[i]) > 1 for i in written)


def copy_all(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Write to each tensor its new value."""
    torch._foreach_copy_(tensors, values)


def count_writes(tensors: Sequence[Tensor]) -> None:
    """Let autograd know that compiled code has written to tensors."""
    counted = [tensor for tensor in tensors if not tensor.is_inference()]
    torch.autograd.graph.increment_version(counted)


def base_of(tensor: Tensor) -> Tensor | None:
    """Return the tensor of which autograd takes this one as a view."""
    return tensor._base


def is_one_of_many(tensor: Tensor) -> bool:
    """Tell whether autograd forbids writing to this view: its operator returned several."""
    return (
        tensor._is_view()
        and torch._C._autograd._get_creation_meta(tensor)
        == torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE
    )


def make_one_of_many(tensor: Tensor) -> None:
    """Let autograd forbid writing to this view."""
    if tensor._is_view():
        torch._C._autograd._set_creation_meta(
            tensor, torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE
        )


# -- torch's state ---------------------------------------------------------------------------------


#: Tells whether autocast is on for any device.
any_autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled


def autocast_off() -> AbstractContextManager[object]:
    """Return a context in which no operator is cast."""
    return cast("AbstractContextManager[object]", torch._C._DisableAutocast())


def inside_a_mode() -> bool:
    """Tell whether a dispatch or function mode, or a functorch transform, is active."""
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def in_transform() -> bool:
    """Tell whether a functorch transform is active."""
    return torch._C._are_functorch_transforms_active()


def keep_generators() -> AbstractContextManager[object]:
    """Return a context that leaves the default generators as they were."""
    cuda: Any = torch.cuda
    devices = range(cuda.device_count()) if cuda.is_initialized() else ()
    return torch.random.fork_rng(devices=devices)


def is_random(gm: fx.GraphModule) -> bool:
    """Tell whether an ATen graph draws random numbers."""
    seeded = torch.Tag.nondeterministic_seeded
    return any(seeded in getattr(node.target, "tags", ()) for node in gm.graph.nodes)


def random_state() -> list[tuple[int | None, Tensor]]:
    """Return the states of the default generators, by device; None is the CPU."""
    cuda: Any = torch.cuda
    devices = range(cuda.device_count()) if cuda.is_initialized() else ()
    return [(None, torch.get_rng_state()), *((i, cuda.get_rng_state(i)) for i in devices)]


def set_random_state(state: Sequence[tuple[int | None, Tensor]]) -> None:
    """Put the states of the default generators back."""
    for device, value in state:
        if device is None:
            torch.set_rng_state(value)
        else:
            torch.cuda.set_rng_state(value, device)


def _enter(mode: bool) -> bool:
    """Switch gradients off where a graph switches inference mode on; what it was before."""
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(before and not mode)
    return before


def _exit(before: bool) -> None:
    torch._C._set_grad_enabled(before)


# What switches inference mode in a graph, and what switches gradients off in its place.
INFERENCE_SWITCHES: dict[Any, Callable[..., Any]] = {
    grad_mode._enter_inference_mode: _enter,
    grad_mode._exit_inference_mode: _exit,
}


@contextlib.contextmanager
def plain_state() -> Iterator[None]:
    """Run outside inference mode; grad mode is as before when it ends."""
    grad = torch.is_grad_enabled()  # inference_mode(False) turns it on
    try:
        with torch.inference_mode(False), torch.set_grad_enabled(grad):
            yield
    finally:
        torch.set_grad_enabled(grad)


def keeps_graph() -> bool:
    """Tell, inside a backward, whether ``retain_graph`` was asked for."""
    return torch._C._autograd._get_current_graph_task_keep_graph()


def clear_saved(ctx: Any) -> None:
    """Let go of what an ``autograd.Function`` saved."""
    ctx.maybe_clear_saved_tensors()


def tells_of_freed_graph(error: RuntimeError) -> bool:
    """Tell whether autograd raised this because a backward has freed what was saved."""
    return "backward through the graph a second time" in str(error)


# -- tracing ---------------------------------------------------------------------------------------


def fake_mode(numbers: bool = False) -> Any:
    """Return a mode whose tensors have no data; real ones that a graph owns are let in.

    With ``numbers`` it can make symbols (see ``numbers_allowed``).
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    if not numbers:
        return FakeTensorMode(allow_non_fake_inputs=True)
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    environment = ShapeEnv(allow_dynamic_output_shape_ops=True)
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment, static_shapes=True)


@contextlib.contextmanager
def numbers_allowed(mode: Any, allowed: bool) -> Iterator[None]:
    """Make numbers that are read out of tensors symbols without a value, if ``allowed``."""
    before = mode.allow_scalar_outputs
    mode.allow_scalar_outputs = before or allowed
    try:
        yield
    finally:
        mode.allow_scalar_outputs = before


def bind_numbers(gm: fx.GraphModule, mode: Any) -> None:
    """Note in a traced graph which node gives each number without a value, as compilers expect."""
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten._local_scalar_dense.default:
            value = node.meta["val"]
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                node.meta["unbacked_bindings"] = {value.node.expr: ()}
    mode.shape_env.pending_fresh_unbacked_symbols.clear()


def fakes_of(mode: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return fake tensors of the same metadata: plain leaves that do not require grad."""
    with torch.no_grad():
        return [
            tensor.detach() if mode_of([tensor]) is mode else mode.from_tensor(tensor.detach())
            for tensor in tensors
        ]


def functional_mode() -> Any:
    """Return the mode in which mutation is turned into new values."""
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    return FunctionalTensorMode()


def to_functional(tensor: Tensor) -> Tensor:
    """Wrap a tensor so that its mutations are recorded instead of done."""
    from torch._functorch._aot_autograd.functional_utils import to_fun

    return cast("Tensor", to_fun(tensor))


def from_functional(tensor: Tensor) -> Tensor:
    """Bring a functional tensor up to date and return its present value."""
    from torch._functorch._aot_autograd.functional_utils import from_fun

    return cast("Tensor", from_fun(tensor))


def storage_was_changed(tensor: Any) -> bool:
    """Tell whether a functional tensor was given other memory (``set_``, ``resize_``)."""
    return bool(torch._functionalize_was_storage_changed(tensor.elem)) or bool(
        torch._functionalize_was_inductor_storage_resized(tensor.elem)
    )


def trace_to_aten(
    function: Callable[..., Any], fakes: Sequence[Any], decompositions: Decompositions | None
) -> fx.GraphModule:
    """Trace ``function`` below autograd with ``make_fx``."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    table = None if decompositions is None else dict(decompositions)
    if not any(map(is_symbolic, fakes)):
        return make_fx(function, decomposition_table=table)(*fakes)
    # Some C++ decompositions want concrete sizes, and so do operators that make real tensors.
    with enable_python_dispatcher(), mode_of(fakes):
        return make_fx(function, decomposition_table=table)(*fakes)


@functools.cache
def core_aten_decompositions() -> Decompositions:
    """Return torch's decompositions into the core operators."""
    from torch._decomp import core_aten_decompositions as table

    return cast("Decompositions", table())


def is_view_op(target: object) -> bool:
    """Tell whether an operator returns views of its first argument and writes nothing."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    schema = target._schema
    if not schema.arguments or not schema.returns or schema.is_mutable:
        return False
    first, result = schema.arguments[0].alias_info, schema.returns[0].alias_info
    return first is not None and result is not None


# -- partitioners ----------------------------------------------------------------------------------


def torch_default_partition(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Split as eager would: what the backward reads is saved, nothing is computed twice."""
    from torch._functorch import partitioners

    return partitioners.default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)


def torch_min_cut_partition(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Split where the least is saved: the backward computes cheap values again."""
    from torch._functorch import partitioners

    return partitioners.min_cut_rematerialization_partition(
        joint, inputs, num_fwd_outputs=num_fwd_outputs
    )
