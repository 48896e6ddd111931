"""The tiny model on a real vLLM: `TRACE_VLLM` names its program (`make test-serve` installs it for a CPU)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

PROGRAM = os.environ.get("TRACE_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.skipif(not PROGRAM, reason="TRACE_VLLM names no vLLM program; see docs/serving.md"),
]
pytest.importorskip("peft")

import httpx  # noqa: E402

from trace_assets.policies.openai_server import OpenAIPolicy  # noqa: E402
from trace_assets.policies.protocol import Conversation  # noqa: E402
from trace_assets.records import Message  # noqa: E402
from trace_assets.rollouts.episode import Trial  # noqa: E402
from trace_assets.rollouts.runner import Journal, run_rollouts  # noqa: E402
from trace_assets.serving.server import ModelServer, models_of  # noqa: E402
from trace_assets.settings import Targets  # noqa: E402
from trace_assets.system.machine import free_port  # noqa: E402
from trace_assets.system.vllm import Launch  # noqa: E402
from trace_assets.targets.embedded.target import EmbeddedTarget  # noqa: E402
from trace_assets.training.demo_agent.model import load_tokenizer  # noqa: E402
from trace_assets.training.validation import Parity, adapter_parity  # noqa: E402

CANCEL, MULTI = "cancel@aaaaaaaa", "multi@bbbbbbbb"


@dataclass(frozen=True)
class Served:
    """A running server and what it was started with."""

    launch: Launch
    log: Path

    @property
    def base(self) -> Path:
        return Path(self.launch.model)

    def policy(self) -> OpenAIPolicy:
        return OpenAIPolicy(self.launch.base_url, "base", max_new_tokens=32, return_token_ids=True)


def launch_in(folder: Path) -> Launch:
    """Make a base model and two adapters that change it, all random."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from tests.untrained import make_untrained
    from trace_assets.training.demo_agent.model import TINY

    base = make_untrained(folder / "base", shape=replace(TINY, head_dim=32))
    adapters = {}
    for seed, name in enumerate((CANCEL, MULTI)):
        torch.manual_seed(seed)
        config = LoraConfig(
            r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False
        )
        adapters[name] = folder / name.partition("@")[0]
        get_peft_model(AutoModelForCausalLM.from_pretrained(base), config).save_pretrained(adapters[name])
    return Launch(str(base), "base", adapters, port=free_port(), dtype="float32", extra=("--enforce-eager",))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    launch = launch_in(folder)
    with ModelServer(launch, folder / "log", command=[PROGRAM, "serve"]):
        yield Served(launch, folder / "log")


@pytest.fixture(scope="module")
def target() -> EmbeddedTarget:
    return EmbeddedTarget(Targets())


def compare(served: Served, target: EmbeddedTarget, adapter: str | None, folder: str) -> Parity:
    return adapter_parity(
        target,
        list(target.tasks("validation"))[:4],
        served.policy(),
        adapter,
        base_dir=served.base,
        folder=served.launch.adapters[folder],
        max_turns=3,
    )


def test_base_and_adapters_are_served_by_name(served: Served) -> None:
    assert models_of(served.launch.base_url) == {"base", CANCEL, MULTI}


def test_every_adapter_says_what_the_trained_model_says(served: Served, target: EmbeddedTarget) -> None:
    for name in (CANCEL, MULTI):
        found = compare(served, target, name, name)
        assert found.problem is None, found.problem
        assert found.max_difference < 1e-4
        assert 0.0 <= found.kl < 1e-6
        assert found.effect > 0.1
        assert found.tokens > 50


def test_another_adapter_and_none_at_all_are_told_apart(served: Served, target: EmbeddedTarget) -> None:
    assert "other weights than this adapter's" in (compare(served, target, MULTI, CANCEL).problem or "")
    assert "the base model without the adapter" in (compare(served, target, None, CANCEL).problem or "")


def test_the_tokens_of_a_conversation_are_the_servers_own(served: Served, target: EmbeddedTarget) -> None:
    policy = served.policy()
    tasks = list(target.tasks("validation"))[:3]

    async def talk() -> list[Conversation]:
        conversations = [
            Conversation(task.task_id, target.tools, [Message(role="user", content=task.instruction)], seed=n)
            for n, task in enumerate(tasks)
        ]
        await asyncio.gather(*(policy.act(one) for one in conversations))
        await policy.close()
        return conversations

    for conversation in asyncio.run(talk()):
        trace = conversation.tokens
        assert trace is not None
        assert len(trace.ids) == len(trace.mask) == len(trace.logprobs)
        assert 0 < sum(trace.mask) <= 32
        assert all(value < 0 for value, own in zip(trace.logprobs, trace.mask, strict=True) if own)


