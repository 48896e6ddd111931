"""Models of published shapes with random weights, made on the spot: there is nothing to download."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.gpu.results import Asked
from trace_assets.training.presets import SHAPES, Shape

ENDS_EVERY = 64
"""One token of so many ends a reply: random weights have no other end."""
LOGIT_SPREAD = 1.5
"""Standard deviation of the logits, of which a trained model has several."""
_TEMPLATE = (
    "{%- for m in messages -%}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}\n{{ m.content or '' }}"
    "<|im_end|>{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}"
)
TOYS = {
    "agent-0.4m": Shape(3, 96, 4, 2, 24, 256, 320),
    "agent-40m": Shape(2, 64, 4, 2, 16, 96, 320),
    "qwen3-0.6b": Shape(2, 64, 4, 2, 32, 96, 640),
    "qwen3-4b": Shape(3, 64, 8, 2, 32, 128, 640),
    "qwen3-30b-a3b": Shape(2, 32, 4, 1, 16, 16, 640, experts=8, active=2, tied=False),
    "mixture": Shape(2, 32, 4, 1, 32, 16, 640, experts=8, active=2, tied=False),
}
"""For the rehearsal."""
REAL = {
    "agent-0.4m": Shape(3, 96, 4, 2, 24, 256, 320),
    "agent-40m": Shape(6, 768, 12, 6, 64, 2048, 320),
    "mixture": replace(SHAPES["qwen3-30b-a3b"], layers=4),
    **SHAPES,
}


def shape_of(asked: Asked, name: str) -> Shape:
    """Return a shape, for the rehearsal a toy of the same kind."""
    return (TOYS if asked.rehearse else REAL)[name]


def config_of(shape: Shape) -> Any:
    """Return the configuration that has a shape."""
    from transformers import Qwen3Config, Qwen3MoeConfig

    common: dict[str, Any] = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": 32768,
        "initializer_range": LOGIT_SPREAD / shape.hidden**0.5,
        "bos_token_id": None,
    }
    if not shape.experts:
        return Qwen3Config(intermediate_size=shape.inner, **common)
    return Qwen3MoeConfig(
        moe_intermediate_size=shape.inner,
        intermediate_size=4 * shape.inner,
        num_experts=shape.experts,
        num_experts_per_tok=shape.active,
        mlp_only_layers=[],
        **common,
    )


def make_model(shape: Shape, device: str, dtype: Any, seed: int = 0) -> Any:
    """Return a model with random weights, drawn where it shall be: on a CPU billions take minutes."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config_of(shape), dtype=dtype)
    model.generation_config.eos_token_id = list(range(0, shape.vocabulary, ENDS_EVERY))
    model.generation_config.do_sample = True
    return model.eval()


def model_folder(asked: Asked, name: str) -> Path:
    """Write a model's folder, in bf16 (the smallest in fp32), unless an earlier part has."""
    import torch

    folder = asked.scratch / f"{name}{'-toy' if asked.rehearse else ''}"
    if (folder / "tokenizer.json").is_file():
        return folder
    began = time.perf_counter()
    shutil.rmtree(folder, ignore_errors=True)
    dtype = torch.float32 if name == "agent-0.4m" else torch.bfloat16
    make_model(shape_of(asked, name), asked.device, dtype).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    seconds = time.perf_counter() - began
    parameters = shape_of(asked, name).parameters
    asked.row(f"{name} made and written", seconds, "s", f"{parameters / 1e6:,.1f} million weights, random")
    return folder


def tokenizer() -> Any:
    """Return a tokenizer of bytes with a chat template: a text has as many tokens as letters."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = {piece: number for number, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    marks = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    core.add_special_tokens([AddedToken(mark, special=True) for mark in marks])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = _TEMPLATE
    return made


def random_adapter(model_dir: Path, folder: Path, device: str, rank: int = 16, scale: float = 0.02) -> Path:
    """Write a LoRA on every linear layer whose factors are random, so that it changes what is said."""
    import torch

    from trace_assets.policies.lora import load_model
    from trace_assets.settings import Training
    from trace_assets.training.checkpoints import write_adapter

    if (folder / "adapter_config.json").is_file():
        return folder
    model = adapted(
        load_model(model_dir, "bfloat16", device), Training(lora_rank=rank, lora_alpha=rank), scale
    )
    write_adapter(model, folder, "base")
    del model
    if device == "cuda":
        torch.cuda.empty_cache()
    return folder


def adapted(model: Any, section: Any, scale: float) -> Any:
    """Return a model with the product's LoRA around it, its second factor random and not 0."""
    import warnings

    import torch
    from peft import get_peft_model

    from trace_assets.training.checkpoints import lora_config

    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = get_peft_model(model, lora_config(section))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, value in made.named_parameters():
            if ".lora_B." in name:
                value.normal_(0, scale)
    return made
