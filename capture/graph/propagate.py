"""Holds the step from the arguments' metadata to the result's; must not know the FX graph.

``propagate`` runs a call once on stand-ins for its tensors and describes what came out as an
``Outcome``: data only, so that it serves every later call with an equal key. The memo of outcomes
is process-wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from capture.errors import CaptureError
from capture.graph import data_sizes, declared, fake, generic, op_rules, packed, sample
from capture.graph.arguments import substitute
from capture.graph.links import Links
from capture.graph.recording import Decisions, Recording
from capture.graph.state import TorchState, applied
from capture.graph.symbols import Dim, Inexpressible, Shapes
from capture.graph.tensor_meta import CannotPropagate, DependsOnData, TensorMeta, meta_of
from capture.graph.values import GraphFunction, ScalarValue, SizeValue, TensorValue, ViewKind

__all__ = [
    "ConstantResult",
    "FreshResult",
    "InputResult",
    "NumberDecides",
    "OperatorError",
    "Outcome",
    "SequenceResult",
    "SizeResult",
    "ViewResult",
    "clear_memo",
    "memo",
    "propagate",
    "remember",
]

MEMO_LIMIT = 8192

memo: dict[Any, Outcome] = {}


class OperatorError(CaptureError):
    """Raised where an operator fails during capture, as it would in eager.

    Attributes:
        original_exception: what eager would raise.
    """

    def __init__(self, original_exception: BaseException) -> None:
        super().__init__(f"{type(original_exception).__name__}: {original_exception}")
        self.original_exception = original_exception

    @property
    def original(self) -> BaseException:
        """What eager would raise."""
        return self.original_exception


class NumberDecides(CannotPropagate):
    """Raised where a number that only the graph knows would decide a result's metadata."""


class FreshResult(NamedTuple):
    """A new tensor; results with equal groups share memory, or a base.

    ``links`` are the arguments that a gradient for it flows to.
    """

    meta: TensorMeta
    alias_group: int
    view_group: int
    links: tuple[int, ...] = ()


class InputResult(NamedTuple):
    """The very tensor that was given."""

    position: int


class ViewResult(NamedTuple):
    """A new tensor on the memory of one that was given."""

    position: int
    meta: TensorMeta
    differentiable: bool
    kind: ViewKind
    links: tuple[int, ...] = ()


class ConstantResult(NamedTuple):
    """A Python constant."""

    value: Any


class SizeResult(NamedTuple):
    """An int that follows from symbolic sizes."""

    dim: Dim


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
        links: for arguments written to in the sight of autograd, what their gradients flow to.
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
    links: tuple[tuple[int, tuple[int, ...]], ...] = ()
    reads_data: bool = False


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
    sizes: Sequence[SizeValue] = (),
    shapes: Shapes | None = None,
) -> Outcome:
    """Find out what a call does by running it on stand-ins for its tensors.

    Args:
        sizes: the symbolic sizes among the arguments.
        shapes: what is decided about symbolic sizes, if some size is symbolic.

    Raises:
        OperatorError: if the call fails as it would in eager.
        CannotPropagate: if what it does cannot be known.
    """

    written = declared.written_by(target, args, kwargs, state)
    if written is not None:
        places = {id(value): place for place, value in enumerate(tensors)}
        positions = tuple(dict.fromkeys(places[id(value)] for value in written))
        return Outcome(ConstantResult(None), needs_node=True, written=positions)
    call = _Call(kind, target, args, kwargs, tensors, scalars, sizes, shapes)
    call.check()
    if any(enabled for _, enabled, _ in state.autocast):
        # casts of stand-ins for parameters must not stay in the process's cache
        state = state._replace(autocast_cache=False)
    with applied(state):
        if not scalars:
            return call.run(state)
        return call.run_for_any_number(state)


