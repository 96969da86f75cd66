"""Holds the FX graph that capture builds, call by call, and its handing over to a backend.

Must not know bytecode, variables or sources: inputs carry opaque keys.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from capture import collector, logs
from capture.backends.boxed import BoxedCodeGen, EitherWay, takes_boxed_graph
from capture.backends.registry import backend_name
from capture.config import settings
from capture.errors import BackendCompilerFailed, DataRefused, WholeRefused
from capture.graph import fake, op_rules
from capture.graph.arguments import Arguments
from capture.graph.fx_adapter import (
    append_node,
    make_graph_module,
)
from capture.graph.graph_autograd import GraphAutograd
from capture.graph.graph_inputs import FrameSummary
from capture.graph.graph_numbers import is_python_arithmetic
from capture.graph.propagate import (
    ConstantResult,
    FreshResult,
    InputResult,
    OperatorError,
    Outcome,
    SizeResult,
    ViewResult,
    memo,
    propagate,
    remember,
)
from capture.graph.state import applied, restored, snapshot
from capture.graph.symbols import Dim
from capture.graph.tensor_meta import CannotPropagate, DependsOnData, TensorMeta
from capture.graph.values import ScalarValue, StateToken, TensorValue, ViewKind
from capture.graph.verify import verify

__all__ = ["CompiledGraph", "OutputGraph"]


@dataclass
class CompiledGraph:
    """A graph as a backend compiled it.

    Attributes:
        fn: takes the inputs (one list of them if ``boxed``), gives a sequence of ``n_outputs``.
        input_keys: the keys of the inputs that are left, in order.
        gm: what the backend was given.
    """

    fn: Callable[..., Any]
    n_inputs: int
    input_keys: list[object]
    n_outputs: int
    boxed: bool
    gm: fx.GraphModule


class OutputGraph(GraphAutograd):
    """The graph of one captured piece: its calls, and its handing over to a backend."""

    # --- calls ---------------------------------------------------------------------------------

    def call(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        frame_summary: FrameSummary = None,
    ) -> Any:
        """Add a call to the graph and return its result.

        Args:
            kind: ``call_function`` or ``call_method``.
            target: the function, or the method's name.
            args: values of the graph and constants, in tuples, lists, dicts and slices as well.
            frame_summary: the user's line for the node, or what gives it (asked at most once, now).

        Raises:
            OperatorError: if the call fails as it would in eager; nothing is added.
            CannotPropagate: if its result cannot be known; nothing is added.
        """
        found = Arguments()
        fx_args, key_args = found.walk_items(args)
        if kwargs:
            fx_values, key_values = found.walk_items(kwargs.values())
            fx_kwargs = dict(zip(kwargs, fx_values, strict=True))
            key: Any = (kind, target, key_args, tuple(kwargs), key_values, self._state_key)
        else:
            kwargs = fx_kwargs = {}
            key = (kind, target, key_args, self._state_key)
        tensors = found.tensors
        outcome = memo.get(key)
        shapes = self.shapes
        if outcome is None and shapes is not None:
            outcome = shapes.memo.get(key)
        if outcome is None:
            if not tensors:
                if (found.scalars or found.sizes) and is_python_arithmetic(target):
                    return self._scalar_call(
                        kind, target, args, kwargs, fx_args, fx_kwargs, frame_summary
                    )
                if kind == "call_function":
                    rule = op_rules.classify(target)
                    if rule is not None and rule.kind is op_rules.RuleKind.STATE:
                        return self._state_call(target, args, kwargs, fx_args, found, frame_summary)
            if shapes is not None and not found.sizes:
                if not any(value.meta.is_symbolic for value in tensors):
                    shapes = None
            call = (kind, target, args, kwargs, tensors, found.scalars, self._state, found.sizes)
            try:
                outcome = propagate(*call, shapes)
            except DependsOnData:
                if shapes is not None or not self._takes_data_sizes():
                    raise
                shapes = self.symbolic()
                outcome = propagate(*call, shapes)
            if shapes is None:
                if op_rules.lives_on(target):
                    remember(key, outcome)
            elif not self._check_told(outcome, shapes):
                shapes.memo[key] = outcome
        if outcome.reads_data:
            self._take_data()
        if self.shapes is not None:
            self.settle_assumptions()
        if outcome.written:
            self._check_write(outcome, tensors)
        self.uses_rng = self.uses_rng or outcome.uses_rng
        self.may_raise = self.may_raise or outcome.may_raise
        if type(outcome.result) is InputResult:
            # It gives back its argument (dropout in eval mode, ...): the program's step all the
            # same, and what a backend may look for. The tensor goes on under the new node.
            given = tensors[outcome.result.position]
            node = given.node = self._node(kind, target, fx_args, fx_kwargs, frame_summary)
            self.group_of[node] = given.alias_group
            if outcome.written or outcome.changed:
                self._write(node, outcome, tensors)
            if outcome.uses_rng:
                self.drawing.add(node)
            return given
        if not outcome.needs_node:
            return self._result(outcome.result, None, tensors)
        node = self._node(kind, target, fx_args, fx_kwargs, frame_summary)
        if outcome.may_raise:
            node.meta["capture_may_raise"] = True
        if outcome.written or outcome.changed:
            self._write(node, outcome, tensors)
        if outcome.uses_rng:
            self.drawing.add(node)
        result = outcome.result
        if type(result) is FreshResult:  # the common case
            group = self._new_group()
            node.meta["capture_meta"] = result.meta
            value = TensorValue(node, result.meta, group, group)
            self.group_of[node] = group
            if result.meta.requires_grad:
                self._record(value, result.links, tensors)
            self._by_view_group[group] = [value]
            if self.shapes is not None and result.meta.is_symbolic:
                self._tell(value)
            return value
        made = self._result(result, node, tensors)
        if self.shapes is not None:
            self._tell(made)
        return made

    # --- results -------------------------------------------------------------------------------

    def _result(self, described: Any, node: fx.Node | None, tensors: list[TensorValue]) -> Any:
        return self._build(described, node, tensors, {})

    def _build(
        self,
        described: Any,
        node: fx.Node | None,
        tensors: list[TensorValue],
        groups: dict[tuple[str, int], int],
    ) -> Any:
        kind = type(described)
        if kind is InputResult:
            return tensors[described.position]
        if kind is ConstantResult:
            return described.value
        if kind is SizeResult:
            return self.size_value(described.dim)
        if kind is FreshResult:
            assert node is not None
            alias_group = groups.setdefault(("a", described.alias_group), 0) or self._new_group()
            view_group = groups.setdefault(("v", described.view_group), 0) or self._new_group()
            groups["a", described.alias_group] = alias_group
            groups["v", described.view_group] = view_group
            value = self._value(node, described.meta, alias_group, view_group, ViewKind.NOT_A_VIEW)
            self._record(value, described.links, tensors)
            return value
        if kind is ViewResult:
            assert node is not None
            value = self._view(node, described, tensors[described.position])
            self._record(value, described.links, tensors)
            return value
        items = []
        for position, item in enumerate(described.items):
            part = None
            if node is not None and type(item) not in (InputResult, ConstantResult, SizeResult):
                part = append_node(
                    self.graph, "call_function", "getitem", operator.getitem, (node, position), {}
                )
                self._parts.append(part)
            items.append(self._build(item, part, tensors, groups))
        cls: Any = described.cls
        return cls(*items) if hasattr(cls, "_fields") else cls(items)

    def _view(self, node: fx.Node, described: ViewResult, given: TensorValue) -> TensorValue:
        kind = described.kind
        if described.differentiable:
            if kind is ViewKind.VIEW and given.view_kind > ViewKind.VIEW:
                kind = given.view_kind
            view_group = given.view_group
        else:
            view_group = self._new_group()
        return self._value(node, described.meta, given.alias_group, view_group, kind)

    # --- in-place operators --------------------------------------------------------------------

    def _check_write(self, outcome: Outcome, tensors: list[TensorValue]) -> None:
        """Refuse what autograd's view tracking may refuse; natively run, it says so itself."""
        if not outcome.recorded:
            return
        for index in outcome.written:
            value = tensors[index]
            family = self._by_view_group[value.view_group]
            if value.view_kind > ViewKind.VIEW or any(
                member.view_kind is ViewKind.NO_GRAD for member in family
            ):
                raise CannotPropagate("an in-place operator on a view that autograd may refuse")
            if value.view_kind is ViewKind.VIEW and any(
                member.meta.requires_grad and member.meta.is_leaf for member in family
            ):
                raise CannotPropagate("an in-place operator on a view of a leaf that needs grad")

    def _write(self, node: fx.Node, outcome: Outcome, tensors: list[TensorValue]) -> None:
        """Apply to the values what an in-place operator does to them and to their family."""
        self.writes[node] = {tensors[index].alias_group for index in outcome.written}
        changed = dict(outcome.changed)
        self._rewrite(outcome, tensors)
        for index in outcome.written:
            value = tensors[index]
            if value.alias_group in self._input_alias_groups:
                self.mutates_inputs = True
                self._dirty.add(value.alias_group)
                if outcome.recorded:
                    self._write_recorded(self._input_alias_groups[value.alias_group])
        if outcome.written and len(tensors) > 1 and not self.may_raise:
            sharing = Counter(value.alias_group for value in tensors)
            self.may_raise = any(sharing[group] > 1 for group in self.writes[node])
        for index, meta in changed.items():
            value = tensors[index]
            before, value.meta = value.meta, meta
            if value.is_input:
                self.mutates_inputs = True
                self._dirty.add(value.alias_group)
            if meta.has_grad_fn and not before.has_grad_fn:
                for member in self._by_view_group[value.view_group]:
                    if member is not value:
                        member.meta = member.meta._replace(
                            requires_grad=True, is_leaf=False, has_grad_fn=True
                        )

    def _write_recorded(self, inputs: list[tuple[object, ViewKind]]) -> None:
        """Note a write that autograd records to inputs that share memory.

        What lies behind an input that is a view is known when the graph runs.
        """
        if all(kind is ViewKind.NOT_A_VIEW for _, kind in inputs):
            self.no_views.update((key, None) for key, _ in inputs)
        else:
            self.may_raise = True

    # --- torch's state -------------------------------------------------------------------------

    def _state_call(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fx_args: tuple[Any, ...],
        found: Arguments,
        frame_summary: FrameSummary,
    ) -> Any:
        """Add a call that changes torch's state, and follow it."""
        name = op_rules.name_of(target)
        result: Any = None
        before = self.state
        if found.tokens:
            self.state = found.tokens[0].before  # type: ignore[assignment]
        else:
            try:
                with restored(), applied(before):
                    returned = target(*args, **kwargs)
                    self.state = snapshot()
                    if name == "_enter_autocast":
                        torch.amp.autocast_mode._exit_autocast(returned)  # type: ignore[no-untyped-call]
                    elif name == "_enter_inference_mode":
                        returned.__exit__(None, None, None)
            except Exception as error:
                self.state = before
                raise OperatorError(error.with_traceback(None)) from None
            result = returned
        self.switches.update(
            field
            for field, old, new in zip(before._fields, before, self.state, strict=True)
            if old != new
        )
        node = self._node("call_function", target, fx_args, dict(kwargs), frame_summary)
        if name.startswith("_enter_"):
            return StateToken(node, before)
        return result

    def state_value(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Return what ``function`` gives for constants in the tracked state, or raise what it does.

        Nothing is added to the graph.
        """
        with applied(self._state):
            return function(*args, **(kwargs or {}))

    # --- the end -------------------------------------------------------------------------------

    def compile(
        self,
        outputs: Sequence[TensorValue | ScalarValue],
        backend: Callable[[fx.GraphModule, list[Any]], Callable[..., Any]],
        example_inputs: Sequence[Any] | None = None,
        *,
        whole: bool = False,
    ) -> CompiledGraph:
        """Finish the graph and have it compiled.

        Args:
            outputs: what the graph returns, as a tuple.
            backend: takes the module and the inputs that are left.
            example_inputs: one for each of ``inputs``; those given to ``add_input`` by default.
            whole: if the compiled graph raises, it must have written to no input.

        Raises:
            BackendCompilerFailed: whatever the backend raises.
        """
        symbolic = (
            self.shapes is not None and bool(self.shapes.inputs) and not takes_boxed_graph(backend)
        )
        self.graph.output(tuple(value.node for value in outputs))
        for part in reversed(self._parts):
            if not part.users:
                self.graph.erase_node(part)
        if self._size_nodes is not None:
            self._size_nodes.drop_unused()
        examples = list(self.examples if example_inputs is None else example_inputs)
        keys: list[object] = []
        kept: list[Any] = []
        for node, key, example in zip(self.placeholders, self.inputs, examples, strict=True):
            if node.users:
                keys.append(key)
                kept.append(self._symbolic_example(node, example) if symbolic else example)
            else:
                self.graph.erase_node(node)
        if takes_boxed_graph(backend):
            self.graph.set_codegen(BoxedCodeGen())
        gm = make_graph_module(self.graph, self.name)
        gm.meta["capture_mutates"] = self.mutates_inputs
        gm.meta["capture_data"] = self.data_sizes
        gm.meta["capture_asks_history"] = self.asks_history
        gm.meta["capture_whole"] = whole
        gm.meta["capture_takes_data"] = self.takes_data and self.data_dependent
        self._log(gm)
        if settings.verify:
            verify(gm, kept, len(outputs), self.shapes)
        name = backend_name(backend)
        try:
            with collector.resumed():
                fn = backend(gm, kept)
        except (DataRefused, WholeRefused):
            raise
        except Exception as error:
            raise BackendCompilerFailed(name, error) from error
        if isinstance(fn, EitherWay):
            fn = fn.boxed
            boxed = True
        else:
            boxed = bool(getattr(fn, "_boxed_call", False))
        if not callable(fn):
            wrong = TypeError(f"a backend must return a callable, not a {type(fn).__name__}")
            raise BackendCompilerFailed(name, wrong)
        return CompiledGraph(
            fn=fn,
            n_inputs=len(keys),
            input_keys=keys,
            n_outputs=len(outputs),
            boxed=boxed,
            gm=gm,
        )

    def _symbolic_example(self, node: fx.Node, example: Any) -> Any:
        """Return what a backend is shown for an input of a graph with symbolic sizes."""
        shapes = self.shapes
        assert shapes is not None
        if isinstance(example, torch.Tensor):
            meta: TensorMeta = node.meta["capture_meta"]
            return fake.make_fake(meta, shapes) if meta.is_plain else example
        for symbol, number in shapes.inputs.items():
            if number.node is node:
                return shapes.symint(Dim(symbol, number.hint, shapes))
        return example

    def _log(self, gm: fx.GraphModule) -> None:
        for artifact in ("graph", "graph_code"):
            log = logs.artifact(artifact)
            if log.enabled:
                text = str(gm.graph) if artifact == "graph" else gm.code
                log.info("%s\n%s", self.name, text)
