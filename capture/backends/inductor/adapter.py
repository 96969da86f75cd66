"""Holds every private name of Inductor that the backend needs; must not know the AOT stage.

``inner`` gives Inductor's compile functions for ATen graphs, or None where the installed torch has
moved one of them or changed what it takes; ``compile_whole`` is the way around that. All imports
are inside functions: nothing of Inductor is loaded before the first graph is compiled.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import fx

__all__ = [
    "Inner",
    "compile_pair",
    "compile_whole",
    "compiling",
    "cpp_compiler",
    "decompositions",
    "inner",
    "is_missing_compiler",
    "known_options",
    "mode_names",
    "mode_options",
    "option_type",
    "patched",
    "split",
]

_MODULE = "torch._inductor.compile_fx"
#: What is called, and with which keyword arguments.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "compile_fx_inner": (),
    "compile_fx_forward": (
        "num_orig_model_outputs",
        "num_example_inputs",
        "compiler_config_extra",
        "inner_compile",
        "is_inference",
    ),
    "compile_fx_backward": ("compiler_config_extra", "inner_compile"),
    "create_compiler_config_extra": (),
    "partition_fn": (),
}


class Inner(NamedTuple):
    """Inductor's inner functions, under the names that it has for them."""

    compile_fx_inner: Callable[..., Any]
    compile_fx_forward: Callable[..., Any]
    compile_fx_backward: Callable[..., Any]
    create_compiler_config_extra: Callable[..., Any]
    partition_fn: Callable[..., Any]


def inner() -> Inner | None:
    """Return Inductor's inner functions, None if one of them is not what it was."""
    module = importlib.import_module(_MODULE)
    found = []
    for name, keywords in _NAMES.items():
        function = getattr(module, name, None)
        if not callable(function) or not _takes(function, keywords):
            return None
        found.append(function)
    return Inner(*found)


def _takes(function: Callable[..., Any], keywords: Sequence[str]) -> bool:
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return True
    return all(keyword in parameters for keyword in keywords)


# -- settings --------------------------------------------------------------------------------------


def mode_options(mode: str) -> Mapping[str, Any] | None:
    """Return the settings that a mode stands for, None if there is no such mode."""
    from torch._inductor import list_mode_options

    return cast("Mapping[str, Any] | None", list_mode_options().get(mode))


def mode_names() -> list[str]:
    """Return the names of all modes."""
    from torch._inductor import list_mode_options

    return list(list_mode_options())


def known_options() -> Mapping[str, Any]:
    """Return all settings with their values."""
    from torch._inductor import config

    return cast("Mapping[str, Any]", config.get_config_copy())


def option_type(name: str) -> type | None:
    """Return the type of a setting, None if it cannot be checked."""
    from torch._inductor import config

    found = config.get_type(name)  # type: ignore[attr-defined]
    return found if isinstance(found, type) and not hasattr(found, "__origin__") else None


def patched(options: Mapping[str, Any]) -> contextlib.AbstractContextManager[object]:
    """Return a context in which Inductor's settings are changed."""
    from torch._inductor import config

    return cast("contextlib.AbstractContextManager[object]", config.patch(dict(options)))


# -- compiling -------------------------------------------------------------------------------------


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Return the operators that Inductor wants replaced, and what by, under its settings now."""
    from torch._inductor.decomposition import select_decomp_table

    return cast("Mapping[Any, Callable[..., Any]]", select_decomp_table())


@contextlib.contextmanager
def compiling(mode: Any) -> Iterator[None]:
    """Run with what Inductor reads from its surroundings.

    Args:
        mode: the mode of the graphs' fake tensors.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.virtualized import V

    context = TracingContext(mode)
    # Strides of outputs are reported as expressions then, not as the numbers of this call.
    context.fakify_first_call = mode.shape_env is not None
    with contextlib.ExitStack() as stack:
        if mode.shape_env is not None:
            # The cache would evaluate conditions on sizes that this graph has not as inputs.
            stack.enter_context(config.patch(fx_graph_cache=False, fx_graph_remote_cache=False))
            stack.enter_context(_convolutions_of_all_sizes())
        stack.enter_context(V.set_fake_mode(mode))
        stack.enter_context(tracing(context))
        stack.enter_context(torch._C._DisableAutocast())
        yield


