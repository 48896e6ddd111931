"""ToolSandbox live: `TRACE_TOOLSANDBOX_HOME` names a home with `trace targets install toolsandbox` done."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import InputError, Unavailable, UserFault
from trace_assets.records import Message, Task, ToolCall, Verdict
from trace_assets.settings import Targets
from trace_assets.targets.process.target import ProcessTarget
from trace_assets.targets.registry import open_target

HOME = os.environ.get("TRACE_TOOLSANDBOX_HOME", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HOME, reason="ToolSandbox is not installed: TRACE_TOOLSANDBOX_HOME names no home"),
]
GOODBYE = Message(role="assistant", content="Goodbye.")


def toolsandbox(**options: object) -> ProcessTarget:
    section = Targets(
        name="toolsandbox", options={"user": "scripted", **options}, processes=2, call_seconds=120.0
    )
    target = open_target(section, Path(HOME) / "targets")
    assert isinstance(target, ProcessTarget)
    return target


@pytest.fixture(scope="module")
def target() -> Iterator[ProcessTarget]:
    opened = toolsandbox()
    yield opened
    opened.close()


def tasks_of(target: ProcessTarget) -> list[Task]:
    return [task for split in ("discovery", "validation", "test") for task in target.tasks(split)]


def named(target: ProcessTarget, name: str) -> Task:
    return next(task for task in tasks_of(target) if task.payload["id"] == name)


async def play(
    target: ProcessTarget, task: Task, script: Sequence[Message]
) -> tuple[list[Message], Verdict, bool]:
    """Play a script; return what was heard, the verdict, and whether the episode ended."""
    episode = target.episode(task, seed=0)
    try:
        heard, over = list(await episode.reset()), False
        for message in script:
            step = await episode.step(message)
            heard.extend(step.messages)
            if over := step.done or step.truncated:
                break
        return heard, await episode.verdict(), over
    finally:
        await episode.close()


def every(
    target: ProcessTarget, scripts: dict[str, list[Message]]
) -> dict[str, tuple[list[Message], Verdict, bool]]:
    async def together() -> dict[str, tuple[list[Message], Verdict, bool]]:
        few = asyncio.Semaphore(2)

        async def one(task: Task) -> tuple[list[Message], Verdict, bool]:
            async with few:
                return await play(target, task, scripts[task.task_id])

        tasks = [task for task in tasks_of(target) if task.task_id in scripts]
        played = await asyncio.gather(*(one(task) for task in tasks))
        return {task.task_id: found for task, found in zip(tasks, played, strict=True)}

    return asyncio.run(together())


def call(name: str, number: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(id=number, name=name, arguments=arguments)


def calls(*made: ToolCall) -> Message:
    return Message(role="assistant", tool_calls=made)


def test_the_base_scenarios_those_that_need_a_network_when_asked(target: ProcessTarget) -> None:
    offline = tasks_of(target)
    assert len(offline) == 91
    assert not any(task.payload["network"] for task in offline)
    assert all("offline" in task.tags for task in offline)
    everything = toolsandbox(network=True)
    try:
        tasks = tasks_of(everything)
        assert len(tasks) == 129
        assert sum("network" in task.tags for task in tasks) == 38
        assert everything.version != target.version
        # What is listed moves nobody to another split, and variants of one scenario stand together.
        split = {task.task_id: task.split for task in tasks}
        assert {task.task_id: task.split for task in offline}.items() <= split.items()
        of_family: dict[str, set[str]] = {}
        for task in tasks:
            of_family.setdefault(str(task.payload["family"]), set()).add(task.split)
        assert all(len(splits) == 1 for splits in of_family.values())
        assert {task.payload["family"] for task in tasks if "wifi_off_alt" in task.task_id} == {
            "find_days_till_holiday",
            "find_temperature",
        }
    finally:
        everything.close()


def test_the_milestones_own_solution_is_perfect_on_every_scenario(target: ProcessTarget) -> None:
    scripts = {task.task_id: target.oracle(task) for task in tasks_of(target)}
    found = every(target, scripts)
    assert [name for name, (_, verdict, _) in found.items() if verdict.success is not True] == []
    assert all(verdict.reward == pytest.approx(1.0, abs=1e-6) for _, verdict, _ in found.values())
    assert all(over for _, _, over in found.values())
    # A solution is worth nothing if anything is: without its calls it earns less wherever it had any.
    words = {
        name: [message for message in script if not message.tool_calls]
        for name, script in scripts.items()
        if any(message.tool_calls for message in script)
    }
    assert len(words) > 60
    assert not any(verdict.success for _, verdict, _ in every(target, words).values())


def test_the_floor_of_an_agent_that_does_nothing(target: ProcessTarget) -> None:
    found = every(target, {task.task_id: [GOODBYE] * 3 for task in tasks_of(target)})
    rewards = [verdict.reward or 0.0 for _, verdict, _ in found.values()]
    assert sum(verdict.success is True for _, verdict, _ in found.values()) == 16
    assert sum(rewards) / len(rewards) == pytest.approx(0.176, abs=0.005)


def test_rewards_are_those_of_the_official_evaluation(target: ProcessTarget) -> None:
    async def both(task: Task, script: list[Message]) -> tuple[float | None, float]:
        episode = target.episode(task, seed=0)
        try:
            await episode.reset()
            for message in script:
                if (await episode.step(message)).done:
                    break
            ours = (await episode.verdict()).reward
            return ours, await episode._call("official", arguments={})
        finally:
            await episode.close()

    async def some() -> list[tuple[float | None, float]]:
        said = Message(role="assistant", content="I have sent the message and turned the wifi off.")
        return [
            await both(task, [*target.oracle(task)[:-1][taken], said])
            for taken in (slice(1, None), slice(None, None, -1))
            for task in tasks_of(target)[::7]
        ]

    found = asyncio.run(some())
    assert all(ours == pytest.approx(official, abs=1e-9) for ours, official in found)
    assert len({round(official, 3) for _, official in found}) > 4


def test_a_long_conversation_that_reaches_nothing_is_judged_in_seconds(target: ProcessTarget) -> None:
    task = named(target, "find_days_till_holiday_wifi_off")
    begun = time.monotonic()
    _, verdict, _ = asyncio.run(play(target, task, [calls(call("get_wifi_status", wrong=1))] * 15))
    assert verdict.reward == 0.0
    assert time.monotonic() - begun < 30  # the official search takes 40 s


def test_minefields_take_the_whole_reward(target: ProcessTarget) -> None:
    task = named(target, "remove_reminder_with_recency_latest_insufficient_information")
    look = calls(call("search_reminder", reminder_timestamp_lowerbound=1e9))
    found, _, _ = asyncio.run(play(target, task, [look]))
    first = next(word for word in (found[-1].content or "").split("'") if word.count("-") == 4)
    _, verdict, _ = asyncio.run(play(target, task, [look, calls(call("remove_reminder", reminder_id=first))]))
    assert (verdict.reward, verdict.success) == (0.0, False)
    assert [(check.name, check.kind, check.score) for check in verdict.checks] == [
        ("minefield_0", "minefield", 0.0)
    ]


def test_a_part_of_the_milestones_earns_a_part(target: ProcessTarget) -> None:
    task = named(target, "wifi_off")
    _, verdict, _ = asyncio.run(play(target, task, [calls(call("set_wifi_status", on=False))]))
    assert verdict.reward == pytest.approx(0.5)
    assert verdict.success is False
    assert [(check.kind, check.score) for check in verdict.checks] == [("milestone", 1.0), ("milestone", 0.0)]


def test_odd_ids_unknown_tools_and_too_many_calls_are_answered(target: ProcessTarget) -> None:
    task = named(target, "get_wifi")
    odd = [call("get_wifi_status", f"3-x y'{number}") for number in range(6)]
    heard, verdict, _ = asyncio.run(play(target, task, [calls(call("no_such_tool"), *odd)]))
    answers = [message for message in heard if message.role == "tool"]
    assert [answer.tool_call_id for answer in answers] == ["c1", *(one.id for one in odd)]
    assert [answer.is_error for answer in answers] == [True, *[False] * 4, True, True]
    assert "there is no tool 'no_such_tool'" in (answers[0].content or "")
    assert verdict.reward == pytest.approx(0.5)


def test_parallel_calls_of_which_one_order_fails_are_answered_under_their_ids(target: ProcessTarget) -> None:
    twice = calls(call("set_wifi_status", "a", on=False), call("set_wifi_status", "b", on=False))
    heard, _, _ = asyncio.run(play(target, named(target, "wifi_off"), [twice]))
    assert [(one.tool_call_id, one.is_error) for one in heard[2:]] == [("a", False), ("b", True)]


@pytest.mark.parametrize("content", ["", "  ", "\ud800", "{days}", "\0" * 3, "long " * 20_000])
def test_whatever_the_agent_says_can_be_judged(target: ProcessTarget, content: str) -> None:
    said = Message(role="assistant", content=content)
    _, verdict, _ = asyncio.run(play(target, named(target, "find_days_till_holiday"), [said]))
    assert verdict.success is False


@pytest.mark.parametrize(
    "arguments",
    [
        {"on": "\ud800"},
        {"on": 10**400},
        {"on": {"a": [None, 1e300]}},
        {"a b": 1, "__class__": 2},
        {"on": None},
    ],
)
def test_whatever_the_agent_calls_is_answered(target: ProcessTarget, arguments: dict[str, object]) -> None:
    heard, _, _ = asyncio.run(
        play(target, named(target, "wifi_off"), [calls(call("set_wifi_status", **arguments))])
    )
    assert [(one.tool_call_id, one.is_error) for one in heard[2:]] == [("c1", True)]


def test_a_conversation_that_goes_on_for_ever_is_cut_off(target: ProcessTarget) -> None:
    task = named(target, "get_wifi")

    async def talk() -> int:
        episode = target.episode(task, seed=0)
        await episode.reset()
        for turn in range(1, 40):
            step = await episode.step(calls(call("get_wifi_status")))
            assert not step.done
            if step.truncated:
                await episode.close()
                return turn
        raise AssertionError("it went on")

    assert asyncio.run(talk()) == 15


def test_an_episode_leaves_nothing_behind_in_its_process(target: ProcessTarget) -> None:
    tasks = tasks_of(target)[::9]
    scripts = {task.task_id: target.oracle(task) for task in tasks}
    fresh = toolsandbox(fresh_process=True)
    try:
        alone = every(fresh, scripts)
    finally:
        fresh.close()
    for order in (scripts, dict(reversed(scripts.items()))):
        assert every(target, order) == alone


def test_the_day_is_part_of_the_version_where_the_clock_is_todays(target: ProcessTarget) -> None:
    today, noon = toolsandbox(clock="today"), toolsandbox(clock="2024-05-06T12:00:00")
    try:
        assert len({target.version, today.version, noon.version}) == 3
        assert noon.provenance["clock"] == "2024-05-06T12:00:00"
        task = named(today, "add_reminder_content_and_week_delta_and_time")
        _, verdict, _ = asyncio.run(play(today, task, today.oracle(task)))
        assert verdict.success is True
    finally:
        today.close()
        noon.close()


def test_scores_say_what_they_were_played_in(target: ProcessTarget) -> None:
    assert {"commit", "data", "clock", "user"} <= set(target.provenance)
    assert target.provenance["clock"] == "2025-03-12T10:00:00"


@pytest.mark.parametrize(
    ("options", "words"),
    [({"user": "model"}, "user_model"), ({"user": "robot"}, "no user"), ({"clock": "noon"}, "clock is")],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], words: str) -> None:
    target = toolsandbox(**options)
    try:
        with pytest.raises(InputError, match=words):
            _ = target.name
    finally:
        target.close()


def test_no_user_ends_the_conversation_with_the_agents_first_words() -> None:
    target = toolsandbox(user="none")
    try:
        heard, _, over = asyncio.run(play(target, named(target, "wifi_off"), [GOODBYE]))
        assert over
        assert [message.role for message in heard] == ["system", "user"]
    finally:
        target.close()


class Server(ThreadingHTTPServer):
    """An OpenAI-compatible server that says what it is given, in turn, and keeps what it was asked."""

    def __init__(self, answers: list[dict[str, Any] | int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **body})
        answer = self.server.answers.pop(0)
        message = answer if isinstance(answer, dict) else {}
        text = json.dumps({"choices": [{"message": {"role": "assistant", **message}}]}).encode()
        self.send_response(200 if isinstance(answer, dict) else answer)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        return


def served(*answers: dict[str, Any] | int) -> Server:
    server = Server(list(answers))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def end(number: str = "chatcmpl-tool-9") -> dict[str, Any]:
    function = {"name": "end_conversation", "arguments": "{}"}
    return {"content": None, "tool_calls": [{"id": number, "type": "function", "function": function}]}


def test_a_user_by_language_model_hears_its_scenario_speaks_and_ends() -> None:
    server = served(503, {"content": "Turn it off, will you?"}, end())
    target = toolsandbox(user="model", user_model="m", user_base_url=server.url)
    try:
        script = [Message(role="assistant", content="Shall I?"), Message(role="assistant", content="Done.")]
        heard, _, over = asyncio.run(play(target, named(target, "wifi_off"), script))
        assert over
        assert heard[-1] == Message(role="user", content="Turn it off, will you?")
        last = server.asked[-1]
        assert (last["path"], last["model"], len(server.asked)) == ("/v1/chat/completions", "m", 3)
        assert last["messages"][0]["role"] == "system"
        # The roles are turned round: the agent's words are what the model hears.
        assert [one["content"] for one in last["messages"] if one["role"] == "user"][-2:] == [
            "Shall I?",
            "Done.",
        ]
        assert [tool["function"]["name"] for tool in last["tools"]] == ["end_conversation"]
    finally:
        target.close()
        server.shutdown()


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ([{"content": ""}], UserFault),
        ([{"content": None, "tool_calls": [{"function": {"name": "fly", "arguments": "{}"}}]}], UserFault),
        ([500, 500, 500], Unavailable),
    ],
)
def test_a_user_that_fails_is_no_verdict_on_the_agent(
    answers: list[dict[str, Any] | int], fault: type[Exception]
) -> None:
    server = served(*answers)
    target = toolsandbox(user="model", user_model="m", user_base_url=server.url)
    try:
        with pytest.raises(fault):
            asyncio.run(play(target, named(target, "wifi_off"), [GOODBYE]))
    finally:
        target.close()
        server.shutdown()
