"""tau2-bench live: `TRACE_TAU2_HOME` names a home in which `trace targets install tau2` was run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_assets.records import Message, Task, ToolCall, Verdict
from trace_assets.settings import Targets
from trace_assets.targets.process.answers import TargetHung
from trace_assets.targets.process.target import ProcessTarget
from trace_assets.targets.registry import open_target

HOME = os.environ.get("TRACE_TAU2_HOME", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HOME, reason="tau2-bench is not installed: TRACE_TAU2_HOME names no home"),
]
TASKS = {"airline": 50, "retail": 114, "telecom": 114, "telecom_solo": 114}
JUDGED_BY_MODEL = {"retail": 40}
FLOOR = {"airline": (23, 50), "retail": (6, 109), "telecom": (0, 114), "telecom_solo": (0, 114)}
"""Tasks that an agent that does nothing succeeds on, of those that can be judged without a model."""
GOODBYE = Message(role="assistant", content="Goodbye.")


def tau2(domain: str, score: str = "official", call_seconds: float = 120.0) -> ProcessTarget:
    user = "none" if domain.endswith("_solo") else "scripted"
    section = Targets(
        name=f"tau2:{domain}",
        options={"user": user, "score": score},
        processes=2,
        call_seconds=call_seconds,
    )
    target = open_target(section, Path(HOME) / "targets")
    assert isinstance(target, ProcessTarget)
    return target


@pytest.fixture(params=sorted(TASKS))
def domain(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def target(domain: str) -> Iterator[ProcessTarget]:
    opened = tau2(domain)
    yield opened
    opened.close()


def tasks_of(target: ProcessTarget) -> list[Task]:
    return [task for split in ("discovery", "validation", "test") for task in target.tasks(split)]


async def play(target: ProcessTarget, task: Task, script: list[Message]) -> Verdict:
    episode = target.episode(task, seed=0)
    try:
        await episode.reset()
        for message in script:
            step = await episode.step(message)
            if step.done or step.truncated:
                break
        return await episode.verdict()
    finally:
        await episode.close()


def verdicts(target: ProcessTarget, scripts: dict[str, list[Message]]) -> list[Verdict]:
    async def every() -> list[Verdict]:
        few = asyncio.Semaphore(2)

        async def one(task: Task) -> Verdict:
            async with few:
                return await play(target, task, scripts[task.task_id])

        return list(await asyncio.gather(*(one(task) for task in tasks_of(target))))

    return asyncio.run(every())


def test_the_reference_solution_succeeds_on_every_task(domain: str, target: ProcessTarget) -> None:
    tasks = tasks_of(target)
    assert len(tasks) == TASKS[domain]
    found = verdicts(target, {task.task_id: target.oracle(task) for task in tasks})
    open_checks = [[c.name for c in v.checks if c.passed is None] for v in found]
    assert not [v for v in found if any(c.passed is False for c in v.checks)]
    assert sum(names == ["NL_ASSERTION"] for names in open_checks) == JUDGED_BY_MODEL.get(domain, 0)
    assert sum(v.success is True for v in found) == TASKS[domain] - JUDGED_BY_MODEL.get(domain, 0)
    # What only a judge could decide is neither a success nor a failure.
    assert all(v.reward is None for v, names in zip(found, open_checks, strict=True) if names)


def test_the_floor_of_an_agent_that_does_nothing(domain: str, target: ProcessTarget) -> None:
    found = verdicts(target, {task.task_id: [GOODBYE] * 3 for task in tasks_of(target)})
    judged = [v for v in found if v.success is not None]
    assert (sum(v.success is True for v in judged), len(judged)) == FLOOR[domain]


@pytest.mark.parametrize("domain", ["airline", "telecom"], indirect=True)
def test_live_state_and_official_evaluator_agree(domain: str, target: ProcessTarget) -> None:
    live = tau2(domain, score="live")
    try:
        for script in ("oracle", "nothing"):
            scripts = {
                task.task_id: target.oracle(task) if script == "oracle" else [GOODBYE] * 3
                for task in tasks_of(target)
            }
            assert [v.reward for v in verdicts(live, scripts)] == [
                v.reward for v in verdicts(target, scripts)
            ]
    finally:
        live.close()


def test_a_call_that_never_ends_is_killed_and_no_reward() -> None:
    target = tau2("airline", call_seconds=3.0)
    power = ToolCall(id="c1", name="calculate", arguments={"expression": "9**9**8"})

    async def hang() -> float:
        episode = target.episode(target.tasks("discovery")[0], seed=0)
        await episode.reset()
        begun = time.monotonic()
        with pytest.raises(TargetHung, match="was killed"):
            await episode.step(Message(role="assistant", tool_calls=(power,)))
        waited = time.monotonic() - begun
        await episode.close()
        await episode.reset()  # another process goes on
        await episode.close()
        return waited

    try:
        assert asyncio.run(hang()) < 5
    finally:
        target.close()


def test_scores_say_which_tau2_they_are_of(target: ProcessTarget) -> None:
    provenance = target.provenance
    assert {"tau2", "commit", "data", "score", "user"} <= set(provenance)
    assert len(provenance["data"]) == 16


def test_text_beside_calls_is_not_heard_and_nothing_said_ends_the_conversation() -> None:
    target = tau2("airline")
    look = ToolCall(id="c1", name="list_all_airports", arguments={})

    async def talk() -> tuple[int, bool]:
        episode = target.episode(target.tasks("discovery")[0], seed=0)
        await episode.reset()
        both = await episode.step(Message(role="assistant", content="One moment.", tool_calls=(look,)))
        nothing = await episode.step(Message(role="assistant", content="  "))
        await episode.close()
        return len(both.messages), nothing.done

    try:
        assert asyncio.run(talk()) == (1, True)
    finally:
        target.close()
