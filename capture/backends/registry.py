"""Holds the table of backends by name, built-in and from entry points; must not know what they do.

Other distributions add a backend through the entry-point group ``capture.backends``; such an entry
point is imported only when its name is asked for.
"""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar, overload

from torch import Tensor, fx

from capture.errors import UserError

__all__ = [
    "ENTRY_POINT_GROUP",
    "Backend",
    "CompiledFn",
    "backend_name",
    "is_all_or_nothing",
    "list_backends",
    "lookup_backend",
    "register_backend",
    "with_settings",
]

CompiledFn: TypeAlias = Callable[..., Sequence[object]]
Backend: TypeAlias = Callable[[fx.GraphModule, list[Tensor]], CompiledFn]
_F = TypeVar("_F", bound=Callable[..., object])

ENTRY_POINT_GROUP = "capture.backends"

_backends: dict[str, Backend] = {}
_tags: dict[str, frozenset[str]] = {}


@overload
def register_backend(backend: _F, /, name: str | None = None, tags: Sequence[str] = ()) -> _F: ...
@overload
def register_backend(
    backend: None = None, /, name: str | None = None, tags: Sequence[str] = ()
) -> Callable[[_F], _F]: ...
def register_backend(
    backend: Callable[..., object] | None = None,
    /,
    name: str | None = None,
    tags: Sequence[str] = (),
) -> object:
    """Add a backend under a name; also a decorator, with or without arguments.

    Args:
        backend: ``backend(gm, example_inputs) -> callable``.
        name: the function's own name if not given.
        tags: ``list_backends`` leaves out those tagged ``debug`` or ``experimental``.
    """
    if backend is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(backend):
        raise UserError(f"a backend is a callable, not {type(backend).__name__}")
    name = name or backend_name(backend)
    known = _backends.get(name)
    if known is not None and known is not backend and not _is_redefinition(known, backend):
        raise UserError(f"there is another backend called {name!r} already: {known!r}")
    _backends[name] = backend  # type: ignore[assignment]
    _tags[name] = frozenset(tags)
    return backend


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return the names of all backends, sorted, without those that have one of the tags."""
    excluded = frozenset(exclude_tags or ())
    names = {name for name in _backends if not _tags[name] & excluded}
    return sorted(names | _entry_points().keys() - _backends.keys())


def lookup_backend(backend: str | Callable[..., object]) -> Backend:
    """Return the backend with this name; a callable is a backend itself.

    Raises:
        UserError: there is none; lists those that there are.
    """
    if callable(backend):
        return backend  # type: ignore[return-value]
    if not isinstance(backend, str):
        raise UserError(
            f"a backend is a name or a callable, not {type(backend).__name__}: {backend!r}"
        )
    if backend not in _backends and (entry_point := _entry_points().get(backend)) is not None:
        register_backend(entry_point.load(), name=backend)
    try:
        return _backends[backend]
    except KeyError:
        raise UserError(_unknown(backend)) from None


def with_settings(
    backend: Backend, mode: str | None, options: Mapping[str, object] | None
) -> Backend:
    """Return a backend with what ``capture.compile`` was given for it.

    A backend with settings of its own has an attribute ``with_settings``: ``(mode, options) ->
    backend``, which raises ``UserError`` for those that it does not have. Any other one gets
    ``options``, if there are some, as a keyword argument.

    Raises:
        UserError: ``options`` are no mapping, or the backend takes none.
    """
    if options is not None and not isinstance(options, Mapping):
        raise UserError(f"options are a dict of names and values, not a {type(options).__name__}")
    bind: Callable[..., Backend] | None = getattr(backend, "with_settings", None)
    if bind is not None and (mode is not None or options):
        return bind(mode, options)
    if not options:
        return backend
    if not _takes_options(backend):
        raise UserError(f"backend {backend_name(backend)!r} takes no options")
    configured: Callable[..., CompiledFn] = backend
    return functools.partial(configured, options=options)


def _takes_options(backend: Backend) -> bool:
    try:
        parameters = inspect.signature(backend).parameters
    except (TypeError, ValueError):
        return True  # it will say so itself
    kinds = {parameter.kind for parameter in parameters.values()}
    return "options" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def is_all_or_nothing(backend: object) -> bool:
    """Tell whether a graph with ``meta["capture_whole"]`` writes to nothing if it raises.

    A backend promises it by an attribute ``all_or_nothing``; for a graph that it cannot compile so
    it raises ``WholeRefused``.
    """
    while isinstance(backend, functools.partial):
        backend = backend.func
    return bool(getattr(backend, "all_or_nothing", False))


def backend_name(backend: object) -> str:
    """Return the name to show for a backend: a string, a function or any callable."""
    if isinstance(backend, str):
        return backend
    if isinstance(backend, functools.partial):
        return backend_name(backend.func)
    return getattr(backend, "__name__", None) or type(backend).__name__


def _is_redefinition(known: object, backend: object) -> bool:
    """Tell whether the same definition was executed again (a reload, a notebook cell)."""
    places = [
        (getattr(each, "__module__", None), getattr(each, "__qualname__", None))
        for each in (known, backend)
    ]
    return places[0] == places[1] and None not in places[0] and "<locals>" not in str(places[0][1])


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}


def _unknown(name: str) -> str:
    names = list_backends(exclude_tags=None)
    close = difflib.get_close_matches(name, names, n=2)
    guess = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
    return (
        f"unknown backend {name!r}{guess}; there are: {', '.join(names)}. A callable "
        "(gm, example_inputs) -> callable is a backend too, and capture.register_backend names one."
    )
