"""Runs Hugging Face models at toy size over random batch sizes and lengths: a runner, not a test.

``python -m tests.conformance.hf_sizes [--backend eager] [--sizes 50] [--dynamic]`` needs
``transformers``. Forward and backward must be eager's; the number of compilations is printed.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

import capture


def _models() -> dict[str, Callable[[], Any]]:
    t: Any = importlib.import_module("transformers")
    small: dict[str, Any] = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "vocab_size": 97,
    }  # fmt: skip
    return {
        "bert": lambda: t.BertModel(
            t.BertConfig(**small, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        ),
        "gpt2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(
                n_embd=32, n_layer=2, n_head=4, vocab_size=97, use_cache=False,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            )
        ),
        "llama": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(**small, num_key_value_heads=2, use_cache=False)
        ),
        "t5": lambda: t.T5Model(
            t.T5Config(
                d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=97,
                use_cache=False, dropout_rate=0.0,
            )
        ),
    }  # fmt: skip


def _inputs(name: str, batch: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 97, (batch, length))
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length - length // 3 :] = 0
    found = {"input_ids": ids, "attention_mask": mask}
    if name == "t5":
        found["decoder_input_ids"] = torch.randint(0, 97, (batch, length))
    return found


def _run(model: Any, call: Any, inputs: dict[str, torch.Tensor]) -> tuple[Any, list[Any]]:
    out = call(**inputs)
    result = out.logits if hasattr(out, "logits") else out.last_hidden_state
    result.square().mean().backward()
    grads = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return result.detach(), grads


def main() -> int:
    """Print a line for each model; the exit status is the number of models that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--sizes", type=int, default=50)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    failed = 0
    for name, make in _models().items():
        if options.models and name not in options.models:
            continue
        torch.manual_seed(0)
        capture.reset()
        model = make()
        counter = capture.backends.GraphCounter(options.backend)
        compiled: Any = capture.compile(
            model, backend=counter, dynamic=True if options.dynamic else None
        )
        generator = random.Random(11)
        verdict = "equal"
        for _ in range(options.sizes):
            batch, length = generator.randint(2, 16), generator.randint(4, 64)
            inputs = _inputs(name, batch, length)
            expected, actual = _run(model, model, inputs), _run(model, compiled, inputs)
            try:
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
            except AssertionError as error:
                verdict = f"differs at {batch} x {length}: {str(error).splitlines()[0]}"
                failed += 1
                break
        stats = capture.stats()
        print(f"{name:8} {verdict}; {counter.graph_count} graphs, {len(stats.breaks)} breaks")
        for record in (*stats.breaks, *stats.recompiles):
            print(f"         {record}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