def test_an_unknown_adapter_is_the_users_mistake(served: Served, target: EmbeddedTarget) -> None:
    from trace_assets.errors import InputError

    trial = Trial(target.tasks("validation")[0], adapter="nobody@00000000")
    with pytest.raises(InputError, match="does not know 'nobody@00000000'"):
        run_rollouts(target, [trial], served.policy(), max_turns=3)


def test_a_server_killed_in_the_middle_costs_only_what_was_in_the_air(tmp_path: Path) -> None:
    """The episodes that ended are kept, the others are faults, and a new server finishes them."""
    launch = launch_in(tmp_path)
    target = EmbeddedTarget(Targets())
    trials = [Trial(task) for task in target.tasks("validation")[:24]]
    journal = tmp_path / "journal"

    def policy() -> OpenAIPolicy:
        return OpenAIPolicy(launch.base_url, "base", max_new_tokens=32, retries=0, timeout_seconds=20.0)

    first = ModelServer(launch, tmp_path / "log", command=[PROGRAM, "serve"])
    first.start()
    try:
        asked = 0

        class Killer(OpenAIPolicy):
            async def act(self, conversation: Conversation) -> object:  # type: ignore[override]
                nonlocal asked
                asked += 1
                if asked == 20 and first.pid is not None:
                    os.killpg(first.pid, signal.SIGKILL)
                return await super().act(conversation)

        killer = Killer(launch.base_url, "base", max_new_tokens=32, retries=0, timeout_seconds=20.0)
        played = run_rollouts(
            target, trials, killer, max_turns=3, concurrency=4, journal=Journal(journal), fault_share=1.0
        )
    finally:
        first.stop()
    faults = [one for one in played if one.fault is not None]
    assert faults and len(faults) < len(played)
    assert {one.fault for one in faults} == {"infrastructure"}
    assert all(one.reward is None and one.success is None for one in faults)
    kept = {one.trajectory_id for one in played if one.fault is None}
    with ModelServer(launch, tmp_path / "log", command=[PROGRAM, "serve"]):
        again = run_rollouts(target, trials, policy(), max_turns=3, journal=Journal(journal))
    assert not [one for one in again if one.fault is not None]
    assert kept <= {one.trajectory_id for one in again}
    assert {one.trajectory_id: one.messages for one in again if one.trajectory_id in kept} == {
        one.trajectory_id: one.messages for one in played if one.trajectory_id in kept
    }


def test_one_request_at_a_time_is_slower_than_many(served: Served, target: EmbeddedTarget) -> None:
    tasks = list(target.tasks("validation"))[:24]

    def seconds(concurrency: int) -> float:
        begun = time.monotonic()
        played = run_rollouts(
            target, [Trial(task) for task in tasks], served.policy(), max_turns=2, concurrency=concurrency
        )
        assert not [one for one in played if one.fault is not None]
        return time.monotonic() - begun

    assert seconds(24) < seconds(1)


@pytest.mark.parametrize("model", ["base", CANCEL, MULTI])
def test_tool_calls_are_forced_and_parsed(served: Served, model: str) -> None:
    """Random weights repeat themselves for ever where they may: a strict schema, and no white space."""
    tokenizer = load_tokenizer(served.base)
    blanks = {str(one): -100 for one in range(len(tokenizer)) if tokenizer.decode([one]).isspace()}
    orders = ["K00", "K01"]
    schema = {
        "type": "object",
        "properties": {"order": {"type": "string", "enum": orders}},
        "required": ["order"],
        "additionalProperties": False,
    }
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Cancel order K00."}],
        "tools": [
            {"type": "function", "function": {"name": "get_order", "strict": True, "parameters": schema}}
        ],
        "tool_choice": {"type": "function", "function": {"name": "get_order"}},
        "max_tokens": 48,
        "temperature": 0,
        "logit_bias": blanks,
    }
    answer = httpx.post(f"{served.launch.base_url}/chat/completions", json=body, timeout=900).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_order"
    assert json.loads(call["function"]["arguments"])["order"] in orders
