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


class _Probed(Exception):
    """Leaves a transform as soon as it calls its function."""


def transformed(
    tracer: Tracer,
    name: str,
    fn: Variable,
    args: list[Variable],
    kwargs: dict[str, Variable],
    apply: Callable[[Callable[..., Any], Any, Any], Any],
    extra: dict[str, Variable] | None = None,
) -> Variable:
    """Add a call of a transformed function to the graph.

    Args:
        apply: makes the real call, of a function that stands for ``fn`` on real arguments.
        extra: what ``apply`` gets by name besides, and ``fn`` does not.
    """
    names = ConstantVariable
    tensors: list[TensorValue] = []
    taken = TupleVariable([TupleVariable(list(args)), _mapping(names, kwargs)])
    form = form_of(tracer, taken, tensors)
    rest = form_of(tracer, _mapping(names, extra or {}), tensors)
    metas, grad_enabled = _probe(tracer, form, rest, tensors, apply)

    def run() -> Variable:
        graph = tracer.graph
        assert isinstance(graph, SubGraph)
        graph.layout_known = False
        inner: list[Variable] = [tracer.wrap_result(graph.add_own_input(meta)) for meta in metas]
        positional, named = (variables(tracer, part, inner) for part in form)
        assert isinstance(named, DictVariable)
        keywords = {str(k.value): v for k, v in named.load(tracer).values()}  # type: ignore[attr-defined]
        return tracer.call(fn, tracer.iterate(positional), keywords)

    state = tracer.graph.state._replace(grad_enabled=grad_enabled)
    result, graph = execute(tracer, name, run, state)
    module, lifted, result_form = finish(tracer, result, graph)
    count = len(tensors)
    found: list[Any] = []

    def call(*given: Any) -> Any:
        closed = given[count:]

        def body(*args: Any, **kwargs: Any) -> Any:
            flat: list[Any] = []
            flatten(form, (args, kwargs), flat)
            return rebuild(result_form, module(*flat, *closed))

        args, kwargs = rebuild(form, given)
        leaves, spec = pytree.tree_flatten(apply(body, args, {**kwargs, **rebuild(rest, given)}))
        found[:] = [spec]
        return tuple(leaves)

    target = GraphFunction(name.replace(".", "_"), call)
    outer = [tracer.wrap_result(value) for value in tensors]
    outputs = tracer.iterate(tracer.graph_call("call_function", target, [*outer, *lifted], {}))
    places = pytree.tree_unflatten([Place(n) for n in range(len(outputs))], found[0])
    return variables(tracer, places, outputs)


def _mapping(names: type[ConstantVariable], items: dict[str, Variable]) -> DictVariable:
    made = DictVariable()
    made.entries.update((name, (names(name), v)) for name, v in items.items())
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
