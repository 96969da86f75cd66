"""Holds the transforms of ``torch.func``: the transformed function is a graph of its own.

The node calls torch's own transform on that graph's module, which closes over values of the graph
around it as the program's function does.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from capture import break_reasons as reasons
from capture.graph.subgraph import SubGraph
from capture.graph.tensor_meta import TensorMeta
from capture.graph.values import GraphFunction, TensorValue
from capture.variables.base import MISSING, CallableVariable, Tracer, Variable, stamp, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.constant import ConstantVariable
from capture.variables.containers import DictVariable, TupleVariable
from capture.variables.higher_order.callbacks import (
    Form,
    Place,
    execute,
    finish,
    flatten,
    form_of,
    rebuild,
    variables,
)
from capture.variables.sizes import pin_sizes


class TransformVariable(CallableVariable):
    """What ``torch.func.grad(f)`` and its like return."""

    __slots__ = ("fn", "options", "transform")

    def __init__(
        self, transform: Callable[..., Any], fn: Variable, options: dict[str, Any]
    ) -> None:
        super().__init__(None)
        self.transform = transform
        self.fn = fn
        self.options = options

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return types.FunctionType

    def describe(self) -> str:
        """A short text for messages."""
        return f"torch.func.{self.transform.__name__}"

    def call(self, tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
        """Call the transformed function: a node."""

        def apply(body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            return self.transform(body, **self.options)(*args, **kwargs)

        return transformed(tracer, self.describe(), self.fn, args, kwargs, apply)


def _function_transform(transform: Callable[..., Any], names: tuple[str, ...]) -> None:
    @python_rule_for(transform)
    def make(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        given = {**dict(zip(("func", *names), args, strict=False)), **kwargs}
        fn = given.pop("func", None)
        options = {name: tracer.as_python(v) for name, v in given.items()}
        if fn is None or MISSING in options.values() or not set(options) <= set(names):
            unsupported(reasons.UNKNOWN_CALLABLE, f"torch.func.{transform.__name__}")
        return stamp(tracer, TransformVariable(transform, fn, options))


_function_transform(torch.func.grad, ("argnums", "has_aux"))
_function_transform(torch.func.grad_and_value, ("argnums", "has_aux"))
_function_transform(torch.func.vmap, ("in_dims", "out_dims", "randomness", "chunk_size"))
_function_transform(torch.func.jacrev, ("argnums", "has_aux", "chunk_size"))
_function_transform(torch.func.jacfwd, ("argnums", "has_aux", "randomness"))
_function_transform(torch.func.hessian, ("argnums",))


@python_rule_for(torch.func.jvp)
def _jvp(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    given = {**dict(zip(("func", "primals", "tangents"), args, strict=False)), **kwargs}
    if set(given) != {"func", "primals", "tangents"}:
        unsupported(reasons.UNKNOWN_CALLABLE, "torch.func.jvp with options")
    primals, tangents = given["primals"].realize(tracer), given["tangents"]
    if not isinstance(primals, TupleVariable):
        unsupported(reasons.UNKNOWN_CALLABLE, "torch.func.jvp of no tuple")

    def apply(body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return torch.func.jvp(body, args, kwargs["tangents"])

    return transformed(
        tracer, "torch.func.jvp", given["func"], primals.items(tracer), {}, apply,
        {"tangents": tangents},
    )  # fmt: skip


class _SecondPart(CallableVariable):
    """The second thing that ``torch.func.vjp`` and ``linearize`` return: a function of tangents.

    A call of it runs the whole transform again, since a graph has no value for one that is half
    done. So nothing that the function takes may have been written to since.
    """

    __slots__ = ("apply", "fn", "graph", "writes")

    def __init__(self, tracer: Tracer, fn: _Function, apply: Apply) -> None:
        super().__init__(None)
        self.fn = fn
        self.apply = apply
        self.graph = tracer.graph
        self.writes = len(tracer.graph.writes)

    def python_type(self) -> type:
        """The exact Python type of the value."""
        return types.FunctionType

    def describe(self) -> str:
        """A short text for messages."""
        return f"the function that {self.fn.name} returned"

    def call(self, tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
        """Call it: a node."""
        later = list(self.graph.writes.values())[self.writes :]
        if (
            kwargs
            or tracer.graph is not self.graph
            or any(groups & self.fn.groups for groups in later)
        ):
            unsupported(reasons.UNKNOWN_CALLABLE, self.describe())
        return self.fn.call(tracer, self.apply, {"tangents": TupleVariable(list(args))})


def _two_parts(transform: Callable[..., Any], first: Apply, second: Apply) -> None:
    name = f"torch.func.{transform.__name__}"

    @python_rule_for(transform)
    def make(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        if kwargs or len(args) < 2:
            unsupported(reasons.UNKNOWN_CALLABLE, f"{name} with options")
        fn = _Function(tracer, name, args[0], args[1:], {}, first)
        if not fn.repeatable:
            unsupported(reasons.UNKNOWN_CALLABLE, f"{name} of a function that is not repeatable")
        output = fn.call(tracer, first)
        return TupleVariable([output, stamp(tracer, _SecondPart(tracer, fn, second))])


def _value(body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return torch.func.vjp(body, *args)[0]


def _pull_back(body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return torch.func.vjp(body, *args)[1](*kwargs["tangents"])


def _plain_value(body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return body(*args)


def _push_forward(body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return torch.func.jvp(body, args, kwargs["tangents"])[1]


_two_parts(torch.func.vjp, _value, _pull_back)
_two_parts(torch.func.linearize, _plain_value, _push_forward)


class _Probed(Exception):
    """Leaves a transform as soon as it calls its function."""


Apply = Callable[[Callable[..., Any], Any, Any], Any]
"""Makes a transform's real call, of a function that stands for the program's, on real arguments."""


def transformed(
    tracer: Tracer,
    name: str,
    fn: Variable,
    args: list[Variable],
    kwargs: dict[str, Variable],
    apply: Apply,
    extra: dict[str, Variable] | None = None,
) -> Variable:
    """Add a call of a transformed function to the graph.

    Args:
        extra: what ``apply`` gets by name besides, and ``fn`` does not.
    """
    return _Function(tracer, name, fn, args, kwargs, apply, extra).call(tracer, apply, extra)


class _Function:
    """The program's function as a graph, on what a transform shows it of these arguments."""

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        fn: Variable,
        args: list[Variable],
        kwargs: dict[str, Variable],
        apply: Apply,
        extra: dict[str, Variable] | None = None,
    ) -> None:
        self.name = name
        self.tensors: list[TensorValue] = []
        taken = TupleVariable([TupleVariable(list(args)), _mapping(kwargs)])
        self.form = form_of(tracer, taken, self.tensors)
        shown = list(self.tensors)
        rest = form_of(tracer, _mapping(extra or {}), shown)
        metas, grad_enabled = _probe(tracer, self.form, rest, shown, apply)

        def run() -> Variable:
            graph = tracer.graph
            assert isinstance(graph, SubGraph)
            graph.layout_known = False
            inner = [tracer.wrap_result(graph.add_own_input(meta)) for meta in metas]
            positional, named = (variables(tracer, part, inner) for part in self.form)
            assert isinstance(named, DictVariable)
            keywords = {str(k.value): v for k, v in named.load(tracer).values()}  # type: ignore[attr-defined]
            return tracer.call(fn, tracer.iterate(positional), keywords)

        state = tracer.graph.state._replace(grad_enabled=grad_enabled)
        result, graph = execute(tracer, name, run, state)
        self.repeatable = not (graph.uses_rng or graph.writes_own_input())
        self.module, self.lifted, self.result_form = finish(tracer, result, graph)
        self.groups = {
            value.alias_group
            for value in (*self.tensors, *graph.lifted)
            if isinstance(value, TensorValue)
        }

    def call(
        self, tracer: Tracer, apply: Apply, extra: dict[str, Variable] | None = None
    ) -> Variable:
        """Add the node of a transform of it."""
        tensors = list(self.tensors)
        rest = form_of(tracer, _mapping(extra or {}), tensors)
        count = len(tensors)
        found: list[Any] = []

        def call(*given: Any) -> Any:
            closed = given[count:]

            def body(*args: Any, **kwargs: Any) -> Any:
                flat: list[Any] = []
                flatten(self.form, (args, kwargs), flat)
                return rebuild(self.result_form, self.module.forward(*flat, *closed))

            args, kwargs = rebuild(self.form, given)
            result = apply(body, args, {**kwargs, **rebuild(rest, given)})
            leaves, spec = pytree.tree_flatten(result)
            found[:] = [spec]
            return tuple(leaves)

        target = GraphFunction(self.name.replace(".", "_"), call)
        outer = [*(tracer.wrap_result(value) for value in tensors), *self.lifted]
        outputs = tracer.iterate(tracer.graph_call("call_function", target, outer, {}))
        places = pytree.tree_unflatten([Place(n) for n in range(len(outputs))], found[0])
        return variables(tracer, places, outputs)


