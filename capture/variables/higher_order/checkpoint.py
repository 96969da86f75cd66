"""Holds activation checkpointing: the checkpointed part is a graph that torch runs twice."""

from __future__ import annotations

from typing import Any

import torch.utils.checkpoint as checkpointing

from capture import break_reasons as reasons
from capture.graph.values import GraphFunction
from capture.variables.base import MISSING, Tracer, Variable, unsupported
from capture.variables.builtins.registry import Args, Kwargs, python_rule_for
from capture.variables.higher_order.callbacks import execute, finish, variables
from capture.variables.tensor import TensorVariable

_OPTIONS = ("preserve_rng_state", "determinism_check", "debug", "early_stop")


@python_rule_for(checkpointing.checkpoint)
def _checkpoint(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    kwargs = dict(kwargs)
    reentrant = kwargs.pop("use_reentrant", None)
    if not args or reentrant is None or tracer.as_python(reentrant) is not False:
        # the other kind is an autograd function that looks at the program's own objects
        unsupported(reasons.UNKNOWN_CALLABLE, "torch.utils.checkpoint.checkpoint (reentrant)")
    options: dict[str, Any] = {"use_reentrant": False}
    for name in _OPTIONS:
        if name in kwargs:
            options[name] = tracer.as_python(kwargs.pop(name))
    if "context_fn" in kwargs or MISSING in options.values():
        unsupported(reasons.UNKNOWN_CALLABLE, "torch.utils.checkpoint.checkpoint with a context")
    result, graph = execute(
        tracer, "checkpoint", lambda: tracer.call(args[0], list(args[1:]), kwargs)
    )
    module, lifted, form = finish(tracer, result, graph)

    # what the function is given is checked for changes before the second run, what it closes over
    # is not (running statistics)
    given = {id(v.value) for v in args[1:] if isinstance(v, TensorVariable)}
    places = [n for n, value in enumerate(graph.lifted) if id(value) in given]

    def call(*tensors: Any) -> Any:
        def body(*arguments: Any) -> Any:
            values = list(tensors)
            for place, value in zip(places, arguments, strict=True):
                values[place] = value
            return module.forward(*values)

        return checkpointing.checkpoint(body, *(tensors[place] for place in places), **options)

    # a recording of the second run would draw its random numbers elsewhere
    target = GraphFunction("checkpoint", call, module.forward, traceable=not graph.uses_rng)
    outputs = tracer.graph_call("call_function", target, lifted, {})
    return variables(tracer, form, tracer.iterate(outputs))
