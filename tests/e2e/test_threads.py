"""Threads that call one compiled function for the first time at once, and eager code between."""

# mypy: ignore-errors

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch import nn

import capture

N = 8


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with capture.config.patch(suppress_errors=False):
        yield
    sys.setswitchinterval(before)


@capture.disable
def brk(*_):
    pass


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        h = torch.relu(self.linear(x))
        brk(h)
        return self.norm(h) + x


torch.manual_seed(0)
BLOCK = Block().requires_grad_(False)


def plain(x):
    return torch.sin(x) * 2 + 1


def loop(x):
    for i in range(4):
        x = x * 0.5 + i
        brk(x)
    return x


def branches(x, k):
    if k % 2:
        return x + k
    brk(k)
    return x * k


def fails(x, i):
    try:
        return nn.functional.embedding(i, x)
    except IndexError:
        return x * 2


def filled(k):
    return (torch.full((4, 8), float(k)),)


SUBJECTS = {
    "plain": (plain, filled),
    "shapes": (plain, lambda k: (torch.ones(k % 3 + 1, 2),)),
    "loop": (loop, filled),
    "branches": (branches, lambda k: (torch.ones(3), k)),
    "fails": (fails, lambda k: (torch.ones(4, 2), torch.tensor([1, 99 if k % 2 else 2]))),
    "module": (BLOCK, filled),
    "function of a module": (lambda x: BLOCK(x), filled),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_first_calls_at_once(name):
    fn, arguments = SUBJECTS[name]
    wrong = []
    for _ in range(4):
        compiled = capture.compile(fn, backend="eager")
        barrier = threading.Barrier(N)

        def work(k, compiled=compiled, barrier=barrier):
            try:
                barrier.wait(60)
                for j in range(6):
                    args = arguments(k + j)
                    call = fn if (k + j) % 3 == 0 else compiled
                    if not torch.equal(call(*args), fn(*args)):
                        wrong.append((k, j))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(N)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert capture._native.stats()["inside"] == 0
