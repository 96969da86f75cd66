"""Holds torch's control flow on tensors (``cond``, ``while_loop``, ``map``, ``scan``).

Torch's own wrappers are executed symbolically down to the operator that they call. Its functions
become graphs of their own, and the node calls the operator on these. Whatever torch would refuse
is left to it as a whole: the break is in front of the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.cond import cond, cond_op
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan, scan_op
from torch._higher_order_ops.while_loop import while_loop, while_loop_op
from torch.utils import _pytree as pytree

from capture import break_reasons as reasons
from capture.graph.subgraph import SubGraph
from capture.graph.tensor_meta import TensorMeta
from capture.graph.values import GraphFunction, TensorValue
from capture.sources import DictItemSource, InstanceDictSource, ModulesSource
from capture.variables.base import Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.containers import ListVariable, TupleVariable
from capture.variables.higher_order.callbacks import (
    Form,
    Place,
    execute,
    form_of,
    variables,
)
from capture.variables.sizes import pin_sizes
from capture.variables.tensor import TensorVariable
from capture.variables.torch_calls import register_special

__all__: list[str] = []


def _refuse(what: str) -> NoReturn:
    unsupported(reasons.UNKNOWN_CALLABLE, what)


class _Body:
    """A function of the program as a graph: what it takes from around it, and what it gives."""

    def __init__(
        self, tracer: Tracer, name: str, fn: Variable, args: Args, metas: Sequence[TensorMeta] = ()
    ) -> None:
        def run() -> Variable:
            graph = tracer.graph
            assert isinstance(graph, SubGraph)
            own = [tracer.wrap_result(graph.add_own_input(meta)) for meta in metas]
            return tracer.call(fn, [*own, *args], {})

        result, graph = execute(tracer, name, run)
        values: list[TensorValue] = []
        self.form: Form = form_of(tracer, result, values)
        if graph.written or graph.writes_own_input():
            _refuse(f"{name} of a function that writes to its arguments")
        if len(set(map(id, values))) < len(values) or any(map(graph.is_given, values)):
            _refuse(f"{name} of a function that gives back what it takes")
        self.module = graph.finish(values)
        self.metas = [value.meta for value in values]
        self.lifted = graph.lifted
        self.uses_rng = graph.uses_rng


def _places(bodies: Sequence[_Body]) -> tuple[list[Any], list[list[int]]]:
    """What several functions take from around them, each once; of each, where its values are."""
    every: dict[int, Any] = {}
    for body in bodies:
        every.update((id(value), value) for value in body.lifted)
    order = {key: place for place, key in enumerate(every)}
    return list(every.values()), [[order[id(v)] for v in body.lifted] for body in bodies]


def _on(body: _Body, places: list[int], own: int = 0) -> Callable[..., Any]:
    """The real function, of ``own`` arguments and then everything taken from around."""
    module = body.module

    def call(*given: Any) -> Any:
        taken = given[own:]
        return module.forward(*given[:own], *(taken[place] for place in places))

    return call


def _node(
    tracer: Tracer,
    name: str,
    call: Callable[..., Any],
    args: Sequence[Any],
    form: Form,
    stand_in: Callable[..., Any] | None = None,
) -> Variable:
    outer: list[Variable] = [tracer.wrap_result(value) for value in args]
    target = GraphFunction(name, call, stand_in)
    outputs = tracer.graph_call("call_function", target, outer, {})
    return variables(tracer, form, tracer.iterate(outputs))


def _tensors(tracer: Tracer, v: Variable, what: str) -> list[TensorVariable]:
    items = [item.realize(tracer) for item in tracer.iterate(v)]
    tensors = [item for item in items if isinstance(item, TensorVariable)]
    if len(tensors) != len(items):
        _refuse(f"{what} of something else than tensors")
    return tensors


def _slice_meta(tracer: Tracer, v: TensorVariable) -> TensorMeta:
    """What a part along the first dimension looks like."""
    meta = pin_sizes(tracer, v.value)
    if not meta.shape or meta.shape[0] == 0:
        _refuse("a loop over no elements")
    return meta._replace(shape=meta.shape[1:], stride=meta.stride[1:], cls=torch.Tensor)


def _alike(first: TensorMeta, second: TensorMeta) -> bool:
    names = ("shape", "stride", "dtype", "device", "layout", "is_conj", "is_neg")
    return all(getattr(first, name) == getattr(second, name) for name in names)


def _structure(form: Form) -> Any:
    leaves, spec = pytree.tree_flatten(form)
    return spec, [(type(leaf), None if type(leaf) is Place else leaf) for leaf in leaves]


def _cond(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
    pred, true_fn, false_fn, operands = args
    pred = pred.realize(tracer)
    if (
        not isinstance(pred, TensorVariable)
        or pred.meta.dtype is not torch.bool
        or (any(n != 1 for n in pred.meta.shape))
    ):
        _refuse("torch.cond on no tensor of a truth value")
    given = tracer.iterate(operands)
    bodies = [_Body(tracer, "cond", fn, given) for fn in (true_fn, false_fn)]
    first, second = bodies
    if _structure(first.form) != _structure(second.form) or not all(
        map(_alike, first.metas, second.metas)
    ):
        _refuse("torch.cond with branches that give different things")
    taken, (true_places, false_places) = _places(bodies)
    branches = _on(first, true_places), _on(second, false_places)

    def call(pred: Any, *taken: Any) -> Any:
        return cond_op(pred, *branches, taken)

    return _node(tracer, "cond", call, [pred.value, *taken], first.form)


def _while_loop(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
    cond_fn, body_fn, carried, additional = args
    state = _tensors(tracer, carried, "while_loop")
    if kwargs or tracer.iterate(additional) or any(v.meta.requires_grad for v in state):
        _refuse("while_loop of tensors that require grad")
    metas = [pin_sizes(tracer, v.value)._replace(cls=torch.Tensor) for v in state]
    bodies = [_Body(tracer, "while_loop", fn, [], metas) for fn in (cond_fn, body_fn)]
    test, body = bodies
    if [(meta.dtype, meta.shape) for meta in test.metas] != [(torch.bool, ())] or (
        test.form != Place(0)
    ):
        _refuse("while_loop on no tensor of a truth value")
    if not _carries(body.metas, metas):
        _refuse("while_loop with a body that changes what it carries")
    taken, places = _places(bodies)
    count = len(state)
    (ask, go_on) = (_on(b, p, count) for b, p in zip(bodies, places, strict=True))

    def call(*given: Any) -> Any:
        return while_loop_op(lambda *a: ask(*a)[0], go_on, given[:count], given[count:])

    values = [*(v.value for v in state), *taken]

    def one_round(*given: Any) -> Any:
        """What any number of rounds looks like."""
        ask(*given)
        return go_on(*given)

    return _node(tracer, "while_loop", call, values, body.form, one_round)


def _carries(made: Sequence[TensorMeta], metas: Sequence[TensorMeta]) -> bool:
    return len(made) == len(metas) and all(map(_alike, made, metas))


def _map(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
    fn, xs, rest = args
    over = _tensors(tracer, xs, "map")
    body = _Body(
        tracer, "map", fn, tracer.iterate(rest), [_slice_meta(tracer, v) for v in over]
    )  # fmt: skip
    count = len(over)
    step = _on(body, list(range(len(body.lifted))), count)

    def call(*given: Any) -> Any:
        return map_impl(step, list(given[:count]), list(given[count:]))

    return _node(tracer, "map", call, [*(v.value for v in over), *body.lifted], body.form)


def _scan(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable:
    names = ("combine_fn", "init", "xs", "additional_inputs")  # by place or by name
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    if set(named) != set(names) or tracer.iterate(named["additional_inputs"]):
        _refuse("scan with inputs of its own")
    fn, init, xs = named["combine_fn"], named["init"], named["xs"]
    state, over = _tensors(tracer, init, "scan"), _tensors(tracer, xs, "scan")
    carried = [pin_sizes(tracer, v.value)._replace(cls=torch.Tensor) for v in state]
    metas = [*carried, *(_slice_meta(tracer, v) for v in over)]
    body = _Body(tracer, "scan", fn, [], metas)
    if not _carries(body.metas[: len(state)], carried):
        _refuse("scan with a function that changes what it carries")
    first, second = len(state), len(metas)
    step = _on(body, list(range(len(body.lifted))), second)

    def call(*given: Any) -> Any:
        return scan_op(step, list(given[:first]), list(given[first:second]), given[second:])

    values = [*(v.value for v in (*state, *over)), *body.lifted]
    return _node(tracer, "scan", call, values, body.form)


for _operator, _handler in (
    (cond_op, _cond), (while_loop_op, _while_loop), (map_impl, _map), (scan_op, _scan),
):  # fmt: skip
    register_special(_operator, _handler)


_running: list[Any] = []
"""The wrappers that are being executed."""


def _as_a_whole(wrapper: Any) -> None:
    """Execute torch's wrapper within the call of it: a break inside is a break in front of it."""
    module = wrapper.__globals__["__name__"]
    home = InstanceDictSource(DictItemSource(ModulesSource(), module))

    @python_rule_for(wrapper)
    def call(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
        if _running:
            return None
        _running.append(wrapper)
        try:
            fn = tracer.wrap(wrapper, DictItemSource(home, wrapper.__name__))
            return tracer.call(fn, args, kwargs)
        finally:
            _running.pop()


@python_rule_for(cond)
def _choose(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    names = ("pred", "true_fn", "false_fn", "operands")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or not {*names[:3]} <= set(given) <= set(names):
        _refuse("torch.cond with other arguments")
    operands = given.get("operands", TupleVariable([])).realize(tracer)
    if not isinstance(operands, (TupleVariable, ListVariable)):
        _refuse("torch.cond with other arguments")
    pred = given["pred"].realize(tracer)
    if isinstance(pred, TensorVariable):
        return _cond(tracer, [pred, given["true_fn"], given["false_fn"], operands], {})
    if pred.python_type() not in (bool, int, float):
        _refuse("torch.cond on no tensor of a truth value")
    chosen = given["true_fn" if tracer.truth(pred) else "false_fn"]
    return tracer.call(chosen, operands.items(tracer), {})


for _wrapper in (while_loop, mapped, scan, associative_scan):
    _as_a_whole(_wrapper)
