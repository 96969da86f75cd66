"""Measures the AOT stage beside torch's: trace, partition and wrapper, without compiling anything.

    python benchmarks/aot.py [--rounds 3] [--partitioners default min_cut fast]

One captured graph of each model, its parameters among its inputs, goes through
``torch._functorch.aot_autograd.aot_module_simplified`` and through ``capture``'s stage in turn,
with the same partitioner and compilers that do nothing (``fast`` is ours alone: torch's default is
beside it). Prints CPU milliseconds (medians), the
trace's part of ours, the ratio, and the greatest difference of outputs and gradients. The last line
is a warm call in training mode of a two-tensor addition: what the wrapper around the graphs costs.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import compiler, forget, interleaved_us
from models import GPT, MLP, ConvNet
from torch import Tensor, fx, nn

import capture
from capture.backends.aot import core_aten_decompositions, run_graph
from capture.backends.aot.joint import trace_joint
from capture.backends.aot.partition import partitioner
from capture.backends.aot.stage import Stage
from capture.backends.aot.toolchain import SeparateCompilers

MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp, 4 layers": (lambda: MLP(4), lambda: torch.randn(2, 8)),
    "conv net, 4 blocks": (lambda: ConvNet(4), lambda: torch.randn(2, 3, 8, 8)),
    "gpt, 4 blocks": (lambda: GPT(4), lambda: torch.randint(0, 100, (2, 16))),
}


def captured(model: nn.Module, x: Tensor) -> tuple[fx.GraphModule, list[Any]]:
    """Return the graph of torch calls of a model, and its inputs."""
    found: list[tuple[fx.GraphModule, list[Any]]] = []

    def keep(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        found.append((copy.deepcopy(gm), list(inputs)))
        return gm.forward

    capture.reset()
    capture.compile(model, backend=keep)(x)
    ((gm, inputs),) = found
    return gm, inputs


def torch_stage(gm: fx.GraphModule, inputs: list[Any], name: str) -> Callable[..., Any]:
    """Run torch's stage."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_compiler

    nothing: Any = make_boxed_compiler(lambda gm, inputs: gm.forward)  # type: ignore[no-untyped-call]
    return aot_module_simplified(  # type: ignore[no-any-return]
        gm,
        inputs,
        fw_compiler=nothing,
        bw_compiler=nothing,
        partition_fn=_torch_partitioner(name),
        decompositions=dict(core_aten_decompositions()),
    )


def _torch_partitioner(name: str) -> Any:
    from torch._functorch import partitioners

    if name == "min_cut":
        return partitioners.min_cut_rematerialization_partition
    return partitioners.default_partition


def our_stage(gm: fx.GraphModule, inputs: list[Any], name: str) -> Callable[..., Any]:
    """Run our stage."""
    toolchain = SeparateCompilers(
        run_graph, run_graph, partitioner(name), core_aten_decompositions()
    )
    return Stage(gm, toolchain).compile(inputs)


def our_trace(gm: fx.GraphModule, inputs: list[Any]) -> float:
    """Return the CPU milliseconds of the trace alone."""
    start = time.process_time()
    trace_joint(gm, gm.forward, inputs, core_aten_decompositions())
    return (time.process_time() - start) * 1e3


def stages(rounds: int, partitioners: list[str]) -> None:
    """Print the table of stages."""
    print(f"{'model':20} {'partitioner':12} {'torch':>8} {'capture':>8} {'trace':>8}  ratio")
    for model_name, (make, sample) in MODELS.items():
        torch.manual_seed(0)
        gm, inputs = captured(make(), sample())
        # Both stages import and fill their caches once.
        our_stage(copy.deepcopy(gm), inputs, "default")
        torch_stage(copy.deepcopy(gm), inputs, "default")
        for name in partitioners:
            samples: dict[str, list[float]] = {"torch": [], "capture": [], "trace": []}
            made: dict[str, Any] = {}
            for _ in range(rounds):
                for target, stage in (("torch", torch_stage), ("capture", our_stage)):
                    each = copy.deepcopy(gm)
                    start = time.process_time()
                    made[target] = stage(each, inputs, name)
                    samples[target].append((time.process_time() - start) * 1e3)
                samples["trace"].append(our_trace(copy.deepcopy(gm), inputs))
            ms = {target: statistics.median(values) for target, values in samples.items()}
            print(
                f"{model_name:20} {name:12} {ms['torch']:8.0f} {ms['capture']:8.0f} "
                f"{ms['trace']:8.0f}  {ms['torch'] / ms['capture']:.2f}  "
                f"(difference {_difference(made, inputs):.1e})",
                flush=True,
            )


def _difference(made: dict[str, Any], inputs: list[Any]) -> float:
    found = []
    for target, call in made.items():
        arguments = [_leaf(each) for each in inputs]
        out = call(list(arguments)) if target == "capture" else call(*arguments)
        out[0].square().sum().backward()
        gradients = [each.grad for each in arguments if each.grad is not None]
        found.append([out[0].detach(), *gradients])
    return max(
        float((a - b).abs().max() / (b.abs().max() + 1e-9)) for a, b in zip(*found, strict=True)
    )


def _leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad)


def warm(rounds: int = 7, repeat: int = 2000) -> None:
    """Print what a call in training mode costs around two-tensor graphs."""
    x, y = torch.randn(4, requires_grad=True), torch.randn(4)
    calls: dict[str, Callable[[], object]] = {}
    for target in ("dynamo", "capture"):
        forget(target)
        compiled = compiler(target, "aot_eager")(lambda a, b: a + b)
        for _ in range(3):
            compiled(x, y)
        calls[target] = lambda compiled=compiled: compiled(x, y)
    calls["eager"] = lambda: x + y
    us = interleaved_us(calls, repeat, rounds)
    print(
        f"warm addition, training: torch {us['dynamo']:.1f} us, capture {us['capture']:.1f} us, "
        f"eager {us['eager']:.1f} us; ratio {us['dynamo'] / us['capture']:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitioners", nargs="+", default=["default", "min_cut", "fast"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    stages(options.rounds, options.partitioners)
    warm()


if __name__ == "__main__":
    main()
