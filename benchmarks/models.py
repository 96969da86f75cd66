"""Holds the small models that the benchmarks capture."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["GPT", "MLP", "ConvNet"]


class MLP(nn.Module):
    """`depth` linear layers of one width, each with a ReLU: two parameters a layer."""

    def __init__(self, depth: int, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to the same."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Block(nn.Module):
    """One pre-norm transformer block with causal attention."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, width) to the same."""
        batch, tokens, width = x.shape
        split = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in split)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A stack of equal blocks between an embedding and a head."""

    def __init__(self, depth: int, vocabulary: int = 100, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        """Map token numbers (batch, tokens) to logits (batch, tokens, vocabulary)."""
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ConvNet(nn.Module):
    """`depth` residual pairs of convolution and batch norm, pooled to ten classes."""

    def __init__(self, depth: int, channels: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.convs = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (batch, 3, height, width) to logits (batch, 10)."""
        x = self.stem(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + torch.relu(norm(conv(x)))
        return self.head(x.mean((2, 3)))
