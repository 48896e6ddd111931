from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.answering import HANG_UP, Answer, InTurn, completion, failure
from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.openai_server import OpenAIPolicy
from trace_assets.policies.protocol import Conversation, Policy, Reply
from trace_assets.records import Message, ToolCall, ToolSpec

TOOLS = (ToolSpec(name="look", parameters={"type": "object", "properties": {}}),)


class Server(InTurn):
    """Takes its time before it answers, if it is told to."""

    delay = 0.0

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        found = super().answer(path, body)
        time.sleep(self.delay)
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def said(content: str | None = "hello", finish: str = "stop", calls: Any = None, **more: Any) -> Answer:
    status, headers, body = completion(content, finish)
    choice = body["choices"][0]
    choice["message"] |= {"tool_calls": calls} if calls else {}
    choice |= more.pop("choice", {})
    return status, headers, body | more


def call(arguments: str, name: str = "look", ident: str = "chatcmpl-tool-1") -> dict[str, Any]:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def greeting() -> Conversation:
    return Conversation("c", TOOLS, [Message(role="user", content="hi")])


def ask(server: Server, conversation: Conversation | None = None, **settings: Any) -> Reply:
    policy = OpenAIPolicy(server.v1, "base", **({"retries": 2, "timeout_seconds": 60.0} | settings))

    async def run() -> Reply:
        try:
            return await policy.act(
                conversation or Conversation("c", TOOLS, [Message(role="user", content="hi")])
            )
        finally:
            await policy.close()

    return asyncio.run(run())


def test_a_turn_is_sent_and_read(server: Server) -> None:
    server.answers = [said(None, calls=[call('{"a": 1}'), call("", ident="chatcmpl-tool-2")])]
    before = ToolCall(id="call_0", name="look", arguments={"é": 2})
    conversation = Conversation(
        "c",
        TOOLS,
        [
            Message(role="system", content="rules"),
            Message(role="user", content="hi"),
            Message(role="assistant", tool_calls=(before,)),
            Message(role="tool", content="seen", tool_call_id="call_0", tool_name="look"),
        ],
        seed=4,
        adapter="adapter-1",
    )
    reply = ask(server, conversation, temperature=0.3, max_new_tokens=9)
    assert [(c.id, c.name, c.arguments) for c in reply.message.tool_calls] == [
        ("call_1", "look", {"a": 1}),
        ("call_2", "look", {}),
    ]
    assert (reply.prompt_tokens, reply.completion_tokens, reply.malformed, reply.overflow) == (
        7,
        3,
        False,
        False,
    )
    (request,) = server.requests
    assert request["model"] == "adapter-1"
    assert request["temperature"] == 0.3
    assert request["max_tokens"] == 9
    assert request["tools"] == [TOOLS[0].openai()]
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]
    assert json.loads(request["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"é": 2}
    assert request["messages"][3]["tool_call_id"] == "call_0"


def test_seeds_belong_to_conversation_and_turn(server: Server) -> None:
    server.answers = [said()]
    turns = [[Message(role="user", content="hi")]]
    turns.append([*turns[0], Message(role="assistant", content="x"), Message(role="user", content="y")])
    for seed in (1, 1, 2):
        for messages in turns:
            ask(server, Conversation("c", (), messages, seed=seed))
    seeds = [request["seed"] for request in server.requests]
    assert seeds[:2] == seeds[2:4]
    assert len(set(seeds)) == 4
    assert "tools" not in server.requests[0]


def test_words_and_refusals_are_content(server: Server) -> None:
    server.answers = [said("  hello ")]
    assert ask(server).message.content == "  hello "
    server.answers = [said(None)]
    assert ask(server).message == Message(role="assistant", content="")


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '"text"', "null", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_broken_arguments_are_the_agents_fault(server: Server, arguments: str) -> None:
    server.answers = [said("so", calls=[call("{}"), call(arguments)])]
    reply = ask(server)
    assert reply.malformed
    assert reply.message.tool_calls == ()
    assert "look" in (reply.message.content or "")


def test_calls_left_in_the_text_are_found(server: Server) -> None:
    server.answers = [said('ok <tool_call>{"name": "look", "arguments": {"a": 1}}</tool_call>')]
    reply = ask(server)
    assert [c.name for c in reply.message.tool_calls] == ["look"]
    server.answers = [said('<tool_call>{"name": "look"')]
    assert ask(server).malformed


def test_a_cut_off_reply_is_an_overflow(server: Server) -> None:
    server.answers = [said("and then", finish="length")]
    assert ask(server).overflow


@pytest.mark.parametrize(
    "answer",
    [
        failure(400, "This model's maximum context length is 1024 tokens.", None),
        failure(400, "no", "context_length_exceeded"),
    ],
)
def test_a_full_context_is_an_overflow_and_no_fault(server: Server, answer: Answer) -> None:
    server.answers = [answer]
    reply = ask(server)
    assert reply.overflow
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer", [failure(500), failure(503), failure(429, **{"Retry-After": "0"}), HANG_UP], ids=str
)
def test_passing_trouble_is_sat_out(server: Server, answer: Answer) -> None:
    server.answers = [answer, said()]
    assert ask(server).message.content == "hello"
    assert len(server.requests) == 2


def test_retry_after_is_kept_to(server: Server) -> None:
    server.answers = [failure(429, **{"Retry-After": "2"}), said()]
    started = time.monotonic()
    ask(server)
    assert time.monotonic() - started >= 1.9


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failure(500, "boom"), "HTTP 500.*boom"),
        (failure(429, "slow down", **{"Retry-After": "0"}), "HTTP 429.*slow down"),
        (HANG_UP, "cannot be reached"),
        ((200, {}, {"id": "x", "choices": []}), "without a choice"),
        ((200, {}, {"id": "x"}), "without a choice"),
        ((200, {}, "{broken"), "not a chat completion"),
        ((200, {"Content-Type": "text/html"}, "<html>"), "not a chat completion"),
    ],
)
def test_lasting_trouble_is_a_fault(server: Server, answer: Answer, words: str) -> None:
    server.answers = [answer]
    with pytest.raises(Unavailable, match=words):
        ask(server, retries=1)
    assert len(server.requests) <= 2


