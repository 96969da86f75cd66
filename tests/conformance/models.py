"""Sweeps models of Hugging Face transformers, torchvision and timm at toy sizes, random weights.

    python -m tests.conformance.models [--ops REGEX] [--shard I/N] [--list]

Each is called in training mode with gradients and in evaluation mode without; language models also
generate 32 tokens with a key-value cache. Nothing is downloaded. The libraries are optional:
entries of those that are missing are left out, and the end says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

import capture
from capture import counters
from capture.backends import GraphCounter
from tests.conformance.database import Row, check, copied, difference, parser, sweep

Built = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]
Build = Callable[[], Built]

_SIZES = {
    "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def _language_model(name: str, **sizes: Any) -> Build:
    def build() -> Built:
        cls = getattr(importlib.import_module("transformers"), name)
        config = cls.config_class(**{**_SIZES, **sizes})
        config.use_cache = False
        tokens = torch.randint(3, 90, (2, 12))
        given = {"input_ids": tokens}
        if config.is_encoder_decoder:
            given["decoder_input_ids"] = tokens[:, :6].contiguous()
        return cls(config), (), given

    return build


def _vision_model(name: str, **sizes: Any) -> Build:
    def build() -> Built:
        cls = getattr(importlib.import_module("transformers"), name)
        config = cls.config_class(**sizes)
        return cls(config), (), {"pixel_values": torch.randn(2, 3, 32, 32)}

    return build


def _torchvision(name: str, *shape: int, **options: Any) -> Build:
    def build() -> Built:
        models = importlib.import_module("torchvision.models")
        module = models.get_model(name, weights=None, **options)
        return module, (torch.randn(*(shape or (2, 3, 64, 64))),), {}

    return build


def _timm(name: str, size: int = 64, **options: Any) -> Build:
    def build() -> Built:
        module = importlib.import_module("timm").create_model(name, pretrained=False, **options)
        return module, (torch.randn(2, 3, size, size),), {}

    return build


_SMALL = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
          "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}  # fmt: skip

MODELS: dict[str, Build] = {
    "transformers.bloom": _language_model("BloomForCausalLM", n_layer=2, n_head=4),
    "transformers.mamba": _language_model(
        "MambaForCausalLM", state_size=8, use_associative_scan=False
    ),
    "transformers.gpt_neox": _language_model("GPTNeoXForCausalLM"),
    "transformers.gptj": _language_model(
        "GPTJForCausalLM", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64
    ),
    "transformers.gemma2": _language_model("Gemma2ForCausalLM", head_dim=8),
    "transformers.phi3": _language_model("Phi3ForCausalLM"),
    "transformers.falcon": _language_model("FalconForCausalLM"),
    "transformers.albert": _language_model("AlbertForMaskedLM", embedding_size=16),
    "transformers.deberta_v2": _language_model("DebertaV2ForMaskedLM"),
    "transformers.pegasus": _language_model("PegasusForConditionalGeneration", **_SMALL),
    "transformers.deit": _vision_model(
        "DeiTForImageClassification",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
    ),
    "transformers.convnext": _vision_model(
        "ConvNextForImageClassification", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]
    ),
    "transformers.gpt_neo": _language_model(
        "GPTNeoForCausalLM",
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    ),
    "transformers.codegen": _language_model(
        "CodeGenForCausalLM", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64, n_ctx=64
    ),
    "transformers.mistral": _language_model("MistralForCausalLM"),
    "transformers.gemma3": _language_model("Gemma3ForCausalLM", head_dim=8),
    "transformers.qwen2_moe": _language_model(
        "Qwen2MoeForCausalLM",
        num_experts=4,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        num_experts_per_tok=2,
    ),
    "transformers.olmo": _language_model("OlmoForCausalLM"),
    "transformers.stablelm": _language_model("StableLmForCausalLM"),
    "transformers.starcoder2": _language_model("Starcoder2ForCausalLM"),
    "transformers.phi": _language_model("PhiForCausalLM"),
    "transformers.cohere": _language_model("CohereForCausalLM"),
    "transformers.granite": _language_model("GraniteForCausalLM"),
    "transformers.persimmon": _language_model("PersimmonForCausalLM"),
    "transformers.mpt": _language_model(
        "MptForCausalLM", d_model=32, n_heads=4, n_layers=2, max_seq_len=64
    ),
    "transformers.deberta": _language_model("DebertaForMaskedLM"),
    "transformers.mpnet": _language_model("MPNetForMaskedLM"),
    "transformers.modernbert": _language_model(
        "ModernBertForMaskedLM", cls_token_id=1, sep_token_id=2, local_attention=4
    ),
    "transformers.rwkv": _language_model(
        "RwkvForCausalLM", attention_hidden_size=32, context_length=64
    ),
    "transformers.recurrent_gemma": _language_model(
        "RecurrentGemmaForCausalLM", head_dim=8, lru_width=32, attention_window_size=8
    ),
    "transformers.mbart": _language_model("MBartForConditionalGeneration", **_SMALL),
    "transformers.m2m_100": _language_model("M2M100ForConditionalGeneration", **_SMALL),
    "transformers.beit": _vision_model(
        "BeitForImageClassification",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
    ),
    "transformers.swin": _vision_model(
        "SwinForImageClassification",
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 2],
        window_size=4,
    ),
    "torchvision.alexnet": _torchvision("alexnet"),
    "torchvision.resnext50": _torchvision("resnext50_32x4d", 2, 3, 32, 32),
    "torchvision.mnasnet0_5": _torchvision("mnasnet0_5"),
    "torchvision.mobilenet_v2": _torchvision("mobilenet_v2"),
    "torchvision.regnet_y_400mf": _torchvision("regnet_y_400mf"),
    "torchvision.shufflenet_v2": _torchvision("shufflenet_v2_x0_5"),
    "torchvision.swin_t": _torchvision("swin_t"),
    "torchvision.inception_v3": _torchvision("inception_v3", 2, 3, 96, 96, init_weights=False),
    "torchvision.deeplabv3": _torchvision(
        "deeplabv3_mobilenet_v3_large", 2, 3, 64, 64, weights_backbone=None
    ),
    "torchvision.mc3_18": _torchvision("mc3_18", 1, 3, 4, 32, 32),
    "torchvision.vit_b_16": _torchvision("vit_b_16", 1, 3, 32, 32, image_size=32),
    "torchvision.squeezenet1_0": _torchvision("squeezenet1_0"),
    "torchvision.mobilenet_v3_large": _torchvision("mobilenet_v3_large"),
    "torchvision.regnet_x_400mf": _torchvision("regnet_x_400mf"),
    "torchvision.lraspp": _torchvision(
        "lraspp_mobilenet_v3_large", 2, 3, 64, 64, weights_backbone=None
    ),
    "torchvision.swin_v2_t": _torchvision("swin_v2_t"),
    "torchvision.r2plus1d_18": _torchvision("r2plus1d_18", 1, 3, 4, 32, 32),
    "timm.edgenext": _timm("edgenext_xx_small"),
    "timm.mobilevit": _timm("mobilevit_xxs"),
    "timm.mobilevitv2": _timm("mobilevitv2_050"),
    "timm.rexnet": _timm("rexnet_100"),
    "timm.tinynet": _timm("tinynet_e"),
    "timm.dla46": _timm("dla46_c"),
    "timm.lcnet": _timm("lcnet_050"),
    "timm.semnasnet": _timm("semnasnet_075"),
    "timm.repghostnet": _timm("repghostnet_050"),
    "timm.convnextv2": _timm("convnextv2_atto"),
    "timm.crossvit": _timm("crossvit_tiny_240", 240),
    "timm.pit_ti": _timm("pit_ti_224", 224),
    "timm.resmlp_12": _timm("resmlp_12_224", 224),
}

GENERATE: dict[str, Build] = {
    "transformers.gpt2": _language_model(
        "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=64
    ),
    "transformers.llama": _language_model("LlamaForCausalLM"),
    "transformers.qwen2": _language_model("Qwen2ForCausalLM"),
}

MOST_GRAPHS = {"forward": 4, "model": 4, "static": 20}
"""Graphs that 32 steps may take: a static cache's own code has a few breaks in each layer."""


