"""Programs of two processes, started by torchrun: ``python -m torch.distributed.run ... FOLDER``.

Each compares with the same program run eagerly and returns what its process saw; the results of a
process go to ``FOLDER/<rank>.json``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import capture
from capture.backends import GraphCounter

Result = dict[str, Any]
collectives: Any = torch.distributed._functional_collectives
PROGRAMS: dict[str, Callable[[], Result]] = {}
_SAME = (4, 4, 4, 4)


def program(fn: Callable[[], Result]) -> Callable[[], Result]:
    """Register a program by its name."""
    PROGRAMS[fn.__name__] = fn
    return fn


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the block computes."""
        y: torch.Tensor = self.down(torch.relu(self.up(self.norm(x))))
        return x + y


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), Block(16), Block(16), nn.Linear(16, 4))


def _batch(step: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * dist.get_rank() + step)
    return (
        torch.randn(size, 8, generator=generator),
        torch.randn(size, 4, generator=generator),
    )


def _full(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


def _train(
    wrap: Callable[[nn.Sequential, Any], Any],
    sizes: Sequence[int] = _SAME,
    whole_step: bool = False,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
) -> Result:
    """Train eagerly and compiled; ``wrap(model, decorate)`` shards or wraps the model."""
    counter = GraphCounter("aot_eager")

    def run(decorate: Callable[[Any], Any]) -> tuple[list[float], list[torch.Tensor]]:
        module = wrap(_model(), decorate)
        opt = optimizer(module.parameters(), lr=0.1)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            opt.zero_grad()
            loss: torch.Tensor = (module(x) - y).pow(2).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            opt.step()
            return loss.detach()

        called = decorate(step) if whole_step else step
        losses = [called(*_batch(i, n)).item() for i, n in enumerate(sizes)]
        return losses, [_full(p) for p in module.parameters()]

    expected = run(lambda fn: fn)
    actual = run(lambda fn: capture.compile(fn, backend=counter))
    equal = expected[0] == actual[0] and all(map(torch.equal, expected[1], actual[1]))
    return {"equal": equal, "graphs": counter.graph_count}


def _mine(*, first: Sequence[int], second: Sequence[int]) -> Sequence[int]:
    return second if dist.get_rank() else first


@program
def ddp_then_compile() -> Result:
    return _train(lambda m, decorate: decorate(DistributedDataParallel(m)))


@program
def compile_then_ddp() -> Result:
    return _train(lambda m, decorate: DistributedDataParallel(decorate(m)))


@program
def ddp_in_a_compiled_step() -> Result:
    return _train(lambda m, _: DistributedDataParallel(m), whole_step=True)


@program
def ddp_where_one_rank_recompiles() -> Result:
    sizes = _mine(first=(4, 6, 4, 5), second=_SAME)
    return _train(lambda m, decorate: decorate(DistributedDataParallel(m)), sizes)


@program
def ddp_step_where_one_rank_recompiles() -> Result:
    sizes = _mine(first=_SAME, second=(4, 6, 4, 5))
    return _train(lambda m, _: DistributedDataParallel(m), sizes, whole_step=True)


@program
def ddp_where_one_rank_runs_eagerly() -> Result:
    with capture.set_stance("force_eager" if dist.get_rank() else "default"):
        return _train(lambda m, decorate: decorate(DistributedDataParallel(m)))


@program
def ddp_in_buckets() -> Result:
    def wrap(model: nn.Sequential, decorate: Any) -> Any:
        return decorate(DistributedDataParallel(model, bucket_cap_mb=0.002))

    return _train(wrap)


@program
def ddp_that_accumulates() -> Result:
    counter = GraphCounter("aot_eager")

    def run(decorate: Callable[[Any], Any]) -> list[torch.Tensor]:
        ddp = DistributedDataParallel(_model())
        called = decorate(ddp)
        for i in range(4):
            x, y = _batch(i, 4)
            if i % 2:
                (called(x) - y).pow(2).mean().backward()
            else:
                with ddp.no_sync():
                    (called(x) - y).pow(2).mean().backward()
        return [_full(p.grad) for p in ddp.parameters() if p.grad is not None]

    expected, actual = run(lambda fn: fn), run(lambda fn: capture.compile(fn, backend=counter))
    return {"equal": all(map(torch.equal, expected, actual)), "graphs": counter.graph_count}


def _sharded(model: nn.Sequential) -> nn.Sequential:
    for part in (model[1], model[2], model):
        fully_shard(part)
    return model


@program
def fsdp_of_compiled_blocks() -> Result:
    def wrap(model: nn.Sequential, decorate: Any) -> Any:
        for i in (1, 2):
            model[i] = decorate(model[i])
        return _sharded(model)

    return _train(wrap, optimizer=torch.optim.AdamW)


@program
def fsdp_then_compile() -> Result:
    return _train(lambda m, decorate: decorate(_sharded(m)), optimizer=torch.optim.AdamW)


@program
def fsdp_in_a_compiled_step() -> Result:
    return _train(lambda m, _: _sharded(m), whole_step=True, optimizer=torch.optim.AdamW)


@program
def fsdp_where_one_rank_recompiles() -> Result:
    sizes = _mine(first=(4, 6, 4, 5), second=_SAME)
    return _train(lambda m, decorate: decorate(_sharded(m)), sizes)


@program
def tensor_parallel() -> Result:
    mesh = init_device_mesh("cpu", (2,))
    plan = {"1.up": ColwiseParallel(), "1.down": RowwiseParallel()}

    def wrap(model: nn.Sequential, decorate: Any) -> Any:
        parallelize_module(model, mesh, plan)
        return decorate(model)

    return _train(wrap)


def _compare(
    fn: Callable[[torch.Tensor], Any], *, fullgraph: bool = False, twice: bool = True
) -> Result:
    """Compare a function of one tensor, with its gradient, called twice."""
    torch.manual_seed(dist.get_rank())
    start = torch.randn(4, 3)
    counter = GraphCounter("aot_eager")
    compiled = capture.compile(fn, backend=counter, fullgraph=fullgraph)

    def run(called: Callable[[torch.Tensor], Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = start.clone().requires_grad_()
        result = called(x)
        if isinstance(result, DTensor):
            result = result.full_tensor()
        if result.requires_grad:
            result.sum().backward()
        return result.detach(), x.grad

    expected = run(fn)
    found = [run(compiled) for _ in range(2 if twice else 1)]
    equal = all(
        torch.equal(value, expected[0])
        and (grad is None) == (expected[1] is None)
        and (grad is None or expected[1] is None or torch.equal(grad, expected[1]))
        for value, grad in found
    )
    return {"equal": equal, "graphs": counter.graph_count}


@program
def functional_collectives() -> Result:
    def fn(x: torch.Tensor) -> Any:
        total = collectives.all_reduce(x.sin(), "sum", dist.group.WORLD)
        return total * 2 + x

    return _compare(fn, fullgraph=True)


@program
def functional_collectives_of_a_mesh() -> Result:
    mesh = init_device_mesh("cpu", (2,))

    def fn(x: torch.Tensor) -> Any:
        return collectives.all_reduce(x * mesh.size(), "sum", (mesh, 0)) + mesh.get_local_rank()

    return _compare(fn, fullgraph=True)


@program
def a_collective_without_a_gradient() -> Result:
    def fn(x: torch.Tensor) -> Any:
        return collectives.broadcast(x * 2, 0, dist.group.WORLD) + 1

    return _compare(fn, fullgraph=True)


@program
def a_collective_whose_result_is_unused() -> Result:
    """One process runs it eagerly: it must take place in the other one as well."""

    def fn(x: torch.Tensor) -> Any:
        collectives.wait_tensor(collectives.all_reduce(x * 2, "sum", dist.group.WORLD))
        return x + 1

    with capture.set_stance("force_eager" if dist.get_rank() else "default"):
        return _compare(fn)


@program
def questions_about_the_group() -> Result:
    def fn(x: torch.Tensor) -> Any:
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() == 2:
            return x * (dist.get_rank() + 1)
        return x

    return _compare(fn, fullgraph=True)


@program
def the_default_group_is_guarded() -> Result:
    def fn(x: torch.Tensor) -> Any:
        return x * dist.get_world_size()

    counter = GraphCounter("eager")
    compiled = capture.compile(fn, backend=counter)
    x = torch.ones(2)
    world = dist.group.WORLD
    alone = [dist.new_group([i]) for i in range(2)][dist.get_rank()]
    first = compiled(x)
    dist.distributed_c10d._update_default_pg(alone)
    second = compiled(x)
    dist.distributed_c10d._update_default_pg(world)
    third = compiled(x)
    equal = [first[0].item(), second[0].item(), third[0].item()] == [2, 1, 2]
    return {"equal": equal, "graphs": counter.graph_count}


@program
def collectives_in_place() -> Result:
    def fn(x: torch.Tensor) -> Any:
        y = x.detach() * 2
        dist.all_reduce(y)
        work = dist.broadcast(y, 0, async_op=True)
        z = x.sin()
        assert work is not None
        work.wait()
        return y + z

    return _compare(fn)


@program
def dtensors() -> Result:
    mesh = init_device_mesh("cpu", (2,))

    def fn(x: torch.Tensor) -> Any:
        d: Any = distribute_tensor(x, mesh, [Shard(0)]) * 2 + 1
        local = DTensor.from_local(d.to_local().sin(), mesh, [Shard(0)])
        return local.redistribute(mesh, [Replicate()]).to_local().cos()

    return _compare(fn)


def main(folder: str, names: Sequence[str]) -> None:
    """Run programs, all of them by default."""
    dist.init_process_group("gloo")
    results: dict[str, Result] = {}
    with capture.config.patch(suppress_errors=False):
        for name in names or PROGRAMS:
            capture.reset()
            try:
                results[name] = PROGRAMS[name]()
            except Exception:
                results[name] = {"error": traceback.format_exc()}
            with open(os.path.join(folder, f"{dist.get_rank()}.json"), "w") as file:
                json.dump(results, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
