"""Process groups in captured code: constants, guarded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import capture
from capture.backends import GraphCounter

if not torch.distributed.is_available():
    pytest.skip("this torch is built without torch.distributed", allow_module_level=True)

import torch.distributed as dist


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    _start()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def _start() -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1
    )


def _compiled(fn: Any, **settings: Any) -> tuple[Any, GraphCounter]:
    counter = GraphCounter("eager")
    return capture.compile(fn, backend=counter, fullgraph=True, **settings), counter


def test_rank_and_size_of_the_default_group_are_constants() -> None:
    def fn(x: Tensor) -> Tensor:
        return x * dist.get_world_size() + dist.get_rank()

    compiled, counter = _compiled(fn)
    x = torch.randn(3)
    assert torch.equal(compiled(x), fn(x))
    assert torch.equal(compiled(x), fn(x))
    assert counter.graph_count == 1


def test_a_group_that_is_an_argument_is_guarded() -> None:
    def fn(x: Tensor, group: Any) -> Any:
        return x * group.size() + len(group.group_name)

    compiled, counter = _compiled(fn)
    x = torch.randn(3)
    world, other = dist.group.WORLD, dist.new_group([0])
    assert torch.equal(compiled(x, world), fn(x, world))
    assert torch.equal(compiled(x, other), fn(x, other))
    assert torch.equal(compiled(x, world), fn(x, world))
    assert counter.graph_count == 2


def test_the_end_of_the_default_group_is_noticed() -> None:
    def fn(x: Tensor) -> Tensor:
        return x * 2 if dist.is_initialized() else x + 1

    compiled, counter = _compiled(fn)
    x = torch.randn(3)
    assert torch.equal(compiled(x), x * 2)
    dist.destroy_process_group()
    assert torch.equal(compiled(x), x + 1)
    _start()
    assert torch.equal(compiled(x), x * 2)


def test_an_error_without_a_group_is_eagers() -> None:
    def fn(x: Tensor) -> Tensor:
        return x * dist.get_rank()

    dist.destroy_process_group()
    compiled = capture.compile(fn, backend="eager")
    for called in (fn, compiled, compiled):
        with pytest.raises(ValueError, match="has not been initialized"):
            called(torch.ones(2))


def test_a_name_is_resolved_to_its_group() -> None:
    import torch.distributed._functional_collectives as collectives

    def fn(x: Tensor, name: str) -> Any:
        return collectives.all_gather_single(x, 0, name) * 2  # type: ignore[arg-type]

    compiled, counter = _compiled(fn)
    x = torch.randn(2, 3)
    world = dist.group.WORLD
    assert world is not None
    for _ in range(2):
        assert torch.equal(compiled(x, world.group_name), fn(x, world.group_name))
    assert counter.graph_count == 1
