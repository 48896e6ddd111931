"""One lesson over several tools or fields: parents of proposals, and what one policy alone lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trace_assets.diagnosis.detectors import FAMILIES, Detector, Proposal
from trace_assets.diagnosis.detectors.protocol import CHILDREN, joined, label_with, parents, part_lacking
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.label_matrix import LACKING, MISSING, NA, NO_EVIDENCE, PRESENT, LabelMatrix
from trace_assets.diagnosis.thresholds import alone
from trace_assets.records import Message, ToolCall, Trajectory
from trace_assets.settings import Selection

FAMILY = next(one for one in FAMILIES if one.name == "unsupported_argument")
OTHER = next(one for one in FAMILIES if one.name == "empty_turn")
N, P, L = NA, PRESENT, LACKING


def proposal(argument: str, tool: str = "") -> Proposal:
    return Proposal({"argument": argument, "tool": tool}, argument, argument, (argument,))


def found(*rows: tuple[Detector, Proposal]) -> Sequence[tuple[Detector, Proposal]]:
    return rows


def test_a_parent_is_lacking_where_any_child_is() -> None:
    codes = np.array([[L, P, P, N, P, N], [P, L, P, N, P, N], [N, N, N, L, P, P]], dtype=np.int8)
    ((detector, parent, rows),) = parents(
        found((FAMILY, proposal("room")), (FAMILY, proposal("day")), (FAMILY, proposal("name"))), codes
    )
    assert (detector.name, rows) == ("unsupported_argument", (0, 1, 2))
    assert [one["argument"] for one in parent.args[CHILDREN]] == ["room", "day", "name"]
    evidence = np.full(codes.shape, NO_EVIDENCE, dtype=np.int32)
    evidence[0, 0], evidence[1, 1] = 7, 9
    code, places = joined(codes, evidence, rows)
    assert code.tolist() == [L, L, P, L, P, P]
    assert places.tolist() == [7, 9, NO_EVIDENCE, NO_EVIDENCE, NO_EVIDENCE, NO_EVIDENCE]


@pytest.mark.parametrize(
    ("rows", "codes"),
    [
        (found((FAMILY, proposal("room"))), [[L, P, P]]),  # an only child
        (
            found((OTHER, proposal("room")), (OTHER, proposal("day"))),
            [[L, P, P], [P, L, P]],
        ),  # no such family
        # The largest child says nearly all of it.
        (found((FAMILY, proposal("room")), (FAMILY, proposal("day"))), [[L, L, P, P], [L, P, P, P]]),
        # What few runs show is no lesson yet.
        (found((FAMILY, proposal("room")), (FAMILY, proposal("day"))), [[L, P, P, P], [P, L, L, L]]),
        # Alone for one tool is what the proposal over all of them says as well.
        (found((FAMILY, proposal("room")), (FAMILY, proposal("day", "book"))), [[L, P, P], [P, L, P]]),
    ],
)
def test_where_there_is_no_parent(
    rows: Sequence[tuple[Detector, Proposal]], codes: Sequence[Sequence[int]]
) -> None:
    assert parents(rows, np.array(codes, dtype=np.int8)) == []


def run(**arguments: str) -> Transcript:
    call = ToolCall(id="c", name="book", arguments=dict(arguments))
    messages = (
        Message(role="user", content="Book the blue room, please."),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", content="{}", tool_call_id="c", tool_name="book"),
    )
    return Transcript(
        Trajectory(
            trajectory_id="r",
            task_id="t",
            target="g",
            task_batch="b",
            policy="p",
            success=False,
            reward=0.0,
            stop="completed",
            messages=messages,
            n_messages=len(messages),
        )
    )


def test_a_parent_labels_as_its_children_do() -> None:
    args = {"argument": "room", "tool": "", CHILDREN: [dict(proposal(one).args) for one in ("room", "day")]}
    assert label_with(FAMILY, run(room="blue", day="monday"), args).label == "LACKING"
    assert label_with(FAMILY, run(room="blue"), args).label == "PRESENT"
    assert label_with(FAMILY, run(colour="red"), args).label == "NA"
    assert part_lacking(FAMILY, run(room="blue", day="monday"), args)["argument"] == "day"
    assert part_lacking(FAMILY, run(room="blue"), args) is args


def matrix(codes: Sequence[int], failed: Sequence[bool], policy: Sequence[int]) -> LabelMatrix:
    n = len(codes)
    return LabelMatrix(
        capabilities=("c",),
        trajectories=tuple(map(str, range(n))),
        tasks=np.arange(n),
        failed=np.array(failed),
        codes=np.array([codes], dtype=np.int8),
        evidence=np.full((1, n), NO_EVIDENCE, dtype=np.int32),
        policy=np.array(policy),
        policies=("strong", "weak"),
    )


def test_what_one_policy_alone_lacks() -> None:
    # Ten failures and ten passes of each; only the weak one's failures lack it.
    codes = [P] * 20 + [L] * 6 + [P] * 4 + [P] * 10
    failed = ([True] * 10 + [False] * 10) * 2
    who = [0] * 20 + [1] * 20
    told = alone(matrix(codes, failed, who), "c", Selection())
    assert told is not None
    assert (told.policy, told.lacking, told.failed, told.gap) == ("weak", 6, 10, 0.6)
    assert "'weak' alone" in str(told)
    same = [P] * 20 + ([L] * 6 + [P] * 4) * 2
    assert alone(matrix(same, failed, who), "c", Selection()) is None, "passes lack it as often"
    few = [MISSING] * 20 + [L] * 2 + [P] * 18
    assert alone(matrix(few, failed, who), "c", Selection()) is None, "two failures say nothing"
