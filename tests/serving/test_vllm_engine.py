"""The tiny model on vLLM's engine in this process (`make test-serve` makes an interpreter that has it)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here; see docs/serving.md"),
]
pytest.importorskip("peft")
psutil = pytest.importorskip("psutil")

from tests.serving.test_server import eventually, gone  # noqa: E402
from tests.serving.test_vllm import CANCEL, MULTI, launch_in  # noqa: E402
from trace_assets.errors import InputError, Unavailable  # noqa: E402
from trace_assets.policies.protocol import Conversation, Policy  # noqa: E402
from trace_assets.policies.token_policy import Sampled  # noqa: E402
from trace_assets.policies.transformers_engine import TransformersPolicy  # noqa: E402
from trace_assets.policies.vllm_engine import VllmPolicy  # noqa: E402
from trace_assets.records import Message, Trajectory  # noqa: E402
from trace_assets.rollouts.episode import Rollout, Trial  # noqa: E402
from trace_assets.rollouts.runner import Journal, roll_out, run_rollouts  # noqa: E402
from trace_assets.settings import Targets  # noqa: E402
from trace_assets.system.vllm import Launch  # noqa: E402
from trace_assets.targets.embedded.target import EmbeddedTarget  # noqa: E402
from trace_assets.training.validation import Parity, adapter_parity  # noqa: E402

OPTIONS: dict[str, Any] = {"dtype": "float32", "extra": ("--enforce-eager",), "max_num_seqs": 32}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    return launch_in(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def target() -> EmbeddedTarget:
    return EmbeddedTarget(Targets())


@pytest.fixture(scope="module")
def engine(models: Launch) -> Iterator[VllmPolicy]:
    policy = VllmPolicy(models.model, adapters=models.adapters, max_new_tokens=32, lora_rank=8, **OPTIONS)
    yield policy
    asyncio.run(policy.close())


def play(target: EmbeddedTarget, policy: Policy, adapter: str | None = None, n: int = 12) -> list[Rollout]:
    trials = [
        Trial(task, seed=k, adapter=adapter) for k, task in enumerate(list(target.tasks("validation"))[:n])
    ]
    return asyncio.run(roll_out(target, trials, policy, max_turns=3))


def said(rollouts: list[Rollout]) -> list[list[int]]:
    assert not [one.trajectory.error for one in rollouts if one.trajectory.fault == "infrastructure"]
    return [one.tokens.ids for one in rollouts if one.tokens]


def compare(
    models: Launch, target: EmbeddedTarget, engine: VllmPolicy, adapter: str | None, folder: str
) -> Parity:
    tasks = list(target.tasks("validation"))[:4]
    return adapter_parity(
        target, tasks, engine, adapter, base_dir=models.model, folder=models.adapters[folder], max_turns=3
    )


def test_it_says_what_the_transformers_engine_says(
    models: Launch, target: EmbeddedTarget, engine: VllmPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "temperature", 0.0)
    ours = TransformersPolicy(models.model, adapters=models.adapters, temperature=0.0, max_new_tokens=32)
    for adapter in (None, CANCEL, MULTI):
        assert said(play(target, engine, adapter, 6)) == said(play(target, ours, adapter, 6))


def test_every_adapter_says_what_the_trained_model_says(
    models: Launch, target: EmbeddedTarget, engine: VllmPolicy
) -> None:
    assert set(engine.adapters) == {CANCEL, MULTI}
    for name in (CANCEL, MULTI):
        found = compare(models, target, engine, name, name)
        assert found.problem is None, found.problem
        assert found.max_difference < 1e-4
        assert found.effect > 0.1
        assert found.tokens > 50
    assert "other weights" in (compare(models, target, engine, MULTI, CANCEL).problem or "")
    assert "without the adapter" in (compare(models, target, engine, None, CANCEL).problem or "")


def test_seeds_repeat_and_traces_are_whole(target: EmbeddedTarget, engine: VllmPolicy) -> None:
    first, again = play(target, engine), play(target, engine)
    assert said(first) == said(again)
    assert len({tuple(ids) for ids in said(first)}) > 6
    for one in first:
        trace = one.tokens
        assert trace is not None
        assert len(trace.ids) == len(trace.mask) == len(trace.logprobs)
        assert all((value < 0) == bool(own) for value, own in zip(trace.logprobs, trace.mask, strict=True))
    assert isinstance(engine, Policy)


def test_long_prompts_beside_each_other_are_read_whole(engine: VllmPolicy) -> None:
    """More than one step's tokens wait at once; read in parts, a CPU's seeded request dies."""

    def opening(words: int) -> list[Message]:
        return [Message(role="user", content="order " * words)]

    longest = max(n for n in range(1, 200) if len(engine.template.opening(opening(n), ())) < 460)

    async def talk() -> list[int | None]:
        talks = [Conversation(f"l{k}", (), opening(longest), seed=k) for k in range(24)]
        for k, one in enumerate(talks):  # no two share a prefix
            one.messages[0] = Message(role="user", content=f"{k} {one.messages[0].content}")
        replies = await asyncio.gather(*(engine.act(one) for one in talks))
        for one in talks:
            await engine.forget(one)
        return [reply.prompt_tokens for reply in replies]

    budget = engine._host._ending.engine.vllm_config.scheduler_config.max_num_batched_tokens
    assert sum(tokens or 0 for tokens in asyncio.run(talk())) > 1.5 * budget


def test_a_cancelled_conversation_leaves_the_engine_usable(
    target: EmbeddedTarget, engine: VllmPolicy
) -> None:
    expected = said(play(target, engine, n=4))

    async def interrupted() -> None:
        talks = [
            asyncio.ensure_future(
                engine.act(Conversation(f"x{k}", (), [Message(role="user", content="x")], seed=k))
            )
            for k in range(8)
        ]
        await asyncio.sleep(0.05)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for k in range(8):
            await engine.forget(Conversation(f"x{k}", ()))

    asyncio.run(interrupted())
    eventually(lambda: engine._host._ending.engine.get_num_unfinished_requests() == 0)
    assert said(play(target, engine, n=4)) == expected


def test_what_it_does_not_have_is_named(models: Launch, target: EmbeddedTarget, engine: VllmPolicy) -> None:
    with pytest.raises(InputError, match="no adapter 'nobody'"):
        run_rollouts(target, [Trial(target.tasks("validation")[0], adapter="nobody")], engine, max_turns=2)


def test_what_cannot_be_started_is_told(models: Launch, tmp_path: Path) -> None:
    from tests.untrained import make_untrained

    with pytest.raises(InputError, match="not a PEFT adapter"):
        VllmPolicy(models.model, adapters={"a": tmp_path}, **OPTIONS)
    with pytest.raises(InputError, match=r"serving\.extra"):
        VllmPolicy(models.model, dtype="float32", extra=("--max-num-batched-tokens=many",))
    narrow = make_untrained(tmp_path / "narrow")
    with pytest.raises(Unavailable, match=r"engine died: .*head_dim=24.*the whole log: ") as told:
        VllmPolicy(narrow, **OPTIONS)
    assert Path(str(told.value).rpartition("the whole log: ")[2].partition(")")[0]).is_file()


PLAYER = """
import sys
from trace_assets.policies.vllm_engine import VllmPolicy

