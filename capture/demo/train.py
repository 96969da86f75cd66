"""Holds the training loop that the demo compiles as a whole; must not know that it is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import LambdaLR

__all__ = ["make_optimizer", "train"]

MAX_GRADIENT_NORM = 1.0


def train(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    optimizer: optim.Optimizer,
    scheduler: LambdaLR,
    on_step: Callable[[Tensor], object],
) -> list[Tensor]:
    """Train for one pass over the loader and return the loss of each step."""
    model.train()
    losses = []
    for characters, targets in loader:
        optimizer.zero_grad()
        logits = model(characters)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
        on_step(loss)
    return losses


def make_optimizer(
    model: nn.Module, *, steps: int, learning_rate: float = 3e-3, warm_up: int = 10
) -> tuple[optim.Optimizer, LambdaLR]:
    """Return AdamW, with weight decay on matrices only, and a warmed-up cosine schedule."""
    matrices = [each for each in model.parameters() if each.dim() >= 2]
    others = [each for each in model.parameters() if each.dim() < 2]
    optimizer = optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.95),
    )

    def factor(step: int) -> float:
        # Without a branch: a schedule that takes another path recompiles when it does.
        warmth = 1.0 - math.exp(-(step + 1) / warm_up)
        return warmth * (0.1 + 0.45 * (1.0 + math.cos(math.pi * step / steps)))

    return optimizer, LambdaLR(optimizer, factor)
