"""Holds the journal of side effects on objects that existed before; emits nothing itself.

Writes to objects made during capture need no entry: the objects are rebuilt in their last state.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capture import break_reasons as reasons
from capture.sources import (
    DictItemSource,
    FunctionGlobalsSource,
    GlobalsSource,
    InstanceDictSource,
)
from capture.variables.base import DELETED, MISSING, Tracer, Variable, births, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.objects import ClassVariable, ObjectVariable

_GLOBALS = (GlobalsSource, FunctionGlobalsSource, InstanceDictSource)

__all__ = ["Effect", "SideEffects"]


@dataclass(slots=True)
class Effect:
    """One write, to be replayed in order. ``kind`` says which; see ``codegen``."""

    kind: str
    target: Variable
    key: Any = None
    value: Any = None

    def __str__(self) -> str:
        key = "" if self.key is None else f" {self.key!r}"
        return f"{self.kind} on {self.target.describe()}{key}"


class SideEffects:
    """The journal of one piece."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.journal: list[Effect] = []
        self._last: dict[tuple[int, object], Effect] = {}
        self.hashed: set[int] = set()
        self.caught_in: list[tuple[int, object]] = []  # of warnings: instruction, list
        self._since: int | None = None
        self._disturbed = False
        self._touched: list[Effect] = []

    @property
    def pending(self) -> bool:
        """True if something older than the piece was written to."""
        return bool(self.journal)

    @property
    def pending_beside_grad(self) -> bool:
        """Likewise, apart from ``grad`` of tensors."""
        return any(effect.kind != "grad" for effect in self.journal)

    @contextlib.contextmanager
    def undisturbed(self, what: str) -> Iterator[None]:
        """Break if what runs inside writes to an object that is older than this.

        A container's look-up runs the program's ``__eq__`` and ``__hash__``: how often, and on what
        state of the container, is only right if they change nothing.
        """
        before, touched = (self._since, self._disturbed), self._touched
        self._since, self._disturbed, self._touched = next(births), False, []
        try:
            yield
            if self._disturbed or not all(map(_is_put_back, self._touched)):
                unsupported(reasons.SIDE_EFFECT, what)
        finally:
            self._since, self._disturbed = before[0], before[1] or self._disturbed
            self._touched = touched + self._touched

    def note_hashed(self, key: Variable) -> None:
        """Code of the program hashed a key: rebuilding its container runs that again."""
        self.hashed.add(id(key))

    def _keep_hash(self, target: Variable) -> None:
        if self.hashed and (
            id(target) in self.hashed or not isinstance(target, ObjectVariable)
            or isinstance(target, ClassVariable)
        ):  # fmt: skip
            unsupported(reasons.SIDE_EFFECT, "changing what the hash of a key may depend on")

    def _touch(self, target: Variable, effect: Effect | None = None) -> None:
        self.tracer.mutations += 1
        if self._since is None:
            return
        if not self._is_new(target) or getattr(target, "born", 0) < self._since:
            if effect is None:
                self._disturbed = True
            else:
                self._touched.append(effect)

    def _is_new(self, target: Variable) -> bool:
        return target.source is None and not (
            isinstance(target, ObjectVariable) and target.value is not MISSING
        )

    def _record(self, kind: str, target: Variable, key: Any = None, value: Any = None) -> None:
        self._touch(target)
        if not self._is_new(target):
            self.journal.append(Effect(kind, target, key, value))

    def set_attr(self, target: Variable, name: str, value: Any) -> None:
        """Set (or delete, with ``DELETED``) an attribute and note it in the variable."""
        assert isinstance(target, ObjectVariable)
        self._keep_hash(target)
        if target.attrs is None:
            target.attrs = {}
        if self._is_new(target) and not isinstance(value, Variable):
            target.attrs.pop(name, None)
        else:
            if target.attrs.get(name) is DELETED and isinstance(value, Variable):
                del target.attrs[name]
                target.reborn = {*(target.reborn or ()), name}
            target.attrs[name] = value
        self._touch(target)
        if self._is_new(target):
            return
        place = (id(target), name)
        last = self._last.get(place)
        if last is not None and isinstance(last.value, Variable) and isinstance(value, Variable):
            last.value = value  # the attribute keeps its place in the dict's order
            return
        effect = self._last[place] = Effect("attr", target, name, value)
        self.journal.append(effect)

    def set_grad(self, target: Variable, value: Variable) -> None:
        """A tensor's ``grad`` is written in its last state: no code of the program sees others."""
        self._touch(target)
        if self._is_new(target):
            return
        place = (id(target), "grad")
        last = self._last.get(place)
        if last is not None:
            last.value = value
            return
        effect = self._last[place] = Effect("grad", target, None, value)
        self.journal.append(effect)

    def dict_op(self, target: Variable, op: str, key: Any, value: Any = None) -> None:
        """``set``, ``del``, ``clear`` or ``move`` on a dict."""
        if self.hashed and isinstance(target.source, _GLOBALS):
            unsupported(reasons.SIDE_EFFECT, "changing a global that a key may look at")
        if self._is_new(target):
            self._touch(target)
            return
        place = (id(target), ("key", key))
        if op == "set":
            last = self._last.get(place)
            if last is not None and last.kind == "dict_set":
                last.value = (last.value[0], value[1])
                self._touch(target, last)
                return
        elif op in ("clear", "move"):
            self._last = {k: v for k, v in self._last.items() if k[0] != id(target)}
        effect = Effect(f"dict_{op}", target, key, value)
        self._touch(target, effect if op == "set" else None)
        if op in ("set", "del"):
            self._last[place] = effect
        self.journal.append(effect)

    def list_changed(self, target: Variable) -> None:
        """The list is written back (or appended to) in its last state."""
        self._touch(target)
        if self._is_new(target):
            return
        place = (id(target), "list")
        if place not in self._last:
            effect = self._last[place] = Effect("list", target)
            self.journal.append(effect)

    def set_op(self, target: Variable, op: str, item: Any = None) -> None:
        """A method of a set, of one argument or none."""
        self._record(f"set_{op}", target, item)

    def advanced(self, target: Variable) -> None:
        """An iterator that is older than the piece is moved on, to its last place at once."""
        self._touch(target)
        place = (id(target), "advance")
        if place not in self._last:
            effect = self._last[place] = Effect("advance", target)
            self.journal.append(effect)

    def warned(
        self, text: str, category: type[Warning], place: tuple[str, int], names: dict[str, Any]
    ) -> None:
        """A warning was given, of a line of a module with these global names."""
        self.tracer.mutations += 1
        self._disturbed = True
        shown = getattr(warnings, "_showwarnmsg_impl", None)
        self.caught_in.append((self.tracer.ordinal, getattr(shown, "__self__", None)))
        value = (text, category, *place)
        self.journal.append(Effect("warning", ConstantVariable(None), names, value))

    def cell_set(self, target: Variable) -> None:
        """A closure cell is written back in its last state."""
        self._keep_hash(target)
        self._touch(target)
        if target.source is None:
            return
        place = (id(target), "cell")
        if place not in self._last:
            effect = self._last[place] = Effect("cell", target)
            self.journal.append(effect)

    def changed_objects(self) -> list[Variable]:
        """The objects written to, each once."""
        seen: dict[int, Variable] = {}
        for effect in self.journal:
            seen.setdefault(id(effect.target), effect.target)
        return list(seen.values())


def _is_put_back(effect: Effect) -> bool:
    """True if a dict holds again what it held before."""
    source = effect.target.source
    if effect.kind != "dict_set" or source is None:
        return False
    value = effect.value[1]
    return bool(value.source == DictItemSource(source, effect.key))
