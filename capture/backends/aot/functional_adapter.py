"""Holds a shorter way through torch's functional mode, for the operators that need no more.

Everything that writes, decomposes, or has effects goes torch's own way. Must not know what is
below: the operators reach it as torch's own mode would send them there.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from capture.backends.aot.recorder_adapter import undisguised

__all__ = ["lean_functional_mode"]


def lean_functional_mode() -> Any:
    """Return a mode in which mutation is turned into new values."""
    return _mode_class()()


def _way(func: Any) -> str:
    """Return how an operator may go: ``pure``, ``view``, or torch's own way (empty)."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return ""
    schema = func._schema
    if schema.is_mutable or func._can_decompose() or torch.Tag.inplace_view in func.tags:
        return ""
    if schema.name in _METADATA or "lift" in schema.name:
        return ""
    if _has_effects(func):
        return ""
    aliased = [a for a in (*schema.arguments, *schema.returns) if a.alias_info is not None]
    return "view" if aliased else "pure"


_METADATA = frozenset(
    "aten::is_contiguous aten::is_strides_like_format aten::is_non_overlapping_and_dense aten::dim"
    " aten::size aten::sym_size aten::stride aten::sym_stride aten::storage_offset aten::numel"
    " aten::sym_storage_offset aten::sym_numel".split()
)


def _has_effects(func: Any) -> bool:
    from torch._higher_order_ops.effects import has_effects

    return bool(has_effects(func))


@functools.cache
def _mode_class() -> Any:
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
    from torch.utils._python_dispatch import return_and_correct_aliasing

    ways: dict[Any, str] = {}
    reapply_views: Any = torch._functionalize_enable_reapply_views  # type: ignore[attr-defined]
    functionalize = torch._C.DispatchKey.Functionalize
    key = torch._C.DispatchKeySet(functionalize)

    def bare(value: Any) -> Any:
        kind = type(value)
        if kind is FunctionalTensor:
            return value.elem
        if kind is list or kind is tuple:
            return kind([bare(each) for each in value])
        return value

    @undisguised
    class LeanMode(FunctionalTensorMode):  # type: ignore[no-untyped-call]
        def dispatch(
            self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
        ) -> Any:
            way = ways.get(func)
            if way is None:
                way = ways[func] = _way(func)
            if not way or not types or any(each is not FunctionalTensor for each in types):
                return super().__torch_dispatch__(func, types, args, kwargs)
            given: Mapping[str, Any] = kwargs or {}
            include = torch._C._dispatch_tls_local_include_set() | key
            exclude = (
                torch._C._dispatch_tls_local_exclude_set().remove(functionalize)
                - FunctionalTensor._extra_dispatch_keys
            )
            with torch._C._ForceDispatchKeyGuard(include, exclude):
                before = reapply_views(True)
                try:
                    out = func._op_dk(
                        functionalize,
                        *[bare(each) for each in args],
                        **{name: bare(each) for name, each in given.items()},
                    )
                finally:
                    reapply_views(before)
            out = self.wrapped(out)
            if way == "pure":
                return out
            return return_and_correct_aliasing(  # type: ignore[no-untyped-call]
                func, args, given, out
            )

        def wrapped(self, out: Any) -> Any:
            if isinstance(out, Tensor):
                return FunctionalTensor(out, self) if torch._is_functional_tensor(out) else out
            if isinstance(out, list | tuple):
                return type(out)([self.wrapped(each) for each in out])
            return out

    return LeanMode
