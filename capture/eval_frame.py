"""Holds the public decorators and the wrapper objects; the only user of the native hook.

``compile`` makes a region (one compiled function, with its backend) and a callable that enters it.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import sysconfig
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

from capture import counters, stance
from capture._native import (
    CompiledFunction,
    Disabled,
    Region,
    disable_code,
    skip_code,
    skip_files,
    tracing,
)
from capture.backends.registry import backend_name, lookup_backend, with_settings
from capture.errors import UserError
from capture.variables.marks import CONSTANT, DISABLE, GRAPH, mark
from capture.variables.size_marks import mark_dynamic, mark_static, maybe_mark_dynamic

__all__ = [
    "DEFAULT_BACKEND",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "graph_break",
    "is_compiling",
    "reset",
]

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_BACKEND = "inductor"
_configured = False


@functools.cache
def _frontend() -> Any:
    """The module that converts frames, loaded when something is compiled.

    It brings in all of the interpreter, which a program that only imports the package need not pay
    for: the one import of the package that is put off, because of its cost.
    """
    torch_calls = importlib.import_module("capture.variables.torch_calls")
    torch_calls.register_special(graph_break, torch_calls.SPECIAL_HANDLERS["break"])
    torch_calls.register_special(is_compiling, torch_calls.SPECIAL_HANDLERS["true"])
    for function in (mark_dynamic, maybe_mark_dynamic, mark_static):
        torch_calls.register_special(function, torch_calls.SPECIAL_HANDLERS["none"])
    _configure_hook()
    return importlib.import_module("capture.convert_frame")


def _configure_hook() -> None:
    """Say which files hold no code worth capturing: the standard library, torch, this package."""
    global _configured
    if _configured:
        return
    _configured = True
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    torch_dir = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
    paths = sysconfig.get_paths()
    stdlib = {paths["stdlib"] + os.sep, paths["platstdlib"] + os.sep}
    site = {paths["purelib"] + os.sep, paths["platlib"] + os.sep}
    skip_files(
        (here, torch_dir, *stdlib, "<frozen"),
        (
            *site,
            os.path.join(here, "demo") + os.sep,
            os.path.join(here, "doctor.py"),
            os.path.join(torch_dir, "nn", "modules") + os.sep,
        ),
        # torch.compile inside compiled code is torch's affair, and so is what it compiles with
        tuple(os.path.join(torch_dir, part) + os.sep for part in ("_dynamo", "_inductor")),
    )
    # Folders lie within each other (torch in site-packages in the standard library's): the longest
    # prefix decides. What leads to ``forward`` is left to Python: one code serves all modules.
    # What an import runs is no part of the program's tensor work.
    disable_code(importlib._bootstrap._find_and_load.__code__)  # type: ignore[attr-defined]
    module = torch.nn.Module
    for name in ("_wrapped_call_impl", "_call_impl", "__getattr__", "__setattr__", "__delattr__"):
        skip_code(getattr(module, name).__code__)


class _CompiledModule:
    """Mixed into the class of a compiled module: calls go through the region.

    The compiled module shares the original's ``__dict__``, so parameters, buffers, submodules,
    hooks and ``training`` are the same objects under the same names.
    """

    __slots__ = ()

    # Slots of the class that is made for each class of modules, so that a compiled module goes as
    # soon as nobody refers to it; what hangs on a class goes with the garbage collector only.
    _capture_call: Any
    _capture_original: Any
    _capture_settings: dict[str, Any]

    @property
    def _orig_mod(self) -> torch.nn.Module:
        return self._capture_original  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._capture_call(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _recompile, (self._capture_original, self._capture_settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _recompile(copy.deepcopy(self._capture_original, memo), self._capture_settings)

    def __copy__(self) -> Any:
        return _recompile(copy.copy(self._capture_original), self._capture_settings)


def _recompile(module: torch.nn.Module, settings: dict[str, Any]) -> Any:
    return compile(module, **settings)


def _compile_module(
    module: torch.nn.Module, region: Region, settings: dict[str, Any]
) -> torch.nn.Module:
    """A module of a subclass of the original's class that shares its state."""
    if isinstance(module, _CompiledModule):
        module = module._capture_original
    made: Any = _compiled_class(type(module))
    # Not by the class's own way: it may construct something else (the modules of FSDP2 do).
    compiled: torch.nn.Module = object.__new__(made)
    object.__setattr__(compiled, "__dict__", module.__dict__)
    object.__setattr__(compiled, "_capture_call", CompiledFunction(module, region))
    object.__setattr__(compiled, "_capture_original", module)
    object.__setattr__(compiled, "_capture_settings", settings)
    return compiled


