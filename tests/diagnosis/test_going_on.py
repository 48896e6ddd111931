"""What the live policy makes of a repair: agents that heed it, that do not, and that just had bad luck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.diagnosis.test_repair import capability, careless, label, played
from tests.scripted_policies import ScriptedPolicy
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.repair import measure as measuring
from trace_assets.diagnosis.repair.going_on import PLACEBO, GoingOn
from trace_assets.diagnosis.repair.measure import Measured, measure
from trace_assets.diagnosis.repair.shares import decisive_shares, excess
from trace_assets.diagnosis.triage import triage
from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation
from trace_assets.records import Capability, DecisiveShare, Label, Message, Task, Trajectory
from trace_assets.rollouts.runner import Journal
from trace_assets.settings import Targets
from trace_assets.targets.embedded.desk import case_of, solve
from trace_assets.targets.embedded.target import EmbeddedTarget

RULED = capability(
    "write_without_read",
    {"tool": "cancel_order", "read": "get_order", "argument": "order", "cues": []},
)
PROPOSED = RULED.model_copy(
    update={
        "capability_id": "proposed",
        "name": "look the order up before cancelling it",
        "detector": None,
        "detector_args": {},
    }
)
"""The same lack as a model proposes it: nothing says what its repair would be."""
Answer = Callable[[Task, Conversation], list[Message]]


@cache
def desk() -> tuple[EmbeddedTarget, list[Trajectory], dict[str, Task]]:
    target = EmbeddedTarget(Targets(discovery_tasks=72))
    return target, played(target, careless), {task.task_id: task for task in target.tasks("discovery")}


def agent(turns_of: Answer, *, dies_after: int | None = None) -> ScriptedPolicy:
    by_words = {task.instruction: task for task in desk()[2].values()}
    acts = 0

    def answer(conversation: Conversation) -> Message:
        nonlocal acts
        acts += 1
        if dies_after is not None and acts > dies_after:
            raise Unavailable("the server is down")
        asked = next(one.content for one in conversation.messages if one.role == "user")
        turns = turns_of(by_words[asked or ""], conversation)
        said = sum(message.role == "assistant" for message in conversation.messages)
        return turns[min(said, len(turns) - 1)]

    return ScriptedPolicy(answer, name="scripted", version="1")


def mistake(task: Task) -> list[Message]:
    return careless(task, 0)


def heeding(task: Task, conversation: Conversation) -> list[Message]:
    """Do right where told what is lacking, wrong where told anything else."""
    told = conversation.messages[0].content or ""
    return solve(case_of(task)) if "look the order up before cancelling" in told else mistake(task)


def deaf(task: Task, conversation: Conversation) -> list[Message]:
    return mistake(task)


def unlucky(task: Task, conversation: Conversation) -> list[Message]:
    """Do right whenever it has another chance."""
    return solve(case_of(task))


def labels_of(candidate: Capability) -> list[Label]:
    found = [label(one, RULED) for one in desk()[1]]
    return [one.model_copy(update={"capability_id": candidate.capability_id}) for one in found]


def gone_on(
    policy: ScriptedPolicy, most: int, candidates: list[Capability], journal: Journal | None = None
) -> tuple[Measured, GoingOn]:
    target, runs, tasks = desk()
    going_on = GoingOn(policy, most, 9, journal)
    labels = [one for candidate in candidates for one in labels_of(candidate)]
    found = asyncio.run(measure(target, tasks, runs, candidates, labels))
    return found.with_rows(asyncio.run(going_on.resolve(target, found.left_open))), going_on


def share_of(found: Measured, candidate: Capability) -> DecisiveShare:
    matrix = LabelMatrix.build(labels_of(candidate), triage(desk()[1]), "embedded")
    (share,) = decisive_shares(matrix, found.rows, "embedded", live=True)
    return share


@pytest.mark.parametrize(
    ("turns_of", "share", "placebo"), [(heeding, 1.0, 0.0), (deaf, 0.0, 0.0), (unlucky, 1.0, 1.0)]
)
def test_only_what_the_telling_changes_counts(turns_of: Answer, share: float, placebo: float) -> None:
    found, going_on = gone_on(agent(turns_of), 1000, [PROPOSED])
    got = share_of(found, PROPOSED)
    assert got.n_replayed == got.n_lacking >= 5 and going_on.played == 2 * got.n_lacking
    assert (got.share, got.placebo) == (share, placebo)
    assert excess(got) == share - placebo
    assert {row.kind for row in found.rows} == {"go on"}
    assert "told at its turn: look the order up before cancelling it" in found.rows[0].change
    assert got.lower_bound == (share == 0)  # an agent that was told may not heed it


def test_an_agent_that_is_shown_something_says_what_it_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "expected_of", lambda target, task: None)

    def looking(task: Task, conversation: Conversation) -> list[Message]:
        seen = any(message.role == "tool" for message in conversation.messages)
        return solve(case_of(task)) if seen else mistake(task)

    before = share_of(asyncio.run(measure(desk()[0], desk()[2], desk()[1], [RULED], labels_of(RULED))), RULED)
    found, _ = gone_on(agent(looking), 1000, [RULED])
    after = share_of(found, RULED)
    assert before.lower_bound and before.share is not None and before.share < 1
    assert after.share == 1.0 and not after.lower_bound
    went_on = [row for row in found.rows if row.kind == "go on"]
    assert went_on and all(row.change.startswith("get_order(order=") for row in went_on)
    assert not any(row.placebo_passed for row in went_on)  # the turn taken again without the look


def test_episodes_are_bounded_and_every_capability_has_its_turn() -> None:
    other = PROPOSED.model_copy(update={"capability_id": "other"})
    found, going_on = gone_on(agent(heeding), 9, [PROPOSED, other])
    assert going_on.played == 8
    tried = [row.capability_id for row in found.rows if row.kind == "go on"]
    assert sorted(tried) == ["other", "other", "proposed", "proposed"]
    assert {row.status for row in found.rows if row.kind != "go on"} == {"not repairable"}
    assert "repairs.go_on" in next(row.detail for row in found.rows if row.kind != "go on")


def test_what_was_played_before_an_interruption_is_not_played_again(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the server is down"):
        gone_on(agent(heeding, dies_after=20), 1000, [PROPOSED], Journal(tmp_path))
    kept = sum(one.fault is None for one in Journal(tmp_path).load().values())
    found, going_on = gone_on(agent(heeding), 1000, [PROPOSED], Journal(tmp_path))
    assert kept > 0 and going_on.from_journal == kept and going_on.played == 2 * len(found.rows) - kept
    assert found.rows == gone_on(agent(heeding), 1000, [PROPOSED])[0].rows
    again, none = gone_on(agent(heeding), 1000, [PROPOSED], Journal(tmp_path))
    assert none.played == 0 and again.rows == found.rows


def test_an_agent_that_breaks_gives_no_verdict() -> None:
    def breaks(task: Task, conversation: Conversation) -> list[Message]:
        raise RuntimeError("out of memory")

    with pytest.raises(Unavailable, match="out of memory"):
        gone_on(agent(breaks), 4, [PROPOSED])


def test_the_control_is_told_as_much() -> None:
    assert 0.5 < len(PLACEBO) / len(f"From here on, take special care of this: {PROPOSED.name}.") < 2
