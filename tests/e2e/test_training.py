"""Small training loops: every loss, weight and gradient bitwise equal to eager's."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import capture
from capture import counters


@pytest.fixture(autouse=True)
def _strict():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    capture.reset()
    with capture.config.patch(suppress_errors=False):
        yield
    torch.set_num_threads(threads)


def data(n=32, width=6, classes=3):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, width, generator=generator), torch.randint(
        0, classes, (n,), generator=generator
    )


def mlp(dropout=0.0, norm=False):
    torch.manual_seed(1)
    layers = [nn.Linear(6, 16)]
    if norm:
        layers.append(nn.BatchNorm1d(16))
    return nn.Sequential(*layers, nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3))


def same_training(make, train, *args, **settings):
    """Run ``train(model, ...)`` eagerly and compiled; all it returns and the model must agree."""
    results = []
    for compile in (lambda fn: fn, lambda fn: capture.compile(fn, backend="eager", **settings)):
        model = make()
        torch.manual_seed(5)
        out = compile(train)(model, *args)
        results.append((out, {k: v.clone() for k, v in model.state_dict().items()}, torch.rand(1)))
    (a, state, rng), (b, other, rng2) = results
    assert a == b
    assert list(state) == list(other)
    for name in state:
        assert torch.equal(state[name], other[name]), name
    assert torch.equal(rng, rng2), "the random stream stands elsewhere"


def sgd_loop(model, x, y, steps=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_whole_loop_with_sgd():
    same_training(mlp, sgd_loop, *data())


def test_whole_loop_with_dropout():
    same_training(lambda: mlp(dropout=0.5), sgd_loop, *data())


def test_whole_loop_with_batch_norm():
    same_training(lambda: mlp(norm=True, dropout=0.2), sgd_loop, *data())


def test_compiled_model_in_an_eager_loop():
    x, y = data()
    results = []
    for wrap in (lambda m: m, capture.compile(backend="eager")):
        model = wrap(mlp(norm=True, dropout=0.3))
        torch.manual_seed(5)
        results.append((sgd_loop(model, x, y), model.state_dict()))
    assert results[0][0] == results[1][0]
    assert all(torch.equal(results[0][1][k], results[1][1][k]) for k in results[0][1])


def test_adamw_with_schedule_and_clipping():
    def train(model, x, y):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
        losses, norms = [], []
        for _ in range(5):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append((loss.item(), scheduler.get_last_lr()))
        return losses, norms

    same_training(lambda: mlp(dropout=0.1), train, *data())


def test_loader_drop_last_and_shuffle():
    x, y = data(30)

    def train(model):
        loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, drop_last=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for epoch in range(2):
            for step, (a, b) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(a), b)
                loss.backward()
                optimizer.step()
                losses.append((epoch, step, loss.item()))
        return losses

    same_training(mlp, train)


def test_last_batch_is_smaller():
    x, y = data(20)

    def train(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        total = 0.0
        for a, b in DataLoader(TensorDataset(x, y), batch_size=8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(a), b, reduction="sum")
            loss.backward()
            optimizer.step()
            total += loss.item() / len(x)
        return total

    same_training(mlp, train)


def test_autocast():
    def train(model, x, y):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = model(x)
                loss = F.cross_entropy(out, y)
            losses.append((str(out.dtype), str(loss.dtype)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    same_training(mlp, train, *data())


def test_forward_and_backward_hooks():
    def train(model, x, y):
        log = []
        handles = [
            model[0].register_forward_hook(
                lambda m, a, out: log.append(tuple(out.shape)) or out * 1.5
            ),
            model[0].register_forward_pre_hook(lambda m, a: (a[0] + 1,)),
            model[0].weight.register_hook(lambda g: g * 2),
            model[-1].register_full_backward_hook(lambda m, gi, go: log.append(len(go))),
        ]
        losses = sgd_loop(model, x, y, 3)
        for handle in handles:
            handle.remove()
        return losses, log

    same_training(mlp, train, *data())


def test_gradient_accumulation():
    def train(model, x, y):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(6):
            loss = F.cross_entropy(model(x[step::6]), y[step::6]) / 2
            loss.backward()
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    same_training(mlp, train, *data())


def test_freezing_and_unfreezing():
    def train(model, x, y):
        losses = []
        for frozen in (True, False, True):
            for p in model[0].parameters():
                p.requires_grad_(not frozen)
            losses += sgd_loop(model, x, y, 2)
        return losses

    same_training(mlp, train, *data())


def test_train_eval_and_validation():
    def train(model, x, y):
        history = []
        for _ in range(2):
            model.train()
            history += sgd_loop(model, x, y, 2)
            model.eval()
            with torch.no_grad():
                accuracy = (model(x).argmax(1) == y).float().mean().item()
            history.append((accuracy, model.training))
        return history

    same_training(lambda: mlp(dropout=0.5, norm=True), train, *data())


def test_early_stopping_and_best_state():
    def train(model, x, y):
        best, patience, kept = float("inf"), 0, None
        optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
        for _step in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if loss.item() < best:
                best, patience, kept = (
                    loss.item(),
                    0,
                    {k: v.clone() for k, v in model.state_dict().items()},
                )
            else:
                patience += 1
                if patience == 3:
                    break
        model.load_state_dict(kept)
        return best, _step

    same_training(mlp, train, *data())


def test_recurrent_network():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.cell, self.out = nn.GRUCell(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = x.new_zeros(x.shape[0], 8)
            states = []
            for t in range(4):
                h = self.cell(x * (t + 1), h)
                states.append(h)
            return self.out(torch.stack(states).mean(0))

    same_training(Recurrent, sgd_loop, *data())


def test_transformer_layer_with_mask():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.layer = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.1, batch_first=True)
            self.out = nn.Linear(6, 3)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(4)
            h = self.layer(x.reshape(-1, 4, 6), src_mask=mask, is_causal=True)
            return self.out(h).reshape(-1, 3)

    same_training(Attention, sgd_loop, *data())


def test_convolutions_and_embeddings():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.emb, self.conv, self.norm, self.out = (
                nn.Embedding(10, 6),
                nn.Conv1d(6, 5, 3, padding=1),
                nn.LayerNorm(5),
                nn.Linear(5, 3),
            )

        def forward(self, x):
            ids = (x.abs() * 3).long().clamp(max=9)
            h = F.gelu(self.conv(self.emb(ids).transpose(1, 2)).transpose(1, 2))
            return self.out(self.norm(h).amax(1))

    same_training(Mixed, sgd_loop, *data())


def test_weights_shared_between_layers():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(6)
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
            self.b.weight = self.a.weight
            self.out = nn.Linear(6, 3)

        def forward(self, x):
            return self.out(self.b(self.a(x).relu()))

    same_training(Tied, sgd_loop, *data())


def test_custom_autograd_function():
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.save_for_backward(x)
            ctx.limit = limit
            return x.clamp(-limit, limit)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= ctx.limit) * 0.5, None

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(7)
            self.lin = nn.Linear(6, 3)

        def forward(self, x):
            return Clip.apply(self.lin(x), 0.7)

    same_training(Net, sgd_loop, *data())


def test_gradient_penalty_with_autograd_grad():
    def train(model, x, y):
        losses = []
        for _ in range(2):
            inputs = x.clone().requires_grad_()
            loss = F.cross_entropy(model(inputs), y)
            (g,) = torch.autograd.grad(loss, inputs, create_graph=True)
            total = loss + (g**2).sum()
            total.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
            losses.append(total.item())
        return losses

    same_training(mlp, train, *data())


def test_exponential_moving_average_of_weights():
    def train(model, x, y):
        shadow = copy.deepcopy(model)
        losses = []
        for _ in range(3):
            losses += sgd_loop(model, x, y, 1)
            with torch.no_grad():
                for s, p in zip(shadow.parameters(), model.parameters(), strict=True):
                    s.mul_(0.9).add_(p, alpha=0.1)
        return losses, [s.sum().item() for s in shadow.parameters()]

    same_training(mlp, train, *data())


def test_steps_compile_nothing_new_after_the_third():
    model, (x, y) = mlp(dropout=0.1), data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @capture.compile(backend="eager")
    def step(x, y, lr):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    graphs = []
    for i in range(8):
        step(x, y, 0.01 * 0.9**i)
        graphs.append(counters.snapshot().graphs)
    assert graphs[-1] == graphs[3], graphs


def test_logging_and_metrics_in_the_loop(capsys):
    def train(model, x, y):
        meters = {"loss": 0.0, "seen": 0}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            meters["loss"] += loss.item() * len(x)
            meters["seen"] += len(x)
            if step % 2 == 0:
                print(f"step {step}: {meters['loss'] / meters['seen']:.4f}")
        return meters

    same_training(mlp, train, *data())
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == lines[2:]
    assert len(lines) == 4
