"""Each detector family on small dialogues: when it is needed, shown, lacking, and with which evidence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.detectors.desk_dialogues import CASES as OF_DESKS
from tests.diagnosis.detectors.dialogues import (
    ASK,
    BOTH,
    CASES,
    CLOSED,
    PENDING,
    REFUND,
    agent,
    call,
    transcript,
)
from trace_assets.diagnosis.detectors import FAMILIES, Corpus, Transcript
from trace_assets.records import Message, ToolCall, Trajectory

BY_NAME = {family.name: family for family in FAMILIES}


@pytest.mark.parametrize(("family", "args", "parts", "label", "evidence"), [*CASES, *OF_DESKS])
def test_labels(
    family: str, args: dict[str, Any], parts: list[list[Message]], label: str, evidence: tuple[int, ...]
) -> None:
    finding = BY_NAME[family].label(transcript(*parts), args)
    assert (finding.label, finding.evidence) == (label, evidence), finding.rationale
    assert finding.rationale or label == "NA"


def test_every_family_is_tried_above_in_both_ways() -> None:
    tried = {(case[0], case[3]) for case in [*CASES, *OF_DESKS]}
    assert tried >= {(name, label) for name in BY_NAME for label in ("PRESENT", "LACKING")}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_norm_is_a_share(name: str) -> None:
    assert 0.0 <= BY_NAME[name].norm <= 1.0


PIECES = [
    ASK,
    REFUND,
    BOTH,
    agent("I cannot cancel order K4821."),
    agent("Order K4821 has been cancelled. Shall I go on?"),
    agent(""),
    call("get_order", PENDING, order="K4821"),
    call("get_order", CLOSED, order="A0007"),
    call("get_order", "Error: not found", error=True, order="#Z9999"),
    call("cancel_order", order="K4821"),
    call("refund_item", order="A0007", item="rug", amount=19.5),
    call("refund_item", "not json {", order="K4821", item=["rug", {"deep": None}]),
    call("toggle_data", "Data is ON | Bar: full", by_user=True),
    call("transfer", "Transfer successful"),
    [
        Message(
            role="assistant",
            tool_calls=(ToolCall(id="lost", name="cancel_order", arguments={"order": None}),),
        )
    ],
    [Message(role="tool", content=None, tool_call_id="nobody")],
]
DIALOGUES = st.lists(st.lists(st.sampled_from(PIECES), max_size=12), min_size=1, max_size=12)


@given(DIALOGUES)
def test_any_proposal_labels_any_transcript_with_valid_evidence(dialogues: list[list[list[Message]]]) -> None:
    made = [transcript(*parts, task=f"x/{number}") for number, parts in enumerate(dialogues)]
    corpus = Corpus(made * 5)
    for family in FAMILIES:
        for proposal in family.propose(corpus):
            assert proposal.name and proposal.description
            for one in made:
                finding = family.label(one, proposal.args)
                assert finding == family.label(Transcript(_trajectory(one)), proposal.args)
                assert all(0 <= index < len(one.messages) for index in finding.evidence)
                assert list(finding.evidence) == sorted(set(finding.evidence))


def _trajectory(one: Transcript) -> Trajectory:
    values = {"trajectory_id": "t", "task_id": one.task_id, "target": "x", "task_batch": "b", "policy": "p"}
    return Trajectory(**values, messages=one.messages)  # type: ignore[arg-type]
