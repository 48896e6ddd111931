from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.quick import one_of_each  # noqa: E402
from trace_assets.errors import InputError  # noqa: E402
from trace_assets.policies.protocol import Conversation, Policy, Reply  # noqa: E402
from trace_assets.policies.transformers_engine import TransformersPolicy  # noqa: E402
from trace_assets.records import Message  # noqa: E402

MakeAdapter = Callable[[Path, int], Path]


async def converse(policy: TransformersPolicy, conversation: Conversation, turns: int) -> list[Reply]:
    """Talk for some turns; pauses and lengths differ between conversations, so that batches are ragged."""
    rng = random.Random(conversation.seed)
    conversation.messages.append(Message(role="user", content="word " * rng.randint(1, 12)))
    replies: list[Reply] = []
    for _ in range(turns):
        reply = await policy.act(conversation)
        replies.append(reply)
        conversation.messages.append(reply.message)
        if reply.overflow:
            break
        for _ in range(rng.randint(0, 6)):
            await asyncio.sleep(0)
        conversation.messages.append(
            Message(role="tool", content="r" * rng.randint(1, 30), tool_call_id="call_0", tool_name="look")
        )
    await policy.forget(conversation)
    return replies


def talk(
    policy: TransformersPolicy,
    n: int,
    turns: int = 4,
    adapters: tuple[str | None, ...] = (None,),
    first: int = 0,
) -> list[Conversation]:
    conversations = [
        Conversation(f"c{k}", (), seed=k, adapter=adapters[k % len(adapters)])
        for k in range(first, first + n)
    ]

    async def run() -> None:
        await asyncio.gather(*(converse(policy, conversation, turns) for conversation in conversations))

    asyncio.run(run())
    return conversations


def check_against(model: Any, conversation: Conversation, temperature: float) -> int:
    """Compare every sampled token with a full forward pass; return how many there were."""
    trace = conversation.tokens
    assert trace is not None
    assert len(trace.ids) == len(trace.mask) == len(trace.logprobs)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([trace.ids])).logits[0]
    logprobs = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    sampled = [place for place, own in enumerate(trace.mask) if own]
    for place in sampled:
        if temperature == 0:
            assert int(logits[place - 1].argmax()) == trace.ids[place]
        assert float(logprobs[place - 1, trace.ids[place]]) == pytest.approx(trace.logprobs[place], abs=2e-4)
    assert all(logprob == 0.0 for logprob, own in zip(trace.logprobs, trace.mask, strict=True) if not own)
    return len(sampled)


def plain(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_key_value_heads": 4, "tie_word_embeddings": True},
        {"num_key_value_heads": 1, "attention_bias": True, "head_dim": 16},
    ],
    ids=["grouped", "tied", "biased"],
)
@pytest.mark.parametrize("temperature", one_of_each([0.7, 0.0]))
def test_tokens_and_logprobs_are_those_of_a_full_forward_pass(
    make_folder: Callable[..., Path], changes: dict[str, Any], temperature: float
) -> None:
    folder = make_folder(**changes)
    policy = TransformersPolicy(folder, temperature=temperature, max_new_tokens=40)
    model = plain(folder)
    conversations = talk(policy, 24)
    assert sum(check_against(model, conversation, temperature) for conversation in conversations) > 300
    assert max(len(conversation.messages) for conversation in conversations) == 9  # four turns were reached


