"""Graphs inside of ``DistributedDataParallel``: cut at the borders of its buckets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

import capture
from capture.backends.aot import aot_autograd, run_graph
from capture.backends.aot.buckets import active_buckets

if not torch.distributed.is_available():
    pytest.skip("this torch is built without torch.distributed", allow_module_level=True)

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

_WIDTH = 32
_LAYER = (_WIDTH + 1) * _WIDTH * 4  # bytes


@pytest.fixture(autouse=True, scope="module")
def _one_process() -> Iterator[None]:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1
    )
    yield
    dist.destroy_process_group()


class _Log:
    """The order in which backwards run and gradients arrive."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.backend = aot_autograd(fw_compiler=run_graph, bw_compiler=self._compile)

    def _compile(self, gm: fx.GraphModule, inputs: list[Any]) -> Any:
        inner = run_graph(gm, inputs)

        def run(arguments: list[Any]) -> Any:
            self.events.append("backward")
            return inner(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def watch(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters():
            layer = name.split(".")[0]
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda _, layer=layer: self.events.append(layer)
            )


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.BatchNorm1d(_WIDTH), nn.Linear(_WIDTH, _WIDTH),
        nn.Dropout(0.5), nn.Linear(_WIDTH, _WIDTH), nn.Linear(_WIDTH, _WIDTH),
    )  # fmt: skip


def _train(log: _Log | None, layers: float, dynamic: bool | None = None) -> list[Tensor]:
    """Train with buckets of so many layers; losses, gradients and buffers of all steps."""
    ddp = DistributedDataParallel(_model(), bucket_cap_mb=layers * _LAYER / 2**20)
    called: Any = ddp
    if log is not None:
        called = capture.compile(ddp, backend=log.backend, dynamic=dynamic)
        log.watch(ddp.module)
    found = []
    for step, batch in enumerate((8, 8, 6, 5)):
        torch.manual_seed(step)
        if log is not None:
            log.events.clear()
        loss = called(torch.randn(batch, _WIDTH)).pow(2).sum()
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in ddp.parameters() if p.grad is not None)]
        found += [b.clone() for b in ddp.buffers()]
        ddp.zero_grad()
    return found


@pytest.mark.parametrize("dynamic", [None, True])
def test_the_parts_agree_with_eager(dynamic: bool | None) -> None:
    expected = _train(None, 1)
    found = _train(_Log(), 1, dynamic)
    assert len(found) == len(expected)
    assert all(map(torch.equal, found, expected))


def test_gradients_of_a_bucket_arrive_before_the_next_backward_runs() -> None:
    log = _Log()
    _train(log, 1.9)
    borders = [i for i, event in enumerate(log.events) if event == "backward"]
    assert len(borders) == 2
    first = set(log.events[: borders[1]]) - {"backward"}
    rest = set(log.events[borders[1] :]) - {"backward"}
    assert first == {"6", "5"}
    assert rest == {"3", "2", "0"}


def test_a_model_within_one_bucket_stays_whole() -> None:
    log = _Log()
    _train(log, 100)
    assert log.events.count("backward") == 1


def test_outside_of_ddp_there_are_no_buckets() -> None:
    assert active_buckets() is None


def test_a_graph_under_no_grad_stays_whole() -> None:
    log = _Log()
    ddp = DistributedDataParallel(_model().eval(), bucket_cap_mb=_LAYER / 2**20)
    compiled: Any = capture.compile(ddp, backend=log.backend)
    x = torch.randn(4, _WIDTH)
    with torch.no_grad():
        assert torch.equal(compiled(x), ddp(x))


def test_a_value_that_is_no_tensor_is_not_cut_off_from_its_use() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(_WIDTH, 2 * _WIDTH)
            self.second = nn.Linear(_WIDTH, _WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            left, right = self.first(x).split(_WIDTH, dim=1)
            y: Tensor = self.second(left) * right
            return y

    torch.manual_seed(0)
    ddp = DistributedDataParallel(Halves(), bucket_cap_mb=_LAYER / 2**21)
    log = _Log()
    compiled: Any = capture.compile(ddp, backend=log.backend)
    x = torch.randn(3, _WIDTH)
    assert torch.equal(compiled(x), ddp(x))
    compiled(x).sum().backward()
    assert log.events.count("backward") == 2