def training(module: Any, args: Any, kwargs: Any) -> Any:
    """One call with gradients."""
    return module(*args, **kwargs)


def evaluation(module: Any, args: Any, kwargs: Any) -> Any:
    """One call without gradients."""
    with torch.no_grad():
        return module(*args, **kwargs)


def generates(row: Row, build: Build) -> Row:
    """Generate 32 tokens with a cache: the same tokens as in eager, and few graphs.

    The row's case says what is compiled: the ``model``, or its ``forward``, with a cache that grows
    or (``static``) has its size from the start.
    """
    torch.manual_seed(3)
    built, _, given = build()
    module: Any = built
    module.eval()
    module.config.use_cache = True
    options: dict[str, Any] = {
        "max_new_tokens": 32, "min_new_tokens": 32, "do_sample": False, "use_cache": True,
    }  # fmt: skip
    if row.case == "static":
        options["cache_implementation"] = "static"
    expected = copied(module).generate(given["input_ids"], **options)
    capture.reset()
    counter = GraphCounter()
    if row.case == "model":
        module = capture.compile(module, backend=counter)
    else:
        module.forward = capture.compile(module.forward, backend=counter)
    for _ in range(2):
        actual = module.generate(given["input_ids"], **options)
        row.detail = difference(expected, actual)
        if row.detail:
            row.verdict = "differs"
            return row
    row.graphs = counter.graph_count
    row.breaks = sorted(
        {f"{b.reason_id} {b.detail or b.title}" for b in counters.snapshot().breaks}
    )
    row.whole = row.graphs <= MOST_GRAPHS[row.case] and (not row.breaks or row.case == "static")
    return row


def cases(build: Build, count: int) -> Iterator[Row]:
    """A model in its two modes."""
    for mode, program in (("train", training), ("eval", evaluation)):
        torch.manual_seed(3)
        module, args, kwargs = build()
        module.train(mode == "train")
        yield check(Row("", mode), program, (module, args, kwargs))


def generation_cases(build: Build, count: int) -> Iterator[Row]:
    """A model that generates."""
    for case in MOST_GRAPHS:
        yield generates(Row("", case), build)


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def entries() -> list[tuple[str, Any]]:
    """Name and entry of all models whose library is installed."""
    found: list[tuple[str, Any]] = [
        (name, lambda count, build=build: cases(build, count)) for name, build in MODELS.items()
    ]
    found += [
        (f"{name}.generate", lambda count, build=build: generation_cases(build, count))
        for name, build in GENERATE.items()
    ]
    return [entry for entry in found if _installed(entry[0])]


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    options = parser(__doc__).parse_args(arguments)
    missing = [n for n in ("transformers", "torchvision", "timm") if not _installed(n)]
    for name in missing:
        print(f"{name} is not installed: its models are left out (pip install {name}).")
    if len(missing) == 3:
        return 2
    return sweep("Models", entries(), lambda entry, count: entry(count), options)


if __name__ == "__main__":
    sys.exit(main())