def test_scores_that_are_too_many_to_keep_are_taken_row_by_row(
    qwen3_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_assets.policies import qwen3_decoder

    monkeypatch.setattr(qwen3_decoder, "_WHOLE", 4096)  # less than what some rows together want
    policy, model = TransformersPolicy(qwen3_folder, temperature=0.7, max_new_tokens=40), plain(qwen3_folder)
    assert sum(check_against(model, conversation, 0.7) for conversation in talk(policy, 16)) > 200


def test_bfloat16_is_off_by_rounding_alone(qwen3_folder: Path, make_adapter: MakeAdapter) -> None:
    from peft import PeftModel

    adapter = make_adapter(qwen3_folder, 1)
    policy = TransformersPolicy(
        qwen3_folder, adapters={"a": adapter}, temperature=1.0, max_new_tokens=40, dtype="bfloat16"
    )
    exact = PeftModel.from_pretrained(plain(qwen3_folder), adapter).eval()
    apart: list[float] = []
    for conversation in talk(policy, 24, adapters=("a",)):
        trace = conversation.tokens
        assert trace is not None
        with torch.no_grad():
            logprobs = torch.log_softmax(exact(input_ids=torch.tensor([trace.ids])).logits[0], dim=-1)
        own = [place for place, written in enumerate(trace.mask) if written]
        apart += [float(logprobs[place - 1, trace.ids[place]]) - trace.logprobs[place] for place in own]
    mean = sum(abs(value) for value in apart) / len(apart)
    assert 1e-4 < mean < 0.1, "nothing was rounded, or more than that is wrong"
    with pytest.raises(InputError, match="'half a float' is no precision"):
        TransformersPolicy(qwen3_folder, dtype="half a float")


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_other_architectures_run_by_their_own_forward(
    make_folder: Callable[..., Path], make_adapter: MakeAdapter, architecture: str
) -> None:
    sliding = (
        {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}
        if architecture == "qwen3"
        else {}
    )
    folder = make_folder(architecture, **sliding)
    adapter = make_adapter(folder, 3)
    policy = TransformersPolicy(folder, adapters={"a": adapter}, temperature=0.0, max_new_tokens=20)
    assert type(policy._decoders[None]).__name__ == "GenericDecoder"
    from peft import PeftModel

    models = {None: plain(folder), "a": PeftModel.from_pretrained(plain(folder), adapter).eval()}
    for conversation in talk(policy, 6, turns=3, adapters=(None, "a")):
        assert check_against(models[conversation.adapter], conversation, 0.0) > 0


def test_adapters_in_one_batch_each_act_as_peft(qwen3_folder: Path, make_adapter: MakeAdapter) -> None:
    from peft import PeftModel

    folders = {"a": make_adapter(qwen3_folder, 1), "b": make_adapter(qwen3_folder, 2)}
    policy = TransformersPolicy(qwen3_folder, adapters=folders, temperature=0.0, max_new_tokens=30)
    models: dict[str | None, Any] = {None: plain(qwen3_folder)}
    for name, path in folders.items():
        models[name] = PeftModel.from_pretrained(plain(qwen3_folder), path).eval()
    conversations = talk(policy, 18, adapters=(None, "a", "b"))
    for conversation in conversations:
        check_against(models[conversation.adapter], conversation, 0.0)
    base, first, second = ([c.tokens.ids for c in conversations[k::3] if c.tokens] for k in range(3))
    assert base != first != second  # the adapters do something


def test_a_live_model_is_merged_and_only_read(qwen3_folder: Path) -> None:
    from peft import LoraConfig, get_peft_model

    live = get_peft_model(
        plain(qwen3_folder),
        LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False),
    )
    before = {name: value.clone() for name, value in live.state_dict().items()}
    policy = TransformersPolicy(qwen3_folder, temperature=1.0, max_new_tokens=30)
    version = policy.version
    policy.load_weights(live)
    assert policy.version != version
    assert policy._model is None, "the base model is kept though nothing acts with it"
    for conversation in talk(policy, 8):
        check_against(live, conversation, 1.0)
    with torch.no_grad():
        for name, value in live.named_parameters():
            if "lora_B" in name:
                value.mul_(-2.0)
                before[name] = value.clone()
    policy.load_weights(live)
    for conversation in talk(policy, 8):
        check_against(live, conversation, 1.0)
    assert all(torch.equal(value, before[name]) for name, value in live.state_dict().items())


def test_sampling_does_not_depend_on_the_batch(qwen3_folder: Path) -> None:
    policy = TransformersPolicy(qwen3_folder, temperature=1.0, max_new_tokens=30, seed=5)
    together = talk(policy, 16)
    alone = [talk(policy, 1, first=k)[0] for k in range(16)]
    assert [c.tokens.ids for c in together if c.tokens] == [c.tokens.ids for c in alone if c.tokens]
    other = talk(TransformersPolicy(qwen3_folder, temperature=1.0, max_new_tokens=30, seed=6), 16)
    assert [c.tokens for c in together] != [c.tokens for c in other]


