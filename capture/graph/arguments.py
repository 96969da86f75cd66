"""Holds the walk over a call's arguments; must not know how a result is computed.

One walk makes three things at once: the arguments of the FX node, the part of the memo key that
stands for them, and the list of distinct tensors in the order they occur.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import torch

from capture.graph.derived import DerivedValue
from capture.graph.symbols import Inexpressible
from capture.graph.tensor_meta import CannotPropagate
from capture.graph.values import ScalarValue, SizeValue, StateToken, TensorValue

__all__ = ["Arguments", "substitute"]

# stand for themselves in a key: no two of different types are equal
_PLAIN_TYPES: Final = frozenset(
    {
        int,
        str,
        bytes,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)
_DTYPES: Final = {
    float: torch.float64,
    int: torch.int64,
    bool: torch.bool,
    complex: torch.complex128,
}


class _Mark:
    """A unique word in a key."""

    __slots__ = ("word",)

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


_TRUE, _FALSE, _TOKEN = _Mark("True"), _Mark("False"), _Mark("token")
# the n-th tensor of the call once more: not equal to any constant
_REPEATED = [_Mark(f"tensor {n}") for n in range(64)]


_FEW = 8
_VALUES: Final = frozenset({TensorValue, ScalarValue, SizeValue, DerivedValue})


class Arguments:
    """The values found on the walk over one call's arguments; no size is among the scalars."""

    __slots__ = ("_places", "scalars", "sizes", "tensors", "tokens")

    def __init__(self) -> None:
        self.tensors: list[TensorValue] = []
        self._places: dict[int, int] = {}  # by the values' ``id``, once there are many
        self.scalars: list[ScalarValue] = []
        self.sizes: list[SizeValue] = []
        self.tokens: list[StateToken] = []

    def walk(self, arg: Any) -> tuple[Any, Any]:
        """Return the FX argument and the key for ``arg``.

        Raises:
            CannotPropagate: if ``arg`` holds what a graph cannot hold.
        """
        kind = type(arg)
        if kind is TensorValue:
            return arg.node, self._tensor_key(arg)
        if kind in _PLAIN_TYPES:
            return arg, arg
        if kind is bool:
            return arg, _TRUE if arg else _FALSE
        if kind is float or kind is complex:
            return arg, (kind, repr(arg))  # tells 0.0 from -0.0, and finds nan again
        if kind is tuple or kind is list or kind is torch.Size:
            items, keys = self.walk_items(arg)
            return (items if kind is tuple else kind(items)), (kind, *keys)
        return self._walk_rare(kind, arg)

    def walk_items(self, items: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Walk over a sequence; return FX arguments and keys."""
        fx_items = []
        keys = []
        for item in items:
            if type(item) is TensorValue:  # the common case, without a call
                fx_items.append(item.node)
                keys.append(self._tensor_key(item))
            else:
                fx_item, key = self.walk(item)
                fx_items.append(fx_item)
                keys.append(key)
        return tuple(fx_items), tuple(keys)

    def _tensor_key(self, value: TensorValue) -> Any:
        tensors = self.tensors
        if len(tensors) < _FEW:
            for position, known in enumerate(tensors):
                if known is value:
                    return _REPEATED[position]
        else:
            places = self._places
            for place in range(len(places), len(tensors)):
                places[id(tensors[place])] = place
            found = places.get(id(value))
            if found is not None:
                return _REPEATED[found] if found < 64 else ("tensor", found)
        tensors.append(value)
        return value.meta

    def _walk_rare(self, kind: type, arg: Any) -> tuple[Any, Any]:
        if kind is ScalarValue or kind is DerivedValue:
            self.scalars.append(arg)
            return arg.node, (ScalarValue, arg.pytype)
        if kind is SizeValue:
            self.sizes.append(arg)
            try:
                return arg.node, arg.dim
            except Inexpressible as error:
                raise CannotPropagate(str(error)) from None
        if kind is slice:
            (start, stop, step), keys = self.walk_items((arg.start, arg.stop, arg.step))
            return slice(start, stop, step), (slice, *keys)
        if kind is dict:
            names, values = tuple(arg), tuple(arg.values())
            if any(type(name) not in (str, int) for name in names):
                raise CannotPropagate("a dict with such keys cannot be an argument in a graph")
            items, keys = self.walk_items(values)
            return dict(zip(names, items, strict=True)), (dict, names, keys)
        if isinstance(arg, type):
            # FX cannot print a type; torch takes the dtype for it
            return _DTYPES.get(arg) or _refuse(arg), arg
        if isinstance(arg, enum.Enum):
            return arg, (kind, arg)
        if kind is range:
            return arg, (kind, arg.start, arg.stop, arg.step)
        if kind is StateToken:
            self.tokens.append(arg)
            return arg.node, _TOKEN
        if isinstance(arg, tuple):
            return self._walk_named(kind, arg)
        if isinstance(arg, torch.Tensor):
            raise CannotPropagate("a tensor that is no value of the graph")
        return _refuse(arg), None

    def _walk_named(self, kind: type, arg: tuple[Any, ...]) -> tuple[Any, Any]:
        """Walk over a namedtuple or a struct sequence: torch takes either for a tuple."""
        items, keys = self.walk_items(arg)
        return items, (kind, *keys)


def _refuse(arg: object) -> Any:
    kind = type(arg)
    raise CannotPropagate(f"a {kind.__module__}.{kind.__qualname__} cannot be in a graph")


def substitute(arg: Any, table: dict[int, Any]) -> Any:
    """Return ``arg`` with each value of the graph replaced by ``table[id(value)]``."""
    kind = type(arg)
    if kind in _VALUES:
        return table[id(arg)]
    if kind is tuple or kind is list:
        return kind(substitute(item, table) for item in arg)
    if kind is dict:
        return {name: substitute(item, table) for name, item in arg.items()}
    if kind is slice:
        return slice(
            substitute(arg.start, table), substitute(arg.stop, table), substitute(arg.step, table)
        )
    if isinstance(arg, tuple) and kind is not torch.Size:
        return tuple(substitute(item, table) for item in arg)
    return arg
