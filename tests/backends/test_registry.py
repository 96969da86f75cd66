"""The table of backends: names, duplicates, entry points, and the message for an unknown name."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

import pytest
from torch import Tensor, fx

from capture.backends import registry
from capture.backends.registry import (
    CompiledFn,
    backend_name,
    list_backends,
    lookup_backend,
    register_backend,
)
from capture.errors import UserError


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    backends, tags = dict(registry._backends), dict(registry._tags)
    yield
    registry._backends.clear()
    registry._backends.update(backends)
    registry._tags.clear()
    registry._tags.update(tags)
    registry._entry_points.cache_clear()


def nothing(gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
    return gm.forward


def test_builtin_backends_are_listed_without_debug_ones() -> None:
    assert "eager" in list_backends()
    assert "debug" not in list_backends()
    assert "debug" in list_backends(exclude_tags=None)


def test_decorator_without_arguments_takes_the_function_name() -> None:
    assert register_backend(nothing) is nothing
    assert lookup_backend("nothing") is nothing


def test_decorator_with_name_and_tags() -> None:
    @register_backend(name="mine", tags=["experimental"])
    def other(gm: fx.GraphModule, example_inputs: list[Tensor]) -> CompiledFn:
        return nothing(gm, example_inputs)

    assert lookup_backend("mine") is other
    assert "mine" not in list_backends()
    assert "mine" in list_backends(exclude_tags=["debug"])


def test_another_backend_under_the_same_name_is_an_error() -> None:
    register_backend(nothing, name="mine")
    with pytest.raises(UserError, match="called 'mine' already"):
        register_backend(lambda gm, inputs: gm.forward, name="mine")
    register_backend(nothing, name="mine")


def test_a_definition_executed_again_replaces_the_old_one() -> None:
    namespace: dict[str, object] = {"__name__": "notebook"}
    source = "def cell_backend(gm, inputs): return gm.forward"
    exec(source, namespace)
    register_backend(namespace["cell_backend"])  # type: ignore[call-overload]
    exec(source, namespace)
    register_backend(namespace["cell_backend"])  # type: ignore[call-overload]
    assert lookup_backend("cell_backend") is namespace["cell_backend"]


def test_callable_is_a_backend() -> None:
    assert lookup_backend(nothing) is nothing


def test_unknown_name_suggests_and_lists() -> None:
    with pytest.raises(UserError) as caught:
        lookup_backend("eagre")
    assert "unknown backend 'eagre' (did you mean 'eager'?)" in str(caught.value)
    assert "debug, eager" in str(caught.value)


def test_neither_name_nor_callable_is_an_error() -> None:
    with pytest.raises(UserError, match="not int"):
        lookup_backend(3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a backend is a callable"):
        register_backend("eager")  # type: ignore[call-overload]


def test_entry_point_is_loaded_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint(
        "from_outside", "collections:OrderedDict", registry.ENTRY_POINT_GROUP
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [point])
    registry._entry_points.cache_clear()
    assert "from_outside" in list_backends()
    assert "from_outside" not in registry._backends
    assert lookup_backend("from_outside").__name__ == "OrderedDict"


def test_backend_name() -> None:
    assert backend_name("eager") == "eager"
    assert backend_name(nothing) == "nothing"
    assert backend_name(object()) == "object"


def test_options_that_a_backend_does_not_take_are_an_error() -> None:
    with pytest.raises(UserError, match="backend 'eager' takes no options"):
        registry.with_settings(lookup_backend("eager"), None, {"fast": True})
    for backend in ("eager", "inductor"):
        with pytest.raises(UserError, match="options are a dict of names and values, not a list"):
            registry.with_settings(lookup_backend(backend), None, ["fast"])  # type: ignore[arg-type]


def test_options_reach_a_backend_that_takes_them() -> None:
    given: list[object] = []

    def backend(gm: object, inputs: object, **settings: object) -> object:
        given.append(settings)
        return gm

    registry.with_settings(backend, None, {"fast": True})(None, [])  # type: ignore[arg-type]
    assert given == [{"options": {"fast": True}}]
