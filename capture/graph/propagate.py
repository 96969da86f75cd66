"""Holds the step from the arguments' metadata to the result's; must not know the FX graph.

``propagate`` runs a call once on fake tensors and describes what came out as an ``Outcome``: data
only, so that it serves every later call with an equal key. The memo of outcomes is process-wide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from capture.errors import CaptureError
from capture.graph import op_rules
from capture.graph.arguments import substitute
from capture.graph.state import TorchState, applied
from capture.graph.tensor_meta import CannotPropagate, TensorMeta, meta_of
from capture.graph.values import ScalarValue, TensorValue, ViewKind

__all__ = [
    "ConstantResult",
    "FreshResult",
    "InputResult",
    "OperatorError",
    "Outcome",
    "SequenceResult",
    "ViewResult",
    "clear_memo",
    "memo",
    "propagate",
    "remember",
]

MEMO_LIMIT = 8192
REAL_LIMIT = 1 << 22  # elements; a failing call on more is not repeated on real tensors

memo: dict[Any, Outcome] = {}


class OperatorError(CaptureError):
    """Raised where an operator fails during capture, as it would in eager.

    Attributes:
        original_exception: what eager would raise.
    """

    def __init__(self, original_exception: BaseException) -> None:
        super().__init__(f"{type(original_exception).__name__}: {original_exception}")
        self.original_exception = original_exception


class FreshResult(NamedTuple):
    """A new tensor; results with equal groups share memory, or a base."""

    meta: TensorMeta
    alias_group: int
    view_group: int


class InputResult(NamedTuple):
    """The very tensor that was given."""

    index: int


class ViewResult(NamedTuple):
    """A new tensor on the memory of one that was given."""

    index: int
    meta: TensorMeta
    differentiable: bool
    kind: ViewKind


class ConstantResult(NamedTuple):
    """A Python constant."""

    value: Any


class SequenceResult(NamedTuple):
    """A tuple, list, namedtuple or struct sequence with tensors in it."""

    cls: type
    items: tuple[Any, ...]


class Outcome(NamedTuple):
    """What a call does, in terms of its tensor arguments by position.

    Attributes:
        result: one of the result kinds above.
        needs_node: whether the call must be in the graph at all.
        written: arguments whose memory is written to.
        changed: arguments whose metadata changes, and to what.
        recorded: whether autograd records an in-place operator here.
        uses_rng: whether random numbers are drawn.
        may_raise: whether the call can fail because of data.
    """

    result: Any
    needs_node: bool
    written: tuple[int, ...] = ()
    changed: tuple[tuple[int, TensorMeta], ...] = ()
    recorded: bool = False
    uses_rng: bool = False
    may_raise: bool = False


def remember(key: Any, outcome: Outcome) -> None:
    """Add to the memo; the older half goes when it is full."""
    if len(memo) >= MEMO_LIMIT:
        for old in list(memo)[: MEMO_LIMIT // 2]:
            del memo[old]
    memo[key] = outcome


def clear_memo() -> None:
    """Forget all outcomes."""
    memo.clear()


def propagate(
    kind: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TensorValue],
    scalars: list[ScalarValue],
    state: TorchState,
) -> Outcome:
    """Find out what a call does by running it on fake tensors.

    Raises:
        OperatorError: if the call fails as it would in eager.
        CannotPropagate: if what it does cannot be known.
    """
    from capture.graph import fake  # heavy: only once the first call is propagated

    name = op_rules.name_of(target)
    _check_arguments(kind, target, name, args, tensors, scalars)
    table: dict[int, Any] = {id(s): _example(s) for s in scalars}
    recording = fake.Recording()
    if any(enabled for _, enabled, _ in state.autocast):
        # casts of fake parameters must not stay in the process's cache
        state = state._replace(autocast_cache=False)
    with applied(state):
        fakes = [fake.make_fake(value.meta) for value in tensors]
        storages = [tensor.untyped_storage()._cdata for tensor in fakes]
        table.update((id(value), tensor) for value, tensor in zip(tensors, fakes, strict=True))
        try:
            with fake.running(recording):
                result = _invoke(kind, target, substitute(args, table), substitute(kwargs, table))
        except Exception as caught:
            error: Exception | None = caught.with_traceback(None)
        else:
            error = None
            described = _Description(fakes, storages, state).describe(result)
        if error is not None:
            # behind the handler, so that the user's exception has no context of ours
            raise _failure(error, kind, target, args, kwargs, tensors, table) from None
    written = [n for n, storage in enumerate(storages) if storage in recording.written]
    changed = []
    if written or op_rules.may_write(name, kwargs):
        changed = _changes(tensors, fakes, storages)
    return Outcome(
        result=described,
        needs_node=_has_new_tensor(described)
        or bool(written or changed or recording.written)
        or (result is None and bool(recording.names)),
        written=tuple(written),
        changed=tuple(changed),
        recorded=state.grad_enabled and any(fakes[n].grad_fn is not None for n in written),
        uses_rng=recording.uses_rng,
        may_raise=op_rules.may_raise(recording.names),
    )


def _check_arguments(
    kind: str,
    target: Any,
    name: str,
    args: tuple[Any, ...],
    tensors: list[TensorValue],
    scalars: list[ScalarValue],
) -> None:
    for value in tensors:
        meta = value.meta
        if not meta.is_plain:
            what = meta.cls.__name__ if meta.layout is torch.strided else str(meta.layout)
            raise CannotPropagate(f"a tensor of kind {what} is not propagated")
    for scalar in scalars:
        if op_rules.scalar_decides_metadata(name, scalar.pytype):
            raise CannotPropagate(f"a number of the graph may decide the result of {name}")
    if target is getattr:
        rule = op_rules.classify_attribute(args[1])
    elif kind == "call_method":
        rule = op_rules.classify_method(name)
    else:
        return
    if rule.kind is op_rules.RuleKind.BREAK and hasattr(torch.Tensor, name):
        raise CannotPropagate(f"{name}: {rule.reason}")


def _example(scalar: ScalarValue) -> int | float | bool:
    if scalar.example is not None:
        return scalar.example
    value: int | float | bool = scalar.pytype(1)
    return value


def _invoke(kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kind == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)


def _failure(
    error: Exception,
    kind: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tensors: list[TensorValue],
    table: dict[int, Any],
) -> CaptureError:
    """Turn what the call raised on fake tensors into what capture has to know."""
    from capture.graph import fake

    reason = fake.reason_of(error)
    if reason is not None:
        return CannotPropagate(reason)
    small = sum(value.meta.numel for value in tensors) <= REAL_LIMIT
    devices = {value.meta.device.type for value in tensors}

    def run_for_real() -> None:
        real = dict(table)
        real.update((id(value), fake.make_real(value.meta)) for value in tensors)
        _invoke(kind, target, substitute(args, real), substitute(kwargs, real))

    original = fake.eager_exception(run_for_real, small, devices)
    if original is None:
        text = str(error).splitlines()
        return CannotPropagate(f"{type(error).__name__}: {text[0] if text else ''}")
    return OperatorError(original)


def _changes(
    tensors: list[TensorValue], fakes: list[torch.Tensor], storages: list[int]
) -> list[tuple[int, TensorMeta]]:
    changed = []
    for n, (value, tensor) in enumerate(zip(tensors, fakes, strict=True)):
        if tensor.untyped_storage()._cdata != storages[n]:
            raise CannotPropagate("a tensor is made to use other memory")
        meta = _meta_of_fake(tensor)._replace(cls=value.meta.cls)
        if meta != value.meta:
            changed.append((n, meta))
    return changed


def _meta_of_fake(tensor: torch.Tensor) -> TensorMeta:
    if tensor.is_quantized:
        raise CannotPropagate("quantized tensors are not propagated")
    meta = meta_of(tensor)
    if meta.layout is not torch.strided:
        raise CannotPropagate(f"a result of layout {meta.layout} is not propagated")
    return meta._replace(cls=torch.Tensor)


def _has_new_tensor(result: Any) -> bool:
    if isinstance(result, FreshResult | ViewResult):
        return True
    return isinstance(result, SequenceResult) and any(_has_new_tensor(r) for r in result.items)


_CONSTANT_TYPES = (
    int,
    float,
    bool,
    complex,
    str,
    bytes,
    type(None),
    type(...),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    torch.finfo,
    torch.iinfo,
)


class _Description:
    """Describes results in terms of the fake arguments."""

    def __init__(self, fakes: list[torch.Tensor], storages: list[int], state: TorchState) -> None:
        self.fakes = fakes
        self.by_storage = {storage: n for n, storage in enumerate(storages)}
        self.state = state
        self.alias_groups: dict[int, int] = {}
        self.view_groups: dict[int, int] = {}
        self.seen: list[torch.Tensor] = []
        self.keep: list[Any] = []  # what the numbers below are the ids of

    def describe(self, result: Any, in_container: bool = False) -> Any:
        """Describe one result."""
        if isinstance(result, torch.Tensor):
            return self._tensor(result, in_container)
        if type(result) in _CONSTANT_TYPES:
            return ConstantResult(result)
        if isinstance(result, tuple | list):
            items = tuple(self.describe(item, True) for item in result)
            if any(not isinstance(item, ConstantResult) for item in items):
                return SequenceResult(type(result), items)
            if type(result) is tuple:
                return ConstantResult(result)
            return SequenceResult(type(result), items)  # a new list each time
        kind = type(result)
        raise CannotPropagate(f"a result of type {kind.__module__}.{kind.__qualname__}")

    def _tensor(self, tensor: torch.Tensor, in_container: bool) -> Any:
        for n, known in enumerate(self.fakes):
            if known is tensor:
                return InputResult(n)
        if any(known is tensor for known in self.seen):
            raise CannotPropagate("one tensor is returned twice")
        self.seen.append(tensor)
        meta = _meta_of_fake(tensor)
        storage = tensor.untyped_storage()._cdata
        base = tensor._base
        index = self.by_storage.get(storage)
        if index is not None:
            given = self.fakes[index]
            differentiable = base is not None and (base is given or base is given._base)
            kind = ViewKind.NOT_A_VIEW
            if differentiable:
                kind = ViewKind.MULTI_OUTPUT if in_container else ViewKind.VIEW
                if not self.state.grad_enabled:
                    kind = ViewKind.NO_GRAD
            return ViewResult(index, meta, differentiable, kind)
        self.keep.append(base)
        return FreshResult(
            meta,
            self.alias_groups.setdefault(storage, len(self.alias_groups)),
            self.view_groups.setdefault(
                id(tensor if base is None else base), len(self.view_groups)
            ),
        )
