"""Batches, merging, questions, and the model's second look at faults."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from chat_server import ChatServer
from honest_reader import HonestReader

from trace_assets.diagnosis.llm.batches import draw_batches
from trace_assets.diagnosis.llm.causes import ModelTriage
from trace_assets.diagnosis.llm.labelling import label_question
from trace_assets.diagnosis.llm.merging import merge, merge_question
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Capability, Message, Proposal, Trajectory
from trace_assets.settings import Discovery, Labels

Open = Callable[..., Any]


def test_batches_are_resamples_of_failures_with_successes_of_the_same_tasks(
    trajectories: list[Trajectory],
) -> None:
    section = Discovery(passes=4, failures=5, successes=5)
    batches = draw_batches(trajectories, section)
    assert [one.number for one in batches] == [1, 2, 3, 4]
    mixed = {one.task_id for one in trajectories if one.success} & {
        one.task_id for one in trajectories if not one.success
    }
    for batch in batches:
        assert all(one.success is False for one in batch.failures)
        assert all(one.success is True for one in batch.successes)
        assert len(batch.failures) == len(batch.successes) == 5
        assert max(Counter(one.task_id for one in batch.failures).values()) == 1, "tasks take turns"
        partners = {one.task_id for one in batch.successes}
        for failure in batch.failures:
            if failure.task_id in mixed:
                assert failure.task_id in partners
    assert len({tuple(one.trajectory_id for one in batch.failures) for batch in batches}) > 1
    shuffled = random.Random(1).sample(trajectories, len(trajectories))
    assert draw_batches(shuffled, section) == batches
    assert draw_batches(trajectories, section.model_copy(update={"seed": 1})) != batches
    assert draw_batches([one for one in trajectories if one.success], section) == []


def test_without_another_trial_the_most_similar_task_is_taken() -> None:
    def one(name: str, text: str, success: bool) -> Trajectory:
        messages = (Message(role="user", content=text), Message(role="assistant", content="ok"))
        return Trajectory(
            trajectory_id=name,
            task_id=f"x/{name}",
            target="x",
            task_batch="b",
            policy="p",
            success=success,
            messages=messages,
        )

    made = [
        one("a", "cancel my flight to Rome", False),
        one("b", "book a hotel room please", True),
        one("c", "cancel my flight to Oslo", True),
        one("d", "what is the weather", True),
    ]
    (batch,) = draw_batches(made, Discovery(passes=1, failures=1, successes=1))
    assert [row.trajectory_id for row in batch.successes] == ["c"]


def proposals(*names: str) -> list[Proposal]:
    return [
        Proposal(
            target="x",
            analyst="model:m",
            proposal_id=f"p{place}-1",
            discovery_pass=place,
            name=name,
            description="d " * 8,
            trajectories=(f"t{place}",),
        )
        for place, name in enumerate(names, 1)
    ]


def test_a_merge_that_loses_doubles_or_invents_proposals_is_refused() -> None:
    question = merge_question(Discovery(model="m"), proposals("a b", "c d", "e f"))

    def complaints(*groups: tuple[str, list[str]]) -> str:
        answer = {
            "groups": [{"name": name, "description": "d", "members": members} for name, members in groups]
        }
        read, found = question.read(json.dumps(answer))
        assert (read is None) == bool(found)
        return "; ".join(found)

    assert complaints(("x", ["P1", "P3"]), ("y", ["P2"])) == ""
    assert complaints(("x", ["P1", "P3"])) == "", "one that was forgotten is a group of its own"
    assert "P2 is in no group" in complaints(("x", ["P1"]))
    assert "P1 is in more than one" in complaints(("x", ["P1", "P3"]), ("y", ["P2", "P1"]))
    assert complaints(("x", ["P1", "P3"]), ("y", ["P2", "P9"])) == ""
    assert complaints(("x", ["P1", "P3"]), ("X!", ["P2"])) == "", "groups of one name are one"
    assert "no group" in complaints((" ", ["P1", "P3", "P2"]))


@pytest.mark.parametrize("usable", [True, False])
def test_merging_loses_no_proposal_also_when_the_model_fails(open_analyst: Open, usable: bool) -> None:
    def answer(messages: Any) -> dict[str, Any]:
        first = json.loads(messages[1]["content"].splitlines()[1])["id"]
        good = [
            {"name": "look first", "description": "d", "members": [first, "P2"]},
            {"name": "z", "description": "d", "members": ["P3"]},
        ]
        return {"groups": good if usable else []}

    rows = proposals("look first", "Look before", "zeta", "Look  first.")
    with ChatServer(answer) as server, open_analyst(server.url, repairs=1) as (_, opened):
        merged = merge(opened, Discovery(model="m", max_candidates=2), "model:m", "x", rows)
    assert {row.proposal_id for row in merged.proposals} == {row.proposal_id for row in rows}
    became = {row.proposal_id: row.merged_into for row in merged.proposals}
    assert became["p1-1"] == became["p4-1"], "equal names are one without asking"
    assert (became["p1-1"] == became["p2-1"]) == usable
    assert (merged.by, bool(merged.reason)) == (("model", False) if usable else ("name", True))
    assert merged.n_groups == (2 if usable else 3)
    assert len(merged.capabilities) == 2
    left_out = [row for row in merged.proposals if row.merged_into is None]
    assert all(row.merged_by == "none" for row in left_out)
    assert len(left_out) == (0 if usable else 1)
    first = merged.capabilities[0]
    assert first.n_proposals == (3 if usable else 2)
    assert set(first.proposed_by) == ({"t1", "t2", "t4"} if usable else {"t1", "t4"})


def answer_with(**changes: Any) -> list[dict[str, Any]]:
    rows = [{"id": f"C{place}", "rationale": "r", "evidence": [0], "label": "PRESENT"} for place in (1, 2, 3)]
    rows[1] |= changes
    return rows


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (answer_with(), ""),
        (answer_with(label="NA", evidence=[], rationale=""), ""),
        (answer_with(label="LACKING", evidence=[]), ""),
        (answer_with()[:2], "the label for C3 is missing"),
        (answer_with()[::-1], ""),
        (answer_with(id="C9"), "the label for C2 is missing"),
        (answer_with(id="C1", label="LACKING"), "the label for C1 is missing.*; the label for C2 is missing"),
        (answer_with(evidence=[99]), "the label for C2 is missing, or unusable"),
        (answer_with(evidence=[-1]), "the label for C2 is missing, or unusable"),
        (answer_with(evidence=[]), "C2: PRESENT needs evidence"),
        (answer_with(rationale=" "), "C2: PRESENT needs a rationale"),
        (answer_with(label="MAYBE"), "labels.1.label"),
        (answer_with(evidence="0"), ""),
        (answer_with(more=1), ""),
    ],
)
def test_labels_that_are_wrong_in_any_way_are_refused_with_the_reason(
    trajectories: list[Trajectory], planted: list[Capability], labels: list[dict[str, Any]], words: str
) -> None:
    import re

    question = label_question(Labels(model="m"), view(trajectories[0], 1000), planted, 1)
    read, complaints = question.read(f"Sure! ```json\n{json.dumps({'labels': labels})}\n```")
    assert re.search(words, "; ".join(complaints))
    assert (read is None) == bool(words)


def test_a_models_second_look_counts_only_with_evidence_and_only_after_the_rules(
    reader: HonestReader, open_analyst: Open, trajectories: list[Trajectory]
) -> None:
    failed = [one for one in trajectories if not one.success][:6]
    call = next(i for i, one in enumerate(failed[0].messages) if one.role == "tool")
    messages = list(failed[0].messages)
    messages[call] = messages[call].model_copy(update={"content": "Traceback: the tool is on fire"})
    broken = failed[0].model_copy(update={"messages": tuple(messages)})
    given = [broken, *failed[1:], *[one for one in trajectories if one.success][:3]]
    with (
        ChatServer(reader.answer, rate=0.3, faults=["wrong_id", "prose", "error_500"]) as server,
        open_analyst(server.url) as (_, opened),
    ):
        rows = triage(given, second_look=ModelTriage(opened, "m"))
        asked = {body["messages"][1]["content"] for body in server.bodies}
    by_id = {row.trajectory_id: row for row in rows}
    assert (by_id[broken.trajectory_id].fault, by_id[broken.trajectory_id].rule) == (
        "environment",
        "model_second_look",
    )
    assert by_id[broken.trajectory_id].evidence == (call,)
    assert all(by_id[one.trajectory_id].fault == "agent" for one in failed[1:])
    assert len(asked) <= len(failed), "only failures that rules leave to the agent are asked about"
    assert [row.trajectory_id for row in rows] == [one.trajectory_id for one in given]