def test_only_new_tokens_are_read(qwen3_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = TransformersPolicy(qwen3_folder, temperature=0.0, max_new_tokens=30)
    decoder = policy._decoders[None]
    fed: list[int] = []
    feed = decoder.feed

    def counting(slots: Any, tokens: Any) -> Any:
        fed.append(sum(len(new) for new in tokens))
        return feed(slots, tokens)

    monkeypatch.setattr(decoder, "feed", counting)
    conversations = talk(policy, 8)
    total = sum(len(conversation.tokens.ids) for conversation in conversations if conversation.tokens)
    assert sum(fed) <= total
    assert policy._rows == {}


def test_length_limits_overflow(make_folder: Callable[..., Path]) -> None:
    folder = make_folder(max_position_embeddings=64)
    policy = TransformersPolicy(folder, temperature=0.0, max_new_tokens=500)

    async def run(text: str) -> tuple[Reply, Conversation]:
        conversation = Conversation("c", (), [Message(role="user", content=text)])
        reply = await policy.act(conversation)
        await policy.forget(conversation)
        return reply, conversation

    reply, conversation = asyncio.run(run("x" * 100))
    assert reply.overflow
    assert reply.completion_tokens == 0
    policy._ends = frozenset()
    reply, conversation = asyncio.run(run("x" * 10))
    assert reply.overflow
    assert conversation.tokens is not None
    assert len(conversation.tokens.ids) == 64
    short = TransformersPolicy(folder, temperature=0.0, max_new_tokens=3)
    short._ends = frozenset()
    reply = asyncio.run(run_once(short))
    assert reply.overflow
    assert reply.completion_tokens == 3


async def run_once(policy: TransformersPolicy) -> Reply:
    return await policy.act(Conversation("d", (), [Message(role="user", content="hello")]))


def test_a_cancelled_episode_leaves_the_engine_usable(qwen3_folder: Path) -> None:
    policy = TransformersPolicy(qwen3_folder, temperature=1.0, max_new_tokens=30)
    expected = talk(policy, 4)

    async def interrupted() -> None:
        tasks = [
            asyncio.ensure_future(converse(policy, Conversation(f"x{k}", (), seed=k), 4)) for k in range(4)
        ]
        for _ in range(12):
            await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(interrupted())
    again = talk(policy, 4)
    assert [c.tokens for c in again] == [c.tokens for c in expected]


def test_a_failing_decoder_is_told_to_every_waiting_episode(
    qwen3_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = TransformersPolicy(qwen3_folder)

    def broken(slots: Any, tokens: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(policy._decoders[None], "feed", broken)

    async def run() -> list[Any]:
        work = [policy.act(Conversation(f"c{k}", (), [Message(role="user", content="x")])) for k in range(3)]
        return await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), timeout=900)

    assert [str(error) for error in asyncio.run(run())] == ["out of memory"] * 3


def test_an_unknown_adapter_is_named(qwen3_folder: Path) -> None:
    policy = TransformersPolicy(qwen3_folder)

    async def run() -> None:
        await policy.act(Conversation("c", (), [Message(role="user", content="x")], adapter="nope"))

    with pytest.raises(InputError, match="nope"):
        asyncio.run(run())
    assert isinstance(policy, Policy)


def test_unusable_folders_are_told_apart(qwen3_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model"):
        TransformersPolicy(tmp_path)
    with pytest.raises(InputError, match="adapter_config"):
        TransformersPolicy(qwen3_folder, adapters={"a": tmp_path})
    bare = tmp_path / "bare"
    plain(qwen3_folder).save_pretrained(bare)
    with pytest.raises(InputError, match="tokenizer"):
        TransformersPolicy(bare)


def test_the_version_tells_what_decides_replies(qwen3_folder: Path, make_adapter: MakeAdapter) -> None:
    adapter = make_adapter(qwen3_folder, 1)
    policies = [
        TransformersPolicy(qwen3_folder),
        TransformersPolicy(qwen3_folder, temperature=0.5),
        TransformersPolicy(qwen3_folder, seed=1),
        TransformersPolicy(qwen3_folder, adapters={"a": adapter}),
        TransformersPolicy(qwen3_folder, adapters={"b": adapter}),
    ]
    assert len({policy.version for policy in policies}) == len(policies)
    assert TransformersPolicy(qwen3_folder).version == policies[0].version
