"""The comparison through the router (`TRACE_TAU2_HOME`), and on a real vLLM (`TRACE_VLLM` besides)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from tests.targets.tau2.table import Table, judge_by
from trace_assets.serving.router.app import RouterProxy
from trace_assets.serving.router.decisions import Decisions
from trace_assets.serving.router.upstream import Upstream
from trace_assets.serving.server import ModelServer
from trace_assets.system.machine import free_port
from trace_assets.system.vllm import Launch
from trace_assets.targets.tau2.official import read_results

HOME, VLLM = os.environ.get("TRACE_TAU2_HOME", ""), os.environ.get("TRACE_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HOME, reason="tau2-bench is not installed: TRACE_TAU2_HOME names no home"),
    pytest.mark.parametrize("table", ["airline"], indirect=True),
]


class ByNumber:
    """Decides by the last digit of the user's first words."""

    name, version, choices = "by_number", "v1", ("even", "odd")

    async def decide(self, text: str, headers: Mapping[str, str]) -> dict[str, float]:
        odd = int(text.rstrip(".")[-1]) % 2
        return {"even": 0.9 - 0.8 * odd, "odd": 0.1 + 0.8 * odd}


@contextmanager
def routed(url: str, record: Path) -> Iterator[str]:
    """Run a router in front of a server; yield its address."""
    decisions = Decisions(ByNumber(), {"even": "even@00000000", "odd": "odd@11111111"}, record)
    app = RouterProxy(Upstream(url), decisions).app()
    served = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    while not served.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{served.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        served.should_exit = True
        thread.join(10)


def test_through_the_router_every_conversation_keeps_its_adapter_on_both_sides(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table.server(("right", "null"), 6) as server, routed(server.v1, tmp_path / "decisions") as router:
        judge_by(server, monkeypatch)
        report, _ = table.compare(
            router, 6, "rollouts.model=routed", "rollouts.check_model=false", user_url=server.v1
        )
    assert (report.n, report.equal, report.same_conversations) == (6, 6, 6)
    played: dict[str, set[str]] = {}
    for one in server.asked:
        if one.who == "agent":
            played.setdefault(one.task, set()).add(one.body["model"])
    assert all(len(models) == 1 for models in played.values())
    assert set().union(*played.values()) == {"even@00000000", "odd@11111111"}


TEMPLATE = (
    "{%- if tools -%}{{- '<|im_start|>tools' + (tools | tojson) + '<|im_end|>' -}}{%- endif -%}"
    "{%- for m in messages -%}"
    "{{- '<|im_start|>' + m.role + (m.content or '') + '<|im_end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant' -}}{%- endif -%}"
)


def long_model(folder: Path) -> Path:
    """Make a random model that reads bytes and has room for tau2's rules and tools; its replies are short."""
    import torch
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|im_start|>", "<|im_end|>")])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=49152,
        initializer_range=0.3,  # far from uniform: what was read decides what is said
        eos_token_id=tokenizer.eos_token_id,
    )
    model = transformers.Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(0, 256, 30)]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.train
@pytest.mark.skipif(not VLLM, reason="TRACE_VLLM names no vLLM program; see docs/serving.md")
def test_a_real_vllm_says_the_same_to_both(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Launch(
        str(long_model(tmp_path / "model")),
        "agent",
        port=free_port(),
        dtype="float32",
        max_model_len=49152,
        extra=("--enforce-eager", "--generation-config", "auto"),
    )
    table.options["max_steps"] = 40
    with (
        table.server(("null",), 3) as user,
        ModelServer(launch, tmp_path / "log", command=[VLLM, "serve"]),
    ):
        judge_by(user, monkeypatch)
        user.patience = 2
        report, folder = table.compare(
            launch.base_url, 3, "rollouts.temperature=1", "rollouts.max_new_tokens=400", user_url=user.v1
        )
    results = read_results(folder / "official" / "results.json").values()
    said = [message.content for one in results for message in one.messages if message.role == "assistant"]
    assert len(set(said)) > len(results)  # what it says follows from what it reads
    # A reply may be empty by chance, on which tau2 gives up; all that both judged is the same, sampled
    # though it is: the same prompts and seeds.
    assert report.n >= 1
    assert report.equal == report.same_conversations == report.n
    assert report.temperature == 1.0