def _mapping(items: dict[str, Variable]) -> DictVariable:
    made = DictVariable()
    made.entries.update((name, (ConstantVariable(name), v)) for name, v in items.items())
    return made


def _probe(
    tracer: Tracer,
    form: Form,
    rest: Form,
    tensors: list[TensorValue],
    apply: Callable[[Callable[..., Any], Any, Any], Any],
) -> tuple[list[TensorMeta], bool]:
    """What the function sees of its arguments: a transform hides dimensions and gradients."""
    seen: list[Any] = []

    def body(*args: Any, **kwargs: Any) -> Any:
        flatten(form, (args, kwargs), seen)
        metas = [
            value.meta._replace(
                shape=tuple(t.shape), stride=tuple(t.stride()), requires_grad=t.requires_grad,
                is_leaf=t.is_leaf, has_grad_fn=t.grad_fn is not None, cls=torch.Tensor,
            )
            for t, value in zip(seen, tensors, strict=False)
        ]  # fmt: skip
        seen[:] = [metas, torch.is_grad_enabled()]
        raise _Probed

    def probe() -> None:
        stand_ins = []
        for value in tensors:
            meta = pin_sizes(tracer, value)
            made = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
            stand_ins.append(made.requires_grad_(meta.requires_grad))
        args, kwargs = rebuild(form, stand_ins)
        apply(body, args, {**kwargs, **rebuild(rest, stand_ins)})

    try:
        tracer.graph.state_value(probe)
    except _Probed:
        return seen[0], seen[1]
    except Exception as error:
        unsupported(reasons.UNCAUGHT_EXCEPTION, type(error).__name__)
    unsupported(reasons.UNKNOWN_CALLABLE, "a transform that does not call its function")