@contextlib.contextmanager
def _convolutions_of_all_sizes() -> Iterator[None]:
    """Lower backward passes of convolutions on the CPU without a look at the sizes.

    Inductor orders their operands by strides, for kernels that the CPU has none of, and takes the
    strides of this call for constants to do so: a graph for each image size.
    """
    from torch._inductor.lowering import fallback_handler, lowerings

    op = torch.ops.aten.convolution_backward.default
    usual = lowerings.get(op)
    if usual is None:
        yield
        return
    plain: Any = cast("Any", fallback_handler)(op, add_to_fallback_set=False)

    def lower(grad_output: Any, *rest: Any, **named: Any) -> Any:
        chosen = plain if grad_output.get_device().type == "cpu" else usual
        return chosen(grad_output, *rest, **named)

    lowerings[op] = lower
    try:
        yield
    finally:
        lowerings[op] = usual


def split(
    functions: Inner, joint: fx.GraphModule, inputs: Sequence[Any], outputs: int, static: list[int]
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Improve and split a joint graph as Inductor does; call it inside ``compiling``."""
    parts = functions.partition_fn(
        joint, inputs, num_fwd_outputs=outputs, static_lifetime_input_indices=static
    )
    return cast("tuple[fx.GraphModule, fx.GraphModule]", parts)


def compile_pair(
    functions: Inner,
    forward: fx.GraphModule,
    backward: fx.GraphModule | None,
    outputs: int,
    static: Sequence[int],
) -> Iterator[Callable[..., Any]]:
    """Compile the forward, then the backward; call it inside ``compiling``.

    Args:
        functions: what ``inner`` returned.
        forward: the inference graph if there is no backward.
        backward: its inputs are what the forward saves, then tangents.
        outputs: how many of the forward's outputs the program sees, with strides that are kept.
        static: the forward's inputs that are the same tensors in every call.
    """
    from torch._guards import TracingContext

    extra = functions.create_compiler_config_extra(forward)

    def compile_forward(gm: fx.GraphModule, inputs: Sequence[Any], *rest: Any, **keys: Any) -> Any:
        keys["static_input_idxs"] = list(static)
        return functions.compile_fx_inner(gm, inputs, *rest, **keys)

    values = _values(forward)
    results = _results(forward)
    with TracingContext.report_output_strides() as strides:
        compiled = functions.compile_fx_forward(
            forward,
            values,
            num_orig_model_outputs=outputs,
            num_example_inputs=len(values),
            compiler_config_extra=extra,
            inner_compile=compile_forward,
            is_inference=backward is None,
        )
    yield compiled
    if backward is None:
        return
    # Inductor chooses the strides of what is saved: the backward has to be compiled for them.
    made = {
        node.name: stride
        for node, stride in zip(results, strides or (), strict=False)
        if isinstance(node, fx.Node) and stride is not None
    }
    for node in backward.graph.nodes:
        value, stride = node.meta.get("val"), made.get(node.name)
        if node.op == "placeholder" and stride is not None and isinstance(value, torch.Tensor):
            actual = tuple(each if isinstance(each, torch.SymInt) else int(each) for each in stride)
            if not _are_same(value.stride(), actual):
                node.meta["val"] = value.as_strided(value.shape, actual)
    yield functions.compile_fx_backward(
        backward,
        _values(backward),
        compiler_config_extra=extra,
        inner_compile=functions.compile_fx_inner,
    )


def compile_whole(gm: fx.GraphModule) -> Callable[..., Any]:
    """Compile an ATen graph through Inductor's front door, which traces it once more.

    Call it inside ``compiling``. What it returns takes the inputs as one list.
    """
    from torch._inductor.compile_fx import compile_fx

    with torch.no_grad():
        compiled: Any = compile_fx(gm, _values(gm))

    def boxed(inputs: list[Any]) -> Any:
        # One by one, whatever attributes the function has: they are copied from one that is boxed.
        arguments = tuple(inputs)
        inputs.clear()
        return compiled(*arguments)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def cpp_compiler() -> str | None:
    """Return the command of the C++ compiler that Inductor would use, None if there is none."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        return get_cpp_compiler()
    except InvalidCxxCompiler:
        return None


def is_missing_compiler(error: BaseException) -> bool:
    """Tell whether an error of Inductor's says that there is no C++ compiler."""
    from torch._inductor import exc

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, exc.InvalidCxxCompiler):
            return True
        seen = getattr(seen, "inner_exception", None) or seen.__cause__ or seen.__context__
    return False


def _values(gm: fx.GraphModule) -> list[Any]:
    return [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]


def _are_same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Compare numbers without a decision about symbolic ones: equal as they are written."""
    return [str(each) for each in left] == [str(each) for each in right]


def _results(gm: fx.GraphModule) -> list[Any]:
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    return list(output.args[0])
