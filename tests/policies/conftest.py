from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEMPLATES = Path(__file__).parent / "templates"
MakeFolder = Callable[..., Path]


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> MakeFolder:
    """Write a model folder with random weights whose replies end after a few tokens."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")

    def make(architecture: str = "qwen3", template: str = "local", seed: int = 0, **changes: Any) -> Path:
        import torch
        import transformers
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

        core = Tokenizer(
            models.BPE(
                vocab={piece: n for n, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))},
                merges=[],
            )
        )
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        core.decoder = decoders.ByteLevel()
        core.add_special_tokens(
            [AddedToken(mark, special=True) for mark in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
        )
        core.add_tokens([AddedToken(mark, special=False) for mark in ("<tool_call>", "</tool_call>")])
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>"
        )
        tokenizer.chat_template = (TEMPLATES / f"{template}.jinja").read_text("utf-8")
        folder = tmp_path_factory.mktemp(architecture) / "model"
        settings: dict[str, Any] = {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "max_position_embeddings": 1024,
            "initializer_range": 0.3,  # far from uniform: a wrong cache would show
            "eos_token_id": tokenizer.eos_token_id,
        } | changes
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(architecture, **settings)
        model = transformers.AutoModelForCausalLM.from_config(config)
        for name, value in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                torch.nn.init.normal_(value, mean=1.0 if "norm" in name else 0.0, std=0.3)
        # Many tokens end a turn, so that replies are short and uneven without training.
        model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(0, 256, 9)]
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def qwen3_folder(make_folder: MakeFolder) -> Path:
    return make_folder()


@pytest.fixture(scope="session")
def make_adapter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, int], Path]:
    """Write a LoRA adapter with random weights for a model folder."""
    pytest.importorskip("peft")

    def make(folder: Path, seed: int) -> Path:
        import torch
        import transformers
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        adapted = get_peft_model(
            model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
        )
        path = tmp_path_factory.mktemp("adapter") / f"lora{seed}"
        adapted.save_pretrained(path)
        return path

    return make
