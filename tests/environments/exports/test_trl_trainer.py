"""The exported class inside TRL's own GRPOTrainer: one step, with a model that says what a script says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.environments.exports.conftest import Action, Export, native, one_call_each, say_action
from trace_assets.sandbox import SandboxPool

pytestmark = [pytest.mark.slow, pytest.mark.train]
RECIPE = "write_against_state"


def qwen_text(action: Action) -> str:
    """Return a message as Qwen3 writes it."""
    calls = [
        f"<tool_call>\n{json.dumps({'name': one['name'], 'arguments': one['arguments']})}\n</tool_call>"
        for one in action["tool_calls"]
    ]
    return "\n".join(calls) or action["content"]


def tokenizer_and_model() -> tuple[Any, Any]:
    """Return a byte-level tokenizer with Qwen3's template, and a model of a few thousand weights."""
    import trl
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={one: i for i, one in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.add_tokens(["<tool_call>", "</tool_call>", "<think>", "</think>"])
    templates = Path(trl.__file__).parent / "chat_templates"
    tokenizer.chat_template = (templates / "qwen3.jinja").read_text(encoding="utf-8")
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=32768,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return tokenizer, Qwen3ForCausalLM(config)


def test_one_step_of_grpo_sees_the_same_observations_and_rewards(
    export: Export, pool: SandboxPool, sources: dict[str, str], tmp_path: Path, import_package: Any
) -> None:
    pytest.importorskip("trl")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    source = sources[RECIPE]
    module = import_package(export(RECIPE, "trl"), f"g_{RECIPE}")
    seeds = (0, 1)
    scripts: dict[str, list[list[Action]]] = {}
    for seed in seeds:
        with pool.environment(source).reset(seed) as session:
            request = session.messages[-1]["content"]
        best = one_call_each(pool.environment(source).oracle(seed))
        scripts[request] = [best, [best[0], say_action("I cannot do that.")]]
    tokenizer, model = tokenizer_and_model()
    turn: dict[str, int] = {}

    class Scripted(GRPOTrainer):  # type: ignore[misc]
        """Says what the script of the request says next; a group plays both scripts."""

        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            said = []
            for ids in prompt_ids:
                text = self.processing_class.decode(ids)
                request = next(one for one in scripts if one in text)
                done = len(re.findall(r"<\|im_start\|>assistant\n", text)) - 1
                if not done:
                    turn[request] = turn.get(request, -1) + 1
                which = turn[request] % 2 if not done else followed(text, request)
                action = scripts[request][which][done]
                said.append(self.processing_class.encode(qwen_text(action) + "<|im_end|>"))
            return said, None

    def followed(text: str, request: str) -> int:
        """After the first call the two scripts are told apart by the order in which they are asked."""
        pending[request] = pending.get(request, -1) + 1
        return pending[request] % 2 if pending[request] < 2 else 0

    pending: dict[str, int] = {}
    seen: list[tuple[Any, float | None]] = []

    def recorded(**columns: Any) -> list[float | None]:
        rewards = module.closing_reward(**columns)
        seen.extend(zip(columns["completions"], rewards, strict=True))
        return list(rewards)

    trainer = Scripted(
        model,
        args=GRPOConfig(
            output_dir=str(tmp_path / "out"),
            max_steps=1,
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=4096,
            report_to=[],
            use_cpu=True,
            bf16=False,
            shuffle_dataset=False,
        ),
        processing_class=tokenizer,
        reward_funcs=recorded,
        environment_factory=module.GWriteAgainstState,
        train_dataset=Dataset.from_list(module.rows(seeds)),
    )
    trainer.train()
    assert len(seen) == 4
    found = []
    for number, (completion, reward) in enumerate(seen):
        seed, which = divmod(number, 2)
        request = list(scripts)[seed]
        here = native(pool, source, seeds[seed], scripts[request][which])
        told = [m["content"] for answer in here["answers"] for m in answer["messages"] if m["role"] == "tool"]
        assert [m["content"] for m in completion if m["role"] == "tool"] == told
        assert reward is not None and float(reward).hex() == here["verdict"]["reward"].hex()
        found.append(reward)
    assert found[0] == found[2] == 1.0 and found[1] < 1.0
