"""Holds ``obj.__dict__`` as a dict whose contents are the object's attributes."""

from __future__ import annotations

from typing import Any

from capture import break_reasons as reasons
from capture.sources import InstanceDictSource
from capture.variables.base import DELETED, Tracer, Variable, unsupported
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable
from capture.variables.objects import ObjectVariable


class InstanceDictVariable(DictVariable):
    """``obj.__dict__`` as a dict: reads and writes go to the object's attributes."""

    __slots__ = ("owner",)

    def __init__(self, owner: ObjectVariable) -> None:
        super().__init__(dict)
        self.owner = owner

    def _sync(self, tracer: Tracer) -> None:
        """Bring the entries up to what the object's attributes are now."""
        owner = self.owner
        real = owner.real_dict()
        if real is not None:
            assert owner.source is not None
            holder = tracer.wrap(real, InstanceDictSource(owner.source))
            assert isinstance(holder, DictVariable)
            entries = dict(holder.load(tracer))
        else:
            entries = {}
        for name, value in owner.dict_writes():
            if value is DELETED or (owner.reborn and name in owner.reborn):
                entries.pop(name, None)
            if value is not DELETED:
                entries[name] = (ConstantVariable(name), value)
        self.entries = entries

    def load(self, tracer: Tracer) -> dict[Any, tuple[Variable, Variable]]:
        """All attributes in order, by name."""
        self._sync(tracer)
        return self.entries

    def get_hashed(
        self, tracer: Tracer, hashed: Any, key: Variable | None = None
    ) -> Variable | None:
        """An attribute of the instance itself, or None."""
        if type(hashed) is not str:
            return None
        return self.owner.dict_get(tracer, hashed)

    def set(self, tracer: Tracer, key: Variable, item: Variable) -> None:
        """Set an attribute past ``__setattr__``."""
        key = key.realize(tracer)
        if not isinstance(key, ConstantVariable) or type(key.value) is not str:
            unsupported(reasons.SIDE_EFFECT, "a key of an instance dict that is not a string")
        tracer.effects.set_attr(self.owner, key.value, item)

    def delete_hashed(self, tracer: Tracer, hashed: Any, key: Variable) -> None:
        """Delete an attribute that is there."""
        tracer.effects.set_attr(self.owner, hashed, DELETED)

    def clear(self, tracer: Tracer) -> None:
        """Delete all attributes of the instance."""
        for name in self.owner.dict_names(tracer):
            tracer.effects.set_attr(self.owner, name, DELETED)


def instance_dict(owner: ObjectVariable) -> InstanceDictVariable:
    """``owner.__dict__``: one for each object."""
    found = owner.dict_view
    if not isinstance(found, InstanceDictVariable):
        found = owner.dict_view = InstanceDictVariable(owner)
    return found