class _Call:
    """One call on its way through propagation."""

    def __init__(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[TensorValue],
        scalars: list[ScalarValue],
        sizes: Sequence[SizeValue],
        shapes: Shapes | None,
    ) -> None:
        self.sizes = sizes
        self.shapes = shapes
        self.kind = kind
        self.target = target
        self.name = op_rules.name_of(target)
        self.args = args
        self.kwargs = kwargs
        self.tensors = tensors
        self.scalars = scalars
        self.metas = [value.meta for value in tensors]
        self.numbers: dict[int, int] = {}  # what stands for sizes, by their ``id``
        self.is_generic = False  # whether sizes are made up
        self.refused = False  # with sizes that are made up
        self.probe: float | None = None  # what stands for the numbers of the graph
        self.stand_in = packed.stand_in(self.name, args)

    def check(self) -> None:
        """Refuse what must not even be tried."""
        name = self.name
        for meta in self.metas:
            if not meta.is_plain:
                what = meta.cls.__name__ if meta.layout is torch.strided else str(meta.layout)
                raise CannotPropagate(f"a tensor of kind {what} is not propagated")
        for scalar in self.scalars:
            if op_rules.scalar_decides_metadata(name, scalar.pytype):
                raise NumberDecides(_DECIDES.format(name))
        if name in op_rules.READS_LISTED_TENSORS and any(
            _lists_tensor(arg) for arg in (*self.args, *self.kwargs.values())
        ):
            raise CannotPropagate(f"{name} reads numbers out of tensors")
        rule: op_rules.Rule | None = None
        if self.target is getattr:
            rule = op_rules.classify_attribute(self.args[1])
        elif self.kind == "call_method":
            rule = op_rules.classify_method(name) if hasattr(torch.Tensor, name) else None
        else:
            rule = op_rules.classify(self.target)
        if rule is not None and rule.kind is op_rules.RuleKind.BREAK:
            raise CannotPropagate(f"{rule.name}: {rule.reason}")

    def run(self, state: TorchState) -> Outcome:
        """Find out what the call does."""
        if self.stand_in is not None or self.name == "_pack_padded_sequence":
            return self.run_on_fakes(state)._replace(may_raise=True, reads_data=True)
        if self.shapes is not None:
            found = self.run_on_generic_sizes(state)
            if found is not None:
                return found
            found = self.run_on_fakes(state)
            if self.refused or found.written:
                self.try_at_hints(state)
            if any(map(data_sizes.depends_on_data, self.metas)) or any(
                value.dim.hint is None for value in self.sizes
            ):
                self.try_out(found, state)
                found = found._replace(may_raise=True)
            return found
        outcome = self.run_on_samples(state)
        return self.run_on_fakes(state) if outcome is None else outcome

    def run_on_generic_sizes(self, state: TorchState) -> Outcome | None:
        """Run on real tensors with primes for the symbols; None if that tells nothing."""
        shapes = self.shapes
        assert shapes is not None
        if any(scalar.pytype is int for scalar in self.scalars):
            return None
        metas = generic.aligned(self.name, self.metas, shapes)
        point = generic.point_for(self.name, metas, self.args, self.kwargs, self.sizes, shapes)
        if point is None:
            return None
        twin = _Call(
            self.kind, self.target, self.args, self.kwargs, self.tensors, self.scalars, (), None
        )
        twin.metas = [point.at(meta) for meta in metas]
        twin.probe = self.probe
        twin.is_generic = True
        twin.numbers = {id(value): point.value(value.dim) for value in self.sizes}
        try:
            outcome = twin.run_on_samples(state)
        except OperatorError:
            self.refused = True
            return None
        except CannotPropagate:
            return None
        return None if outcome is None else _lifted(outcome, point)

    def try_at_hints(self, state: TorchState) -> None:
        """Run on real tensors of the present sizes: fake ones do not refuse all that is refused.

        Raises:
            CannotPropagate: if it is refused, which may not be so for other sizes.
        """
        dims = [value.dim for value in self.sizes]
        dims += [n for meta in self.metas for n in (*meta.shape, *meta.stride) if type(n) is Dim]
        if any(dim.hint is None for dim in dims):
            return
        twin = _Call(
            self.kind, self.target, self.args, self.kwargs, self.tensors, self.scalars, (), None
        )
        twin.metas = [generic.at_hints(meta) for meta in self.metas]
        twin.probe = self.probe
        twin.is_generic = True
        twin.numbers = {id(value): value.dim.hint or 0 for value in self.sizes}
        try:
            twin.run_on_samples(state)
        except OperatorError as error:
            raise CannotPropagate(f"{type(error.original).__name__}: {error.original}") from None
        except CannotPropagate:
            pass

    def try_out(self, outcome: Outcome, state: TorchState) -> None:
        """Compare what fake tensors say of sizes that depend on data with runs on real tensors.

        Raises:
            CannotPropagate: if something is different for some number, or nothing can be tried.
        """
        shapes = self.shapes
        assert shapes is not None
        dims = [value.dim for value in self.sizes]
        for numbers in data_sizes.points(self.metas, dims, shapes):
            twin = _Call(
                self.kind, self.target, self.args, self.kwargs, self.tensors, self.scalars, (), None
            )
            try:
                twin.metas = [numbers.at(meta) for meta in self.metas]
                twin.numbers = {id(value): numbers.of(value.dim) for value in self.sizes}
            except Inexpressible:
                continue
            twin.probe = self.probe
            twin.is_generic = True
            try:
                found = twin.run_on_samples(state)
            except OperatorError:
                continue  # so it does when the graph runs
            except DependsOnData:
                return  # its result has a size of its own
            if found is None:
                if self.name in _SURE or generic.is_uniform(self.name):
                    return
                raise DependsOnData(f"what {self.name} does if a size is zero or one")
            if (
                found.written != outcome.written
                or [n for n, _ in found.changed] != [n for n, _ in outcome.changed]
                or not data_sizes.matches(outcome.result, found.result, numbers)
            ):
                raise DependsOnData(f"what {self.name} does depends on a size that data decides")

    def run_for_any_number(self, state: TorchState) -> Outcome:
        """Find out what the call does whatever the numbers of the graph are.

        The outcome is remembered without them, so they must not decide it (``dropout`` gives back
        its argument if ``p`` is zero). Numbers that make it raise do so when the graph runs.
        """
        may_raise = False
        found: Outcome | None = None
        for self.probe in (None, *_PROBES):
            try:
                outcome = self.run(state)
            except OperatorError:
                if self.probe is None:
                    raise NumberDecides(_DECIDES.format(self.name)) from None
                may_raise = True
                continue
            if found is not None and outcome != found:
                raise NumberDecides(_DECIDES.format(self.name))
            found = outcome
        assert found is not None
        # a number may be no probability
        may_raise = may_raise or found.uses_rng
        return found._replace(may_raise=found.may_raise or may_raise)

    def invoke(self, stand_ins: list[torch.Tensor]) -> Any:
        """Make the call on stand-ins for the tensors."""
        table: dict[int, Any] = {id(s): _example(s, self.probe) for s in self.scalars}
        table.update((id(v), t) for v, t in zip(self.tensors, stand_ins, strict=True))
        if self.shapes is not None:
            table.update((id(v), self.shapes.symint(v.dim)) for v in self.sizes)
        table.update(self.numbers)
        args, kwargs = substitute(self.args, table), substitute(self.kwargs, table)
        if self.stand_in is not None:
            return self.stand_in(*args, **kwargs)
        if self.kind == "call_method":
            return getattr(args[0], self.target)(*args[1:], **kwargs)
        if isinstance(self.target, GraphFunction):
            return (self.target.stand_in or self.target)(*args, **kwargs)
        return self.target(*args, **kwargs)

    def affordable(self) -> bool:
        """Tell whether a run on real tensors costs little."""
        if self.is_generic:
            return sample.small(self.metas)
        return sample.affordable(self.name, self.metas, self.args, self.kwargs)

    def run_on_samples(self, state: TorchState) -> Outcome | None:
        """Run on real tensors; None if that is not affordable or not conclusive."""
        if (
            self.name in op_rules.READS_DATA_UNSEEN
            or not op_rules.runs_on_samples(self.target)
            or not self.affordable()
        ):
            return None
        stand_ins = [sample.make_real(meta) for meta in self.metas]
        storages = [tensor.untyped_storage()._cdata for tensor in stand_ins]
        links = Links(stand_ins)
        checks = op_rules.checks_numbers(self.name, self.args, self.kwargs)
        recording = Recording(checks)
        error: Exception | None = None
        result = None
        try:
            with sample.running(recording):
                result = self.invoke(stand_ins)
        except Exception as caught:
            error = caught.with_traceback(None)
        if recording.depends_on_data in op_rules.ALWAYS_DATA_DEPENDENT and not recording.asks:
            raise DependsOnData(f"the result of {recording.depends_on_data} depends on data")
        judged = recording.names - {"aten::_local_scalar_dense"} if checks else recording.names
        if recording.depends_on_data or not op_rules.safe_on_samples(judged):
            return None
        if error is not None:
            if self.name in op_rules.NEEDS_WHOLE_STORAGE:
                raise CannotPropagate("it may reach beyond the tensor, into its storage")
            raise OperatorError(error) from None
        return self.outcome(result, stand_ins, storages, links, recording, state)

    def run_on_fakes(self, state: TorchState) -> Outcome:
        """Run on fake tensors."""
        decisions = Decisions()
        found: Outcome | None = None
        failed = False
        for _ in range(_MOST_WAYS):
            try:
                outcome = self.run_once_on_fakes(state, decisions)
            except OperatorError:
                if not decisions.answers:
                    raise
                failed = True
            else:
                if found is not None:
                    outcome = outcome._replace(
                        uses_rng=outcome.uses_rng or found.uses_rng,
                        may_raise=outcome.may_raise or found.may_raise,
                    )
                    if outcome != found._replace(
                        uses_rng=outcome.uses_rng, may_raise=outcome.may_raise
                    ):
                        raise CannotPropagate(f"what {self.name} does depends on data")
                found = outcome
            if not decisions.another():
                break
        else:
            raise CannotPropagate(f"{self.name} asks much about data")
        if found is None:
            raise CannotPropagate(f"{self.name} may fail because of data")
        return found._replace(may_raise=found.may_raise or failed)

    def run_once_on_fakes(self, state: TorchState, decisions: Decisions) -> Outcome:
        """Run on fake tensors, with these answers to questions about data."""
        stand_ins = [fake.make_fake(meta, self.shapes) for meta in self.metas]
        storages = [tensor.untyped_storage()._cdata for tensor in stand_ins]
        links = Links(stand_ins)
        recording = Recording()
        error: Exception | None = None
        result = None
        try:
            with fake.running(recording, decisions, self.shapes):
                result = self.invoke(stand_ins)
        except Exception as caught:
            error = caught.with_traceback(None)
        if error is not None and fake.needs_frontend(error):
            decisions.again()
            return self.run_once_on_fakes(state, decisions)
        if error is not None and fake.lacks_rule(error) and self.shapes is None:
            found = self.run_without_rule(state)
            if found is not None:
                return found
        if error is not None:
            # behind the handler, so that the user's exception has no context of ours
            failure = self.failure(error, bool(decisions.answers) and not recording.failed)
            raise failure from None
        return self.outcome(result, stand_ins, storages, links, recording, state)

    def run_without_rule(self, state: TorchState) -> Outcome | None:
        """Run on ones an operator that fakes know nothing of; None if that shows nothing.

        Data can only make it fail: where data decides the result's shape, operators are tagged.
        """
        known = op_rules.runs_on_samples(self.target) or isinstance(self.target, GraphFunction)
        if not known or not sample.affordable(self.name, self.metas, self.args, self.kwargs):
            return None
        stand_ins = [sample.make_real(meta, 1) for meta in self.metas]
        storages = [tensor.untyped_storage()._cdata for tensor in stand_ins]
        links = Links(stand_ins)
        recording = Recording()
        try:
            with sample.running(recording):
                result = self.invoke(stand_ins)
        except Exception:
            return None
        if recording.depends_on_data:
            return None
        return self.outcome(result, stand_ins, storages, links, recording, state)

    def failure(self, error: Exception, decided: bool = False) -> CaptureError:
        """Turn what the call raised on fake tensors into what capture has to know.

        Behind an answer about data, an error of a known kind is what the program gets for it.
        """
        if isinstance(error, DependsOnData):
            return error
        reason = fake.reason_of(error)
        if reason is not None:
            return DependsOnData(reason) if fake.asks_for_data(error) else CannotPropagate(reason)
        if self.shapes is not None:  # the error's text would hold for the sizes of this call only
            text = str(error).splitlines()
            return CannotPropagate(f"{type(error).__name__}: {text[0] if text else ''}")
        if decided and "not allocated" not in str(error):
            return OperatorError(error)
        original = sample.eager_exception(
            lambda: self.invoke([sample.make_real(meta, 1) for meta in self.metas]), self.metas
        )
        if original is None or self.name in op_rules.NEEDS_WHOLE_STORAGE:
            text = str(error).splitlines()
            return CannotPropagate(f"{type(error).__name__}: {text[0] if text else ''}")
        return OperatorError(original)

    def outcome(
        self,
        result: Any,
        stand_ins: list[torch.Tensor],
        storages: list[int],
        links: Links,
        recording: Recording,
        state: TorchState,
    ) -> Outcome:
        """Describe what the call did."""
        description = _Description(stand_ins, storages, links, state, self.shapes)
        described = description.describe(result)
        written = [n for n, storage in enumerate(storages) if storage in recording.written]
        changed = []
        if written or op_rules.may_write(self.name, self.kwargs):
            changed = _changes(self.metas, stand_ins, storages, self.shapes)
        return Outcome(
            result=described,
            needs_node=_has_new_tensor(described)
            or bool(written or changed or recording.written)
            or (result is None and bool(recording.names)),
            written=tuple(written),
            changed=tuple(changed),
            recorded=state.grad_enabled and any(stand_ins[n].grad_fn is not None for n in written),
            uses_rng=recording.uses_rng,
            may_raise=op_rules.may_raise(recording.names),
            links=tuple((n, links.of(stand_ins[n])) for n in written if stand_ins[n].requires_grad),
        )


