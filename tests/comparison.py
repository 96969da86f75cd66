"""Holds the deep comparison that the oracle uses; must not know how programs are run.

Two values are the same if their exact types, contents, tensor metadata, bits, gradients and the
pattern of who refers to whom agree.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Iterator
from typing import Any

import torch

_PLAIN = (
    type(None),
    bool,
    int,
    str,
    bytes,
    type(Ellipsis),
    type(NotImplemented),
    range,
    slice,
    torch.dtype,
    torch.device,
)


def difference(expected: Any, actual: Any) -> str | None:
    """The first difference as a sentence, or None."""
    return _Comparison().compare(expected, actual, "value")


class _Comparison:
    def __init__(self) -> None:
        self.left: dict[int, Any] = {}
        self.right: dict[int, Any] = {}
        self.keep: list[Any] = []

    def compare(self, a: Any, b: Any, path: str) -> str | None:
        if type(a) is not type(b) and not (
            type(a).__qualname__ == type(b).__qualname__
            and type(a).__module__ == type(b).__module__
        ):
            return f"{path}: {type(a).__name__} ({a!r}) became {type(b).__name__} ({b!r})"
        if isinstance(a, float):
            return None if _bits(a) == _bits(b) else f"{path}: {a!r} became {b!r}"
        if isinstance(a, complex):
            return None if repr(a) == repr(b) else f"{path}: {a!r} became {b!r}"
        if isinstance(a, _PLAIN):
            return None if a == b else f"{path}: {a!r} became {b!r}"
        if id(a) in self.left or id(b) in self.right:
            if self.left.get(id(a)) is not b or self.right.get(id(b)) is not a:
                return f"{path}: other objects are shared than in eager"
            return None
        if type(a) is not tuple:  # equal tuples of constants may or may not be one object
            self.left[id(a)] = b
            self.right[id(b)] = a
            self.keep += [a, b]
        return self.contents(a, b, path)

    def contents(self, a: Any, b: Any, path: str) -> str | None:
        if isinstance(a, torch.Tensor):
            return self.tensors(a, b, path)
        if isinstance(a, type):
            return None if a.__qualname__ == b.__qualname__ else f"{path}: {a} became {b}"
        if isinstance(a, types.FunctionType):
            return None if a.__code__ == b.__code__ else f"{path}: another function"
        if isinstance(a, types.MethodType):
            return self.each(
                path, [("__func__", a.__func__, b.__func__), ("__self__", a.__self__, b.__self__)]
            )
        if isinstance(a, types.ModuleType):
            return None if a is b else f"{path}: another module"
        if isinstance(a, types.CellType):
            return self.each(path, [("contents", _cell(a), _cell(b))])
        for step in (self.items, self.attributes):
            found = step(a, b, path)
            if found is not None:
                return found
        return None

    def items(self, a: Any, b: Any, path: str) -> str | None:
        if isinstance(a, BaseException):
            return self.each(path, [
                ("args", a.args, b.args), ("cause", a.__cause__, b.__cause__),
                ("context", a.__context__, b.__context__),
                ("suppress", a.__suppress_context__, b.__suppress_context__),
            ])  # fmt: skip
        if isinstance(a, (dict, types.MappingProxyType)):
            step: Any = collections.OrderedDict if isinstance(a, collections.OrderedDict) else dict
            real = isinstance(a, dict)
            keys, others = (list(step.__iter__(v)) if real else list(v) for v in (a, b))
            if len(keys) != len(others):
                return f"{path}: keys {keys!r} became {others!r}"
            if isinstance(a, collections.defaultdict):
                found = self.compare(
                    a.default_factory, b.default_factory, f"{path}.default_factory"
                )
                if found is not None:
                    return found
            pairs = [(f"key {k!r}", k, o) for k, o in zip(keys, others, strict=True)]
            pairs += [
                (f"[{k!r}]", _item(a, k), _item(b, o)) for k, o in zip(keys, others, strict=True)
            ]
            return self.each(path, pairs)
        if isinstance(a, (list, tuple, collections.deque)):
            if len(a) != len(b):
                return f"{path}: {a!r} became {b!r}"
            if isinstance(a, collections.deque) and a.maxlen != b.maxlen:
                return f"{path}: maxlen {a.maxlen} became {b.maxlen}"
            pairs = [
                (f"[{i}]", x, y)
                for i, (x, y) in enumerate(
                    zip(list.__iter__(a) if isinstance(a, list) else a, b, strict=True)
                )
            ]
            return self.each(path, pairs)
        if isinstance(a, (set, frozenset)):
            try:
                left, right = sorted(a, key=repr), sorted(b, key=repr)
            except TypeError:
                return None
            return self.compare(left, right, f"{path} (sorted)")
        return None

    def attributes(self, a: Any, b: Any, path: str) -> str | None:
        left, right = _state(a), _state(b)
        if list(left) != list(right):
            return f"{path}: attributes {list(left)} became {list(right)}"
        return self.each(path, [(f".{k}", left[k], right[k]) for k in left])

    def each(self, path: str, pairs: list[tuple[str, Any, Any]]) -> str | None:
        for name, x, y in pairs:
            found = self.compare(x, y, f"{path}{name}" if name[0] in ".[" else f"{path} {name}")
            if found is not None:
                return found
        return None

    def tensors(self, a: torch.Tensor, b: torch.Tensor, path: str) -> str | None:
        for name in ("shape", "dtype", "device", "requires_grad", "is_leaf"):
            x, y = getattr(a, name), getattr(b, name)
            if x != y:
                return f"{path}.{name}: {x} became {y}"
        if a.layout == torch.strided and a.stride() != b.stride():
            return f"{path}.stride: {a.stride()} became {b.stride()}"
        if (a.grad_fn is None) != (b.grad_fn is None):
            return f"{path}.grad_fn: {a.grad_fn} became {b.grad_fn}"
        if not torch.equal(
            torch.nan_to_num(a.detach(), nan=12345.0), torch.nan_to_num(b.detach(), nan=12345.0)
        ):
            return f"{path}: {a} became {b}"
        if a.is_leaf:
            return self.compare(a.grad, b.grad, f"{path}.grad")
        return None


def _bits(number: float) -> str:
    return "nan" if number != number else number.hex()


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "<empty>"


def _state(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", None) or {})
    for cls in type(value).__mro__:
        for name in _slots(cls):
            if name not in ("__dict__", "__weakref__"):
                try:
                    found[name] = object.__getattribute__(value, name)
                except AttributeError:
                    found[name] = "<unset>"
    return found


def _slots(cls: type) -> Iterator[str]:
    held = cls.__dict__.get("__slots__", ())
    yield from ((held,) if isinstance(held, str) else held)


def _item(holder: Any, key: object) -> Any:
    """An item, past any ``__getitem__`` of a subclass."""
    return holder[key] if type(holder) is types.MappingProxyType else dict.__getitem__(holder, key)
