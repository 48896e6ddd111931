"""What every sampler of token ids shares: nothing is tokenised again, limits hold, faults are faults."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from trace_assets.errors import InputError, Unavailable  # noqa: E402
from trace_assets.policies.protocol import Conversation, Policy, Reply  # noqa: E402
from trace_assets.policies.token_policy import Sampled, TokenPolicy  # noqa: E402
from trace_assets.policies.transformers_engine import TransformersPolicy  # noqa: E402
from trace_assets.records import Message  # noqa: E402


class Greedy(TokenPolicy):
    """Takes the likeliest token of a full forward pass, one after the other."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, temperature=0.0, **options)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self.asked: list[dict[str, Any]] = []

    async def _sample(
        self, ids: Sequence[int], *, seed: int, adapter: str | None, max_tokens: int
    ) -> Sampled:
        self.asked.append({"ids": list(ids), "seed": seed, "adapter": adapter, "max_tokens": max_tokens})
        written: list[int] = []
        logprobs: list[float] = []
        while len(written) < max_tokens and (not written or written[-1] not in self.ends):
            with torch.no_grad():
                logits = self.model(input_ids=torch.tensor([[*ids, *written]])).logits[0, -1]
            written.append(int(logits.argmax()))
            logprobs.append(float(torch.log_softmax(logits, -1)[written[-1]]))
        return Sampled(written, logprobs)

    def _identity(self) -> Any:
        return "greedy"


class Told(TokenPolicy):
    """Says what it is told to."""

    def __init__(self, folder: Path, answers: list[Sampled | Exception], **options: Any) -> None:
        super().__init__(folder, **options)
        self.answers, self.most = answers, 0

    async def _sample(self, ids: Sequence[int], **asked: Any) -> Sampled:
        self.most = asked["max_tokens"]
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _identity(self) -> Any:
        return "told"


async def converse(policy: Policy, conversation: Conversation, turns: int = 4) -> list[Reply]:
    conversation.messages.append(Message(role="user", content="word " * (1 + conversation.seed % 5)))
    replies = []
    for turn in range(turns):
        replies.append(await policy.act(conversation))
        conversation.messages += [replies[-1].message, Message(role="user", content=f"and {turn}")]
        if replies[-1].overflow:
            break
    await policy.forget(conversation)
    return replies


def test_a_sampler_of_ids_is_the_transformers_engine_otherwise(qwen3_folder: Path) -> None:
    """Same replies, same ids read and written, over turns that the tokenizer never sees again."""
    policies: list[Policy] = [
        Greedy(qwen3_folder, max_new_tokens=20),
        TransformersPolicy(qwen3_folder, temperature=0.0, max_new_tokens=20),
    ]
    found, logprobs = [], []
    for policy in policies:
        conversations = [Conversation(f"c{k}", (), seed=k) for k in range(8)]
        replies = [asyncio.run(converse(policy, one)) for one in conversations]
        traces = [one.tokens for one in conversations if one.tokens]
        assert len(traces) == 8
        found.append((replies, [trace.ids for trace in traces], [trace.mask for trace in traces]))
        logprobs.append([value for trace in traces for value in trace.logprobs])
    assert found[0] == found[1]
    assert logprobs[0] == pytest.approx(logprobs[1], abs=1e-4)
    assert max(len(replies) for replies in found[0][0]) == 4


def test_what_was_sampled_is_given_back_as_it_was(qwen3_folder: Path) -> None:
    policy = Greedy(qwen3_folder, max_new_tokens=20, seed=3)
    conversation = Conversation("c", (), seed=5, adapter="a")
    asyncio.run(converse(policy, conversation))
    assert len(policy.asked) > 1
    for earlier, later in zip(policy.asked, policy.asked[1:], strict=False):
        assert later["ids"][: len(earlier["ids"])] == earlier["ids"]
    assert len({one["seed"] for one in policy.asked}) == len(policy.asked)
    assert {one["adapter"] for one in policy.asked} == {"a"}
    asked = policy.asked
    policy.asked = []
    asyncio.run(converse(policy, Conversation("again", (), seed=5, adapter="a")))
    assert policy.asked == asked
    assert not policy.is_open("a")


def first(policy: TokenPolicy, text: str = "hello") -> tuple[Reply, Conversation]:
    conversation = Conversation("c", (), [Message(role="user", content=text)])
    return asyncio.run(policy.act(conversation)), conversation