def _lists_tensor(arg: Any) -> bool:
    if isinstance(arg, tuple | list):
        return any(type(item) is TensorValue or _lists_tensor(item) for item in arg)
    return False


# runs on zeros do not show them, and they do the same with all sizes
_SURE = op_rules.SHAPED_BY_DATA | op_rules.RAISING_ON_INTEGERS | {"mod", "imod", "floordiv"}
_DECIDES = "a number of the graph may decide the result of {}"
_PROBES = (0.0, 1.0, 0.5)
_MOST_WAYS = 8  # to answer what a call asks about data


def _example(scalar: ScalarValue, probe: float | None) -> int | float | bool:
    if probe is not None:
        chosen: int | float | bool = scalar.pytype(probe)
        return chosen
    if scalar.example is not None:
        return scalar.example
    value: int | float | bool = scalar.pytype(1)
    return value


def _changes(
    metas: list[TensorMeta],
    stand_ins: list[torch.Tensor],
    storages: list[int],
    shapes: Shapes | None,
) -> list[tuple[int, TensorMeta]]:
    changed = []
    for n, (before, tensor) in enumerate(zip(metas, stand_ins, strict=True)):
        if tensor.untyped_storage()._cdata != storages[n]:
            raise CannotPropagate("a tensor is made to use other memory")
        meta = _plain_meta_of(tensor, shapes)._replace(cls=before.cls)
        if shapes is not None and meta.ndim == before.ndim:
            settled = shapes.settled
            known = before._replace(
                shape=tuple(map(settled, before.shape)), stride=tuple(map(settled, before.stride))
            )
            meta = before if meta == known else meta
        if meta != before:
            changed.append((n, meta))
    return changed