def test_a_slow_server_is_a_fault(server: Server) -> None:
    server.answers = [said()]
    server.delay = 1.0
    with pytest.raises(Unavailable, match="Timeout"):
        ask(server, retries=0, timeout_seconds=0.2)


def test_no_server_is_a_fault() -> None:
    gone = Server()
    gone.close()
    with pytest.raises(Unavailable, match="start it"):
        ask(gone, retries=0)


@pytest.mark.parametrize(
    ("status", "words"), [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "does not know 'base'")]
)
def test_what_only_the_user_can_mend_is_said_at_once(server: Server, status: int, words: str) -> None:
    server.answers = [failure(status)]
    with pytest.raises(InputError, match=words):
        ask(server)
    assert len(server.requests) == 1


def test_the_key_is_sent_and_never_told(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answers = [said(), failure(500, "boom")]
    ask(server)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with pytest.raises(Unavailable) as info:
        ask(server, retries=0)
    keys = [headers["authorization"] for headers in server.headers]
    assert keys == ["Bearer not-needed", "Bearer sk-secret"]
    assert "sk-secret" not in str(info.value) + caplog.text + repr(vars(OpenAIPolicy(server.v1, "m")))


def test_newer_servers_want_another_name_for_the_length(server: Server) -> None:
    server.answers = [
        failure(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        said(),
    ]
    assert ask(server, max_new_tokens=9).message.content == "hello"
    assert server.requests[1]["max_completion_tokens"] == 9
    assert "max_tokens" not in server.requests[1]


def test_token_ids_are_joined_over_turns(server: Server) -> None:
    def tokens(prompt: list[int], written: list[int]) -> Answer:
        content = [{"token": "t", "logprob": -0.5, "bytes": None, "top_logprobs": []} for _ in written]
        return said(choice={"token_ids": written, "logprobs": {"content": content}}, prompt_token_ids=prompt)

    server.answers = [tokens([1, 2], [3, 4]), tokens([1, 2, 3, 4, 5], [6]), tokens([9], [9])]
    conversation = Conversation("c", (), [Message(role="user", content="hi")])

    def turn() -> None:
        reply = ask(server, conversation, return_token_ids=True)
        conversation.messages.extend([reply.message, Message(role="user", content="go on")])

    turn()
    turn()
    assert conversation.tokens is not None
    assert conversation.tokens.ids == [1, 2, 3, 4, 5, 6]
    assert conversation.tokens.mask == [0, 0, 1, 1, 0, 1]
    assert conversation.tokens.logprobs == [0.0, 0.0, -0.5, -0.5, 0.0, -0.5]
    turn()
    assert conversation.tokens is None  # another prompt: better no tokens than wrong ones
    turn()
    assert conversation.tokens is None


def test_the_policy_outlives_an_event_loop(server: Server) -> None:
    server.answers = [said()]
    policy = OpenAIPolicy(server.v1, "base")
    for _ in range(3):
        reply = asyncio.run(policy.act(Conversation("c", (), [Message(role="user", content="hi")])))
        assert reply.message.content == "hello"
    assert isinstance(policy, Policy)


def test_settings_decide_the_version_and_must_be_there() -> None:
    versions = {
        OpenAIPolicy("http://x", "m", temperature=t, seed=s).version for t in (0.0, 1.0) for s in (0, 1)
    }
    assert len(versions) == 4
    with pytest.raises(InputError, match="base_url"):
        OpenAIPolicy("", "m")
