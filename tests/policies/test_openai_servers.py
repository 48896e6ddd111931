"""Several servers: the load is spread, a conversation stays, a dead server is left alone and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.answering import Answer, AnsweringServer, completion, failure
from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.openai_connection import Retries
from trace_assets.policies.openai_faults import ServerFault
from trace_assets.policies.openai_server import OpenAIPolicy, Servers
from trace_assets.policies.protocol import Conversation
from trace_assets.records import Message

QUICK = Retries(more=1, waits=1, first_pause=0.01, longest_pause=0.02)


class Counting(AnsweringServer):
    """Answers with its name and counts; may be told to fail, or to take its time."""

    def __init__(self, name: str) -> None:
        self.name, self.asked, self.status, self.delay, self.model = name, 0, 200, 0.0, "m"
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        self.asked += 1
        time.sleep(self.delay)
        return (
            completion(self.name, model=self.model) if self.status == 200 else failure(self.status, "broken")
        )


@pytest.fixture
def two() -> Iterator[tuple[Counting, Counting]]:
    with Counting("a") as a, Counting("b") as b:
        yield a, b


def body() -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def ask(servers: Servers, *conversations: str) -> list[str]:
    """Ask for all conversations at once."""

    async def every() -> list[str]:
        found = await asyncio.gather(*(servers.complete(body(), name) for name in conversations))
        return [str(one.choices[0].message.content) for one in found]

    return asyncio.run(every())


def test_the_load_is_spread(two: tuple[Counting, Counting]) -> None:
    for server in two:
        server.delay = 0.05
    answers = ask(Servers([s.v1 for s in two], retries=QUICK), *(f"c{n}" for n in range(10)))
    assert sorted(answers) == ["a"] * 5 + ["b"] * 5


def test_a_conversation_stays_where_its_prefix_is(two: tuple[Counting, Counting]) -> None:
    servers = Servers([s.v1 for s in two], retries=QUICK)

    async def turns() -> list[str]:
        said = []
        for _ in range(4):
            found = await asyncio.gather(*(servers.complete(body(), name) for name in ("x", "y")))
            said.append("".join(str(one.choices[0].message.content) for one in found))
        return said

    said = asyncio.run(turns())
    assert len(set(said)) == 1
    assert set(said[0]) == {"a", "b"}


def test_a_dead_server_is_left_alone_and_its_conversations_move(two: tuple[Counting, Counting]) -> None:
    a, b = two
    a.status = 500
    servers = Servers([a.v1, b.v1], retries=QUICK, rest_seconds=60.0)

    async def many() -> None:
        for turn in range(5):
            found = await asyncio.gather(*(servers.complete(body(), f"c{n}") for n in range(6)))
            assert {str(one.choices[0].message.content) for one in found} == {"b"}
            if turn == 0:
                assert len(servers.resting) == 1
                a.asked = 0

    asyncio.run(many())
    assert a.asked == 0  # after the first turn nobody knocked again


def test_a_server_of_another_model_is_left_alone_unless_names_are_not_checked(
    two: tuple[Counting, Counting],
) -> None:
    two[0].model = "m-mini"
    urls = [server.v1 for server in two]
    assert ask(Servers(urls, retries=QUICK, rest_seconds=60.0), *(f"c{n}" for n in range(6))) == ["b"] * 6
    two[1].model = "m-large"
    with pytest.raises(ServerFault, match=r"m-(mini|large)"):
        ask(Servers(urls, retries=QUICK), "c")
    assert ask(Servers(urls, retries=QUICK, check_model=False), "c") == ["a"]


def test_it_comes_back_when_it_is_well(two: tuple[Counting, Counting]) -> None:
    a, b = two
    a.status = 500
    servers = Servers([a.v1, b.v1], retries=QUICK, rest_seconds=0.05)

    async def later() -> set[str]:
        await servers.complete(body(), "first")
        a.status = 200
        await asyncio.sleep(0.1)
        b.delay = 0.05
        found = await asyncio.gather(*(servers.complete(body(), f"c{n}") for n in range(4)))
        return {str(one.choices[0].message.content) for one in found}

    assert asyncio.run(later()) == {"a", "b"}
    assert servers.resting == ()


def test_with_all_dead_the_fault_is_told_after_some_rounds(two: tuple[Counting, Counting]) -> None:
    for server in two:
        server.status = 503
    servers = Servers([s.v1 for s in two], retries=QUICK)
    with pytest.raises(ServerFault, match="broken"):
        ask(servers, "c")
    assert [s.asked for s in two] == [4, 4]  # two rounds of two attempts each


def test_what_only_the_user_can_mend_is_not_tried_elsewhere(two: tuple[Counting, Counting]) -> None:
    for server in two:
        server.status = 404
    with pytest.raises(ServerFault):
        ask(Servers([s.v1 for s in two], retries=QUICK), "c")
    assert sum(s.asked for s in two) == 1


def test_the_policy_takes_addresses_separated_by_commas(two: tuple[Counting, Counting]) -> None:
    a, b = two
    b.close()
    policy = OpenAIPolicy(f"{a.v1}, {b.v1}", "m", retries=1)

    async def act() -> list[str]:
        conversations = [
            Conversation(f"c{n}", (), [Message(role="user", content="hi")], seed=n) for n in range(4)
        ]
        replies = await asyncio.gather(*(policy.act(one) for one in conversations))
        await policy.close()
        return [str(reply.message.content) for reply in replies]

    assert asyncio.run(act()) == ["a"] * 4


def test_all_gone_is_a_fault_of_the_infrastructure(two: tuple[Counting, Counting]) -> None:
    for server in two:
        server.close()
    policy = OpenAIPolicy(",".join(s.v1 for s in two), "m", retries=0)
    with pytest.raises(Unavailable, match="cannot be reached"):
        asyncio.run(policy.act(Conversation("c", (), [Message(role="user", content="hi")])))


def test_an_address_twice_is_a_mistake() -> None:
    with pytest.raises(InputError, match="named twice"):
        Servers(["http://h/v1", "http://h/v1"])