def _plain_meta_of(tensor: torch.Tensor, shapes: Shapes | None) -> TensorMeta:
    if tensor.is_quantized:
        raise CannotPropagate("quantized tensors are not propagated")
    meta = meta_of(tensor)
    if meta.layout is not torch.strided:
        raise CannotPropagate(f"a result of layout {meta.layout} is not propagated")
    if shapes is not None:
        meta = meta._replace(
            shape=tuple(_dim(n, shapes) for n in meta.shape),
            stride=tuple(_dim(n, shapes) for n in meta.stride),
        )
    return meta._replace(cls=torch.Tensor)


def _dim(n: Any, shapes: Shapes) -> Any:
    try:
        return shapes.dim(n)
    except Inexpressible as error:
        raise CannotPropagate(str(error)) from None


def _lifted(outcome: Outcome, point: generic.Point) -> Outcome | None:
    """Return what a call does with symbols for the primes in its metadata, or None."""
    result = _lifted_result(outcome.result, point)
    if result is None:
        return None
    changed = tuple((n, point.lifted(meta)) for n, meta in outcome.changed)
    return outcome._replace(result=result, changed=changed)


def _lifted_result(result: Any, point: generic.Point) -> Any:
    if isinstance(result, FreshResult | ViewResult):
        return result._replace(meta=point.lifted(result.meta))
    if isinstance(result, SequenceResult):
        items = tuple(_lifted_result(item, point) for item in result.items)
        return None if None in items else result._replace(items=items)
    if isinstance(result, ConstantResult) and not generic.liftable(result.value):
        return None
    return result


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
    """Describes results in terms of the stand-ins for the arguments."""

    def __init__(
        self,
        stand_ins: list[torch.Tensor],
        storages: list[int],
        links: Links,
        state: TorchState,
        shapes: Shapes | None,
    ) -> None:
        self.shapes = shapes
        self.stand_ins = stand_ins
        self.links = links
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
        if type(result) is torch.SymInt and self.shapes is not None:
            dim = _dim(result, self.shapes)
            return SizeResult(dim) if type(dim) is Dim else ConstantResult(dim)
        if type(result) is torch.Size and any(type(n) is not int for n in result):
            return SequenceResult(torch.Size, tuple(self.describe(n, True) for n in result))
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
        for n, known in enumerate(self.stand_ins):
            if known is tensor:
                return InputResult(n)
        if any(known is tensor for known in self.seen):
            raise CannotPropagate("one tensor is returned twice")
        self.seen.append(tensor)
        meta = _plain_meta_of(tensor, self.shapes)
        storage = tensor.untyped_storage()._cdata
        base = tensor._base
        index = self.by_storage.get(storage)
        if index is not None:
            given = self.stand_ins[index]
            differentiable = base is not None and (base is given or base is given._base)
            kind = ViewKind.NOT_A_VIEW
            if differentiable:
                kind = ViewKind.MULTI_OUTPUT if in_container else ViewKind.VIEW
                if not self.state.grad_enabled:
                    kind = ViewKind.NO_GRAD
            return ViewResult(index, meta, differentiable, kind, self.links.of(tensor))
        self.keep.append(base)
        return FreshResult(
            meta,
            self.alias_groups.setdefault(storage, len(self.alias_groups)),
            self.view_groups.setdefault(
                id(tensor if base is None else base), len(self.view_groups)
            ),
            self.links.of(tensor),
        )
