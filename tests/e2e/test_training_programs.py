"""Training programs as people write them: ten steps of each are those of eager, bit for bit."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

import capture
from capture.backends import GraphCounter
from tests.comparison import difference

STEPS = 10


@pytest.fixture(autouse=True)
def _strict():
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield
    capture.reset()


class Block(nn.Module):
    """A residual block with BatchNorm."""

    def __init__(self, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = (
            nn.Sequential(nn.Conv2d(channels, channels, 1, stride, bias=False),
                          nn.BatchNorm2d(channels))
            if stride != 1 else None
        )  # fmt: skip

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)) + identity)


def resnet(decorate):
    """SGD with momentum, label smoothing, a cosine schedule."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1), Block(8), Block(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    @decorate
    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        logits = model(images)
        loss = criterion(logits, labels)
        loss.backward()
        optimizer.step()
        return loss.detach(), (logits.argmax(1) == labels).float().mean()

    seen = []
    for _ in range(STEPS):
        seen.append(step(torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))))
        schedule.step()
    return seen, model.state_dict()


class ViT(nn.Module):
    """A small vision transformer."""

    def __init__(self, dim=16, heads=2, depth=2, classes=5):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, 5, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


def vit(decorate):
    """AdamW, mixup with a Beta distribution, an exponential moving average of the weights."""
    model = ViT()
    averaged = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    beta = torch.distributions.Beta(0.4, 0.4)

    @torch.no_grad()
    def update(decay=0.9):
        for mean, value in zip(averaged.parameters(), model.parameters(), strict=True):
            mean.lerp_(value, 1 - decay)

    @decorate
    def step(images, labels, share):
        order = torch.randperm(images.shape[0])
        mixed = share * images + (1 - share) * images[order]
        targets = F.one_hot(labels, 5).float()
        targets = share * targets + (1 - share) * targets[order]
        loss = F.cross_entropy(model(mixed), targets)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        update()
        return loss.detach(), norm

    seen = [
        step(torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,)), beta.sample().item())
        for _ in range(STEPS)
    ]
    return seen, model.state_dict(), averaged.state_dict()


class GPT(nn.Module):
    """A small causal language model whose blocks may be checkpointed."""

    class Layer(nn.Module):
        """Attention and a feed-forward part, each with its norm."""

        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            batch, length, dim = x.shape
            q, k, v = (
                t.view(batch, length, self.heads, -1).transpose(1, 2)
                for t in self.qkv(self.norm1(x)).split(dim, 2)
            )
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, dim))
            return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))

    def __init__(self, vocabulary=17, dim=16, heads=2, depth=3):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(8, dim)
        self.layers = nn.ModuleList(GPT.Layer(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.training else layer(x)
        return self.head(self.norm(x))


def gpt(decorate):
    """Gradient accumulation over two micro-batches, checkpointing, parameter groups, warm-up."""
    model = GPT()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.95),
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 4))

    @decorate
    def accumulate(tokens):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / 2
        loss.backward()
        return loss.detach()

    @decorate
    def update():
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return norm

    seen = []
    for _ in range(STEPS):
        total = sum(accumulate(torch.randint(0, 17, (2, 9))) for _ in range(2))
        seen.append((total, update()))
        schedule.step()
    return seen, model.state_dict()


class Tagger(nn.Module):
    """A bidirectional LSTM over packed sequences."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(12, 4)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.embedding(words), lengths, batch_first=True, enforce_sorted=False
        )
        output, _ = self.lstm(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=words.shape[1])
        return self.head(output)


def tagger(decorate):
    """Sentences of different lengths, padding left out of the loss."""
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @decorate
    def step(words, lengths, tags):
        scores = model(words, lengths)
        loss = F.cross_entropy(scores.transpose(1, 2), tags, ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    seen = []
    for _ in range(STEPS):
        lengths = torch.randint(2, 7, (3,))
        words, tags = torch.randint(1, 20, (3, 7)), torch.randint(0, 4, (3, 7))
        padding = torch.arange(7) >= lengths[:, None]
        words[padding], tags[padding] = 0, -100
        seen.append(step(words, lengths, tags))
    return seen, model.state_dict()


def gan(decorate):
    """Two networks and two optimizers that take turns."""
    generator = nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 6), nn.Tanh()
    )
    discriminator = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 16)), nn.LeakyReLU(0.2),
        nn.Dropout(0.3), nn.Linear(16, 1),
    )  # fmt: skip
    generating = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    telling = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()

    @decorate
    def step(real):
        ones, zeros = torch.ones(real.shape[0], 1), torch.zeros(real.shape[0], 1)
        fake = generator(torch.randn(real.shape[0], 4))

        telling.zero_grad()
        told = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
        told.backward()
        telling.step()

        generating.zero_grad()
        fooled = criterion(discriminator(fake), ones)
        fooled.backward()
        generating.step()
        return told.detach(), fooled.detach()

    seen = [step(torch.randn(5, 6)) for _ in range(STEPS)]
    return seen, generator.state_dict(), discriminator.state_dict()


PROGRAMS = {"resnet": resnet, "vit": vit, "gpt": gpt, "tagger": tagger, "gan": gan}


GRAPHS = {"resnet": 2, "vit": 2, "gpt": 4, "tagger": 2, "gan": 2}
"""The most that there may be: state is made in the first step, so the second compiles once more."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_ten_steps_are_those_of_eager(name):
    program = PROGRAMS[name]
    results = []
    counter = GraphCounter()
    for decorate in (lambda fn: fn, lambda fn: capture.compile(fn, backend=counter)):
        torch.manual_seed(5)
        results.append((program(decorate), torch.rand(3)))
    found = difference(results[0], results[1])
    assert found is None, found
    assert counter.graph_count <= GRAPHS[name]
