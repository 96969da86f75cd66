"""Holds the base of all guard kinds; must not know any kind, nor how guards are lowered."""

# ruff: noqa: D102 - what overrides do is what the base class says

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from capture.sources import Scope, Source, UnreadableError, has_type

__all__ = ["ConditionGuard", "Guard", "Reference", "SourceGuard", "shorten"]


class Guard:
    """A fact that must hold for a cache entry to be used. Frozen and told apart by its fields."""

    __slots__ = ()

    def check(self, scope: Scope) -> bool:
        """Whether the guard holds; the Python oracle of the native check."""
        raise NotImplementedError

    def explain(self, scope: Scope) -> str:
        """One sentence on why the guard does not hold."""
        raise NotImplementedError

    def describe(self) -> str:
        """One phrase on what the guard demands."""
        raise NotImplementedError


@dataclass(frozen=True)
class SourceGuard(Guard):
    """A guard on the value of one source."""

    __slots__ = ("source",)
    source: Source

    def check(self, scope: Scope) -> bool:
        try:
            value = self.source.read(scope)
        except UnreadableError:
            return False
        return self.holds(value)

    def explain(self, scope: Scope) -> str:
        try:
            value = self.source.read(scope)
        except UnreadableError:
            return f"`{self.source.name}` is no longer there"
        return self.difference(value)

    def holds(self, value: object) -> bool:
        """Whether the guard holds for this value."""
        raise NotImplementedError

    def difference(self, value: object) -> str:
        """One sentence on how this value differs from what is demanded."""
        raise NotImplementedError


class ConditionGuard(Guard):
    """A condition on the values of several sources.

    Attributes:
        sources: what the condition is on.
    """

    __slots__ = ()
    sources: tuple[Source, ...]

    @property
    def fn(self) -> Callable[..., object]:
        """The condition as a Python function of the values."""
        raise NotImplementedError

    @property
    def readable(self) -> str:
        """The condition with the names of the sources."""
        raise NotImplementedError

    def check(self, scope: Scope) -> bool:
        try:
            values = [source.read(scope) for source in self.sources]
            return bool(self.fn(*values))
        except Exception:
            return False

    def explain(self, scope: Scope) -> str:
        parts = []
        for source in self.sources:
            try:
                parts.append(f"{source} = {shorten(source.read(scope))}")
            except UnreadableError:
                parts.append(f"{source} is no longer there")
        return f"`{self.readable}` no longer holds ({', '.join(parts)})"

    def describe(self) -> str:
        return self.readable


class Reference:
    """A reference by identity that does not keep its object alive where that can be avoided."""

    __slots__ = ("__weakref__", "_identity", "_kind", "_strong", "_weak")

    def __init__(self, obj: object) -> None:
        self._identity = id(obj)
        self._kind = type(obj).__name__
        self._strong: object = None
        self._weak: weakref.ref[object] | None = None
        try:
            self._weak = weakref.ref(obj)
        except TypeError:
            self._strong = obj

    @property
    def alive(self) -> bool:
        """Whether the object still exists."""
        return self._weak is None or self._weak() is not None

    def get(self) -> object:
        """Return the object, or None once it is dead."""
        return self._strong if self._weak is None else self._weak()

    @property
    def text(self) -> str:
        """A short text for the object."""
        return shorten(self.get()) if self.alive else f"a {self._kind} that has died"

    def refers_to(self, obj: object) -> bool:
        """Whether ``obj`` is the very object."""
        return self.alive and self.get() is obj

    def __hash__(self) -> int:
        return self._identity

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        if self is other:
            return True
        return self._identity == other._identity and self.alive and other.alive

    def __repr__(self) -> str:
        return f"<reference to {self.text}>"


_ATOMS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range)
_TORCH_CONSTANTS = ("dtype", "device", "Size", "layout", "memory_format")


def shorten(value: object, limit: int = 80) -> str:
    """Return a short text for a value, running no user code."""
    kind = type(value)
    if has_type(value, type):
        text = _type_name(value)
    elif _is_plain(value):
        text = _text(value)
    else:
        name = getattr(value, "__qualname__", None) if kind.__module__ == "builtins" else None
        of_kind = _type_name(kind)
        article = "an" if of_kind[0] in "aeiouAEIOU" else "a"
        text = f"{name} ({kind.__name__})" if isinstance(name, str) else f"{article} {of_kind}"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _text(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an int of more digits than Python turns into text
        return hex(value) if isinstance(value, int) else f"a {type(value).__name__} of huge numbers"


def _is_plain(value: object) -> bool:
    kind = type(value)
    if kind is tuple or kind is frozenset:
        return all(_is_plain(item) for item in value)  # type: ignore[attr-defined]
    return kind in _ATOMS or (kind.__module__ == "torch" and kind.__name__ in _TORCH_CONSTANTS)


def _type_name(kind: type) -> str:
    module = kind.__module__
    if not isinstance(module, str) or module in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{module}.{kind.__qualname__}"
