"""Holds a small character-level transformer; must not know how it is trained."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["CharTransformer", "ModelConfig"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the model."""

    vocabulary: int
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 3
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    """Multi-head attention in which a position sees itself and what came before."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width, bias=False)
        self.project = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Mix positions. x: (batch, length, width) float."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.query_key_value(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(
            query, key, value, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        merged = mixed.transpose(1, 2).reshape(batch, length, width)
        return F.dropout(self.project(merged), self.dropout, self.training)


class Block(nn.Module):
    """Attention and an MLP, each behind a norm and beside a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x: (batch, length, width) float, with both branches added."""
        x = x + self.attention(self.attention_norm(x))
        x = x + self.mlp(self.mlp_norm(x))
        return x


class CharTransformer(nn.Module):
    """Predicts the next character at every position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.characters = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(_initialise)

    def forward(self, characters: Tensor) -> Tensor:
        """Return logits (batch, length, vocabulary). characters: (batch, length) int64."""
        _, length = characters.shape
        if length > self.config.context:
            raise ValueError(f"{length} characters, but the context is {self.config.context}")
        positions = torch.arange(length, device=characters.device)
        x = self.dropout(self.characters(characters) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
