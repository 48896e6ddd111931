"""The order desk: splits, oracle, floor."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Message, Task, Verdict
from trace_assets.settings import Targets
from trace_assets.targets.conformance import check_target
from trace_assets.targets.embedded.desk import CITIES, COLOURS, ITEMS, case_of, look_up
from trace_assets.targets.embedded.generator import MIXES, stream
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.targets.protocol import Target
from trace_assets.targets.registry import open_target

SPLITS = ("discovery", "validation", "test")


@pytest.fixture(scope="module")
def target() -> EmbeddedTarget:
    return open_target(Targets())


def play(target: EmbeddedTarget, task: Task, turns: Sequence[Message]) -> Verdict:
    async def run() -> Verdict:
        episode = target.episode(task, seed=0)
        await episode.reset()
        for turn in turns:
            step = await episode.step(turn)
            assert not any(message.role != "tool" for message in step.messages)
        verdict = await episode.verdict()
        await episode.close()
        return verdict

    return asyncio.run(run())


def test_it_is_a_target(target: EmbeddedTarget) -> None:
    assert isinstance(target, Target)


@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_every_task(target: EmbeddedTarget, split: str) -> None:
    for task in target.tasks(split):  # type: ignore[arg-type]
        verdict = play(target, task, target.oracle(task))
        assert (verdict.reward, verdict.success) == (1.0, True), task


def test_doing_nothing_solves_no_task_and_earns_little(target: EmbeddedTarget) -> None:
    nothing = [Message(role="assistant", content="Goodbye.")]
    verdicts = [play(target, task, nothing) for task in target.tasks("test")]
    rewards = [verdict.reward or 0.0 for verdict in verdicts]
    assert not any(verdict.success for verdict in verdicts)
    assert max(rewards) <= 0.34
    assert sum(rewards) / len(rewards) == pytest.approx(0.214, abs=0.005)


def test_no_two_tasks_share_a_request_whatever_their_split(target: EmbeddedTarget) -> None:
    texts = [task.instruction for split in SPLITS for task in target.tasks(split)]  # type: ignore[arg-type]
    texts += [drawn.text for drawn in islice(stream(0, "demonstrations"), 3000)]
    assert len(set(texts)) == len(texts)


def test_wordings_of_a_split_occur_in_no_other(target: EmbeddedTarget) -> None:
    def wordings(texts: list[str]) -> set[str]:
        values = "|".join((r"[A-Z]\d\d", *ITEMS, *COLOURS, *CITIES))
        return {re.sub(rf"\b({values})\b", "_", text.replace("Dear desk", "Dear")) for text in texts}

    found = [wordings([task.instruction for task in target.tasks(split)]) for split in SPLITS]  # type: ignore[arg-type]
    found.append(wordings([drawn.text for drawn in islice(stream("0/0", "demonstrations"), 3000)]))
    assert sum(len(group) for group in found) == len(set.union(*found))


def test_skills_and_conditions_are_balanced(target: EmbeddedTarget) -> None:
    tasks = target.tasks("discovery")
    skills = Counter(task.tags[0] for task in tasks)
    for skill in ("cancel", "multi", "window"):
        assert 0.2 <= skills[skill] / len(tasks) <= 0.24
    for skill in ("address", "exchange", "status"):
        assert skills[skill] / len(tasks) >= 0.1
    for skill, attribute, allowed in (("cancel", "status", "pending"), ("window", "window", "open")):
        cases = [case_of(task) for task in tasks if task.tags[0] == skill]
        may = sum(getattr(case.order(case.requests[0].order), attribute) == allowed for case in cases)
        assert abs(may - len(cases) / 2) <= 1
    for task in tasks:
        case = case_of(task)
        assert len(case.requests) == (2 if task.tags[0] == "multi" else 1)
        assert len({request.order for request in case.requests}) == len(case.requests)


def test_tasks_follow_from_seed_and_counts() -> None:
    again = open_target(Targets()).tasks("validation")
    assert again == open_target(Targets()).tasks("validation")
    fewer = open_target(Targets(validation_tasks=10))
    assert fewer.tasks("validation") == tuple(again[:10])
    assert open_target(Targets(seed=1)).tasks("validation")[0] != again[0]
    assert len({open_target(section).version for section in (Targets(), Targets(seed=1))}) == 2


def test_a_payload_of_another_target_is_refused(target: EmbeddedTarget) -> None:
    task = target.tasks("test")[0].model_copy(update={"payload": {"seed": 3}})
    with pytest.raises(InputError, match="no orders and requests"):
        target.episode(task, seed=0)


def test_an_unknown_target_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match="trace ingest"):
        open_target(Targets(name="tau7:airline"))


def test_an_episode_is_cut_off_at_its_turn_limit(target: EmbeddedTarget) -> None:
    task = target.tasks("test")[0]
    look = Message(
        role="assistant",
        tool_calls=(look_up(case_of(task).requests[0].order),),
    )

    async def run() -> list[tuple[bool, bool]]:
        episode = target.episode(task, seed=0)
        first = await episode.reset()
        assert [message.role for message in first] == ["system", "user"]
        steps = [await episode.step(look) for _ in range(7)]
        return [(step.done, step.truncated) for step in steps]

    assert asyncio.run(run()) == [(False, False)] * 6 + [(False, True)]


def test_tasks_of_the_first_desk_are_those_that_they_were() -> None:
    target = open_target(Targets())
    text = "".join(task.model_dump_json() for split in SPLITS for task in target.tasks(split))  # type: ignore[arg-type]
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "5dbac118b848c126"
    named = Targets(options={"desk": "a"})
    assert named.fingerprint() == Targets().fingerprint()
    assert open_target(named).version == target.version


def test_the_second_desk_asks_for_several_lacking_skills_in_two_tasks_of_three() -> None:
    target = open_target(Targets(options={"desk": "b"}))
    assert target.version != open_target(Targets()).version
    tasks = target.tasks("discovery")
    pairs = [task for task in tasks if task.tags == ("pair",)]
    assert abs(len(pairs) / len(tasks) - 2 / 3) < 0.02
    wishes = Counter(request.wish for task in pairs for request in case_of(task).requests)
    assert set(wishes) == {"cancel", "window"} and abs(wishes["cancel"] / wishes.total() - 0.5) < 0.1
    for task in pairs:
        verdict = play(target, task, target.oracle(task))
        assert (verdict.reward, verdict.success) == (1.0, True), task
    texts = [task.instruction for split in SPLITS for task in target.tasks(split)]  # type: ignore[arg-type]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("desk", MIXES)
def test_every_desk_passes_the_kit(desk: str) -> None:
    check_target(partial(open_target, Targets(options={"desk": desk})), tasks=6)


@pytest.mark.parametrize("options", [{"desk": "z"}, {"desk": None}, {"desk": ["b"]}, {"user": "x"}])
def test_what_is_no_desk_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"one of a, b"):
        open_target(Targets(options=options))