def test_limits_end_a_reply(make_folder: Callable[..., Path]) -> None:
    folder = make_folder(max_position_embeddings=64)
    words = Sampled([65, 66, 67], [-1.0, -2.0, -3.0])
    policy = Told(folder, [words], max_new_tokens=3)
    policy.ends = frozenset({258})
    reply, conversation = first(policy)
    assert reply.overflow and reply.completion_tokens == 3
    assert conversation.tokens is not None and conversation.tokens.logprobs[-3:] == [-1.0, -2.0, -3.0]
    reply, conversation = first(Told(folder, []), "x" * 100)  # no answer is asked for
    assert reply.overflow and reply.completion_tokens == 0
    length = len(conversation.tokens.ids) if conversation.tokens else -1
    assert length == 0
    near = Told(folder, [words], max_context=0)
    near.ends = frozenset({67})
    heard = len(near.template.opening([Message(role="user", content="hello")], ()))
    near.max_context = heard + 3
    reply, _ = first(near)
    assert near.most == 3 and not reply.overflow and reply.message.content == "bc"


def test_what_comes_behind_an_end_is_cut_off(qwen3_folder: Path) -> None:
    policy = Told(qwen3_folder, [Sampled([66, 258, 67, 68], [-1.0, -2.0, -3.0, -4.0])])
    policy.ends = frozenset({258})
    reply, conversation = first(policy)
    assert not reply.overflow and reply.completion_tokens == 2 and reply.message.content == "c"
    assert conversation.tokens is not None and conversation.tokens.ids[-2:] == [66, 258]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Sampled([66, 67], [-1.0]), "2 token ids with 1 log-probabilities"),
        (Sampled([66, 67], [-1.0, -1.0]), "2 tokens without an end"),
        (Sampled([], []), "0 tokens without an end"),
        (Sampled([66, 258], [math.nan, -1.0]), "no numbers"),
        (Sampled([66, 258], [-math.inf, -1.0]), "no numbers"),
        (Sampled([66, 258], [0.5, -1.0]), "log-probabilities above 0"),
        (Sampled([9999, 258], [-1.0, -1.0]), "token ids beyond the"),
        (Unavailable("the server is down."), "the server is down"),
    ],
)
def test_half_an_answer_is_a_fault_and_leaves_nothing(
    qwen3_folder: Path, answer: Sampled | Exception, words: str
) -> None:
    policy = Told(qwen3_folder, [answer, Sampled([66, 258], [-1.0, -2.0])])
    policy.ends = frozenset({258})
    conversation = Conversation("c", (), [Message(role="user", content="hello")])
    with pytest.raises(Unavailable, match=words):
        asyncio.run(policy.act(conversation))
    assert conversation.tokens is not None and conversation.tokens.ids == []
    reply = asyncio.run(policy.act(conversation))  # asked again: as if nothing had been
    assert reply.message.content == "c"
    heard = policy.template.opening(conversation.messages, ())
    assert conversation.tokens.ids == [*heard, 66, 258]


def test_the_version_tells_what_decides_replies(qwen3_folder: Path, tmp_path: Path) -> None:
    policies = [
        Told(qwen3_folder, []),
        Told(qwen3_folder, [], temperature=0.5),
        Told(qwen3_folder, [], seed=1),
        Told(qwen3_folder, [], max_new_tokens=3),
        Greedy(qwen3_folder),
    ]
    assert len({policy.version for policy in policies}) == len(policies)
    assert Told(qwen3_folder, [], name="other").version == policies[0].version
    with pytest.raises(InputError, match="tokenizer"):
        Told(tmp_path, [])


def test_vllm_that_is_not_here_is_told(qwen3_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trace_assets.policies.vllm_engine import VllmPolicy

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"needs vLLM in this interpreter.*docs/serving\.md"):
        VllmPolicy(qwen3_folder)


@pytest.mark.parametrize(
    ("rank", "seen", "own"), [("1", "4,6", "6"), ("1", "", "1"), ("0", "GPU-ab", "GPU-ab"), ("2", "0", "2")]
)
def test_an_engine_of_one_of_several_processes_has_its_gpu(
    monkeypatch: pytest.MonkeyPatch, rank: str, seen: str, own: str
) -> None:
    from trace_assets.policies.vllm_engine import _own_gpu

    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    found = _own_gpu()
    assert found["CUDA_VISIBLE_DEVICES"] == own and found["WORLD_SIZE"] is None
    monkeypatch.delenv("LOCAL_RANK")
    assert _own_gpu() == {}
