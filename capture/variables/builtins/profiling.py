"""Holds the rule of profiler ranges: captured code is one range to a profiler, the graph's."""

from __future__ import annotations

import torch

from capture.polyfills.optimizers import UnrecordedRange
from capture.variables.base import Tracer, Variable
from capture.variables.builtins.registry import Args, Kwargs, rule


@rule(torch.autograd.profiler.record_function)
def _record_function(tracer: Tracer, args: Args, kwargs: Kwargs) -> Variable | None:
    return tracer.call(tracer.wrap_static(UnrecordedRange, None), args, kwargs)