def _compiled_class(cls: type[torch.nn.Module]) -> type:
    """The class of compiled modules of a class; it lives as long as it has instances."""
    bases = (_CompiledModule, cls)
    for known in cls.__subclasses__():
        if known.__bases__ == bases:
            return known
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__slots__": ("_capture_call", "_capture_original", "_capture_settings"),
    }
    return types.new_class(cls.__name__, bases, {}, lambda ns: ns.update(namespace))


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> F: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> Callable[[F], F]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = DEFAULT_BACKEND,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Capture the tensor work of a function, method, module or training loop in graphs.

    Works as a decorator with or without arguments. Nothing is compiled before the first call.

    Args:
        model: a function, bound method, ``nn.Module`` or other callable; None gives a decorator.
        fullgraph: raise ``Unsupported`` instead of breaking the graph.
        dynamic: True makes all sizes of tensor arguments, and int and float arguments, symbolic
            from the first call on; None those that were seen to change; False none but marked ones.
        backend: a registered name or a callable ``(GraphModule, example_inputs) -> callable``;
            ``inductor`` by default, which needs a C++ compiler.
        mode: for backends that have modes, ``default`` for any.
        options: for backends that have options; others get them as a keyword argument.
        disable: return ``model`` unchanged.

    Raises:
        UserError: for an unknown backend, mode or option, or something that cannot be called.
    """
    settings: dict[str, Any] = {
        "fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode,
        "options": options, "disable": disable,
    }  # fmt: skip
    if model is None:
        return functools.partial(compile, **settings)
    if not callable(model):
        raise UserError(
            "capture.compile takes a function, method, module or other callable, "
            f"not {type(model).__name__}"
        )
    if dynamic is not None and type(dynamic) is not bool:
        raise UserError(f"dynamic is True, False or None, not {dynamic!r}")
    if mode is not None and options is not None:
        raise UserError("give either mode or options, not both")
    if disable:
        return model
    compiler = with_settings(lookup_backend(backend), mode, options)
    frontend = _frontend()
    piece_options = frontend.Options(backend=compiler, fullgraph=fullgraph, dynamic=dynamic)
    converter = frontend.Converter(piece_options)
    region = Region(converter.convert, converter.make_resume, name=backend_name(backend))
    _regions.append(region)
    region.enabled = stance.current() != "force_eager"
    if isinstance(model, torch.nn.Module):
        return _compile_module(model, region, settings)
    if isinstance(model, type):
        raise UserError("capture.compile takes an instance of a class, or one of its methods")
    compiled = CompiledFunction(model, region)
    functools.update_wrapper(compiled, model)
    return compiled


class _Regions:
    """The live regions, weakly."""

    def __init__(self) -> None:
        self._refs: list[weakref.ref[Region]] = []

    def append(self, region: Region) -> None:
        """Add a region; now and then forget the dead ones."""
        self._refs.append(weakref.ref(region))
        if len(self._refs) > 64 and len(self._refs) & (len(self._refs) - 1) == 0:
            self._refs = [r for r in self._refs if r() is not None]

    def live(self) -> list[Region]:
        """The regions that are still in use."""
        return [r for r in (ref() for ref in self._refs) if r is not None]


_regions = _Regions()


def _follow_stance() -> None:
    for region in _regions.live():
        region.enabled = stance.current() != "force_eager"


stance.listeners.append(_follow_stance)


def reset() -> None:
    """Forget everything compiled, so that the next call captures anew; counters start at zero."""
    for region in _regions.live():
        for _, site in region.sites():
            site.clear()
            site.data = None
    counters.reset()


def disable(fn: F | None = None, *, recursive: bool = True) -> Any:
    """Never capture a function (as a decorator, or around a callable); it runs as plain Python.

    Args:
        fn: the function.
        recursive: also leave what it calls alone; False captures its callees.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    if not callable(fn):
        raise UserError(f"capture.disable takes a callable, not {type(fn).__name__}")
    if not recursive:
        code = getattr(fn, "__code__", None)
        if code is not None:
            skip_code(code)
        mark(fn, DISABLE)
        return fn
    if isinstance(fn, torch.nn.Module):
        fn.forward = Disabled(fn.forward)
        return fn
    wrapped = Disabled(fn)
    functools.update_wrapper(wrapped, fn)
    return wrapped


def graph_break(msg: str = "") -> None:
    """End the current graph here; does nothing outside of captured code."""


def is_compiling() -> bool:
    """True in code that is being captured (the branch is folded), False in plain Python."""
    return tracing()


def allow_in_graph(fn: Any) -> Any:
    """Put calls of a function into the graph as they are, without looking inside."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise UserError(f"capture.allow_in_graph takes a callable, not {type(fn).__name__}")
    mark(fn, GRAPH)
    return fn


def assume_constant_result(fn: F) -> F:
    """Take a function's result at capture time for the result of every later call."""
    mark(fn, CONSTANT)
    return fn
