"""Holds calls of the program's own autograd functions; must not know the interpreter.

Such a call is a node: the class's ``apply`` runs when the graph runs, and its ``backward`` in
autograd's backward, both as they are. What ``forward`` (and ``setup_context``) reads, and that it
has no side effect, is found out by executing it symbolically; ``backward`` runs outside the
capture, as in eager.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from capture import break_reasons as reasons
from capture.graph.subgraph import SubGraph
from capture.graph.values import GraphFunction
from capture.variables.attributes import load_attr
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for, rule
from capture.variables.constant import NONE, ConstantVariable, ScalarVariable, boolean
from capture.variables.containers import ListVariable, TupleVariable
from capture.variables.higher_order.callbacks import execute, refuse_pending_effects
from capture.variables.higher_order.module_hooks import IDENTITY, identity
from capture.variables.objects import ClassVariable, ObjectVariable
from capture.variables.sizes import pin_sizes
from capture.variables.tensor import TensorVariable

_OWN_CONTEXT = torch.autograd.Function.setup_context


class _Context(FunctionCtx):
    """Stands for ``ctx`` while ``forward`` is executed symbolically."""


def _apply(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    cls_var, given = args[0], args[1:]
    assert isinstance(cls_var, ClassVariable)
    cls: Any = cls_var.value
    what = f"{cls.__qualname__}.apply"
    if kwargs or torch._C._are_functorch_transforms_active():
        unsupported(reasons.UNKNOWN_CALLABLE, what)
    if cls is IDENTITY:
        return identity(tracer, given)
    refuse_pending_effects(tracer, what, reads_grad=False)
    given = [_fixed(tracer, v) for v in given]
    context = _context(tracer, given)

    def run() -> Variable:
        forward = load_attr(tracer, cls_var, "forward")
        if cls.setup_context is _OWN_CONTEXT:
            load_attr(tracer, cls_var, "setup_context")
            return tracer.call(forward, [context, *given], {})
        output = tracer.call(forward, list(given), {})
        setup = load_attr(tracer, cls_var, "setup_context")
        tracer.call(setup, [context, TupleVariable(list(given)), output], {})
        return output

    state = tracer.graph.state._replace(grad_enabled=False)
    output, graph = execute(tracer, what, run, state)
    known = [v.value for v in given if isinstance(v, TensorVariable)]
    if any(value not in known for value in graph.written):
        unsupported(reasons.SIDE_EFFECT, f"{what}, which writes to a tensor that it is not given")
    backward = _backward_graph(tracer, cls_var, context, output)
    pure = backward is not None and not backward.written
    if _may_keep_container(tracer, context, given, pure):
        unsupported(reasons.SIDE_EFFECT, f"{what}, whose backward may use a list or dict")
    if not pure or graph.reads_grad or (backward is not None and backward.reads_grad):
        refuse_pending_effects(tracer, what)
    target = GraphFunction(f"{cls.__name__}_apply", cls.apply, traceable=pure)
    return tracer.graph_call("call_function", target, given, {})


def _backward_graph(
    tracer: Tracer, cls_var: ClassVariable, context: ObjectVariable, output: Variable
) -> SubGraph | None:
    """The graph of ``backward`` if it can be executed symbolically: it only computes then.

    A backend that runs it once and keeps what it did may do so; what it reads is guarded.
    """
    attrs = context.attrs
    assert attrs is not None
    if "materialize_grads" in attrs:
        return None  # then which gradients there are is only known in the backward
    saved = attrs.get("to_save", TupleVariable([]))
    attrs["saved_tensors"] = saved
    outputs = output.items(tracer) if isinstance(output, TupleVariable) else [output]

    def run() -> Variable:
        graph = tracer.graph
        assert isinstance(graph, SubGraph)
        gradients: list[Variable] = []
        for v in outputs:
            v = v.realize(tracer)
            if isinstance(v, TensorVariable):
                known = pin_sizes(tracer, v.value)
                stride = torch.empty(known.shape, device="meta").stride()
                meta = known._replace(
                    stride=stride, requires_grad=False, is_leaf=True, has_grad_fn=False,
                    cls=torch.Tensor, is_conj=False, is_neg=False,
                )  # fmt: skip
                gradients.append(tracer.wrap_result(graph.add_own_input(meta)))
            else:
                gradients.append(NONE)
        backward = load_attr(tracer, cls_var, "backward")
        return tracer.call(backward, [context, *gradients], {})

    graphs: list[SubGraph] = []

    def trial() -> None:
        state = tracer.graph.state._replace(grad_enabled=False)
        graphs.append(execute(tracer, "backward", run, state)[1])

    return graphs[0] if tracer.attempt(trial) else None


def _may_keep_container(
    tracer: Tracer, context: ObjectVariable, given: list[Variable], pure: bool
) -> bool:
    """True if ``backward`` may see a list or dict that was given: the graph makes copies of them.

    Whatever ``ctx`` keeps beside constants and tensors may refer to one. A backward that only
    computes sees no difference, unless the program writes to the container in between.
    """
    attrs = context.attrs
    assert attrs is not None
    given = [v for v in given if not _is_fixed(tracer, v)]
    if pure and all(v.realize(tracer).source is None for v in given):
        return False
    return bool(given) and not all(_is_fixed(tracer, v) for v in attrs.values())


def _is_fixed(tracer: Tracer, v: Variable) -> bool:
    """True for a constant, a tensor, and a tuple of such."""
    v = v.realize(tracer)
    if isinstance(v, TupleVariable):
        return all(_is_fixed(tracer, item) for item in v.items(tracer))
    return isinstance(v, (ConstantVariable, ScalarVariable, TensorVariable))


def _fixed(tracer: Tracer, v: Variable) -> Variable:
    """Integers that change from call to call are constants here: ``forward`` may do anything.

    A changing float is one to ``forward`` and ``backward`` as well, which are executed with it.
    """
    v = v.realize(tracer)
    if isinstance(v, ScalarVariable) and v.python_type() is not float:
        return v.specialize(tracer)
    if isinstance(v, (TupleVariable, ListVariable)):
        for item in v.items(tracer):
            if isinstance(item.realize(tracer), ScalarVariable):
                unsupported(reasons.UNKNOWN_OPERATION, "a list of changing numbers")
    return v


def _context(tracer: Tracer, given: list[Variable]) -> ObjectVariable:
    needs = [boolean(isinstance(v, TensorVariable) and v.meta.requires_grad) for v in given]
    context = ObjectVariable(_Context)
    context.born = sys.maxsize  # only the function and its backward see it: they may write to it
    context.attrs = {"needs_input_grad": TupleVariable(list(needs))}
    return context


# a class method in Python up to torch 2.13, in C from then on
_APPLY: Any = torch.autograd.Function.__dict__["apply"]
(python_rule_for(_APPLY.__func__) if isinstance(_APPLY, classmethod) else rule(_APPLY))(_apply)
