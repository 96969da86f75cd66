"""Programs of several processes: two on the loopback device with gloo, started by torchrun.

The quick programs run in one start of the processes, the others (``-m slow``) in another. By hand:
``python -m torch.distributed.run --standalone --nproc_per_node 2 -m tests.e2e.distributed_programs
FOLDER NAME...``
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

if not torch.distributed.is_available():
    pytest.skip("this torch is built without torch.distributed", allow_module_level=True)

_ROOT = Path(__file__).parents[2]
_SECONDS = 180  # a deadlock would last for ever

_QUICK = (
    "ddp_then_compile",
    "ddp_where_one_rank_recompiles",
    "fsdp_of_compiled_blocks",
    "functional_collectives",
    "a_collective_whose_result_is_unused",
    "questions_about_the_group",
    "the_default_group_is_guarded",
    "collectives_in_place",
    "dtensors",
)
_SLOW = (
    "compile_then_ddp",
    "ddp_in_a_compiled_step",
    "ddp_step_where_one_rank_recompiles",
    "ddp_where_one_rank_runs_eagerly",
    "ddp_in_buckets",
    "ddp_that_accumulates",
    "fsdp_then_compile",
    "fsdp_in_a_compiled_step",
    "fsdp_where_one_rank_recompiles",
    "tensor_parallel",
    "functional_collectives_of_a_mesh",
    "a_collective_without_a_gradient",
)

Results = list[dict[str, dict[str, Any]]]


def _run(folder: Path, names: Sequence[str]) -> Results:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
        "-m", "tests.e2e.distributed_programs", str(folder), *names,
    ]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(_ROOT)}
    with open(folder / "log", "w") as log:
        run = subprocess.Popen(
            command, cwd=_ROOT, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code: int | str = run.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            code = "a deadlock"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    assert code == 0, f"{code}\n{(folder / 'log').read_text()[-4000:]}"
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each process saw in the programs of the quick tests."""
    return _run(tmp_path_factory.mktemp("quick"), _QUICK)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each process saw in all other programs."""
    return _run(tmp_path_factory.mktemp("slow"), _SLOW)


def _graphs(results: Results, name: str) -> list[int]:
    """The number of graphs in each process; all of them agree with eager."""
    found = []
    for rank, programs in enumerate(results):
        seen = programs[name]
        assert "error" not in seen, f"rank {rank}: {seen['error']}"
        assert seen["equal"], f"rank {rank} differs from eager"
        found.append(seen["graphs"])
    return found


def test_ddp_compiled_as_a_whole_is_one_graph(quick: Results) -> None:
    assert _graphs(quick, "ddp_then_compile") == [1, 1]


def test_one_rank_may_recompile(quick: Results) -> None:
    assert _graphs(quick, "ddp_where_one_rank_recompiles") == [2, 1]


def test_compiled_blocks_in_fsdp_are_one_graph_each(quick: Results) -> None:
    assert _graphs(quick, "fsdp_of_compiled_blocks") == [2, 2]


def test_functional_collectives_are_part_of_the_graph(quick: Results) -> None:
    assert _graphs(quick, "functional_collectives") == [1, 1]


def test_a_collective_takes_place_though_nobody_uses_it(quick: Results) -> None:
    assert _graphs(quick, "a_collective_whose_result_is_unused") == [1, 0]


def test_questions_about_the_group_are_constants(quick: Results) -> None:
    assert _graphs(quick, "questions_about_the_group") == [1, 1]


def test_another_default_group_is_noticed(quick: Results) -> None:
    assert _graphs(quick, "the_default_group_is_guarded") == [2, 2]


@pytest.mark.parametrize("name", ["collectives_in_place", "dtensors"])
def test_what_is_left_to_python_breaks_the_graph(quick: Results, name: str) -> None:
    first, second = _graphs(quick, name)
    assert first == second >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "compile_then_ddp",
        "ddp_in_buckets",
        "ddp_that_accumulates",
        "functional_collectives_of_a_mesh",
        "a_collective_without_a_gradient",
    ],
)
def test_these_are_one_graph(slow: Results, name: str) -> None:
    assert _graphs(slow, name) == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["ddp_in_a_compiled_step", "fsdp_then_compile", "fsdp_in_a_compiled_step", "tensor_parallel"],
)
def test_these_break_on_both_ranks_alike(slow: Results, name: str) -> None:
    first, second = _graphs(slow, name)
    assert first == second >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ddp_step_where_one_rank_recompiles", "fsdp_where_one_rank_recompiles"]
)
def test_one_rank_may_recompile_in_more_ways(slow: Results, name: str) -> None:
    first, second = _graphs(slow, name)
    assert first != second


@pytest.mark.slow
def test_one_rank_may_run_eagerly(slow: Results) -> None:
    assert _graphs(slow, "ddp_where_one_rank_runs_eagerly") == [1, 0]
