"""Whatever a model server answers, a client has a reply or one sentence, and nobody else is asked."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator

import pytest

from tests.quick import one_of_each
from tests.untrusted.hostile_server import KEY, TRICKS, HostileServer, body, said
from trace_assets.errors import TraceError
from trace_assets.policies.openai_connection import Connection, Retries
from trace_assets.policies.openai_faults import ServerFault
from trace_assets.policies.openai_server import OpenAIPolicy
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import Message

BODY = {"model": "base", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
_STEERS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """Where nothing may arrive."""
    with socket.create_server(("127.0.0.2", 0)) as listener:
        listener.settimeout(0.05)
        yield listener


def connect(server: HostileServer, seconds: float) -> Connection:
    return Connection(server.url, timeout_seconds=seconds, retries=Retries(more=0, waits=0))


def outcome(connection: Connection) -> ServerFault | None:
    async def run() -> ServerFault | None:
        try:
            await connection.complete(BODY)
        except ServerFault as fault:
            return fault
        finally:
            await connection.close()
        return None

    return asyncio.run(run())


def _alike(name: str) -> str:
    """Return what tells a trick apart: of statuses times contents each kind of status meets every content.

    >>> _alike("307 Temporary Redirect to itself"), _alike("308 Permanent Redirect to itself")
    ('to itself', 'to itself')
    >>> _alike("429 Too Many with text"), _alike("429 Too Many with the key"), _alike("418 Teapot with text")
    ('rate_limit with text', '429 Too Many with the key', 'request with text')
    """
    status, word, what = next(
        (name.partition(f" {word} ") for word in ("to", "with") if f" {word} " in name), ("",) * 3
    )
    if not status[:3].isdigit() or what in ("another host", "the key"):
        return name
    return f"to {what}" if word == " to " else f"{TRICKS[name].kinds[0]} with {what}"


@pytest.mark.parametrize("name", one_of_each(TRICKS, _alike, then=0))
def test_a_trick_is_a_reply_or_a_fault_in_one_sentence(name: str) -> None:
    one = TRICKS[name]
    with HostileServer(one.send) as server:
        connection = connect(server, one.seconds)
        fault = outcome(connection)
        assert server.asked.wait(600)
        made = server.requests
    kind = fault.kind if fault else "reply"
    assert kind in one.kinds or (kind == "reply" and "other_model" in one.kinds), fault
    assert made == 1
    if fault is None:
        return
    told = str(connection.explain(fault, model="base", setting="rollouts.base_url"))
    for text in (fault.said, told):
        assert len(text) < 900 and not _STEERS.search(text), text
        assert not any(KEY[at : at + 6] in text for at in range(len(KEY) - 5)), text


@pytest.mark.parametrize("name", [*(n for n, one in TRICKS.items() if "reply" in one.kinds), "body: deep"])
def test_a_policy_makes_a_message_of_it_or_a_fault_of_the_infrastructure(name: str) -> None:
    one = TRICKS[name]

    async def act(url: str) -> Reply:
        policy = OpenAIPolicy(url, "base", retries=0, timeout_seconds=one.seconds)
        try:
            return await policy.act(Conversation("c", (), [Message(role="user", content="hi")]))
        finally:
            await policy.close()

    with HostileServer(one.send) as server:
        try:
            reply = asyncio.run(act(server.url))
        except TraceError as error:
            assert "reply" not in one.kinds or len(one.kinds) > 1, error
            return
    assert "reply" in one.kinds
    assert Message.model_validate_json(reply.message.model_dump_json()) == reply.message
    for count in (reply.prompt_tokens, reply.completion_tokens):
        assert count is None or 0 <= count < 1 << 25


@pytest.mark.parametrize("status", ["301 A", "302 B", "303 C", "307 D", "308 E"])
def test_no_conversation_is_sent_on(status: str, elsewhere: socket.socket) -> None:
    host, port = elsewhere.getsockname()
    line = f"Location: http://{host}:{port}/v1/chat/completions\r\n".encode()
    with HostileServer(body(b"", status, line)) as server:
        connection = connect(server, 300.0)
        fault = outcome(connection)
        assert fault is not None and fault.kind == "redirect" and server.requests == 1
    assert f"{host}:{port}" in str(connection.explain(fault, model="m", setting="rollouts.base_url"))
    with pytest.raises(TimeoutError):
        elsewhere.accept()


def test_the_battery_is_whole() -> None:
    assert len(TRICKS) > 180
    with HostileServer(said({"choices": [{"message": {"content": "well"}}]})) as server:
        assert outcome(connect(server, 300.0)) is None