if __name__ == "__main__":
    policy = VllmPolicy(sys.argv[1], dtype="float32", extra=("--enforce-eager",))
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["leave", "kill"])
def test_nothing_it_started_outlives_it(models: Launch, tmp_path: Path, how: str) -> None:
    script = tmp_path / "player.py"
    script.write_text(textwrap.dedent(PLAYER))
    process = subprocess.Popen(
        [sys.executable, str(script), models.model, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        family = psutil.Process(process.pid).children(recursive=True)
        engines = [one.pid for one in family if "resource_tracker" not in " ".join(one.cmdline())]
        assert len(engines) >= 2  # the engine's core and its worker
        if how == "kill":
            process.send_signal(signal.SIGKILL)
        else:
            process.stdin.write("\n")
            process.stdin.flush()
        if how == "leave":
            assert process.wait(60) == 0
            assert not list(tmp_path.glob("trace-vllm-*"))
        eventually(lambda: all(gone(pid) for pid in engines), 15.0)
    finally:
        process.kill()
        process.wait()


def test_an_engine_killed_in_the_middle_costs_only_what_was_in_the_air(
    models: Launch, target: EmbeddedTarget, engine: VllmPolicy, tmp_path: Path
) -> None:
    trials = [Trial(task) for task in target.tasks("validation")[:24]]
    asked = 0
    killer = VllmPolicy(models.model, adapters=models.adapters, max_new_tokens=32, **OPTIONS)
    sample = killer._sample

    async def last_ones(ids: Sequence[int], **more: Any) -> Sampled:
        nonlocal asked
        asked += 1
        if asked == 20:
            for child in killer._host._ending.children:
                child.kill()
        return await sample(ids, **more)

    killer._sample = last_ones  # type: ignore[method-assign]
    try:
        played = run_rollouts(
            target,
            trials,
            killer,
            max_turns=3,
            concurrency=4,
            journal=Journal(tmp_path),
            fault_share=1.0,
        )
    finally:
        asyncio.run(killer.close())
    faults = [one for one in played if one.fault is not None]
    assert faults and len(faults) < len(played)
    assert {one.fault for one in faults} == {"infrastructure"}
    assert all("engine died" in (one.error or "") for one in faults)
    assert all(one.reward is None for one in faults)
    assert engine.version == killer.version
    again = run_rollouts(target, trials, engine, max_turns=3, journal=Journal(tmp_path))
    assert not [one for one in again if one.fault is not None]

    def kept(rows: list[Trajectory]) -> dict[str, str]:
        whole = {one.trajectory_id for one in played if one.fault is None}
        return {
            one.trajectory_id: json.dumps(one.model_dump(mode="json"))
            for one in rows
            if one.trajectory_id in whole
        }

    assert kept(again) == kept(played)


def test_a_shorter_context_among_the_arguments_is_an_overflow_and_not_a_refusal(models: Launch) -> None:
    options = OPTIONS | {"extra": ("--enforce-eager", "--max-model-len=64")}
    policy = VllmPolicy(models.model, max_new_tokens=32, **options)
    try:
        talk = Conversation("o", (), [Message(role="user", content="order " * 80)])
        assert asyncio.run(policy.act(talk)).overflow
        assert policy.max_context == 64
    finally:
        asyncio.run(policy.close())


def test_it_follows_a_model_in_training(
    models: Launch, target: EmbeddedTarget, engine: VllmPolicy, tmp_path: Path
) -> None:
    """Each of several updates acts at once: neither weights nor cached prefixes of the one before do."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    config = LoraConfig(
        r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False
    )
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(models.model), config)
    versions, loaded = {engine.version}, {len(engine.adapters)}
    tasks = list(target.tasks("validation"))[:4]

    def loras() -> set[int]:
        found: set[int] = engine._host.wait(engine._host._ending.engine.list_loras())
        return found

    for step in range(4):
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "lora_B" in name:
                    value.mul_(-1.5)
        engine.load_weights(model, "live")
        model.save_pretrained(tmp_path / f"{step}")
        found = adapter_parity(
            target, tasks, engine, "live", base_dir=models.model, folder=tmp_path / f"{step}", max_turns=3
        )
        assert found.problem is None, found.problem
        assert found.max_difference < 1e-4
        versions.add(engine.version)
        loaded.add(len(loras()))
    assert len(versions) == 5
    assert loaded == {2, 3}  # the two of the start, and one that is replaced
    before = loras()
    engine.load_weights(model, "live")  # the same again
    assert engine.version in versions
    assert loras() == before

    async def interrupted() -> None:
        conversation = Conversation(
            "c", (), [Message(role="user", content="Cancel order K00.")], adapter="live"
        )
        await engine.act(conversation)
        with pytest.raises(InputError, match="in the middle"):
            engine.load_weights(model, "live")
        await engine.forget(conversation)

    asyncio.run(interrupted())


def test_what_was_closed_says_so(engine: VllmPolicy) -> None:
    folder, children = engine._host.folder, [child.pid for child in engine._host._ending.children]
    assert children and folder.is_dir()
    asyncio.run(engine.close())
    assert all(gone(pid) for pid in children)
    assert not folder.exists()
    with pytest.raises(Unavailable, match="was closed"):
        asyncio.run(engine.act(Conversation("d", (), [Message(role="user", content="x")])))
